"""Corpora to start from: the bundled prompts, and recipes that write an LJSpeech folder with speakers and languages.

`bundled_corpus()` → the folder that every default uses. `build_asterisk_corpus` → Debian's telephone prompts in up to five
languages. `build_folder_corpus` → a folder of recordings with same-named .txt files. Each recipe returns a `CorpusSummary`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from myxtts.audio.files import probe_audio, read_audio, resample, write_audio
from myxtts.data.asterisk import build_asterisk_corpus
from myxtts.data.corpus_writer import CorpusSummary, Line, finish_corpus, make_folder
from myxtts.data.folder_index import AUDIO_EXTENSIONS
from myxtts.data.utterance import Rejection
from myxtts.errors import AudioError, CorpusError

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
    language: str = "en",
    speaker: str = "speaker",
    copy_audio: bool = False,
) -> CorpusSummary:
    """Recordings with same-named .txt files (`a/b.wav`, `a/b.txt`), made an LJSpeech folder.

    With `out` None, metadata.csv is written into `folder`. Else into `out`, with hard links to the recordings in `out/wavs`
    (copies with `copy_audio`, or where the two lie on different disks).
    """
    source = Path(folder).resolve()
    if not source.is_dir():
        raise CorpusError(f"The folder of recordings does not exist. Received: {folder}.")
    target = source if out is None else Path(out).resolve()
    if out is None and (source / "metadata.csv").exists():
        raise CorpusError(f"{source} has a metadata.csv already. Remove it, or give another folder to write to.")
    lines, rejected = [], []
    for audio in sorted(path for path in source.rglob("*") if path.suffix.lower() in AUDIO_EXTENSIONS):
        clip_id = audio.relative_to(source).with_suffix("").as_posix()
        line = _read_pair(source, audio, clip_id, language, speaker, rejected)
        if line is None:
            continue
        if target != source:
            _place(audio, target / "wavs" / audio.relative_to(source), copy_audio)
        lines.append(line)
    if not lines:
        raise CorpusError(
            f"No recording with a text of the same name was found below {source} ({len(rejected)} set aside). "
            "Expected: pairs such as hello.wav and hello.txt."
        )
    make_folder(target)
    return finish_corpus(target, lines, rejected)


def write_wav_corpus(folder: Path, clips: Iterable[tuple[Path, str]], sample_rate: int) -> None:
    """Recordings and their texts as an LJSpeech folder of 16-bit WAV at one rate (Hz), which every way of loading can read."""
    make_folder(folder / "wavs")
    lines = []
    for number, (path, text) in enumerate(clips):
        samples, file_rate = read_audio(path)
        write_audio(folder / "wavs" / f"clip{number:04d}.wav", resample(samples, file_rate, sample_rate), sample_rate)
        lines.append(f"clip{number:04d}|{text}\n")
    (folder / "metadata.csv").write_text("".join(lines), encoding="utf-8")


def _read_pair(
    source: Path, audio: Path, clip_id: str, language: str, speaker: str, rejected: list[Rejection]
) -> Line | None:
    """The line of a recording and its .txt, or None with the reason in `rejected`."""
    relative = audio.relative_to(source).as_posix()
    if not audio.resolve().is_relative_to(source):
        rejected.append(Rejection(clip_id, relative, "outside the folder", "a link that leads out of the folder"))
        return None
    try:
        text = " ".join(audio.with_suffix(".txt").read_text(encoding="utf-8-sig").replace("|", " ").split())
        samples, rate = probe_audio(audio)
    except FileNotFoundError:
        rejected.append(Rejection(clip_id, relative, "empty text", "no .txt of the same name"))
    except UnicodeDecodeError:
        rejected.append(Rejection(clip_id, relative, "invalid UTF-8", "the .txt is not UTF-8"))
    except AudioError as error:
        rejected.append(Rejection(clip_id, relative, error.reason, str(error)))
    else:
        if text:
            return Line(clip_id, text, text, speaker, language, samples / rate)
        rejected.append(Rejection(clip_id, relative, "empty text", "the .txt is empty"))
    return None


def _place(audio: Path, target: Path, copy: bool) -> None:
    """A hard link if possible: no space, no link that leads out of the corpus."""
    make_folder(target.parent)
    target.unlink(missing_ok=True)
    if not copy:
        try:
            os.link(audio, target)
            return
        except OSError:
            pass  # another disk, or a file system without hard links: the copy below is the documented way
    shutil.copyfile(audio, target)
