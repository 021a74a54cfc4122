"""What later stages read of a corpus, prepared or not: one value per clip in each column.

The index of a clip in the columns is its id in plans and batches. `myxtts.cache.format.Cache` is a `PreparedTable`;
`myxtts.cache.recordings.RecordingTable` is a `ClipTable` whose frames are decoded while training.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from myxtts.audio.mel import MelSpec
from myxtts.text.tokenizer import SymbolTable


class ClipTable:
    """The clips of a corpus with their lengths, speakers and texts."""

    folder: Path
    content_id: str
    """Changes when a clip is added, changed or removed."""
    mel: MelSpec
    symbols: SymbolTable
    front_end_kind: str
    speakers: tuple[str, ...]
    speaker_corpora: tuple[str, ...]
    """The corpus of each speaker where several are joined; empty if there is only one."""
    languages: tuple[str, ...]
    num_clips: int
    ids: Sequence[str]
    texts: Sequence[str]
    frame_starts: np.ndarray
    """int64 (clips,): row of the first frame in the table of frames."""
    frame_counts: np.ndarray
    """int32 (clips,)."""
    token_starts: np.ndarray
    """int64 (clips,): index of the first token in `tokens`."""
    token_counts: np.ndarray
    """int32 (clips,)."""
    tokens: np.ndarray
    """int32: the tokens of all clips; element 0 is padding."""
    speaker_numbers: np.ndarray
    """int32 (clips,): index in `speakers`."""
    language_numbers: np.ndarray
    """int32 (clips,): index in `languages`."""
    is_validation: np.ndarray
    """bool (clips,): held out."""
    license: str
    """Text of the corpus's license file."""
    attribution: str
    """Text of the corpus's attribution file."""

    @property
    def bandwidths(self) -> np.ndarray:
        """float32 (clips,): the highest frequency (Hz) that each recording contains; 0: not measured."""
        return np.zeros(len(self.frame_counts), np.float32)

    @property
    def snrs(self) -> np.ndarray:
        """float32 (clips,): level of the speech above the pauses (dB); only measured where `bandwidths` is not 0."""
        return np.zeros(len(self.frame_counts), np.float32)

    def clip_frames(self, clip: int) -> np.ndarray:
        """Log-mel of one clip, (frames, n_mels)."""
        raise NotImplementedError


class PreparedTable(ClipTable):
    """A table whose frames and tokens are in files; row 0 of each file is padding."""

    frames_path: Path
    tokens_path: Path
    num_rows: int
    num_tokens: int
