"""An `Evaluation` for people and programs: a table for the terminal, a dictionary for JSON.

The page with players and pictures is made by `myxtts.evaluation.html`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.table import Table

from myxtts.errors import EvaluationError
from myxtts.evaluation.evaluate import SOURCES, Evaluation
from myxtts.evaluation.judge import JudgedClip
from myxtts.evaluation.packages import METRIC_NAMES
from myxtts.runtime.atomic import cause_of, write_atomically
from myxtts.synthesis.score_card import LABELS, Score, ScoreCard, Source, format_score
from myxtts.synthesis.score_card import SOURCES as CARD_SOURCES

SOURCE_TITLES = ("synthesis", "recordings", "vocoded recordings")
NOT_COMPARED = frozenset(
    {"mcd_recordings", "log_f0_rmse_recordings", "duration_error_recordings", "duration_error_vocoded"}
)
"""Always 0, and so not shown: recordings against themselves, and vocoded ones, which are as long."""


def summary_rows(evaluation: Evaluation) -> list[tuple[str, ...]]:
    """One row per metric: its title, then its value for each of `SOURCE_TITLES`, an en dash where there is none."""
    rows = []
    for metric in METRIC_NAMES:
        if metric not in evaluation.metrics:
            continue
        cells = []
        for suffix in SOURCES:
            key = metric + suffix
            estimate = evaluation.estimates.get(key)
            cells.append("–" if estimate is None or key in NOT_COMPARED else format_score(estimate, metric))
        rows.append((LABELS[metric][0], *cells))
    return rows


def terminal_table(evaluation: Evaluation) -> Table:
    """The metrics with their intervals, for rich."""
    table = Table(caption=describe(evaluation), caption_justify="left")
    table.add_column("")
    for title in SOURCE_TITLES:
        table.add_column(title, justify="right")
    for row in summary_rows(evaluation):
        table.add_row(*row)
    return table


def describe(evaluation: Evaluation) -> str:
    """What the metrics are based on: sentences, seeds, the recognizer and its error on the recordings."""
    parts = [f"{len(evaluation.sentences)} sentences"]
    if any(evaluation.synthesized):
        parts.append(f"{evaluation.seeds} seed{'s' * (evaluation.seeds > 1)}")
    if evaluation.recognizer is not None:
        parts.append(f"recognizer {evaluation.recognizer} ({_floor(evaluation)})")
    basis = f"{', '.join(parts)}; in brackets 95 % intervals over sentences."
    return f"{basis} {evaluation.notice}".rstrip()


def _floor(evaluation: Evaluation) -> str:
    """The recognizer's own error, without which the error of the voice says little."""
    floor = evaluation.estimates.get("cer_recordings") or evaluation.estimates.get("wer_recordings")
    if floor is None:
        return "not checked on recordings"
    unit = "character" if evaluation.estimates.get("cer_recordings") is not None else "word"
    return f"{100 * floor.value:.1f} % {unit} error on the recordings"


def to_json(evaluation: Evaluation) -> dict[str, Any]:
    """Metrics by key (rates are fractions; null where nothing could be measured), their intervals, and every sentence."""
    estimates = evaluation.estimates
    rate = evaluation.mel.sample_rate
    return {
        **{key: None if each is None else each.value for key, each in estimates.items()},
        "intervals": {key: [each.low, each.high] for key, each in estimates.items() if each is not None},
        "sentences": len(evaluation.sentences),
        "seeds": evaluation.seeds,
        "recogniser": evaluation.recognizer,
        "metrics": list(evaluation.metrics),
        "trained_sentences": None if evaluation.trained_sentences is None else list(evaluation.trained_sentences),
        "notice": evaluation.notice,
        "failures": list(evaluation.failed_sentences),
        "results": [
            {
                "id": sentence.id,
                "text": sentence.text,
                "synthesised": [_clip_json(clip, rate) for clip in synthesized],
                "recording": _clip_json(recorded, rate),
                "vocoded": _clip_json(vocoded, rate),
            }
            for sentence, synthesized, recorded, vocoded in zip(
                evaluation.sentences, evaluation.synthesized, evaluation.recordings, evaluation.vocoded, strict=True
            )
        ],
    }


def score_card(evaluation: Evaluation, weights: str) -> ScoreCard:
    """The metrics of a voice, to be kept in its folder; `weights` is the checksum of what was measured."""
    scores: dict[str, dict[Source, Score]] = {}
    for metric in evaluation.metrics:
        for source, suffix in zip(CARD_SOURCES, SOURCES, strict=True):
            key = metric + suffix
            estimate = evaluation.estimates.get(key)
            if estimate is not None and key not in NOT_COMPARED:
                scores.setdefault(metric, {})[source] = Score(
                    value=estimate.value, low=estimate.low, high=estimate.high
                )
    return ScoreCard(
        weights=weights,
        scores=scores,
        sentences=len(evaluation.sentences),
        seeds=evaluation.seeds,
        recognizer=evaluation.recognizer,
        notice=evaluation.notice,
    )


def write_json(evaluation: Evaluation, path: str | Path) -> None:
    """Write `to_json` as a file."""
    write_report(path, json.dumps(to_json(evaluation), ensure_ascii=False, indent=1, allow_nan=False) + "\n")


def write_report(path: str | Path, text: str) -> None:
    """Write a report as a whole file, or raise an `EvaluationError`."""
    try:
        write_atomically(path, text)
    except OSError as error:
        raise EvaluationError(f"The report cannot be written: {path}: {cause_of(error)}.") from None


def _clip_json(clip: JudgedClip | None, sample_rate: int) -> dict[str, Any] | None:
    if clip is None:
        return None
    measured = {metric: clip.ratios[metric].value for metric in ("dnsmos", "pesq") if metric in clip.ratios}
    return {
        "seconds": round(len(clip.samples) / sample_rate, 3),
        "heard": clip.heard,
        "cer": None if clip.errors is None else clip.errors.character_error,
        "dnsmos": None,
        **measured,
        "failure": clip.failure,
    }
