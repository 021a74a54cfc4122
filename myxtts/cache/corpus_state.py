"""The corpus as it is now: configuration and folder in, training and validation clips with the state of their files out."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from myxtts.config.config import DEFAULT_LANGUAGE, DataConfig
from myxtts.corpus.manifest import Rejection, Utterance, read_splits
from myxtts.corpus.recipes import bundled_corpus
from myxtts.errors import CorpusError

MISSING_BYTES = -1
SAME_ID_PREFIX = "validation/"
"""Of validation clips in a folder of their own whose id a training clip has, too."""


@dataclass(frozen=True, eq=False)
class Source:
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


def read_source(config: DataConfig, folder: str | Path | None = None) -> Source:
    """The corpus in `folder`, by default `config.train_data`, by default the bundled prompts."""
    chosen = folder if folder is not None else config.train_data
    root = Path(chosen) if chosen is not None else bundled_corpus()
    language = config.language or DEFAULT_LANGUAGE
    try:
        train, held_out = read_splits(root, language, config.validation_share, config.val_data)
    except CorpusError as error:
        _refuse_locale(str(error))
        raise
    rejections = list(dict.fromkeys((*train.rejected, *held_out.rejected)))
    _refuse_locale("".join(one.id for one in rejections if one.reason == "missing"))
    training_clips, validation_clips = list(train.utterances), list(held_out.utterances)
    if held_out.folder != train.folder:  # two folders may use the same names for different clips
        taken = {one.id for one in training_clips}
        validation_clips = [
            dataclasses.replace(one, id=SAME_ID_PREFIX + one.id) if one.id in taken else one for one in validation_clips
        ]
    else:  # one list names a clip that the other one holds out: what is held out must not be trained on
        held_out_ids = {one.id for one in validation_clips}
        rejections += [
            Rejection(one.id, str(one.path), "duplicate id", "in the training list and in the validation list")
            for one in training_clips
            if one.id in held_out_ids
        ]
        training_clips = [one for one in training_clips if one.id not in held_out_ids]
    utterances = (*training_clips, *validation_clips)
    states = np.array([_file_state(one.path) for one in utterances], np.int64).reshape(-1, 2)
    return Source(
        folder=train.folder,
        utterances=utterances,
        is_validation=np.arange(len(utterances)) >= len(training_clips),
        sizes=np.ascontiguousarray(states[:, 0]),
        mtimes_ns=np.ascontiguousarray(states[:, 1]),
        rejections=tuple(rejections),
        notices=tuple(dict.fromkeys((*train.notices, *held_out.notices))),
    )


def _refuse_locale(names: str) -> None:
    """Raise if names of missing recordings are not ASCII and Python cannot find such files under the present locale."""
    encoding = sys.getfilesystemencoding()
    if encoding.replace("-", "").lower() == "utf8" or names.isascii():
        return
    raise CorpusError(
        f"The recordings have names that are not ASCII, and Python cannot find them under this locale (file names are read as "
        f"{encoding}). Set PYTHONUTF8=1, or a UTF-8 locale such as LC_ALL=C.UTF-8, and run the command again."
    )


def language_notices(prepared_as: Sequence[str], utterances: Sequence[Utterance]) -> tuple[str, ...]:
    """A warning where texts that were prepared in one language are now read in another: a forgotten --language."""
    now = {one.language for one in utterances}
    given_up, new = sorted(set(prepared_as) - now), sorted(now.difference(prepared_as))
    if not given_up or not new:
        return ()
    return (
        f"Warning: this corpus was prepared with texts in {', '.join(given_up)}; now they are read as {', '.join(new)}. "
        f"If that is a mistake, give --language {given_up[0]} (data.language).",
    )


def _file_state(path: Path) -> tuple[int, int]:
    try:
        state = os.stat(path)
    except OSError:
        return MISSING_BYTES, 0  # gone since the folder was read; whoever opens it reports that
    return state.st_size, state.st_mtime_ns
