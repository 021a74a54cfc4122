"""An `Evaluation` for people and programs: a table for the terminal, a dictionary for JSON, lines for Markdown.

The page with players and pictures is made by `myxtts.evaluation.html`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from rich.table import Table

from myxtts.errors import EvaluationError
from myxtts.evaluation.evaluate import SOURCES, Evaluation
from myxtts.evaluation.judge import METRICS, Figure, JudgedClip

LABELS = {
    "cer": ("Character error", "percent"),
    "wer": ("Word error", "percent"),
    "similarity": ("Speaker similarity", "number"),
    "dnsmos": ("DNSMOS (1 to 5)", "number"),
    "mcd": ("Mel-cepstral distortion (dB)", "number"),
    "duration_error": ("Duration error", "percent"),
    "failed": ("Failed sentences", "percent"),
    "rtf": ("Real-time factor", "small"),
}
"""What each figure is called, and how it is written."""
COLUMNS = ("synthesis", "recordings", "vocoded recordings")
NOT_COMPARED = frozenset({"mcd_recordings", "duration_error_recordings", "duration_error_vocoded"})
"""Always 0, and so not shown: recordings against themselves, and vocoded ones, which are as long."""


def summary_rows(evaluation: Evaluation) -> list[tuple[str, ...]]:
    """One row a metric: its name, then the written figure of each of `COLUMNS`, an en dash where there is none."""
    rows = []
    for key in METRICS:
        if key not in evaluation.metrics:
            continue
        name, style = LABELS[key]
        written = []
        for ending in SOURCES:
            figure = evaluation.figures.get(key + ending)
            written.append("–" if figure is None or key + ending in NOT_COMPARED else write_figure(figure, style))
        rows.append((name, *written))
    return rows


def write_figure(figure: Figure, style: str) -> str:
    """`12.3 % (10.1 … 14.6)`: the value and its 95 % interval."""
    factor, places, unit = {"percent": (100.0, 1, " %"), "number": (1.0, 2, ""), "small": (1.0, 4, "")}[style]
    value, low, high = (f"{number * factor:.{places}f}" for number in (figure.value, figure.low, figure.high))
    return f"{value}{unit} ({low} … {high})"


def terminal_table(evaluation: Evaluation) -> Table:
    """The figures with their intervals, for rich."""
    table = Table(caption=describe(evaluation), caption_justify="left")
    table.add_column("")
    for column in COLUMNS:
        table.add_column(column, justify="right")
    for row in summary_rows(evaluation):
        table.add_row(*row)
    return table


def describe(evaluation: Evaluation) -> str:
    """One line: on what the figures stand."""
    parts = [f"{len(evaluation.sentences)} sentences"]
    if any(evaluation.synthesised):
        parts.append(f"{evaluation.seeds} seed{'s' * (evaluation.seeds > 1)}")
    if evaluation.recogniser is not None:
        parts.append(f"recogniser {evaluation.recogniser}")
    basis = f"{', '.join(parts)}; in brackets 95 % intervals over sentences."
    return f"{basis} {evaluation.notice}".rstrip()


def to_json(evaluation: Evaluation) -> dict[str, Any]:
    """Figures by key (rates are fractions; null where nothing could be measured), their intervals, and every sentence."""
    figures = evaluation.figures
    return {
        **{key: None if figure is None else figure.value for key, figure in figures.items()},
        "intervals": {key: [figure.low, figure.high] for key, figure in figures.items() if figure is not None},
        "sentences": len(evaluation.sentences),
        "seeds": evaluation.seeds,
        "recogniser": evaluation.recogniser,
        "metrics": list(evaluation.metrics),
        "trained_sentences": None if evaluation.trained_sentences is None else list(evaluation.trained_sentences),
        "notice": evaluation.notice,
        "failures": list(evaluation.failed_sentences),
        "results": [
            {
                "id": sentence.id,
                "text": sentence.text,
                "synthesised": [_clip_json(clip, evaluation.mel.sample_rate) for clip in spoken],
                "recording": _clip_json(recorded, evaluation.mel.sample_rate),
                "vocoded": _clip_json(vocoded, evaluation.mel.sample_rate),
            }
            for sentence, spoken, recorded, vocoded in zip(
                evaluation.sentences, evaluation.synthesised, evaluation.recordings, evaluation.vocoded, strict=True
            )
        ],
    }


def write_json(evaluation: Evaluation, path: str | Path) -> None:
    """Write `to_json` as a file."""
    write_text(path, json.dumps(to_json(evaluation), ensure_ascii=False, indent=1, allow_nan=False) + "\n")


def write_text(path: str | Path, text: str) -> None:
    """Write a report beside its place and rename it."""
    beside = Path(path).with_name(f".{Path(path).name}.{os.getpid()}.part")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
    except OSError as error:
        raise EvaluationError(f"The report cannot be written: {path}: {error.strerror}.") from None
    finally:
        beside.unlink(missing_ok=True)


def _clip_json(clip: JudgedClip | None, sample_rate: int) -> dict[str, Any] | None:
    if clip is None:
        return None
    return {
        "seconds": round(len(clip.samples) / sample_rate, 3),
        "heard": clip.heard,
        "cer": None if clip.errors is None else clip.errors.character_error,
        "dnsmos": clip.dnsmos,
        "failure": clip.failure,
    }
