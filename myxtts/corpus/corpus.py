"""The corpus as it is now: training and validation clips, the state of their files, and what is known about the folder.

`read_corpus` is the front of this package: everything that later stages ask of a folder of recordings is in the `Corpus`. It
reads a `Manifest` of each split: usable utterances, and rejected clips with their reasons. The kind of folder is recognized by
`myxtts.corpus.layouts`. A bad line or file is a `Rejection`, never an exception; only a folder with nothing usable in it is a
`CorpusError`. No audio file is opened here.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from myxtts.config.config import DEFAULT_LANGUAGE, DataConfig
from myxtts.corpus.folder_index import FolderIndex, existing_folder, is_unicode
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
"""Largest license or attribution file that is read; the GPL has 35,000 bytes."""
MISSING_BYTES = -1
"""Size of a recording that is missing."""
LONGEST_LICENSE_NAME = 200
"""Characters; a text without a declared name is cut here."""
_DECLARED_LICENSE = re.compile(r"^(?:(?:License|SPDX-License-Identifier): *)+(\S.*?) *$", re.MULTILINE)
SHOWN_ID = 80
"""Characters of an unusable id that a message shows."""
SAME_ID_PREFIX = "validation/"
"""Added to the ids of validation clips in a folder of their own where a training clip has the same id."""


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


@dataclass(frozen=True, eq=False)
class Corpus:
    """Clips of both splits, training first, in the order of the metadata."""

    folder: Path
    utterances: tuple[Utterance, ...]
    is_validation: np.ndarray
    """bool (utterances,)."""
    sizes: np.ndarray
    """int64 (utterances,): bytes of each recording, -1 where it is missing."""
    mtimes_ns: np.ndarray
    """int64 (utterances,): when each recording was last written."""
    rejections: tuple[Rejection, ...]
    notices: tuple[str, ...] = ()
    """What was guessed about the corpus, such as an encoding: one sentence each, to be shown to the user."""
    license: str = ""
    """Text of the license file of the folder with the training clips."""
    attribution: str = ""
    """Text of its attribution file."""


def bundled_corpus() -> Path:
    """The folder of the bundled English prompts (563 lines, one speaker, CC-BY-SA-3.0)."""
    folder = Path(__file__).resolve().parent.parent / "assets" / "corpus"
    if not (folder / "metadata.csv").is_file():
        raise CorpusError(
            f"The bundled corpus is missing from this installation. Expected: {folder}. Install myxtts again."
        )
    return folder


def read_corpus(data: DataConfig, folder: str | Path | None = None) -> Corpus:
    """Read the corpus in `folder`, by default `data.train_data`, by default the bundled prompts. No recording is opened."""
    chosen = folder if folder is not None else data.train_data
    root = Path(chosen) if chosen is not None else bundled_corpus()
    try:
        train, held_out = read_splits(root, data.language or DEFAULT_LANGUAGE, data.validation_share, data.val_data)
    except CorpusError as error:
        _refuse_locale(str(error))
        raise
    training_clips, validation_clips, doubles = _separate(train, held_out)
    rejections = (*dict.fromkeys((*train.rejected, *held_out.rejected)), *doubles)
    _refuse_locale("".join(one.id for one in rejections if one.reason == "missing"))
    utterances = (*training_clips, *validation_clips)
    states = np.array([_file_state(one.path) for one in utterances], np.int64).reshape(-1, 2)
    return Corpus(
        folder=train.folder,
        utterances=utterances,
        is_validation=np.arange(len(utterances)) >= len(training_clips),
        sizes=np.ascontiguousarray(states[:, 0]),
        mtimes_ns=np.ascontiguousarray(states[:, 1]),
        rejections=rejections,
        notices=tuple(dict.fromkeys((*train.notices, *held_out.notices))),
        license=train.license,
        attribution=train.attribution,
    )


def license_name(license: str, attribution: str) -> str:
    """The short name of a license: a single line as it is; otherwise the names that the text declares, or its first line.

    A Debian copyright file declares every license of a whole package (`License: NAME`). Those that the attribution names are
    preferred, because it was written for these recordings.
    """
    lines = [line.strip() for line in license.splitlines() if line.strip()]
    declared = dict.fromkeys(_DECLARED_LICENSE.findall(license))
    if len(lines) <= 1 and not declared:
        return "".join(lines)[:LONGEST_LICENSE_NAME]
    own = [name for name in declared if re.search(rf"(?<![\w.+-]){re.escape(name)}(?![\w+-])", attribution)]
    return (", ".join(own or declared) or lines[0])[:LONGEST_LICENSE_NAME]


def _separate(train: Manifest, held_out: Manifest) -> tuple[list[Utterance], list[Utterance], list[Rejection]]:
    """Training clips, validation clips and rejected ones, so that every id occurs once."""
    if held_out.folder != train.folder:  # two folders may use the same names for different clips
        taken = {one.id for one in train.utterances}
        renamed = [
            dataclasses.replace(one, id=SAME_ID_PREFIX + one.id) if one.id in taken else one
            for one in held_out.utterances
        ]
        return list(train.utterances), renamed, []
    held_out_ids = {one.id for one in held_out.utterances}
    detail = "in the training list and in the validation list"
    doubles = [
        Rejection(one.id, str(one.path), "duplicate id", detail) for one in train.utterances if one.id in held_out_ids
    ]
    training_clips = [one for one in train.utterances if one.id not in held_out_ids]
    return training_clips, list(held_out.utterances), doubles


def _refuse_locale(names: str) -> None:
    """Raise if names of missing recordings are not ASCII and Python cannot find such files under the present locale."""
    encoding = sys.getfilesystemencoding()
    if encoding.replace("-", "").lower() == "utf8" or names.isascii():
        return
    raise CorpusError(
        f"The recordings have names that are not ASCII, and Python cannot find them under this locale (file names are read as "
        f"{encoding}). Set PYTHONUTF8=1, or a UTF-8 locale such as LC_ALL=C.UTF-8, and run the command again."
    )


def _file_state(path: Path) -> tuple[int, int]:
    try:
        state = os.stat(path)
    except OSError:
        return MISSING_BYTES, 0  # gone since the folder was read; opening it reports that
    return state.st_size, state.st_mtime_ns


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
    root = existing_folder(folder)
    other = existing_folder(val_folder) if val_folder is not None else root
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
    root = existing_folder(folder)
    if val_folder is not None and existing_folder(val_folder) != root:
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
        elif not is_unicode(f"{clip_id}{text}{speaker}{found}"):
            reason, detail = (
                "invalid UTF-8",
                f"{origin}: id, text, speaker or file name is not UTF-8; rename or rewrite it",
            )
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
    """Whether an id is absolute or leads out of its folder."""
    if ".." not in name and name[:1] not in ("/", "\\") and name[1:2] != ":":
        return False
    return name[:1] in ("/", "\\") or name[1:2] == ":" or ".." in name.replace("\\", "/").split("/")


def _is_remark(text: str) -> bool:
    """Whether a text is nothing but one remark in brackets, such as `[laughter]`."""
    closing = {"[": "]", "<": ">"}[text[0]]
    return text.find(closing) == len(text) - 1


def _explain_nothing_usable(root: Path, layout: CorpusLayout, clips: ClipList, rejected: list[Rejection]) -> str:
    summary = f": {summarize_rejections(rejected)}" if rejected else ""
    message = f"No usable clip in {root} (read as {layout.name}){summary}."
    first = next((each for each in rejected if each.reason not in EXPLAINED_REASONS), None)
    if first is None and rejected:  # the files were understood
        return "\n".join([message, *clips.notices])
    if first is not None:
        first_id = f"{first.id:.{SHOWN_ID}}" or "a line"
        message += f" The first: {first_id}: {first.reason} ({first.detail})."
    if clips.shown:
        message += "\nThe file begins:\n" + "\n".join(f"  {line}" for line in clips.shown)
    return "\n".join([message, *clips.notices, layout.expected])
