"""Pictures and sound of a run: alignments, mels and spoken sentences, made in the logbook's thread."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from myxtts.audio.files import write_audio
from myxtts.synthesis.voice import Voice
from myxtts.training.logbook import Logbook

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
    """Speak the fixed sentences of every language of a voice into `out`, by its own speaker where it has several."""
    voice = Voice.load(voice_folder)
    written = []
    for language in voice.languages:
        for number, sentence in enumerate(SENTENCES.get(language.split("-")[0], ())):
            audio = voice.synthesize(sentence, language=language)
            path = out / f"step-{step:08d}-{language}-{number}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_audio(path, audio.samples, audio.sample_rate)
            written.append(path)
            if logbook is not None:
                logbook.audio(f"sample/{language}-{number}", step, audio.samples, audio.sample_rate)
    return written


def alignment_picture(path: np.ndarray, mel: np.ndarray) -> np.ndarray:
    """One row of a batch as an RGB picture: its mel (frames, bands), and below it the symbol of each frame (frames,)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6), dpi=80)
    canvas = FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1, sharex=True)
    above.imshow(mel.T, origin="lower", aspect="auto", interpolation="none")
    above.set_ylabel("mel band")
    below.plot(path, drawstyle="steps-mid", linewidth=1)
    below.set_ylabel("symbol, blanks among them")
    below.set_xlabel("frame")
    figure.tight_layout()
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()
