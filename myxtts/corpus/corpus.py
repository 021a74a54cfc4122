"""The corpus as it is now: training and validation clips, the state of their files, and what is known about the folder.

`read_corpus` is the front of this package: everything that later stages ask of a folder of recordings is in the `Corpus`.
"""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from myxtts.config.config import DEFAULT_LANGUAGE, DataConfig
from myxtts.corpus.manifest import Manifest, read_splits
from myxtts.corpus.recipes import bundled_corpus
from myxtts.corpus.utterance import Rejection, Utterance
from myxtts.errors import CorpusError

MISSING_BYTES = -1
"""Size of a recording that is missing."""
LONGEST_LICENSE_NAME = 200
"""Characters; a text without a declared name is cut here."""
_DECLARED_LICENSE = re.compile(r"^(?:(?:License|SPDX-License-Identifier): *)+(\S.*?) *$", re.MULTILINE)
SAME_ID_PREFIX = "validation/"
"""Added to the ids of validation clips in a folder of their own where a training clip has the same id."""


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
