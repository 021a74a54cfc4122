"""A corpus from a microphone: which sentence to read next, whether a take is usable, and the LJSpeech folder that takes go to.

A sentence is chosen for the phoneme pairs that no kept recording has yet: the one with the most new pairs first. The folder is
one that `myxtts train` takes as it is. It is whole after every take: the wav is written first, then `metadata.csv` is replaced.
"""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from myxtts.audio.clips import BLOCK_SECONDS, SILENT_PEAK, is_clipped
from myxtts.audio.files import probe_audio, write_audio
from myxtts.corpus.corpus import read_manifest
from myxtts.corpus.corpus_writer import MetadataLine, make_folder, write_metadata, write_text
from myxtts.corpus.prompts import LANGUAGES, SECONDS_PER_SOUND, Prompt, choose_prompts, prompts_of
from myxtts.errors import CorpusError
from myxtts.runtime.safe_files import read_regular_file
from myxtts.serving.processes import is_unused
from myxtts.text.normalize import normalize_text

SETTINGS_NAME = "recorder.json"
METADATA_NAME = "metadata.csv"
MOST_SETTINGS_BYTES = 1 << 16
NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
"""Names of corpora, runs and speakers that a page may ask for: a file name on every system."""

# Limits of a take. Chosen on the safe side of what audio/clips.py makes of a clip; not measured.
QUIET_DB = -38.0
"""RMS of the speech below which a take is too quiet: leveling would raise the noise with it."""
NOISY_DB = 20.0
"""Smallest distance between speech and background, in dB, of a take that is not noisy."""
EDGE_SECONDS = 0.03
"""Speech that begins or ends nearer to the edge of the take is cut off."""
LONGEST_SECONDS = 40.0
"""Longest take that may be uploaded."""


# --- takes ------------------------------------------------------------------------------------------------------------


class TakeReport(NamedTuple):
    """What was measured in a take."""

    seconds: float
    """Seconds of speech, without the silence at its ends."""
    level_db: float
    """RMS of the speech, of full scale."""
    noise_db: float
    """Speech over background."""
    problems: tuple[str, ...]
    """Some of: silent, clipped, quiet, noisy, short, long, cut."""


def check_take(samples: np.ndarray, sample_rate: int, sounds: int) -> TakeReport:
    """Check a take of a sentence with so many sounds; float32 samples (samples,) in -1…1."""
    peak = float(np.abs(samples).max(initial=0.0))
    if peak < SILENT_PEAK:
        return TakeReport(0.0, -120.0, 0.0, ("silent",))
    block = max(1, round(BLOCK_SECONDS * sample_rate))
    padded = np.pad(samples, (0, -len(samples) % block)).reshape(-1, block)
    energies = np.einsum("ij,ij->i", padded, padded) / block + 1e-12
    background = float(np.percentile(energies, 10))
    loudest = float(np.percentile(energies, 98))
    # Speech: what is clearly above the background and not far below the loudest part.
    threshold = max(loudest * 1e-3, min(background * 4, loudest * 0.1))
    spoken = np.flatnonzero(energies > threshold)
    first, last = int(spoken[0]), int(spoken[-1])
    seconds = (last - first + 1) * block / sample_rate
    level = float(energies[spoken].mean())
    level_db, noise_db = 10 * np.log10(level), 10 * np.log10(level / background)
    fastest, slowest = (sounds * each for each in SECONDS_PER_SOUND)
    edge = round(EDGE_SECONDS / BLOCK_SECONDS)
    is_problem = {
        "clipped": is_clipped(samples),
        "quiet": level_db < QUIET_DB,
        "noisy": noise_db < NOISY_DB,
        "short": seconds < fastest,
        "long": seconds > slowest + 1.0,
        "cut": first < edge or last >= len(energies) - edge,
    }
    return TakeReport(
        round(seconds, 2),
        round(float(level_db), 1),
        round(float(noise_db), 1),
        tuple(name for name, is_found in is_problem.items() if is_found),
    )


# --- the corpus -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Progress:
    """How far a corpus is."""

    clips: int
    seconds: float
    covered_pairs: int
    all_pairs: int
    """Pairs that the sentences of the language have together."""


class RecordedCorpus:
    """An LJSpeech folder that grows take by take. Made by `create_corpus` or `open_corpus`; threads may share it."""

    def __init__(self, folder: Path, language: str, speaker: str, lines: dict[str, MetadataLine]):
        self.folder, self.language, self.speaker = folder, language, speaker
        self._lines = lines
        self._lock = threading.Lock()

    def keep(self, prompt: Prompt, samples: np.ndarray, sample_rate: int) -> None:
        """Add a take of a sentence, or replace an earlier one."""
        seconds = len(samples) / sample_rate
        normalized = normalize_text(prompt.text, prompt.language)
        line = MetadataLine(prompt.id, prompt.text, normalized, self.speaker, prompt.language, seconds)
        with self._lock:
            write_audio(self.folder / "wavs" / f"{prompt.id}.wav", samples, sample_rate)
            self._write(self._lines | {prompt.id: line})

    def remove(self, prompt_id: str) -> None:
        """Take a recording out again."""
        with self._lock:
            if prompt_id not in self._lines:
                raise CorpusError(f"{self.folder.name} has no recording {prompt_id!r:.40}. Load the page again.")
            self._write({name: line for name, line in self._lines.items() if name != prompt_id})
            (self.folder / "wavs" / f"{prompt_id}.wav").unlink(missing_ok=True)

    def _write(self, lines: dict[str, MetadataLine]) -> None:
        write_metadata(self.folder / METADATA_NAME, lines.values())
        self._lines = lines

    def recording(self, prompt_id: str) -> Path:
        """The file of a kept take."""
        if prompt_id not in self._lines:
            raise CorpusError(f"{self.folder.name} has no recording {prompt_id!r:.40}. Load the page again.")
        return self.folder / "wavs" / f"{prompt_id}.wav"

    def kept(self) -> list[MetadataLine]:
        """What is recorded, the newest last."""
        return list(self._lines.values())

    def next_prompts(self, count: int) -> list[Prompt]:
        """Sentences that are not recorded yet, the most useful first."""
        prompts, lines = prompts_of(self.language), self._lines
        return choose_prompts((each for each in prompts if each.id not in lines), self._covered(), count)

    def progress(self) -> Progress:
        """Clips, seconds and phoneme pairs so far."""
        every = frozenset[str]().union(*(prompt.pairs for prompt in prompts_of(self.language)))
        lines = self._lines
        return Progress(len(lines), sum(each.seconds for each in lines.values()), len(self._covered()), len(every))

    def _covered(self) -> frozenset[str]:
        lines = self._lines
        return frozenset[str]().union(*(prompt.pairs for prompt in prompts_of(self.language) if prompt.id in lines))


def prompt_of(prompt_id: str) -> Prompt:
    """The sentence of an id; a `CorpusError` if there is none."""
    for prompt in prompts_of(prompt_id.partition("-")[0]):
        if prompt.id == prompt_id:
            return prompt
    raise CorpusError(f"There is no sentence {prompt_id!r:.40}. Load the page again.")


def check_folder_name(what: str, name: str) -> str:
    """A name that becomes a file or folder name; anything else is a `CorpusError`."""
    if NAME_PATTERN.fullmatch(name) is None:
        raise CorpusError(
            f"The name of a {what} must have 1 to 40 letters (a-z), digits, - or _, and begin with a letter or digit. "
            f"Received: {name!r:.60}."
        )
    return name


def create_corpus(parent: Path, name: str, language: str, speaker: str) -> RecordedCorpus:
    """Make the folder of a new corpus in `parent`."""
    folder = parent / check_folder_name("corpus", name)
    speaker = " ".join(speaker.replace("|", " ").split())[:60] or "speaker"
    if language not in LANGUAGES:
        raise CorpusError(
            f"Unknown language {language!r:.40}. There are sentences to record in: {', '.join(LANGUAGES)}."
        )
    if not is_unused(folder):
        raise CorpusError(f"The corpus {name} already exists. Choose another name, or open that one.")
    make_folder(folder / "wavs")
    settings = {"language": language, "speaker": speaker}
    write_text(folder / SETTINGS_NAME, json.dumps(settings, ensure_ascii=False) + "\n")
    return RecordedCorpus(folder, language, speaker, {})


def open_corpus(folder: Path) -> RecordedCorpus:
    """Open a folder that `create_corpus` made; recordings that were never listed in `metadata.csv` are ignored."""
    try:
        settings = json.loads(read_regular_file(folder / SETTINGS_NAME, MOST_SETTINGS_BYTES))
        language, speaker = str(settings["language"]), str(settings["speaker"])
    except (OSError, ValueError, KeyError, TypeError):
        raise CorpusError(
            f"{folder.name} is not a corpus of the recorder: its {SETTINGS_NAME} cannot be read. Create a new corpus."
        ) from None
    lines = {}
    if (folder / METADATA_NAME).is_file() and _has_lines(folder / METADATA_NAME):
        for clip in read_manifest(folder, language, "all").utterances:
            samples, rate = probe_audio(clip.path)
            normalized = normalize_text(clip.text, clip.language)
            lines[clip.id] = MetadataLine(
                clip.id, clip.text, normalized, clip.speaker, clip.language, round(samples / rate, 3)
            )
    return RecordedCorpus(folder, language, speaker, lines)


def _has_lines(path: Path) -> bool:
    """Whether a metadata file lists anything below its header."""
    return len(path.read_text(encoding="utf-8").splitlines()) > 1
