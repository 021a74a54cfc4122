"""Samples of a run to hear and to see: spoken sentences and a picture of the alignment."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from myxtts.audio.files import write_audio
from myxtts.synthesis.voice import Voice
from myxtts.training.run_log import Logbook

SENTENCES = {
    "en": (
        "Thank you for calling. Please leave your message after the tone.",
        "The quick brown fox jumps over the lazy dog.",
    ),
    "es": ("Gracias por llamar. Por favor, deje su mensaje.",),
    "fr": ("Merci de votre appel. Veuillez laisser un message.",),
    "it": ("Grazie per la chiamata. Lasciate un messaggio.",),
    "ru": ("Спасибо за звонок. Пожалуйста, оставьте сообщение.",),
    "fa": ("سلام، حال شما چطور است؟",),
    "de": ("Vielen Dank für Ihren Anruf. Bitte hinterlassen Sie eine Nachricht.",),
}
"""Fixed sentences, so that samples of different steps can be compared; a language without any is not sampled."""


def speak_samples(voice_folder: Path, out: Path, step: int, logbook: Logbook | None = None) -> list[Path]:
    """Speak the fixed sentences of every language of a voice into the folder `out`; returns the files."""
    voice = Voice.load(voice_folder, threads=1)  # the other cores are for training
    written = []
    for language in voice.languages:
        for index, sentence in enumerate(SENTENCES.get(language.split("-")[0], ())):
            audio = voice.synthesize(sentence, language=language)
            path = out / f"step-{step:08d}-{language}-{index}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_audio(path, audio.samples, audio.sample_rate)
            written.append(path)
            if logbook is not None:
                logbook.audio(f"sample/{language}-{index}", step, audio.samples, audio.sample_rate)
    return written


def alignment_picture(path: np.ndarray, mel: np.ndarray) -> np.ndarray:
    """One row of a batch as an RGB picture, uint8 (height, width, 3): its mel, and below it the symbol of each frame.

    Args:
        path: symbol of each frame, int32 (frames,).
        mel: float32 (frames, n_mels).
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6), dpi=80)
    canvas = FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1, sharex=True)
    above.imshow(mel.T, origin="lower", aspect="auto", interpolation="none")
    above.set_ylabel("mel band")
    below.plot(path, drawstyle="steps-mid", linewidth=1)
    below.set_ylabel("symbol (with blanks)")
    below.set_xlabel("frame")
    figure.tight_layout()
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()
