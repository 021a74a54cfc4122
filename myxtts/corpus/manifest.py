"""A folder of recordings with their texts → a `Manifest`: usable utterances, and rejected clips with their reasons.

The kind of folder is recognized by `myxtts.corpus.layouts`. A bad line or file is a `Rejection`, never an exception; only a
folder with nothing usable in it is a `CorpusError`. No audio file is opened here.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from myxtts.config.config import DEFAULT_LANGUAGE, DataConfig
from myxtts.corpus.folder_index import FolderIndex
from myxtts.corpus.layouts import ClipList, CorpusLayout, recognize_layout
from myxtts.corpus.metadata import ClipRow
from myxtts.corpus.utterance import (
    EXPLAINED_REASONS,
    UNKNOWN_LANGUAGE,
    WRONG_SCRIPT,
    Rejection,
    Utterance,
    summarize_rejections,
)
from myxtts.errors import CorpusError, TextError
from myxtts.text.languages import explain_foreign_script, foreign_script, resolve_language

Split = Literal["train", "validation", "all"]
LICENSE_NAMES = ("license", "licence", "copying", "copyright")
ATTRIBUTION_NAMES = ("attribution", "credits")
VALIDATION_FRACTION = DataConfig().validation_share
LARGEST_LICENSE_BYTES = 100_000
"""Of a license or attribution file; the GPL has 35,000."""


@dataclass(frozen=True)
class Manifest:
    """The clips of one split of a folder."""

    utterances: tuple[Utterance, ...]
    rejected: tuple[Rejection, ...]
    folder: Path
    layout: str
    license: str = ""
    """Text of the folder's license file."""
    attribution: str = ""
    """Text of the folder's attribution file."""
    notices: tuple[str, ...] = ()
    """What was guessed about the folder, such as an encoding: one sentence each, to be shown to the user."""


def read_manifest(
    folder: str | Path,
    default_language: str = DEFAULT_LANGUAGE,
    split: Split = "all",
    validation_fraction: float = VALIDATION_FRACTION,
    val_folder: str | Path | None = None,
) -> Manifest:
    """Read the clips of one split of a corpus.

    Args:
        default_language: a code or a name (`Persian`), for clips whose metadata names none.
        split: may come out empty; a folder with nothing usable is an error.
        validation_fraction: held out by a hash of the clip's id where the corpus has no split of its own (metadata_eval.csv,
            dev.tsv, dev-* folders), so that no clip ever changes sides when others are added.
        val_folder: another folder is the validation set as a whole, and all of `folder` is for training.
    """
    if split not in ("train", "validation", "all"):
        raise ValueError(f"split must be train, validation or all. Received: {split!r}.")
    root = _existing_folder(folder)
    other = _existing_folder(val_folder) if val_folder is not None else root
    if other == root:
        return _read_split(FolderIndex.walk(root), default_language, split, validation_fraction)
    if split == "validation":
        return _read_split(FolderIndex.walk(other), default_language, "all", None)
    return _read_split(FolderIndex.walk(root), default_language, split, None)


def read_splits(
    folder: str | Path,
    default_language: str = DEFAULT_LANGUAGE,
    validation_fraction: float = VALIDATION_FRACTION,
    val_folder: str | Path | None = None,
) -> tuple[Manifest, Manifest]:
    """Read the training and the validation clips: what two calls of `read_manifest` give, reading each file once.

    Rejected clips are in both manifests where the corpus has only one list.
    """
    root = _existing_folder(folder)
    if val_folder is not None and _existing_folder(val_folder) != root:
        return (
            read_manifest(root, default_language, "train", validation_fraction, val_folder),
            read_manifest(root, default_language, "validation", validation_fraction, val_folder),
        )
    index = FolderIndex.walk(root)
    everything = _FolderClips.read(index, default_language, "train")
    training = everything.manifest("train", validation_fraction)
    if everything.has_split:
        return training, _read_split(index, default_language, "validation", validation_fraction)
    return training, everything.manifest("validation", validation_fraction)


def _read_split(index: FolderIndex, default_language: str, split: Split, validation_fraction: float | None) -> Manifest:
    """One split of a walked folder; with `validation_fraction` None, a corpus without a split of its own is taken whole."""
    return _FolderClips.read(index, default_language, split).manifest(split, validation_fraction)


@dataclass(frozen=True)
class _FolderClips:
    """What the lists of a folder name for one split, or for all splits where the corpus has no split of its own."""

    utterances: list[Utterance]
    rejected: list[Rejection]
    has_split: bool
    layout: str
    notices: list[str]
    index: FolderIndex

    @classmethod
    def read(cls, index: FolderIndex, default_language: str, split: Split) -> _FolderClips:
        default_language = resolve_language(default_language)
        layout = recognize_layout(index)
        clips = layout.read(index, split, default_language)
        rejected = list(clips.rejected)
        utterances = _find_recordings(clips.rows, index, default_language, rejected)
        is_optional = split == "validation" and clips.is_split  # a bad list of held-out clips does not stop training
        if not utterances and not is_optional:
            raise CorpusError(_explain_nothing_usable(index.root, layout, clips, rejected))
        return cls(utterances, rejected, clips.is_split, layout.name, clips.notices, index)

    def manifest(self, split: Split, validation_fraction: float | None) -> Manifest:
        utterances = self.utterances
        if split != "all" and validation_fraction is not None and not self.has_split:
            is_validation = split == "validation"
            utterances = [each for each in utterances if is_held_out(each.id, validation_fraction) == is_validation]
        return Manifest(
            utterances=tuple(utterances),
            rejected=tuple(self.rejected),
            folder=self.index.root,
            layout=self.layout,
            license=_read_terms(self.index, LICENSE_NAMES),
            attribution=_read_terms(self.index, ATTRIBUTION_NAMES),
            notices=tuple(self.notices),
        )


def _read_terms(index: FolderIndex, names: tuple[str, ...]) -> str:
    """Text of the first file of a folder with one of these names, whatever its extension; empty without one."""
    for name in sorted({*index.top_files, *index.links_out}):
        path = index.root / name
        if name.casefold().partition(".")[0] in names and path.is_file():
            with path.open("rb") as file:
                return file.read(LARGEST_LICENSE_BYTES).decode("utf-8", "replace")
    return ""


def is_held_out(clip_id: str, validation_fraction: float) -> bool:
    """Whether a clip belongs to the validation set: a function of its id alone."""
    digest = hashlib.blake2b(clip_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") < validation_fraction * 2**64


def _find_recordings(
    rows: Iterable[ClipRow], index: FolderIndex, default_language: str, rejected: list[Rejection]
) -> list[Utterance]:
    """Utterances of the rows whose recording is in the folder; the others are added to `rejected`."""
    utterances: list[Utterance] = []
    seen: set[str] = set()
    for clip_id, text, speaker, language, audio, origin in rows:
        reason, detail, found = None, origin, None
        has_column = bool(language)
        language, problem = _language_of(language, default_language)
        if not clip_id:
            reason, detail = "empty id", origin
        elif _leads_out(audio):
            reason, detail = "outside the folder", f"{origin}: {audio} leads out of the folder"
        elif not text:
            reason = "empty text"
        elif text[0] in "[<" and _is_remark(text):
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


def _leads_out(name: str) -> bool:
    """Whether an id is absolute or climbs out of its folder."""
    if ".." not in name and name[:1] not in ("/", "\\") and name[1:2] != ":":
        return False
    return name[:1] in ("/", "\\") or name[1:2] == ":" or ".." in name.replace("\\", "/").split("/")


def _is_remark(text: str) -> bool:
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


def _explain_nothing_usable(root: Path, layout: CorpusLayout, clips: ClipList, rejected: list[Rejection]) -> str:
    summary = f": {summarize_rejections(rejected)}" if rejected else ""
    message = f"No usable clip in {root} (read as {layout.name}){summary}."
    first = next((each for each in rejected if each.reason not in EXPLAINED_REASONS), None)
    if first is None and rejected:  # the files were understood
        return "\n".join([message, *clips.notices])
    if first is not None:
        message += f" The first: {first.id or 'a line'}: {first.reason} ({first.detail})."
    if clips.shown:
        message += "\nThe file begins:\n" + "\n".join(f"  {line}" for line in clips.shown)
    return "\n".join([message, *clips.notices, layout.expected])
