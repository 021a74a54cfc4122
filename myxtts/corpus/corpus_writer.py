"""Write a corpus in LJSpeech's layout: metadata.csv with speakers and languages, the held-out list, and rejected.csv.

A recipe puts the recordings into `wavs/` and describes each by a `MetadataLine`. `build_folder_corpus` is the recipe for a folder
of recordings with same-named .txt files.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from myxtts.audio.files import probe_audio, read_audio, resample, write_audio
from myxtts.config.config import DEFAULT_LANGUAGE
from myxtts.corpus.folder_index import AUDIO_EXTENSIONS, existing_folder, is_unicode, speakers_by_folder
from myxtts.corpus.layouts import read_texts
from myxtts.corpus.metadata import SINGLE_SPEAKER
from myxtts.corpus.utterance import WRONG_SCRIPT, Rejection, summarize_rejections, write_rejected_csv
from myxtts.errors import AudioError, CorpusError
from myxtts.runtime.safe_files import cause_of, replacing, write_atomically
from myxtts.text.languages import explain_foreign_script, foreign_script, resolve_language

HEADER = ("id", "text", "normalized", "speaker", "language")
HELD_OUT_WORDS = 4
"""Shorter sentences say little about a voice."""
HELD_OUT_SECONDS = 12.0
"""Longer clips do not fit the default max_mel_frames."""


@dataclass(frozen=True)
class MetadataLine:
    """One line of a metadata.csv."""

    id: str
    text: str
    normalized: str
    speaker: str
    language: str
    seconds: float


@dataclass(frozen=True)
class CorpusSummary:
    """What a recipe wrote."""

    folder: Path
    clips: int
    seconds: float
    clips_by_language: dict[str, int]
    speakers: tuple[str, ...]
    rejected: tuple[Rejection, ...] = field(repr=False)
    notices: tuple[str, ...] = ()
    """What was guessed about the texts, such as an encoding: one sentence each."""


def choose_held_out(lines: Sequence[MetadataLine], count: int) -> set[str]:
    """Ids of `count` sentences of at least four words, spread evenly over the lengths, whose text occurs only once."""
    spoken = [re.sub(r"\W+", " ", line.normalized).casefold().strip() for line in lines]
    candidates = [
        line
        for line, text in zip(lines, spoken, strict=True)
        if len(text.split()) >= HELD_OUT_WORDS
        and line.seconds <= HELD_OUT_SECONDS
        and not line.normalized.startswith("[")
        and spoken.count(text) == 1
    ]
    if len(candidates) < count:
        raise CorpusError(
            f"{count} sentences cannot be held out: only {len(candidates)} are long enough and unique. Hold out fewer."
        )
    candidates.sort(key=lambda line: (line.seconds, line.id))
    step = len(candidates) / count
    return {candidates[int((number + 0.5) * step)].id for number in range(count)}


def finish_corpus(
    folder: Path, lines: list[MetadataLine], rejected: list[Rejection], notices: Sequence[str] = ()
) -> CorpusSummary:
    """Write metadata.csv and rejected.csv of a new corpus."""
    write_metadata(folder / "metadata.csv", lines)
    write_rejected_csv(folder / "rejected.csv", rejected)
    languages = sorted({line.language for line in lines})
    return CorpusSummary(
        folder=folder,
        clips=len(lines),
        seconds=sum(line.seconds for line in lines),
        clips_by_language={name: sum(line.language == name for line in lines) for name in languages},
        speakers=tuple(sorted({line.speaker for line in lines})),
        rejected=tuple(rejected),
        notices=tuple(notices),
    )


def write_split(folder: Path, lines: list[MetadataLine], held_out: int) -> None:
    """Write metadata_eval.csv with `held_out` sentences and metadata_train.csv with the others."""
    chosen = choose_held_out(lines, held_out)
    write_metadata(folder / "metadata_train.csv", [line for line in lines if line.id not in chosen])
    write_metadata(folder / "metadata_eval.csv", [line for line in lines if line.id in chosen])


def write_metadata(path: Path, lines: Iterable[MetadataLine]) -> None:
    """Write one metadata file with a header."""
    rows = ["|".join(HEADER)]
    rows += [
        "|".join(cell.replace("|", " ") for cell in (line.id, line.text, line.normalized, line.speaker, line.language))
        for line in lines
    ]
    write_text(path, "\n".join(rows) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file of a corpus, whole or not at all."""
    try:
        write_atomically(path, text)
    except OSError as error:
        raise CorpusError(f"{path} cannot be written: {cause_of(error)}. Name another folder.") from None


def make_folder(folder: Path) -> None:
    """Make a folder and its parents; raises CorpusError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CorpusError(f"The folder {folder} cannot be created: {error.strerror}. Name another one.") from None


def check_target(folder: Path) -> None:
    """Raise `CorpusError` where a recipe would replace a metadata.csv that no recipe wrote (they write rejected.csv as well)."""
    if os.path.exists(folder / "metadata.csv") and not os.path.exists(folder / "rejected.csv"):
        raise CorpusError(f"{folder} already has a metadata.csv. Remove it, or name another folder to write to.")


def link_or_copy(audio: Path, target: Path, copy: bool) -> None:
    """Put a recording into a corpus: as a hard link if possible, which takes no space and does not lead out of the corpus."""
    make_folder(target.parent)
    is_there = os.path.exists(target) and os.path.samefile(audio, target)
    if is_there and (not copy or os.path.realpath(audio) == os.path.realpath(target)):
        return  # the corpus is written to where its recordings are, or a second time
    try:
        target.unlink(missing_ok=True)
        if not copy:
            with suppress(OSError):  # another disk, or a file system without hard links: it is copied
                os.link(audio, target)
                return
        with replacing(target) as temporary:
            shutil.copyfile(audio, temporary)
    except OSError as error:
        raise CorpusError(f"{target} cannot be written: {cause_of(error)}. Name another folder.") from None


def build_folder_corpus(
    folder: str | Path,
    out: str | Path | None = None,
    language: str = DEFAULT_LANGUAGE,
    speaker: str | None = None,
    copy_audio: bool = False,
) -> CorpusSummary:
    """Make an LJSpeech folder from recordings with same-named .txt files (`a/b.wav`, `a/b.txt`).

    `language` is a code or a name. With `speaker` None, subfolders are speakers (`anna/1.wav`). With `out` None, metadata.csv is
    written into `folder`; otherwise into `out`, with hard links to the recordings in `out/wavs` (copies with `copy_audio`, or
    where the two are on different disks).
    """
    language = resolve_language(language)
    source = existing_folder(folder, "a folder of recordings and texts, such as hello.wav and hello.txt")
    target = source if out is None else Path(os.path.realpath(out))
    if out is None and (source / "metadata.csv").exists():
        raise CorpusError(f"{source} already has a metadata.csv. Remove it, or name another folder to write to.")
    check_target(target)
    recordings = sorted(path for path in source.rglob("*") if path.suffix.lower() in AUDIO_EXTENSIONS)
    names = [path.relative_to(source).as_posix() for path in recordings]
    texts = read_texts(source, [_text_path(name) for name in names if (source / _text_path(name)).exists()], language)
    speakers = speakers_by_folder(names)
    unreadable = {each.path: each for each in texts.rejected}
    lines, rejected = [], []
    for audio, name, own_speaker in zip(recordings, names, speakers, strict=True):
        text_path = _text_path(name)
        if text_path in unreadable:
            rejected.append(dataclasses.replace(unreadable[text_path], id=os.path.splitext(name)[0], path=name))
            continue
        text = texts.by_path.get(text_path)
        line = _read_pair(source, audio, text, language, speaker or own_speaker or SINGLE_SPEAKER, rejected)
        if line is None:
            continue
        if target != source:
            link_or_copy(audio, target / "wavs" / name, copy_audio)
        lines.append(line)
    if not lines:
        raise CorpusError(
            f"No usable recording with a text of the same name was found below {source}: {summarize_rejections(rejected)}. "
            "Expected: pairs such as hello.wav and hello.txt."
        )
    make_folder(target)
    return finish_corpus(target, lines, rejected, texts.notices)


def write_wav_corpus(folder: Path, clips: Iterable[tuple[Path, str]], sample_rate: int) -> None:
    """Write recordings and their texts as an LJSpeech folder of 16-bit WAV at one rate (Hz), which every loader can read."""
    make_folder(folder / "wavs")
    lines = []
    for number, (path, text) in enumerate(clips):
        samples, file_rate = read_audio(path)
        write_audio(folder / "wavs" / f"clip{number:04d}.wav", resample(samples, file_rate, sample_rate), sample_rate)
        lines.append(f"clip{number:04d}|{text}\n")
    write_text(folder / "metadata.csv", "".join(lines))


def _text_path(audio: str) -> str:
    return f"{os.path.splitext(audio)[0]}.txt"


def _read_pair(
    source: Path, audio: Path, written: str | None, language: str, speaker: str, rejected: list[Rejection]
) -> MetadataLine | None:
    """The line of a recording and its text (None: it has no .txt), or None with the reason in `rejected`."""
    relative = audio.relative_to(source).as_posix()
    clip_id = os.path.splitext(relative)[0]
    text = " ".join((written or "").replace("|", " ").split())
    script = foreign_script(text, language)
    if not Path(os.path.realpath(audio)).is_relative_to(source):
        reason, detail = "outside the folder", "a link that leads out of the folder"
    elif not is_unicode(relative):
        reason, detail = "invalid UTF-8", "the file name is not UTF-8; rename it"
    elif written is None:
        reason, detail = "empty text", "no .txt of the same name"
    elif not text:
        reason, detail = "empty text", "the .txt is empty"
    elif script is not None:
        reason, detail = WRONG_SCRIPT, explain_foreign_script(script, language)
    else:
        try:
            samples, rate = probe_audio(audio)
            return MetadataLine(clip_id, text, text, speaker, language, samples / rate)
        except AudioError as error:
            reason, detail = error.reason, str(error)
    rejected.append(Rejection(clip_id, relative, reason, detail))
    return None
