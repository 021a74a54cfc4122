"""The files of a corpus folder, from one walk: by path without extension, so that recordings are found without `stat`.

Links are followed only within the folder; links that lead out of it are kept by name, to be reported.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from myxtts.errors import CorpusError

AUDIO_EXTENSIONS = (
    ".wav", ".flac", ".ogg", ".opus", ".mp3", ".oga", ".aiff", ".aif", ".aifc", ".au", ".snd", ".caf", ".w64", ".rf64", ".sph",
)  # fmt: skip
"""Usual names of files that libsndfile reads, the preferred first. Other files may be recordings as well."""
NEVER_AUDIO = (
    ".txt", ".csv", ".tsv", ".json", ".jsonl", ".md", ".lab", ".textgrid", ".npy", ".npz", ".pt", ".xml", ".yaml", ".yml",
    ".html", ".pdf", ".log", ".srt", ".vtt", ".part", ".gz", ".zip", ".tar", ".py", ".db", ".doc", ".docx",
)  # fmt: skip
METADATA_EXTENSIONS = (".csv", ".tsv", ".jsonl", ".json", ".txt")
"""Lists of clips. Those at the top of the folder may be links to anywhere: a list is often kept apart from its recordings."""
AUDIO_FOLDER = "wavs/"
SPLIT_FOLDERS = frozenset({"train", "training", "test", "dev", "development", "val", "valid", "validation", "eval"})
"""Subfolders that name a part of a corpus, not a speaker."""
_RANK = {extension: rank for rank, extension in enumerate(AUDIO_EXTENSIONS)}


@dataclass
class FolderIndex:
    """Files of a folder, as paths relative to it with `/`."""

    root: Path
    top_files: set[str] = field(default_factory=set)
    top_folders: set[str] = field(default_factory=set)
    audio: dict[str, str] = field(default_factory=dict)
    """Path without `wavs/` and without extension → path of the recording."""
    texts: list[str] = field(default_factory=list)
    """Paths of the .txt files."""
    links_out: list[str] = field(default_factory=list)
    """Links to files or folders outside."""
    unreadable: list[str] = field(default_factory=list)
    """Subfolders that could not be listed."""
    _folders: dict[str, Path] = field(default_factory=dict, repr=False)
    """Paths of folders: joining a name to its folder is faster than joining all parts."""

    @classmethod
    def walk(cls, root: Path) -> FolderIndex:
        """Read the whole tree below `root` (resolved) once. Hidden files and folders are skipped."""
        index = cls(root)
        pending = [""]
        inside = str(root) + os.sep
        visited: set[str] = set()
        while pending:
            prefix = pending.pop()
            for entry in index._list(prefix):
                relative = prefix + entry.name
                is_folder = _is_folder(entry)
                if entry.is_symlink():
                    real = _real_path(entry)
                    if not real.startswith(inside):
                        index.links_out.append(relative)
                        is_list = not prefix and relative.lower().endswith(METADATA_EXTENSIONS)
                        if is_list and os.path.isfile(entry.path):
                            index.top_files.add(relative)
                        continue
                    if is_folder and real in visited:
                        continue
                    visited.add(real)
                if not is_folder:
                    index._add_file(relative, prefix)
                    continue
                pending.append(relative + "/")
                if not prefix:
                    index.top_folders.add(entry.name)
        return index

    def _list(self, prefix: str) -> list[os.DirEntry[str]]:
        """Entries of a subfolder that are not hidden; one that cannot be read is remembered."""
        try:
            with os.scandir(os.path.join(self.root, prefix)) as entries:
                return [entry for entry in entries if entry.name[0] != "."]
        except OSError as error:
            if not prefix:
                raise CorpusError(
                    f"The folder {self.root} cannot be read: {error.strerror}. Check its permissions."
                ) from None
            self.unreadable.append(prefix)
            return []

    def _add_file(self, relative: str, prefix: str) -> None:
        if not prefix:
            self.top_files.add(relative)
        key, _, extension = relative.rpartition(".")
        if not key or "/" in extension:
            key, extension = relative, ""
        extension = f".{extension.lower()}"
        if extension == ".txt":
            self.texts.append(relative)
        if extension in NEVER_AUDIO:
            return
        key = _composed(key.removeprefix(AUDIO_FOLDER))
        other = self.audio.get(key)
        if other is None or self._rank(relative) < self._rank(other):
            self.audio[key] = relative

    @staticmethod
    def _rank(relative: str) -> tuple[int, bool, str]:
        """Recordings of the same name: the usual extension first, then the one in `wavs/`."""
        extension = os.path.splitext(relative)[1].lower()
        return _RANK.get(extension, len(_RANK)), not relative.startswith(AUDIO_FOLDER), relative

    def find_audio(self, name: str) -> str | None:
        """The recording of an id: with or without extension, in `wavs/`, next to the metadata, or in any subfolder."""
        name = _composed(name)
        found = self.audio.get(name)
        if found is not None:
            return found
        if "/" in name or "\\" in name:
            name = name.replace("\\", "/").removeprefix("./").removeprefix(AUDIO_FOLDER)
        stem, dot, extension = name.rpartition(".")
        if dot and f".{extension.lower()}" in _RANK:  # `a.wav` may have become a.flac; `a.2` is a name
            found = self.audio.get(name) or self.audio.get(stem) or self._by_base_name.get(stem)
        else:
            found = self.audio.get(name)
        return found or self._by_base_name.get(name)

    @cached_property
    def _by_base_name(self) -> dict[str, str]:
        """Last part of the path → recording, where only one has it; made when the first id is not found directly.

        Files with the extension of a recording come before others: verified/a.flac before audio/a.webm.
        """
        usual: dict[str, str | None] = {}
        others: dict[str, str | None] = {}
        for key, relative in self.audio.items():
            names, base = usual if os.path.splitext(relative)[1].lower() in _RANK else others, key.rpartition("/")[2]
            names[base] = None if base in names else relative
        return {base: relative for base, relative in (others | usual).items() if relative is not None}

    def local_name(self, name: str) -> str:
        """A name relative to this folder: an absolute path, also one of another machine, becomes the path of our recording."""
        if name[:1] not in ("/", "\\") and name[1:2] != ":":
            return name
        path = name.replace("\\", "/")
        inside = f"{self.root}/"
        if path.startswith(inside):
            return path.removeprefix(inside)
        base = path.rpartition("/")[2]
        found = self.find_audio(base) if base else None
        return name if found is None else found

    def explain_missing(self, name: str, origin: str) -> tuple[str, str]:
        """Reason and detail of an id without a recording: nothing there, or a link out of the folder."""
        parts = name.replace("\\", "/").removeprefix("./").removeprefix(AUDIO_FOLDER).split("/")
        parents = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        for candidate in (*parents, parts[-1], os.path.splitext(parts[-1])[0], AUDIO_FOLDER):
            link = self._links_by_name.get(candidate)
            if link is not None:
                return "outside the folder", f"{origin}: {link} is a link that leads out of the folder"
        unread = f" ({', '.join(self.unreadable)} cannot be read)" if self.unreadable else ""
        return "missing", f"{origin}: no recording of this name below {self.root}{unread}"

    @cached_property
    def _links_by_name(self) -> dict[str, str]:
        """Links out of the folder by path, by path without extension, and by name without extension."""
        links: dict[str, str] = {}
        for link in self.links_out:
            key = f"{link}/".removeprefix(AUDIO_FOLDER).rstrip("/") or AUDIO_FOLDER
            stem = os.path.splitext(key)[0]
            for name in (key, stem, stem.rpartition("/")[2]):
                links.setdefault(name, link)
        return links

    def absolute(self, relative: str) -> Path:
        """The absolute path of a file of the index."""
        folder, _, name = relative.rpartition("/")
        if folder not in self._folders:
            self._folders[folder] = self.root / folder
        return self._folders[folder] / name


def existing_folder(folder: str | Path, expected: str = "a folder with metadata.csv and wavs/") -> Path:
    """The absolute path of a folder of recordings; raises a `CorpusError` that says why it cannot be one."""
    path = Path(os.path.expanduser(folder))
    try:
        is_folder, cause = path.is_dir(), ""
    except OSError as error:  # a name that is too long, for example
        is_folder, cause = False, f" ({error.strerror})"
    if not is_folder:
        raise CorpusError(
            f"The folder of recordings does not exist{cause}. Received: {str(folder)[:200]}. Expected: {expected}."
        )
    path = path.resolve()
    if not is_unicode(str(path)):
        raise CorpusError(f"The name of the folder {path} is not UTF-8. Rename it.")
    return path


def is_unicode(text: str) -> bool:
    """Whether a text can be stored as UTF-8: file names in other encodings and JSON such as `"\\ud800"` cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """False also for what cannot be looked at, such as a link to itself: reading it as a recording gives the reason."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _real_path(entry: os.DirEntry[str]) -> str:
    """Where a link leads; its own path if it has just disappeared or may not be read."""
    try:
        return os.path.realpath(entry.path)
    except OSError:
        return entry.path


def _composed(name: str) -> str:
    """One spelling of letters with accents: file names from macOS write them as two characters."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def speakers_by_folder(paths: Sequence[str]) -> list[str]:
    """The speaker of each recording by its subfolder (`anna/1.wav` → anna); empty where recordings are not in subfolders.

    Folders that all recordings share (`wavs/anna/…`) and names of splits (`train/`) are not speakers.
    """
    folders = [[part for part in path.split("/")[:-1] if part.lower() not in SPLIT_FOLDERS] for path in paths]
    shared = len(os.path.commonprefix(folders)) if folders else 0
    return [parts[shared] if len(parts) > shared else "" for parts in folders]
