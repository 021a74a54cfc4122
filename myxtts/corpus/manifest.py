"""A folder of recordings with their texts → a `Manifest`: usable utterances, and rejected clips with their reasons.

The kind of folder is recognized by `myxtts.corpus.layouts`. A bad line or file is a `Rejection`, never an exception; only a
folder
with nothing usable in it is a `CorpusError`. No audio file is opened here.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from myxtts.corpus.folder_index import FolderIndex
from myxtts.corpus.layouts import Layout, Table, recognise_layout
from myxtts.corpus.metadata import Row
from myxtts.corpus.utterance import Rejection, Utterance
from myxtts.errors import CorpusError, TextError
from myxtts.text.languages import resolve_language
from myxtts.text.phonemes import explain_foreign_script, foreign_script

__all__ = [
    "Manifest",
    "Rejection",
    "Split",
    "Utterance",
    "is_held_out",
    "read_corpus",
    "read_splits",
    "summarise_rejections",
    "write_rejected_csv",
]

Split = Literal["train", "validation", "all"]
LICENCE_NAMES = ("license", "licence", "copying", "copyright")
ATTRIBUTION_NAMES = ("attribution", "credits")
LARGEST_LICENCE_BYTES = 100_000
WRONG_SCRIPT, UNKNOWN_LANGUAGE, UNSPEAKABLE = "wrong script", "unknown language", "text cannot be spoken"
EXPLAINED_REASONS = (WRONG_SCRIPT, UNKNOWN_LANGUAGE, UNSPEAKABLE)
"""Reasons that many clips share and one flag repairs: the summary says how."""
SHOWN_EXPLANATION = 300


@dataclass(frozen=True)
class Manifest:
    """What a folder holds."""

    utterances: tuple[Utterance, ...]
    rejected: tuple[Rejection, ...]
    folder: Path
    layout: str
    licence: str = ""
    """Text of the folder's licence file."""
    attribution: str = ""
    """Text of the folder's attribution file."""
    notices: tuple[str, ...] = ()
    """What was guessed about the folder, such as an encoding: one sentence each, to be shown to the user."""


def read_corpus(
    folder: str | Path,
    default_language: str = "en",
    split: Split = "all",
    validation_share: float = 0.05,
    val_folder: str | Path | None = None,
) -> Manifest:
    """The clips of one split of a corpus.

    With `val_folder` (another folder), that one is the validation set and `folder` trains. Otherwise the corpus's own split
    counts (metadata_eval.csv, dev.tsv, dev-* folders); without one, clips are split by a hash of their id, so that no clip ever
    changes sides when others are added. A split may come out empty; a folder with nothing usable is an error.
    `default_language` is a code or a name (`Persian`).
    """
    if split not in ("train", "validation", "all"):
        raise ValueError(f"split must be train, validation or all. Received: {split!r}.")
    root = _existing_folder(folder)
    other = _existing_folder(val_folder) if val_folder is not None else root
    if other == root:
        return _read_split(FolderIndex.walk(root), default_language, split, validation_share)
    if split == "validation":
        return _read_split(FolderIndex.walk(other), default_language, "all", validation_share)
    return _read_split(FolderIndex.walk(root), default_language, split, None)


def read_splits(
    folder: str | Path,
    default_language: str = "en",
    validation_share: float = 0.05,
    val_folder: str | Path | None = None,
) -> tuple[Manifest, Manifest]:
    """Training and validation clips, as two calls of `read_corpus` give them, from one walk of the folder.

    Rejected clips are in both manifests where the corpus has only one list.
    """
    root = _existing_folder(folder)
    if val_folder is not None and _existing_folder(val_folder) != root:
        both = [
            read_corpus(root, default_language, each, validation_share, val_folder) for each in ("train", "validation")
        ]
    else:
        index = FolderIndex.walk(root)
        both = [_read_split(index, default_language, each, validation_share) for each in ("train", "validation")]
    return both[0], both[1]


def _read_split(index: FolderIndex, default_language: str, split: Split, validation_share: float | None) -> Manifest:
    """One split of a walked folder; with `validation_share` None, a corpus without a split of its own is taken whole."""
    default_language = resolve_language(default_language)
    layout = recognise_layout(index)
    table = layout.read(index, split, default_language)
    rejected = list(table.rejected)
    utterances = _resolve(table.rows, index, default_language, rejected)
    is_optional = split == "validation" and table.is_split  # a bad list of held-out clips does not stop training
    if not utterances and not is_optional:
        raise CorpusError(_explain_nothing_usable(index.root, layout, table, rejected))
    if split != "all" and validation_share is not None and not table.is_split:
        wanted = split == "validation"
        utterances = [each for each in utterances if is_held_out(each.id, validation_share) == wanted]
    licence, attribution = read_notices(index.root)
    return Manifest(
        utterances=tuple(utterances),
        rejected=tuple(rejected),
        folder=index.root,
        layout=layout.name,
        licence=licence,
        attribution=attribution,
        notices=tuple(table.notices),
    )


def read_notices(folder: str | Path) -> tuple[str, str]:
    """Text of a folder's licence file and of its attribution file; empty where there is none."""
    return _read_notice(Path(folder), LICENCE_NAMES), _read_notice(Path(folder), ATTRIBUTION_NAMES)


def _read_notice(folder: Path, names: tuple[str, ...]) -> str:
    for path in sorted(folder.iterdir()):
        if path.name.casefold().partition(".")[0] in names and path.is_file():
            with path.open("rb") as file:
                return file.read(LARGEST_LICENCE_BYTES).decode("utf-8", "replace")
    return ""


def is_held_out(clip_id: str, validation_share: float) -> bool:
    """Whether a clip belongs to the validation set: a function of its id alone."""
    digest = hashlib.blake2b(clip_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") < validation_share * 2**64


def write_rejected_csv(path: str | Path, rejections: Iterable[Rejection]) -> None:
    """Write `id,path,reason,detail` lines to a temporary file that then replaces `path`."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("id", "path", "reason", "detail"))
    writer.writerows((each.id, each.path, each.reason, each.detail) for each in rejections)
    beside = Path(path).with_name(f".{Path(path).name}.{os.getpid()}.part")
    try:
        beside.write_text(text.getvalue(), encoding="utf-8", errors="backslashreplace", newline="")
        os.replace(beside, path)
    except OSError as error:
        raise CorpusError(f"{path} cannot be written: {error.strerror}.") from None
    finally:
        beside.unlink(missing_ok=True)


def summarise_rejections(rejections: Sequence[Rejection]) -> str:
    """One line: how many clips were rejected, by reason, the most frequent first, and what repairs a common mistake."""
    if not rejections:
        return "nothing rejected"
    counts = Counter(each.reason for each in rejections)
    reasons = ", ".join(
        f"{reason} {count}{_explanation(reason, rejections)}"
        for reason, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )
    return f"{len(rejections)} rejected: {reasons}"


def _explanation(reason: str, rejections: Sequence[Rejection]) -> str:
    """The most frequent detail of a reason that the user can repair."""
    if reason not in EXPLAINED_REASONS:
        return ""
    details = Counter(each.detail for each in rejections if each.reason == reason and each.detail)
    return f" ({details.most_common(1)[0][0][:SHOWN_EXPLANATION]})" if details else ""


def _resolve(
    rows: Iterable[Row], index: FolderIndex, default_language: str, rejected: list[Rejection]
) -> list[Utterance]:
    """Rows whose recording lies in the folder; the others go to `rejected`."""
    utterances: list[Utterance] = []
    seen: set[str] = set()
    for clip_id, text, speaker, language, audio, origin in rows:
        reason, detail, found = None, origin, None
        has_column = bool(language)
        language, problem = _language_of(language, default_language)
        if not clip_id:
            reason, detail = "empty id", origin
        elif leads_out(audio):
            reason, detail = "outside the folder", f"{origin}: {audio} leads out of the folder"
        elif not text:
            reason = "empty text"
        elif text[0] in "[<" and is_remark(text):
            reason, detail = "not speech", f"{origin}: {text}"
        elif problem:
            reason, detail = UNKNOWN_LANGUAGE, problem
        elif (script := foreign_script(text, language)) is not None:
            reason, detail = WRONG_SCRIPT, explain_foreign_script(script, language, has_column)
        elif (found := index.find_audio(audio)) is None:
            reason, detail = index.explain_missing(audio, origin)
        elif found in seen:
            reason, detail = "duplicate id", f"{origin}: the recording {found} is listed more than once"
        if reason is not None or found is None:
            rejected.append(Rejection(clip_id, audio, reason or "missing", detail))
            continue
        seen.add(found)
        utterances.append(Utterance(clip_id, index.absolute(found), text, language, speaker))
    return utterances


def _language_of(name: str, default: str) -> tuple[str, str]:
    """The code of a language column, and what is wrong with it."""
    if not name:
        return default, ""
    try:
        return resolve_language(name), ""
    except TextError as error:
        return default, str(error)


def leads_out(name: str) -> bool:
    """Whether an id is absolute or climbs out of its folder."""
    if ".." not in name and name[:1] not in ("/", "\\") and name[1:2] != ":":
        return False
    return name[:1] in ("/", "\\") or name[1:2] == ":" or ".." in name.replace("\\", "/").split("/")


def is_remark(text: str) -> bool:
    """Whether a text is nothing but one remark in brackets, such as `[laughter]`."""
    closing = {"[": "]", "<": ">"}[text[0]]
    return text.find(closing) == len(text) - 1


def _existing_folder(folder: str | Path) -> Path:
    path = Path(os.path.expanduser(folder))
    try:
        is_folder, cause = path.is_dir(), ""
    except OSError as error:  # a name that is too long, for example
        is_folder, cause = False, f" ({error.strerror})"
    if not is_folder:
        raise CorpusError(
            f"The folder of recordings does not exist{cause}. Received: {str(folder)[:200]}. "
            "Expected: a folder with metadata.csv and wavs/."
        )
    return path.resolve()


def _explain_nothing_usable(root: Path, layout: Layout, table: Table, rejected: list[Rejection]) -> str:
    summary = f": {summarise_rejections(rejected)}" if rejected else ""
    message = f"No usable clip in {root} (read as {layout.name}){summary}."
    first = next((each for each in rejected if each.reason not in EXPLAINED_REASONS), None)
    if first is None and rejected:  # the files were understood
        return "\n".join([message, *table.notices])
    if first is not None:
        message += f" The first: {first.id or 'a line'}: {first.reason} ({first.detail})."
    if table.shown:
        message += "\nThe file begins:\n" + "\n".join(f"  {line}" for line in table.shown)
    return "\n".join([message, *table.notices, layout.expected])
