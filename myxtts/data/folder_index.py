"""What lies in a corpus folder, from one walk: every file by its path without extension, so that ids are found without `stat`.

Links are followed only within the folder; what leads out of it is remembered by name, to be reported.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

AUDIO_EXTENSIONS = (
    ".wav", ".flac", ".ogg", ".opus", ".mp3", ".oga", ".aiff", ".aif", ".aifc", ".au", ".snd", ".caf", ".w64", ".rf64", ".sph",
)  # fmt: skip
"""Usual names of files that libsndfile reads, the preferred first. Other files may be recordings, too."""
NEVER_AUDIO = (
    ".txt", ".csv", ".tsv", ".json", ".jsonl", ".md", ".lab", ".textgrid", ".npy", ".npz", ".pt", ".xml", ".yaml", ".yml",
    ".html", ".pdf", ".log", ".srt", ".vtt", ".part", ".gz", ".zip", ".tar", ".py", ".db", ".doc", ".docx",
)  # fmt: skip
AUDIO_FOLDER = "wavs/"
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

    @classmethod
    def walk(cls, root: Path) -> FolderIndex:
        """Read the whole tree below `root` (resolved) once. Hidden files and folders are passed over."""
        index = cls(root)
        pending = [""]
        inside = str(root) + os.sep
        visited: set[str] = set()
        while pending:
            prefix = pending.pop()
            with os.scandir(os.path.join(root, prefix)) as entries:
                for entry in entries:
                    name = entry.name
                    if name[0] == ".":
                        continue
                    relative = prefix + name
                    if entry.is_symlink():
                        real = os.path.realpath(entry.path)
                        if not real.startswith(inside):
                            index.links_out.append(relative)
                            continue
                        if entry.is_dir():
                            if real in visited:
                                continue
                            visited.add(real)
                    if entry.is_dir():
                        pending.append(relative + "/")
                        if not prefix:
                            index.top_folders.add(name)
                    else:
                        index._add_file(relative, prefix)
        return index

    def _add_file(self, relative: str, prefix: str) -> None:
        if not prefix:
            self.top_files.add(relative)
        key, extension = os.path.splitext(relative)
        extension = extension.lower()
        if extension == ".txt":
            self.texts.append(relative)
        if extension in NEVER_AUDIO:
            return
        key = key.removeprefix(AUDIO_FOLDER)
        other = self.audio.get(key)
        if other is None or self._rank(relative) < self._rank(other):
            self.audio[key] = relative

    @staticmethod
    def _rank(relative: str) -> tuple[int, bool, str]:
        """Recordings of the same name: the usual extension first, then the one in `wavs/`."""
        extension = os.path.splitext(relative)[1].lower()
        return _RANK.get(extension, len(_RANK)), not relative.startswith(AUDIO_FOLDER), relative

    def find_audio(self, name: str) -> str | None:
        """The recording of an id: with or without extension, in `wavs/`, beside the metadata, or in any subfolder."""
        found = self.audio.get(name)
        if found is not None:
            return found
        name = name.replace("\\", "/").removeprefix("./").removeprefix(AUDIO_FOLDER)
        stem, extension = os.path.splitext(name)
        names = (
            [name, stem] if extension.lower() in _RANK else [name]
        )  # `a.wav` may have become a.flac; `a.2` is a name
        for files in (self.audio, self._by_base_name):
            for each in names:
                found = files.get(each)
                if found is not None:
                    return found
        return None

    @cached_property
    def _by_base_name(self) -> dict[str, str]:
        """Last part of the path → recording, where only one has it; made when the first id is not found directly."""
        unique: dict[str, str] = {}
        ambiguous: set[str] = set()
        for key, relative in self.audio.items():
            base = key.rpartition("/")[2]
            if base in unique:
                ambiguous.add(base)
            unique[base] = relative
        for base in ambiguous:
            del unique[base]
        return unique

    def explain_missing(self, name: str, origin: str) -> tuple[str, str]:
        """Reason and detail of an id without a recording: nothing there, or a link out of the folder."""
        name = name.removeprefix(AUDIO_FOLDER)
        for link in self.links_out:
            key = link.removeprefix(AUDIO_FOLDER)
            is_audio_folder = link + "/" == AUDIO_FOLDER
            if is_audio_folder or name == key or os.path.splitext(key)[0].endswith(name) or name.startswith(key + "/"):
                return "outside the folder", f"{origin}: {link} is a link that leads out of the folder"
        return "missing", f"{origin}: no recording of this name below {self.root}"

    def absolute(self, relative: str) -> Path:
        """The absolute path of a file of the index."""
        return Path(f"{self.root}{os.sep}{relative}")
