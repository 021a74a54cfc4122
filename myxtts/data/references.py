"""Reference clips for speaker conditioning: another clip of the same speaker, chosen by arithmetic.

In: the speakers and lengths of the clips, clip and pass numbers. Out: which piece of which clip tells the speaker: a pure
function of (seed, pass, clip), so that a resumed run hears the same references.
"""

from __future__ import annotations

import numpy as np

from myxtts.data.order import mixed


class ReferenceChooser:
    """Chooses, for each clip, another clip of the same speaker; the clip itself where the speaker has no other."""

    def __init__(
        self,
        speaker_numbers: np.ndarray,
        frame_starts: np.ndarray,
        frame_counts: np.ndarray,
        candidates: np.ndarray,
        seed: int,
    ):
        """`candidates` are the clip numbers that may be references; the arrays are those of the whole cache."""
        self._speakers, self._frame_starts, self._frame_counts = speaker_numbers, frame_starts, frame_counts
        self._seed = seed
        candidates = np.asarray(candidates, np.int64)
        candidate_speakers = speaker_numbers[candidates]
        self._ordered = candidates[np.argsort(candidate_speakers, kind="stable")]
        self._counts = np.bincount(candidate_speakers, minlength=int(speaker_numbers.max(initial=0)) + 1)
        self._starts = np.cumsum(self._counts) - self._counts
        self._places = np.full(
            len(speaker_numbers), -1, np.int64
        )  # place among the speaker's candidates, -1 if not one
        self._places[self._ordered] = np.arange(len(candidates)) - np.repeat(self._starts, self._counts)

    def choose(self, clips: np.ndarray, passes: np.ndarray) -> np.ndarray:
        """The reference clip of each clip (any shape; every slot filled)."""
        speakers = self._speakers[clips]
        counts, places = self._counts[speakers], self._places[clips]
        others = np.where(places >= 0, counts - 1, counts)
        drawn = (mixed(self._seed, passes, clips, 3) % np.maximum(others, 1).astype(np.uint64)).astype(np.int64)
        # Counting on from the clip's own place never comes back to it.
        place = np.where(places >= 0, (places + 1 + drawn) % np.maximum(counts, 1), drawn)
        return np.where(others > 0, self._ordered[np.where(others > 0, self._starts[speakers] + place, 0)], clips)

    def pieces(self, clips: np.ndarray, passes: np.ndarray, reference_frames: int) -> tuple[np.ndarray, np.ndarray]:
        """First row in the table of frames of each clip's reference, and after how many rows it is repeated."""
        references = self.choose(clips, passes)
        counts = self._frame_counts[references].astype(np.int64)
        choices = np.maximum(counts - reference_frames, 0) + 1
        offsets = (mixed(self._seed, passes, clips, 4) % choices.astype(np.uint64)).astype(np.int64)
        return self._frame_starts[references] + offsets, np.minimum(counts, reference_frames)
