"""Corpora to start from: the bundled prompts, and recipes that write an LJSpeech folder with speakers and languages.

`bundled_corpus` is the folder that every default uses. `build_asterisk_corpus` takes Debian's telephone prompts in up to five
languages, `build_folder_corpus` a folder of recordings with same-named .txt files; both return a `CorpusSummary`.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from pathlib import Path

from myxtts.audio.files import probe_audio, read_audio, resample, write_audio
from myxtts.config.config import DEFAULT_LANGUAGE
from myxtts.corpus.asterisk import build_asterisk_corpus
from myxtts.corpus.corpus_writer import (
    CorpusSummary,
    MetadataLine,
    finish_corpus,
    link_or_copy,
    make_folder,
    write_text,
)
from myxtts.corpus.folder_index import AUDIO_EXTENSIONS, speakers_by_folder
from myxtts.corpus.layouts import read_texts
from myxtts.corpus.metadata import SINGLE_SPEAKER
from myxtts.corpus.utterance import WRONG_SCRIPT, Rejection, summarize_rejections
from myxtts.errors import AudioError, CorpusError
from myxtts.text.languages import explain_foreign_script, foreign_script, resolve_language

__all__ = ["CorpusSummary", "build_asterisk_corpus", "build_folder_corpus", "bundled_corpus", "write_wav_corpus"]


def bundled_corpus() -> Path:
    """The folder of the bundled English prompts (563 lines, one speaker, CC-BY-SA-3.0)."""
    folder = Path(__file__).resolve().parent.parent / "assets" / "corpus"
    if not (folder / "metadata.csv").is_file():
        raise CorpusError(
            f"The bundled corpus is missing from this installation. Expected: {folder}. Install myxtts again."
        )
    return folder


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
    source = Path(folder).resolve()
    if not os.path.isdir(source):
        raise CorpusError(f"The folder of recordings does not exist. Received: {folder}.")
    target = source if out is None else Path(out).resolve()
    if out is None and (source / "metadata.csv").exists():
        raise CorpusError(f"{source} already has a metadata.csv. Remove it, or name another folder to write to.")
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
    if not audio.resolve().is_relative_to(source):
        reason, detail = "outside the folder", "a link that leads out of the folder"
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
