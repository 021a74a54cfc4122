"""Recipe: Debian's telephone prompts (`asterisk-core-sounds-*`) → an LJSpeech folder in up to five languages.

The packages are read where they are: an installed or unpacked tree, or .deb files without unpacking them. Nothing of an archive
is ever written to a path named inside it. Writes 16 kHz recordings, metadata with speakers and languages, the licenses, and the
attribution. The bundled corpus was made by
`build_asterisk_corpus(folder, ["en"], debs=…, audio_format="ogg", quality=0.34, held_out=60)`.
"""

from __future__ import annotations

import gzip
import io
import lzma
import re
import shutil
import subprocess
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from myxtts.audio.files import write_audio
from myxtts.corpus.corpus_writer import (
    CorpusSummary,
    MetadataLine,
    check_target,
    finish_corpus,
    make_folder,
    write_split,
    write_text,
)
from myxtts.corpus.utterance import Rejection
from myxtts.errors import CorpusError, install_line

LANGUAGES = ("en", "es", "fr", "it", "ru")
RECORDING = re.compile(
    r"share/asterisk/sounds/(?P<voice>(?P<language>[a-z]{2})_[A-Z]{2}_[fm]_(?P<speaker>\w+))/(?P<prompt>.+)\.g722$"
)
DOCUMENT = re.compile(
    r"share/doc/asterisk-core-sounds-(?P<language>[a-z]{2})/(?P<name>core-sounds-[a-z]{2}\.txt\.gz|copyright)$"
)
PROMPT_NAME = re.compile(r"[A-Za-z0-9_.'+-]+(/[A-Za-z0-9_.'+-]+)*")
AR_MAGIC = b"!<arch>\n"
LARGEST_MEMBER_BYTES = 200_000_000
"""No prompt package has a member of this size; larger ones are skipped."""


@dataclass
class PromptPackage:
    """The prompts of one language."""

    language: str
    speaker: str | None = None
    transcripts: str | None = None
    copyright: str | None = None
    recordings: dict[str, bytes] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """Debian packages whose files were not found."""
        documents = [] if self.transcripts and self.copyright else [f"asterisk-core-sounds-{self.language}"]
        return documents + ([] if self.recordings else [f"asterisk-core-sounds-{self.language}-g722"])


def read_prompt_packages(
    languages: Iterable[str], debs: Iterable[Path] | None = None, sounds_root: Path | None = None
) -> list[PromptPackage]:
    """The packages of `languages`, from .deb files if any are given, otherwise below `sounds_root` (`/usr` if None)."""
    wanted = list(languages)
    unknown = [language for language in wanted if language not in LANGUAGES]
    if unknown or not wanted:
        raise CorpusError(f"Prompts exist in {', '.join(LANGUAGES)}. Received: {', '.join(unknown) or 'no language'}.")
    packages = {language: PromptPackage(language) for language in wanted}
    for name, content in _members(debs, sounds_root):
        _take(packages, name, content)
    missing = [package for each in packages.values() for package in each.missing]
    if missing:
        raise CorpusError(_explain_missing(missing, from_debs=bool(debs)))
    return list(packages.values())


def _take(packages: dict[str, PromptPackage], name: str, content: bytes) -> None:
    if (match := RECORDING.search(name)) and match["language"] in packages:
        package = packages[match["language"]]
        prompt = match["prompt"]
        if PROMPT_NAME.fullmatch(prompt) and ".." not in prompt.split("/"):
            package.speaker = match["speaker"]
            package.recordings[prompt] = content
    elif (match := DOCUMENT.search(name)) and match["language"] in packages:
        package = packages[match["language"]]
        if match["name"] == "copyright":
            package.copyright = content.decode("utf-8", "replace")
        else:
            try:
                package.transcripts = gzip.decompress(content).decode("utf-8-sig", "replace")
            except (OSError, EOFError, zlib.error) as error:
                raise CorpusError(f"The transcripts {name} are damaged: {error}. Download the package again.") from None


def _explain_missing(packages: list[str], from_debs: bool) -> str:
    names = " ".join(packages)
    if from_debs:
        return f"The given .deb files do not contain these packages: {names}. Get them with: apt-get download {names}"
    return (
        f"These Debian packages are not installed (or lack their documentation, as in slim images): {names}.\n"
        f"  Install them:   sudo apt-get install {names}\n"
        f"  or, without root: apt-get download {names}   and give the .deb files"
    )


def _members(debs: Iterable[Path] | None, sounds_root: Path | None) -> Iterator[tuple[str, bytes]]:
    if debs:
        for deb in debs:
            yield from read_deb(Path(deb))
        return
    root = Path(sounds_root) if sounds_root is not None else Path("/usr")
    for share in (root / "share", root / "usr" / "share", root):
        if (share / "asterisk" / "sounds").is_dir():
            for part in (share / "asterisk" / "sounds", share / "doc"):
                for path in sorted(part.glob("asterisk-core-sounds-*/*" if part.name == "doc" else "*_*_*_*/**/*")):
                    if path.is_file() and not path.is_symlink():
                        try:
                            content = path.read_bytes()
                        except OSError as error:
                            raise CorpusError(
                                f"{path} cannot be read: {error.strerror}. Install the package again."
                            ) from None
                        yield f"share/{path.relative_to(share).as_posix()}", content
            return


def read_deb(path: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of every regular file in a Debian package."""
    try:
        data = _data_member(path)
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for member in archive:
                file = archive.extractfile(member) if member.isreg() and member.size <= LARGEST_MEMBER_BYTES else None
                if file is not None:
                    yield member.name, file.read()
    except FileNotFoundError:
        raise CorpusError(f"{path} does not exist. Expected: a Debian package (.deb).") from None
    except (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, ValueError, OSError) as error:
        raise CorpusError(f"{path} cannot be read as a Debian package: {error}. Download it again.") from None


def _data_member(path: Path) -> bytes:
    """The `data.tar` of an ar archive, decompressed as a whole: `tarfile` would read a damaged part as the end."""
    with open(path, "rb") as file:
        if file.read(8) != AR_MAGIC:
            raise CorpusError(f"{path} is not a Debian package: it is not an ar archive. Expected a .deb file.")
        while len(header := file.read(60)) == 60:
            name, size = header[:16].decode("ascii", "replace").strip().rstrip("/"), int(header[48:58])
            if name.startswith("data.tar"):
                content = file.read(size)
                return _decompress(path, name, content)
            file.seek(size + size % 2, 1)
    raise CorpusError(f"{path} is not a Debian package: it has no data.tar. Expected a .deb file.")


def _decompress(path: Path, name: str, content: bytes) -> bytes:
    if name == "data.tar":
        return content
    if name == "data.tar.xz":
        return lzma.decompress(content)
    if name == "data.tar.gz":
        return gzip.decompress(content)
    if name != "data.tar.zst":
        raise CorpusError(f"{path} has an unsupported compression: {name}. Expected: xz, gz or zst.")
    if shutil.which("dpkg-deb"):
        command, standard_input = ["dpkg-deb", "--fsys-tarfile", str(path.resolve())], None
    elif shutil.which("zstd"):
        command, standard_input = ["zstd", "-dc"], content
    else:
        raise CorpusError(f"{path} is compressed with zstd. Install the program zstd (or dpkg-deb) to read it.")
    result = subprocess.run(command, input=standard_input, capture_output=True, check=False)
    if result.returncode != 0:
        cause = result.stderr.decode("utf-8", "replace").strip().rstrip(".")
        raise CorpusError(f"{path} cannot be decompressed: {cause}. Download it again.")
    return result.stdout


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
"""As written in the transcripts → as spoken."""


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
    check_target(Path(out))
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
            f"Debian's prompts are encoded in G.722, which needs PyAV. Run {install_line('corpora')}."
        ) from None
    try:
        with av.open(io.BytesIO(recording), mode="r", format="g722") as container:
            pieces = [frame.to_ndarray().reshape(-1) for frame in container.decode(audio=0)]
    except FFmpegError as error:
        raise CorpusError(
            f"The recording {name} cannot be decoded as G.722: {error}. Download the package again."
        ) from None
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
