"""One HTML page of an `Evaluation`: the metrics, and for each sentence recording, vocoded recording and synthesis side by side.

Everything is inside the page (MP3 and PNG as base64), so that it can be sent, kept, and opened without a network.
"""

from __future__ import annotations

import base64
import html
import io
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.image import imsave

from myxtts.audio.files import MP3_RATES, resample, write_audio
from myxtts.audio.mel import MelSpec, mel_numpy
from myxtts.evaluation.evaluate import Evaluation
from myxtts.evaluation.judge import JudgedClip
from myxtts.evaluation.report import SOURCE_TITLES, describe, summary_rows, write_report

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


def write_page(evaluation: Evaluation, path: str | Path, title: str = "Evaluation of a voice") -> None:
    """Write the page as one file."""
    write_report(path, render_page(evaluation, title))


def render_page(evaluation: Evaluation, title: str) -> str:
    """The whole page; of several seeds it plays the first."""
    head = "".join(f"<th>{html.escape(column)}</th>" for column in ("", *SOURCE_TITLES))
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in summary_rows(evaluation)
    )
    sections = "\n".join(_render_sentence(evaluation, index) for index in range(len(evaluation.sentences)))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>\n'
        f"<h1>{html.escape(title)}</h1>\n<table><tr>{head}</tr>{rows}</table>\n"
        f"<p>{html.escape(describe(evaluation))}</p>\n{sections}\n</body></html>\n"
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
