"""Recipes for public corpora: a clone of a repository → a corpus folder with speakers, languages, license and attribution.

Most of these repositories have a layout that `myxtts.corpus.corpus` reads already, so their recipe only adds what the files do
not say. FreeSWITCH's prompts have their texts in XML files of another repository, AudioMNIST in the file names. Clips that a
repository holds out (metadata_eval.csv) stay held out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from myxtts.audio.files import probe_audio, read_audio, write_audio
from myxtts.corpus.corpus import read_splits
from myxtts.corpus.corpus_writer import (
    CorpusSummary,
    MetadataLine,
    check_target,
    finish_corpus,
    link_or_copy,
    make_folder,
    write_metadata,
    write_text,
)
from myxtts.corpus.folder_index import FolderIndex, existing_folder
from myxtts.corpus.metadata import read_metadata
from myxtts.corpus.utterance import Rejection, Utterance
from myxtts.errors import AudioError, CorpusError
from myxtts.runtime.safe_files import read_regular_file

LARGEST_PHRASES_BYTES = 1 << 20
"""Largest phrase file that is read; the English one has 91 kB."""
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class PublicCorpus:
    """What is known about a public corpus and not written in its files."""

    name: str
    repository: str
    """Repository on GitHub."""
    language: str
    license: str
    """SPDX identifier."""
    credit: str
    speaker: str | None = None
    """The only speaker; None: the metadata names several."""
    speaker_pattern: tuple[str, str] = ("", "")
    """Regular expression and replacement for the names of speakers."""
    readings: str | None = None
    """Metadata file, if the folder has it, with the same clips and their texts as they are read, such as every spoken ezafe
    marked."""


READABLE = (
    PublicCorpus(
        "kathleen", "rhasspy/dataset-voice-kathleen", "en", "CC0-1.0", "read by Kathleen for Rhasspy", "kathleen"
    ),
    PublicCorpus("kerstin", "rhasspy/dataset-voice-kerstin", "de", "CC0-1.0", "read by Kerstin for Rhasspy", "kerstin"),
    PublicCorpus(
        "nathalie", "rhasspy/dataset-voice-nathalie", "nl", "CC0-1.0", "read by Nathalie for Rhasspy", "nathalie"
    ),
    PublicCorpus(
        "voiz-fa",
        "voipiran/VOIZ",
        "fa",
        "MIT",
        "telephone prompts of VOIZ, copyright (c) 2021 k.haamed@gmail.com",
        "voiz",
        readings="metadata_ezafe.csv",
    ),
    PublicCorpus(
        "cv-fa",
        "mmahdibarghi/finglish-dataset",
        "fa",
        "CC0-1.0",
        "Mozilla Common Voice, Persian; collection copyright (c) 2021 mohammad mahdi barghi, MIT",
        speaker_pattern=(r"^spk0*(\d+)$", r"fa-\1"),
    ),
)
"""Corpora in a layout that is read as it is."""
FREESWITCH = PublicCorpus(
    "freeswitch",
    "freeswitch/freeswitch-sounds",
    "en",
    "CC-BY-3.0",
    "prompts of FreeSWITCH by the voice actors Callie and Allison, and Karina (copyright (c) 2011 Wireless Mundi S.L.)",
)
FREESWITCH_VOICES = {
    "callie": ("en", "en/us/callie"),
    "allison": ("en", "en/us/allison"),
    "karina": ("pt-br", "pt/BR/karina"),
}
"""Voices under CC BY 3.0: language, and folder below the repository."""
AUDIOMNIST = PublicCorpus(
    "audiomnist", "soerenab/AudioMNIST", "en", "MIT", "AudioMNIST, 60 speakers, copyright (c) 2018 soerenab"
)
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
STRIDES = (1, 3, 7, 9)
"""Steps through the ten digits that visit each once."""


def build_public_corpus(
    corpus: PublicCorpus, folder: str | Path, out: str | Path, copy_audio: bool = False
) -> CorpusSummary:
    """Write one of `READABLE` as a corpus at `out`, with links to the recordings in `folder` (copies with `copy_audio`)."""
    check_target(Path(out))
    train, held_out = read_splits(folder, corpus.language, 0.0)
    rejected = list(dict.fromkeys((*train.rejected, *held_out.rejected)))
    held_out_ids = {one.id for one in held_out.utterances}
    readings = _read_readings(corpus, Path(folder))
    target = Path(out)
    lines = []
    for one in (*train.utterances, *held_out.utterances):
        speaker = corpus.speaker or re.sub(*corpus.speaker_pattern, one.speaker)
        line = _linked(Utterance(one.id, one.path, one.text, one.language, speaker), target, copy_audio, rejected)
        lines += [replace(line, normalized=readings.get(one.id, line.normalized))] if line else []
    if held_out_ids:
        write_metadata(target / "metadata_train.csv", [line for line in lines if line.id not in held_out_ids])
        write_metadata(target / "metadata_eval.csv", [line for line in lines if line.id in held_out_ids])
    return _finished(corpus, target, lines, rejected, train.license)


def build_freeswitch_corpus(
    folder: str | Path,
    out: str | Path,
    phrases: str | Path,
    voices: Sequence[str] = tuple(FREESWITCH_VOICES),
    copy_audio: bool = False,
) -> CorpusSummary:
    """Write FreeSWITCH's prompts at 48 kHz as a corpus; `phrases` is docs/phrase of signalwire/freeswitch."""
    source, target = existing_folder(folder, "a clone of freeswitch/freeswitch-sounds"), Path(out)
    check_target(target)
    lines: list[MetadataLine] = []
    rejected: list[Rejection] = []
    licenses = []
    for voice in voices:
        if voice not in FREESWITCH_VOICES:
            raise CorpusError(f"Unknown voice. Received: {voice}. Expected some of: {', '.join(FREESWITCH_VOICES)}.")
        language, below = FREESWITCH_VOICES[voice]
        recordings = sorted((source / below).glob("*/48000/*.wav"))
        if not recordings:
            raise CorpusError(f"No recording of {voice} was found. Expected: {source / below}/SECTION/48000/*.wav.")
        phrase_file = _phrase_file(Path(phrases), language)
        texts = _read_phrases(phrase_file)
        for path in recordings:
            section, clip_id = path.parent.parent.name, f"{voice}_{path.parent.parent.name}_{path.stem}"
            text = texts.get((section, path.name))
            if not text:
                reason = "empty text" if text is None else "not speech"
                rejected.append(Rejection(clip_id, str(path), reason, f"{phrase_file.name} has no text for it"))
                continue
            line = _linked(Utterance(clip_id, path, text, language, voice), target, copy_audio, rejected)
            lines += [line] if line else []
        own_license = source / below / "LICENSE"
        licenses += [own_license.read_text("utf-8", "replace")] if own_license.is_file() else []
    return _finished(FREESWITCH, target, lines, rejected, "\n\n".join(dict.fromkeys(licenses)))


def build_audiomnist_corpus(
    folder: str | Path, out: str | Path, takes: int = 10, digits_per_clip: int = 5, progress: Progress | None = None
) -> CorpusSummary:
    """Write AudioMNIST as a corpus: recordings of one take joined to clips such as "three, one, four, seven, zero".

    A single digit of 0.6 s is too short for a reference of 2 s. The recordings keep their own pauses.

    Args:
        takes: recordings of each digit that are used, of 50.
        digits_per_clip: 1, 2, 5 or 10.
    """
    if digits_per_clip not in (1, 2, 5, 10):
        raise CorpusError(f"Digits per clip must be 1, 2, 5 or 10. Received: {digits_per_clip}.")
    source, target = existing_folder(folder, "a clone of soerenab/AudioMNIST") / "data", Path(out)
    check_target(target)
    speakers = sorted(path.name for path in source.glob("[0-9][0-9]") if path.is_dir())
    if not speakers:
        raise CorpusError(
            f"No speaker was found in {source}. Expected: AudioMNIST's folders 01 … 60 with recordings D_NN_T.wav."
        )
    make_folder(target / "wavs")
    lines: list[MetadataLine] = []
    rejected: list[Rejection] = []
    for number, speaker in enumerate(speakers, start=1):
        for take in range(takes):
            order = [(STRIDES[take % len(STRIDES)] * place + take) % 10 for place in range(10)]
            for start in range(0, 10, digits_per_clip):
                digits = order[start : start + digits_per_clip]
                paths = [source / speaker / f"{digit}_{speaker}_{take}.wav" for digit in digits]
                lines += _joined(paths, digits, f"{speaker}_{take:02d}_{start}", f"mnist-{speaker}", target, rejected)
        if progress is not None:
            progress(number, len(speakers))
    license_text = _license_in(Path(folder))
    return _finished(AUDIOMNIST, target, lines, rejected, license_text)


def _joined(
    paths: Sequence[Path], digits: Sequence[int], clip_id: str, speaker: str, target: Path, rejected: list[Rejection]
) -> list[MetadataLine]:
    """The line of the recordings written one after the other as one clip; none if one of them cannot be read."""
    try:
        pieces = [read_audio(path) for path in paths]
    except AudioError as error:
        rejected.append(Rejection(clip_id, str(paths[0]), error.reason, str(error)))
        return []
    rate = pieces[0][1]
    if any(other != rate for _, other in pieces):
        rejected.append(Rejection(clip_id, str(paths[0]), "several sample rates", "the recordings of one take differ"))
        return []
    samples = np.concatenate([piece for piece, _ in pieces])
    write_audio(target / "wavs" / f"{clip_id}.flac", samples, rate)
    text = ", ".join(DIGITS[digit] for digit in digits)
    return [MetadataLine(clip_id, text, text, speaker, AUDIOMNIST.language, len(samples) / rate)]


def _phrase_file(folder: Path, language: str) -> Path:
    """The file of a language: phrase_pt.xml, or phrase_pt_BR.xml as newer clones name it."""
    base, _, region = language.partition("-")
    plain, regional = (folder / f"phrase_{name}.xml" for name in (base, f"{base}_{region.upper()}"))
    return regional if regional.is_file() else plain


def _read_phrases(path: Path) -> dict[tuple[str, str], str]:
    """(section, file name) → text; empty for tones and music."""
    try:
        root = ElementTree.fromstring(read_regular_file(path, LARGEST_PHRASES_BYTES))
    except (OSError, ElementTree.ParseError) as error:
        raise CorpusError(
            f"The texts of the prompts cannot be read. Received: {path} ({error}). Expected: docs/phrase of a clone of "
            "signalwire/freeswitch (--phrases)."
        ) from None
    texts = {}
    for section in (each for language in root for each in language):
        for prompt in section.iter("prompt"):
            text = re.sub(r"\s*\([^)]*\)", "", prompt.get("phrase", ""))  # remarks that are not spoken
            is_speech = prompt.get("type") is None and text != "NULL"
            texts.setdefault((section.tag, prompt.get("filename", "")), " ".join(text.split()) if is_speech else "")
    return texts


def _read_readings(corpus: PublicCorpus, folder: Path) -> dict[str, str]:
    """Clip id → its text as it is read; empty if the corpus has no such file."""
    if corpus.readings is None or not (folder / corpus.readings).is_file():
        return {}
    rows = read_metadata(FolderIndex.walk(folder), corpus.readings, corpus.language).rows
    return {row.id: row.text for row in rows}


def _linked(utterance: Utterance, target: Path, copy_audio: bool, rejected: list[Rejection]) -> MetadataLine | None:
    """Put a recording into the corpus at `target`; None with the reason in `rejected` if it cannot be read."""
    try:
        samples, rate = probe_audio(utterance.path)
    except AudioError as error:
        rejected.append(Rejection(utterance.id, str(utterance.path), error.reason, str(error)))
        return None
    link_or_copy(utterance.path, target / "wavs" / f"{utterance.id}{utterance.path.suffix}", copy_audio)
    text = utterance.text
    return MetadataLine(utterance.id, text, text, utterance.speaker, utterance.language, samples / rate)


def _license_in(folder: Path) -> str:
    path = folder / "LICENSE"
    return path.read_text("utf-8", "replace") if path.is_file() else ""


def _finished(
    corpus: PublicCorpus, target: Path, lines: list[MetadataLine], rejected: list[Rejection], license_text: str
) -> CorpusSummary:
    """Write metadata, license and attribution."""
    if not lines:
        raise CorpusError(
            f"No usable clip of {corpus.name} was found. Expected: a clone of github.com/{corpus.repository}."
        )
    write_text(target / "LICENSE", f"SPDX-License-Identifier: {corpus.license}\n\n{license_text}")
    source = f"https://github.com/{corpus.repository}"
    write_text(
        target / "ATTRIBUTION.md", f"# {corpus.name}\n\n{corpus.credit}. License: {corpus.license}. Source: {source}\n"
    )
    return finish_corpus(target, lines, rejected)
