"""Recipe: Debian's telephone prompts (`asterisk-core-sounds-*`) → an LJSpeech folder in up to five languages.

Writes 16 kHz recordings, metadata with speakers and languages, the licenses, and the attribution. The bundled corpus was made by
`build_asterisk_corpus(folder, ["en"], debs=…, audio_format="ogg", quality=0.34, held_out=60)`.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from myxtts.audio.files import write_audio
from myxtts.corpus.corpus_writer import CorpusSummary, MetadataLine, finish_corpus, make_folder, write_split, write_text
from myxtts.corpus.debian import PromptPackage, read_prompt_packages
from myxtts.corpus.utterance import Rejection
from myxtts.errors import CorpusError

PROMPT_RATE = 16000
"""Hz of G.722."""
NOT_SPOKEN = re.compile(r"\s*(\[[^\]]*\]|\([^)]*\)|<[^>]*>)\s*")
SYMBOLS_ONLY = re.compile(r"[\W_]*")
SPOKEN_REMARKS = ("ne m'appelez plus, jamais", "IAX")
"""Contents of round brackets that are read aloud."""
KEY_NAMES = {
    "en": {"#": "pound", "*": "star"},
    "fr": {"#": "dièse", "*": "étoile"},
}
MISSPELLED = {"exclaimation-point": "exclamation point", "umute": "unmute", "fourtieth": "fortieth"}
"""Written so in the transcripts, and said as here."""


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
    """Write Debian's prompts as an LJSpeech folder at `out`. `progress(done, total)` is called after each recording.

    `held_out` > 0 also writes metadata_eval.csv with that many sentences, and metadata_train.csv with the rest.
    """
    packages = read_prompt_packages(
        list(dict.fromkeys(languages)),
        [Path(deb) for deb in debs] if debs else None,
        Path(sounds_root) if sounds_root is not None else None,
    )
    folder = Path(out)
    make_folder(folder / "wavs")
    lines: list[MetadataLine] = []
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
        write_split(folder, lines, held_out)
    _write_licenses(folder, packages, audio_format)
    return finish_corpus(folder, lines, rejected)


def spoken_text(text: str, language: str) -> str:
    """The spoken part of a transcript line: without remarks and symbols in brackets, keys of the telephone by name.

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
    for wrong, right in MISSPELLED.items():
        text = text.replace(wrong, right)
    text = re.sub(r"([.!?]) +\.$", r"\1", " ".join(text.split()))  # the full stop of a remark that was taken out
    return re.sub(r"\s+([.,;:!?])", r"\1", text)


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
) -> MetadataLine | None:
    clip_id = _clip_id(package, prompt)
    if not text:
        rejected.append(Rejection(clip_id, prompt, "empty text", "no transcript of this recording"))
        return None
    if re.fullmatch(r"\[[^\]]*\]", text):
        rejected.append(Rejection(clip_id, prompt, "not speech", text))
        return None
    samples = decode_g722(recording, prompt)
    write_audio(folder / "wavs" / f"{clip_id}.{audio_format}", samples, PROMPT_RATE, audio_format, quality)
    normalized = spoken_text(text, package.language)
    speaker = package.speaker or package.language
    seconds = len(samples) / PROMPT_RATE
    return MetadataLine(clip_id, " ".join(text.split()), normalized, speaker, package.language, seconds)


def decode_g722(recording: bytes, name: str = "recording") -> np.ndarray:
    """Samples of a headerless G.722 recording: float32 (samples,) at 16 kHz."""
    try:
        import av
        from av.error import FFmpegError
    except ImportError:
        raise CorpusError(
            "Debian's prompts are coded in G.722, which needs PyAV. Run `pip install '.[corpora]'` in the project folder."
        ) from None
    try:
        with av.open(io.BytesIO(recording), mode="r", format="g722") as container:
            pieces = [frame.to_ndarray().reshape(-1) for frame in container.decode(audio=0)]
    except FFmpegError as error:
        raise CorpusError(f"The recording {name} cannot be decoded as G.722: {error}.") from None
    return np.concatenate(pieces).astype(np.float32) / 32768


def _write_licenses(folder: Path, packages: list[PromptPackage], audio_format: str) -> None:
    """Write the packages' copyright files as they are, and the attribution with the changes that were made."""
    write_text(folder / "LICENSE", "\n\n".join(dict.fromkeys(package.copyright or "" for package in packages)))
    names = "\n".join(f"- `{each.language}`: speaker {each.speaker}, {CREDITS[each.language]}" for each in packages)
    write_text(folder / "ATTRIBUTION.md", ATTRIBUTION.format(names=names, audio_format=audio_format))


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
packages `asterisk-core-sounds-*` 1.6.1. The licenses, with the full credits of every language, are in `LICENSE` (Debian's
copyright file of these packages).

Changes made to the original work: the G.722 recordings were decoded and stored again as {audio_format} at 16 kHz; files were
renamed; recordings without speech that are marked as such were left out; the transcripts got a second column with what is
spoken. A voice trained on these recordings is made from them: name their authors where you share it.
"""
