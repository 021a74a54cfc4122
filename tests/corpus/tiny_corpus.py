"""A tiny corpus made by code: tones that swell and fade, with short texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile

from myxtts.config.config import DataConfig

RATE = 16000
WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def tiny_config(**changes) -> DataConfig:
    """Graphemes and one worker, so that nothing depends on the machine."""
    return DataConfig(**({"text_symbols": "graphemes", "num_workers": 1} | changes))


def write_tone(path: Path, seconds: float = 0.8, pitch: float = 220.0, rate: int = RATE, seed: int = 0) -> None:
    """A recording that is neither silent nor constant."""
    time = np.arange(int(seconds * rate)) / rate
    noise = np.random.default_rng(seed).normal(scale=0.02, size=len(time))
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, (0.3 * np.sin(2 * np.pi * pitch * time) * np.sin(np.pi * time / seconds) + noise), rate)


def write_metadata(folder: Path, lines: dict[str, str], name: str = "metadata.csv") -> None:
    (folder / name).write_text("".join(f"{clip_id}|{text}\n" for clip_id, text in lines.items()), encoding="utf-8")


def make_corpus(folder: Path, count: int = 6, first: int = 0) -> dict[str, str]:
    """Clips clip000, clip001, …; each says the name of a number. Returns what metadata.csv says."""
    lines = {}
    for number in range(first, first + count):
        clip_id = f"clip{number:03d}"
        write_tone(folder / "wavs" / f"{clip_id}.wav", 0.7 + 0.05 * (number % 5), 200 + 10 * number, seed=number)
        lines[clip_id] = f"{WORDS[number % 10]} {WORDS[number // 10 % 10]}"
    write_metadata(folder, lines)
    return lines
