"""Corpora to start from: the bundled prompts, and recipes that write an LJSpeech folder with speakers and languages.

`bundled_corpus()` → the folder that every default uses. `build_asterisk_corpus` → Debian's telephone prompts in up to five
languages. `build_folder_corpus` → a folder of recordings with same-named .txt files. Each returns a `CorpusSummary`.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from myxtts.audio.files import probe_audio, write_audio
from myxtts.data.debian_prompts import PromptPackage, read_prompt_packages
from myxtts.data.folder_index import AUDIO_EXTENSIONS
from myxtts.data.manifest import Rejection, write_rejected_csv
from myxtts.errors import AudioError, CorpusError

HEADER = ("id", "text", "normalised", "speaker", "language")
PROMPT_RATE = 16000
"""Hz of G.722."""
HELD_OUT_WORDS = 4
"""Shorter sentences say little about a voice."""
HELD_OUT_SECONDS = 12.0
"""Longer clips do not fit the default max_mel_frames."""
NOT_SPOKEN = re.compile(r"\s*(\[[^\]]*\]|\([^)]*\)|<[^>]*>)\s*")
SYMBOLS_ONLY = re.compile(r"[\W_]*")
SPOKEN_REMARKS = ("ne m'appelez plus, jamais", "IAX")
"""Contents of round brackets that are read aloud."""
KEY_NAMES = {
    "en": {"#": "pound", "*": "star"},
    "fr": {"#": "dièse", "*": "étoile"},
}
MISSPELT = {"exclaimation-point": "exclamation point", "umute": "unmute", "fourtieth": "fortieth"}
"""Written so in the transcripts, and said as here."""


@dataclass(frozen=True)
class Line:
    """One line of a metadata.csv."""

    id: str
    text: str
    normalised: str
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


def bundled_corpus() -> Path:
    """The folder of the bundled English prompts (563 lines, one speaker, CC-BY-SA-3.0)."""
    folder = Path(__file__).resolve().parent.parent / "assets" / "corpus"
    if not (folder / "metadata.csv").is_file():
        raise CorpusError(
            f"The bundled corpus is missing from this installation. Expected: {folder}. Install myxtts again."
        )
    return folder


def build_asterisk_corpus(
    out: str | Path,
    languages: Sequence[str],
    debs: Iterable[str | Path] | None = None,
    sounds_root: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
    audio_format: str = "wav",
    quality: float | None = None,
    held_out: int = 0,
) -> CorpusSummary:
    """Debian's prompts as an LJSpeech folder at `out`. `progress(done, total)` is called after each recording.

    `held_out` > 0 also writes metadata_eval.csv with that many sentences, and metadata_train.csv with the rest.
    """
    packages = read_prompt_packages(
        list(dict.fromkeys(languages)),
        [Path(deb) for deb in debs] if debs else None,
        Path(sounds_root) if sounds_root is not None else None,
    )
    folder = Path(out)
    _make_folder(folder / "wavs")
    lines: list[Line] = []
    rejected: list[Rejection] = []
    total = sum(len(package.recordings) for package in packages)
    done = 0
    for package in packages:
        texts = _read_transcripts(package, rejected)
        for prompt, recording in sorted(package.recordings.items()):
            done += 1
            line = _convert_prompt(
                package, prompt, texts.get(prompt), recording, folder, audio_format, quality, rejected
            )
            lines += [line] if line else []
            if progress:
                progress(done, total)
    if held_out:
        _write_split(folder, lines, held_out)
    _write_licences(folder, packages, audio_format)
    return _finish(folder, lines, rejected)


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
    _make_folder(target)
    return _finish(target, lines, rejected)


def spoken_text(text: str, language: str) -> str:
    """What is said of a transcript line: without remarks and symbols in brackets, keys of the telephone by name.

    A line that is nothing but a remark comes back in square brackets: not speech.
    """
    text = " ".join(text.split())
    if NOT_SPOKEN.fullmatch(text):
        return f"[{text[1:-1].strip()}]"

    def replace(match: re.Match[str]) -> str:
        inner = match[1][1:-1].strip()
        is_spoken = inner in SPOKEN_REMARKS or (match[1][0] == "[" and not SYMBOLS_ONLY.fullmatch(inner))
        return f" {inner} " if is_spoken else " "

    text = NOT_SPOKEN.sub(replace, text)
    for key, name in KEY_NAMES.get(language, {}).items():
        text = text.replace(key, name)
    for wrong, right in MISSPELT.items():
        text = text.replace(wrong, right)
    return re.sub(r"\s+([.,;:!?])", r"\1", " ".join(text.split()))


def choose_held_out(lines: Sequence[Line], count: int) -> set[str]:
    """Ids of `count` sentences of at least four words, spread evenly over the lengths, whose text occurs only once."""
    spoken = [re.sub(r"\W+", " ", line.normalised).casefold().strip() for line in lines]
    candidates = [
        line
        for line, text in zip(lines, spoken, strict=True)
        if len(text.split()) >= HELD_OUT_WORDS
        and line.seconds <= HELD_OUT_SECONDS
        and not line.normalised.startswith("[")
        and spoken.count(text) == 1
    ]
    if len(candidates) < count:
        raise CorpusError(f"{count} sentences cannot be held out: only {len(candidates)} are long and unique enough.")
    candidates.sort(key=lambda line: (line.seconds, line.id))
    step = len(candidates) / count
    return {candidates[int((number + 0.5) * step)].id for number in range(count)}


def _read_transcripts(package: PromptPackage, rejected: list[Rejection]) -> dict[str, str]:
    """Prompt name → text; the first of two lines for the same prompt counts."""
    texts: dict[str, str] = {}
    for line in (package.transcripts or "").splitlines():
        prompt, separator, text = line.partition(":")
        if line.startswith(";") or not separator:
            continue
        prompt, text = prompt.strip(), text.strip()
        text = text.removeprefix(f"{prompt}:").strip()  # a line of the Russian list names its prompt twice
        if prompt in texts:
            rejected.append(Rejection(_clip_id(package, prompt), "", "duplicate id", f"second text: {text}"))
        elif prompt not in package.recordings:
            rejected.append(Rejection(_clip_id(package, prompt), "", "missing", "no recording of this prompt"))
            texts[prompt] = ""
        else:
            texts[prompt] = text
    return texts


def _clip_id(package: PromptPackage, prompt: str) -> str:
    return f"{package.language}_{prompt.replace('/', '_')}"


def _convert_prompt(
    package: PromptPackage,
    prompt: str,
    text: str | None,
    recording: bytes,
    folder: Path,
    audio_format: str,
    quality: float | None,
    rejected: list[Rejection],
) -> Line | None:
    clip_id = _clip_id(package, prompt)
    if not text:
        rejected.append(Rejection(clip_id, prompt, "empty text", "no transcript of this recording"))
        return None
    if re.fullmatch(r"\[[^\]]*\]", text):
        rejected.append(Rejection(clip_id, prompt, "not speech", text))
        return None
    samples = decode_g722(recording, prompt)
    write_audio(folder / "wavs" / f"{clip_id}.{audio_format}", samples, PROMPT_RATE, audio_format, quality)
    normalised = spoken_text(text, package.language)
    speaker = package.speaker or package.language
    seconds = len(samples) / PROMPT_RATE
    return Line(clip_id, " ".join(text.split()), normalised, speaker, package.language, seconds)


def decode_g722(recording: bytes, name: str = "recording") -> np.ndarray:
    """Samples of a headerless G.722 recording: float32 (samples,) at 16 kHz."""
    try:
        import av
    except ImportError:
        raise CorpusError(
            "Debian's prompts are coded in G.722, which needs PyAV. Install it with: pip install 'myxtts[corpora]'"
        ) from None
    try:
        with av.open(io.BytesIO(recording), format="g722") as container:
            pieces = [frame.to_ndarray().reshape(-1) for frame in container.decode(audio=0)]
    except av.FFmpegError as error:
        raise CorpusError(f"The recording {name} cannot be decoded as G.722: {error}.") from None
    return np.concatenate(pieces).astype(np.float32) / 32768


def _read_pair(
    source: Path, audio: Path, clip_id: str, language: str, speaker: str, rejected: list[Rejection]
) -> Line | None:
    """The line of a recording and its .txt, or None with the reason in `rejected`."""
    relative = audio.relative_to(source).as_posix()
    if not audio.resolve().is_relative_to(source):
        rejected.append(Rejection(clip_id, relative, "outside the folder", "a link that leads out of the folder"))
        return None
    try:
        text = " ".join(audio.with_suffix(".txt").read_text(encoding="utf-8-sig").split()).replace("|", " ")
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
    import shutil

    _make_folder(target.parent)
    target.unlink(missing_ok=True)
    if not copy:
        try:
            os.link(audio, target)
            return
        except OSError:
            pass  # another disk, or a file system without hard links: the copy below is the documented way
    shutil.copyfile(audio, target)


def _finish(folder: Path, lines: list[Line], rejected: list[Rejection]) -> CorpusSummary:
    _write_metadata(folder / "metadata.csv", lines)
    write_rejected_csv(folder / "rejected.csv", rejected)
    languages = sorted({line.language for line in lines})
    return CorpusSummary(
        folder=folder,
        clips=len(lines),
        seconds=sum(line.seconds for line in lines),
        clips_by_language={name: sum(line.language == name for line in lines) for name in languages},
        speakers=tuple(sorted({line.speaker for line in lines})),
        rejected=tuple(rejected),
    )


def _write_split(folder: Path, lines: list[Line], held_out: int) -> None:
    chosen = choose_held_out(lines, held_out)
    _write_metadata(folder / "metadata_train.csv", [line for line in lines if line.id not in chosen])
    _write_metadata(folder / "metadata_eval.csv", [line for line in lines if line.id in chosen])


def _write_metadata(path: Path, lines: Iterable[Line]) -> None:
    rows = ["|".join(HEADER)]
    rows += ["|".join((line.id, line.text, line.normalised, line.speaker, line.language)) for line in lines]
    _write_text(path, "\n".join(rows) + "\n")


def _write_licences(folder: Path, packages: list[PromptPackage], audio_format: str) -> None:
    """The packages' copyright files as they are, and who is to be named for what, with the changes that were made."""
    _write_text(folder / "LICENSE", "\n\n".join(dict.fromkeys(package.copyright or "" for package in packages)))
    names = "\n".join(f"- `{each.language}`: speaker {each.speaker}, {CREDITS[each.language]}" for each in packages)
    _write_text(folder / "ATTRIBUTION.md", ATTRIBUTION.format(names=names, audio_format=audio_format))


CREDITS = {
    "en": "recorded by Allison Smith (http://www.theivrvoice.com), © 2003-2010 Allison Smith, CC-BY-SA-3.0",
    "es": "recorded by Allison Smith (http://www.theivrvoice.com), © 2003-2010 Allison Smith, CC-BY-SA-3.0",
    "fr": "recorded by June Wallack (http://www.junewallack.com), © 2006-2008 June Wallack, CC-BY-SA-3.0",
    "it": "recorded by Carlo Flora (http://www.carloflora.com), © 2012 Carlo Flora, CC-BY-3.0",
    "ru": "provided by Maxim Topal (http://www.ivrvoice.ru), © 2010 Maxim, CC-BY-3.0",
}
ATTRIBUTION = """\
# Asterisk core sounds

{names}

Financial contributions by Digium, Inc. Source: http://downloads.asterisk.org/pub/telephony/asterisk/, by way of the Debian
packages `asterisk-core-sounds-*` 1.6.1. The licences, with the full credits of every language, are in `LICENSE` (Debian's
copyright file of these packages).

Changes made to the original work: the G.722 recordings were decoded and stored again as {audio_format} at 16 kHz; files were
renamed; recordings without speech that are marked as such were left out; the transcripts got a second column with what is
spoken. A voice trained on these recordings is made from them: name their authors where you share it.
"""


def _write_text(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        beside.write_text(text, encoding="utf-8", newline="\n")
        os.replace(beside, path)
    except OSError as error:
        raise CorpusError(f"{path} cannot be written: {error.strerror}.") from None
    finally:
        beside.unlink(missing_ok=True)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CorpusError(f"The folder {folder} cannot be made: {error.strerror}.") from None
