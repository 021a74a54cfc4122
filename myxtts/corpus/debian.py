"""Debian's telephone prompts, read where they are: an installed or unpacked tree, or .deb files without unpacking them.

`read_prompt_packages` gives for each language its transcripts, its G.722 recordings (bytes by prompt name), its speaker and its
copyright file. Nothing of an archive is ever written to a path named inside it.
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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from myxtts.errors import CorpusError

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
        return f"The given .deb files do not hold these packages: {names}. Get them with: apt-get download {names}"
    return (
        f"These Debian packages are not installed (or without their documentation, as in slim images): {names}.\n"
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
                            raise CorpusError(f"{path} cannot be read: {error.strerror}.") from None
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
        raise CorpusError(f"{path} cannot be read as a Debian package: {error}") from None


def _data_member(path: Path) -> bytes:
    """The `data.tar` of an ar archive, decompressed as a whole: `tarfile` would read a damaged part as the end."""
    with open(path, "rb") as file:
        if file.read(8) != AR_MAGIC:
            raise CorpusError(f"{path} is not a Debian package: it does not start like an ar archive.")
        while len(header := file.read(60)) == 60:
            name, size = header[:16].decode("ascii", "replace").strip().rstrip("/"), int(header[48:58])
            if name.startswith("data.tar"):
                content = file.read(size)
                return _decompress(path, name, content)
            file.seek(size + size % 2, 1)
    raise CorpusError(f"{path} is not a Debian package: it holds no data.tar.")


def _decompress(path: Path, name: str, content: bytes) -> bytes:
    if name == "data.tar":
        return content
    if name == "data.tar.xz":
        return lzma.decompress(content)
    if name == "data.tar.gz":
        return gzip.decompress(content)
    if name != "data.tar.zst":
        raise CorpusError(f"{path} is compressed in an unknown way: {name}. Expected: xz, gz or zst.")
    if shutil.which("dpkg-deb"):
        command, standard_input = ["dpkg-deb", "--fsys-tarfile", str(path.resolve())], None
    elif shutil.which("zstd"):
        command, standard_input = ["zstd", "-dc"], content
    else:
        raise CorpusError(f"{path} is compressed with zstd. Install the program zstd (or dpkg-deb) to read it.")
    result = subprocess.run(command, input=standard_input, capture_output=True, check=False)
    if result.returncode != 0:
        raise CorpusError(f"{path} cannot be decompressed: {result.stderr.decode('utf-8', 'replace').strip()}")
    return result.stdout
