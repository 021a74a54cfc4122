"""An `Evaluation` for people and programs: a table for the terminal, a dictionary for JSON, and a page with players and pictures.

Everything is inside the page (MP3 and PNG as base64), so that it can be sent, kept, and opened without a network.
"""

from __future__ import annotations

import base64
import html
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from myxtts.audio.files import MP3_RATES, resample, write_audio
from myxtts.audio.mel import MelSpec, mel_numpy
from myxtts.errors import EvaluationError
from myxtts.evaluation.evaluate import SOURCES, Evaluation
from myxtts.evaluation.judge import JudgedClip
from myxtts.evaluation.metrics import METRIC_NAMES, Estimate
from myxtts.runtime.safe_files import cause_of, write_atomically
from myxtts.synthesis.score_card import LABELS, MeasuredSentence, Score, ScoreCard, Source, format_score
from myxtts.synthesis.score_card import SOURCES as CARD_SOURCES

SOURCE_TITLES = ("synthesis", "recordings", "vocoded recordings")
NOT_COMPARED = frozenset(
    {"mcd_recordings", "log_f0_rmse_recordings", "duration_error_recordings", "duration_error_vocoded"}
)
"""Always 0, and so not shown: recordings against themselves, and vocoded ones, which are as long."""
PICTURE_RANGE = (-9.0, 2.0)
"""Natural log of magnitude at the darkest and the brightest color: the same for all pictures, so that they can be compared."""
STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem; padding: 0 1rem; }
table { border-collapse: collapse; } td, th { padding: .25rem .8rem; text-align: right; border-bottom: 1px solid #8885; }
td:first-child, th:first-child { text-align: left; }
section { margin: 1.6rem 0; border-top: 1px solid #8885; padding-top: .6rem; }
.clips { display: grid; grid-template-columns: repeat(3, minmax(0, 1fr)); gap: 1rem; }
figure { margin: 0; } audio { width: 100%; height: 2.2rem; }
img { width: 100%; height: 7rem; image-rendering: pixelated; display: block; }
figcaption { font-size: .85rem; } .failed { color: #c22; font-weight: 600; } .id { opacity: .6; font-size: .85rem; }
@media (max-width: 50rem) { .clips { grid-template-columns: 1fr; } }
"""


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
    table = Table(caption=describe_evaluation(evaluation), caption_justify="left")
    table.add_column("")
    for title in SOURCE_TITLES:
        table.add_column(title, justify="right")
    for row in summary_rows(evaluation):
        table.add_row(*row)
    return table


def describe_evaluation(evaluation: Evaluation) -> str:
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
        texts=[
            MeasuredSentence(id=each.id, text=each.text, language=each.language, speaker=each.speaker)
            for each in evaluation.sentences
        ],
    )


def with_recordings_of(evaluation: Evaluation, card: ScoreCard, has_vocoder: bool = True) -> Evaluation:
    """The evaluation of a voice without recordings, next to what its score card says of the recordings.

    Args:
        has_vocoder: whether the voice speaks with its own vocoder, the one of the card.
    """
    suffixes = SOURCES[1:] if has_vocoder else SOURCES[1:2]
    sources = dict(zip(CARD_SOURCES[1:], suffixes, strict=False))
    languages = {each.language for each in evaluation.sentences}
    notices = []
    if languages != {each.language for each in card.texts}:  # its metrics are those of all languages together
        sources = {}
        notices.append(
            "The score card was measured in several languages, so it has no metrics of these recordings alone."
        )
    skipped = {"cer", "wer"} if card.recognizer != evaluation.recognizer else set()
    if skipped & set(evaluation.metrics) and sources:
        notices.append(f"The score card was measured with another recognizer ({card.recognizer}).")
    found = {
        metric + suffix: Estimate(score.value, score.low, score.high)
        for metric, scores in card.scores.items()
        if metric in evaluation.metrics and metric not in skipped
        for source, suffix in sources.items()
        if (score := scores.get(source)) is not None
    }
    if found:
        notices.append(f"Metrics of the recordings: from the score card ({card.sentences} sentences).")
    notice = " ".join([evaluation.notice, *notices]).strip()
    return replace(evaluation, estimates={**evaluation.estimates, **found}, notice=notice)


def write_json(evaluation: Evaluation, path: str | Path) -> None:
    """Write `to_json` as a file."""
    write_report(path, json.dumps(to_json(evaluation), ensure_ascii=False, indent=1, allow_nan=False) + "\n")


def write_report(path: str | Path, text: str) -> None:
    """Write a report as a whole file, or raise an `EvaluationError`."""
    try:
        write_atomically(path, text)
    except OSError as error:
        raise EvaluationError(f"The report cannot be written: {path}: {cause_of(error)}. Name another file.") from None


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


TITLE = "Evaluation of a voice"


def write_page(evaluation: Evaluation, path: str | Path) -> None:
    """Write the page as one file."""
    write_report(path, render_page(evaluation))


def render_page(evaluation: Evaluation) -> str:
    """The whole page; of several seeds it plays the first."""
    head = "".join(f"<th>{html.escape(column)}</th>" for column in ("", *SOURCE_TITLES))
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in summary_rows(evaluation)
    )
    sections = "\n".join(_render_sentence(evaluation, index) for index in range(len(evaluation.sentences)))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{TITLE}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>\n'
        f"<h1>{TITLE}</h1>\n<table><tr>{head}</tr>{rows}</table>\n"
        f"<p>{html.escape(describe_evaluation(evaluation))}</p>\n{sections}\n</body></html>\n"
    )


def _render_sentence(evaluation: Evaluation, index: int) -> str:
    sentence = evaluation.sentences[index]
    clips = (
        ("recording", evaluation.recordings[index]),
        ("vocoded recording", evaluation.vocoded[index]),
        ("synthesis", next(iter(evaluation.synthesized[index]), None)),
    )
    figures = "".join(_render_clip(name, clip, evaluation.mel) for name, clip in clips if clip is not None)
    return (
        f'<section><p lang="{html.escape(sentence.language, quote=True)}" dir="auto">{html.escape(sentence.text)} '
        f'<span class="id">{html.escape(sentence.id)}</span></p><div class="clips">{figures}</div></section>'
    )


def _render_clip(name: str, clip: JudgedClip, mel: MelSpec) -> str:
    notes = [name]
    if clip.errors is not None:
        notes.append(f"{100 * clip.errors.character_error:.0f} % of characters wrong")
    for metric, title in (("dnsmos", "DNSMOS"), ("pesq", "PESQ")):
        if metric in clip.ratios:
            notes.append(f"{title} {clip.ratios[metric].value:.2f}")
    caption = html.escape(", ".join(notes))
    if clip.failure is not None:
        caption += f' <span class="failed">failed: {html.escape(clip.failure)}</span>'
    if clip.heard is not None:
        caption += f"<br>recognized: <q>{html.escape(clip.heard)}</q>"
    sound = ""
    if len(clip.samples):
        sound = (
            f'<img alt="mel spectrogram of the {name}" src="data:image/png;base64,{_encode(_picture(clip.samples, mel))}">'
            f'<audio controls preload="none" src="data:audio/mpeg;base64,{_encode(_mp3(clip.samples, mel.sample_rate))}">'
            "</audio>"
        )
    return f"<figure>{sound}<figcaption>{caption}</figcaption></figure>"


def _picture(samples: np.ndarray, mel: MelSpec) -> bytes:
    """PNG of the mel spectrogram, one pixel per frame and band, low bands at the bottom."""
    import matplotlib
    from matplotlib.image import imsave

    if len(samples) < mel.n_fft:
        samples = np.pad(samples, (0, mel.n_fft - len(samples)))
    low, high = PICTURE_RANGE
    stream = io.BytesIO()
    imsave(
        stream,
        mel_numpy(samples, mel).T,
        vmin=low,
        vmax=high,
        origin="lower",
        format="png",
        cmap=matplotlib.colormaps["magma"],
    )
    return stream.getvalue()


def _mp3(samples: np.ndarray, sample_rate: int) -> bytes:
    rate = next((each for each in MP3_RATES if each >= sample_rate), MP3_RATES[-1])
    stream = io.BytesIO()
    write_audio(stream, resample(samples, sample_rate, rate), rate, format="mp3")
    return stream.getvalue()


def _encode(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
