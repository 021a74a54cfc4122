"""What each judged clip adds to each figure: judged clips in, sums and counts by key out. Plain functions.

Rows are sentences; a row holds the clips of one sentence (one for each seed), or None where there is no clip.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from myxtts.evaluation.figures import Share
from myxtts.evaluation.judge import JudgedClip
from myxtts.evaluation.similarity import speaker_similarities

ClipRows = Sequence[Sequence[JudgedClip | None]]
ShareRows = list[list[Share | None]]


def clip_shares(
    clips: ClipRows, recordings: Sequence[JudgedClip | None], speakers: Sequence[str], metrics: Sequence[str]
) -> dict[str, ShareRows]:
    """Shares by key, for those metrics that are measured on clips; `recordings` and `speakers` have one entry a sentence."""
    shares = {
        key: [[None if clip is None else read(clip) for clip in row] for row in clips]
        for key, read in _READERS.items()
        if key in metrics
    }
    if "similarity" in metrics:
        shares["similarity"] = _similarity_shares(clips, recordings, speakers)
    return shares


def _character_share(clip: JudgedClip) -> Share | None:
    return None if clip.errors is None else Share(clip.errors.character_edits, clip.errors.characters)


def _word_share(clip: JudgedClip) -> Share | None:
    return None if clip.errors is None else Share(clip.errors.word_edits, clip.errors.words)


def _naturalness_share(clip: JudgedClip) -> Share | None:
    return None if clip.dnsmos is None else Share(clip.dnsmos)


def _distortion_share(clip: JudgedClip) -> Share | None:
    if clip.distortion is None:
        return None
    return Share(clip.distortion.distance_sum_db, clip.distortion.aligned_frames)


def _duration_share(clip: JudgedClip) -> Share | None:
    if clip.distortion is None:
        return None
    recorded_seconds = clip.distortion.recorded_seconds
    return Share(abs(clip.distortion.seconds - recorded_seconds), recorded_seconds)


def _failure_share(clip: JudgedClip) -> Share:
    return Share(float(clip.failure is not None))


_READERS: Mapping[str, Callable[[JudgedClip], Share | None]] = {
    "cer": _character_share,
    "wer": _word_share,
    "dnsmos": _naturalness_share,
    "mcd": _distortion_share,
    "duration_error": _duration_share,
    "failed": _failure_share,
}


def _similarity_shares(clips: ClipRows, recordings: Sequence[JudgedClip | None], speakers: Sequence[str]) -> ShareRows:
    recorded = [None if clip is None else clip.embedding for clip in recordings]
    columns = []
    for column in zip(*clips, strict=True):
        embeddings = [None if clip is None else clip.embedding for clip in column]
        similarities = speaker_similarities(embeddings, recorded, speakers)
        columns.append(
            [
                None if clip is None or similarity is None else Share(similarity)
                for clip, similarity in zip(column, similarities, strict=True)
            ]
        )
    return [list(row) for row in zip(*columns, strict=True)]
