"""The four kinds of corpus folders: which one a folder is, and the lines that it holds for a split.

In: a `FolderIndex` and `train`, `validation` or `all`. Out: a `Table` of rows as they stand in the metadata (ids are not yet
looked up), the lines that cannot be understood, and whether the corpus itself has made the split.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from myxtts.data.folder_index import AUDIO_EXTENSIONS, FolderIndex
from myxtts.data.utterance import Rejection
from myxtts.errors import CorpusError

SINGLE_SPEAKER = "speaker"
"""Speaker of a corpus that names none."""
EVALUATION_FILES = ("metadata_eval.csv", "metadata_val.csv", "metadata_valid.csv")
COLUMN_NAMES = {
    "id": ("id", "file", "filename", "file_name", "audio", "audio_file", "path", "wav", "clip", "clip_id"),
    "text": ("text", "sentence", "transcript", "transcription"),
    "normalised": (
        "normalised", "normalized", "normalised_text", "normalized_text", "normalised_transcription",
        "normalized_transcription",
    ),
    "speaker": ("speaker", "speaker_id", "speaker_name", "client_id"),
    "language": ("language", "lang", "locale"),
}  # fmt: skip


class Row(NamedTuple):
    """One clip as its corpus describes it; empty where it says nothing."""

    id: str
    text: str
    speaker: str
    language: str
    audio: str
    """Name by which the recording is looked up."""
    origin: str
    """File and line, for reports."""


@dataclass(frozen=True)
class Table:
    """Rows of one split."""

    rows: list[Row]
    rejected: list[Rejection]
    is_split: bool
    """False: the corpus has no validation set of its own, and these are all its clips."""


@dataclass(frozen=True)
class Layout:
    """A kind of folder, and how it is read."""

    name: str
    read: Callable[[FolderIndex, str], Table]


ABSENT = 1 << 30
"""Position of a column that a file does not have."""


@dataclass(frozen=True)
class _Columns:
    """Positions of the columns; by default those of LJSpeech, which has no header."""

    id: int = 0
    text: int = 1
    normalised: int = 2
    speaker: int = ABSENT
    language: int = ABSENT

    @property
    def needed(self) -> int:
        """Columns that a line must have."""
        return 1 + max(self.id, self.text)


def recognise_layout(index: FolderIndex) -> Layout:
    """The kind of a folder, by the names of what lies in it."""
    if index.top_files & {"metadata.csv", "metadata_train.csv", *EVALUATION_FILES}:
        return Layout("LJSpeech", read_ljspeech)
    if index.top_files & {"validated.tsv", "train.tsv"} and "clips" in index.top_folders:
        return Layout("Common Voice", read_common_voice)
    if "txt" in index.top_folders and any(name.startswith("wav") for name in index.top_folders):
        return Layout("VCTK", read_vctk)
    if any(name.endswith(".normalized.txt") for name in index.texts):
        return Layout("LibriTTS", read_libritts)
    raise CorpusError(
        f"No corpus was recognised in {index.root}. Expected: metadata.csv with `id|text` lines (LJSpeech), or a VCTK, LibriTTS "
        "or Common Voice folder. For recordings with same-named .txt files, run `myxtts corpus folder` first."
    )


def read_ljspeech(index: FolderIndex, split: str) -> Table:
    """metadata.csv, or metadata_train.csv and metadata_eval.csv."""
    evaluation = next((name for name in EVALUATION_FILES if name in index.top_files), None)
    training = "metadata_train.csv" if "metadata_train.csv" in index.top_files else None
    everything = "metadata.csv" if "metadata.csv" in index.top_files else None
    if split == "all" or evaluation is None:
        names = [everything] if everything else [name for name in (training, evaluation) if name]
        if split != "all" and training:
            names = [training]
        tables = [_read_delimited(index, name, "|") for name in names]
        return Table(
            rows=[row for table in tables for row in table.rows],
            rejected=[rejection for table in tables for rejection in table.rejected],
            is_split=False,
        )
    held_out = _read_delimited(index, evaluation, "|")
    if split == "validation":
        return Table(held_out.rows, held_out.rejected, is_split=True)
    source = training or everything
    if source is None:
        raise CorpusError(f"{index.root} holds {evaluation} but no metadata_train.csv or metadata.csv to train on.")
    rest = _read_delimited(index, source, "|")
    held_out_files = {index.find_audio(row.audio) for row in held_out.rows} - {None}
    rows, rejected = [], rest.rejected
    for row in rest.rows:
        if index.find_audio(row.audio) not in held_out_files:
            rows.append(row)
        elif training:  # metadata.csv names every clip; metadata_train.csv should not name those that are held out
            detail = f"{row.origin}: also in {evaluation}, so it is not trained on"
            rejected.append(Rejection(row.id, row.audio, "duplicate id", detail))
    return Table(rows, rejected, is_split=True)


def read_common_voice(index: FolderIndex, split: str) -> Table:
    """train.tsv and dev.tsv, or validated.tsv; recordings in clips/."""
    has_split = {"train.tsv", "dev.tsv"} <= index.top_files
    if has_split and split != "all":
        name = "train.tsv" if split == "train" else "dev.tsv"
    else:
        name = "validated.tsv" if "validated.tsv" in index.top_files else "train.tsv"
    table = _read_delimited(index, name, "\t")
    rows = [row._replace(audio=f"clips/{row.audio}", id=os.path.splitext(row.id)[0]) for row in table.rows]
    return Table(rows, table.rejected, is_split=has_split and split != "all")


def read_vctk(index: FolderIndex, split: str) -> Table:
    """txt/SPEAKER/CLIP.txt and wav48*/SPEAKER/CLIP[_mic1].{wav,flac}. English; the corpus has no validation set."""
    by_clip: dict[str, str] = {}
    for key in sorted(index.audio):
        clip = key.rpartition("/")[2]
        by_clip.setdefault(clip.removesuffix("_mic1"), key)
    rows, rejected = [], []
    for path, clip in _text_files(index, "txt/", ".txt"):
        text = _read_text_file(index, path, clip, rejected)
        if text is not None:
            speaker = path.split("/")[1] if path.count("/") > 1 else clip.partition("_")[0]
            rows.append(Row(clip, text, speaker, "en", by_clip.get(clip, clip), path))
    return Table(rows, rejected, is_split=False)


def read_libritts(index: FolderIndex, split: str) -> Table:
    """SET/SPEAKER/CHAPTER/CLIP.wav with CLIP.normalized.txt; sets named dev-* are the validation set where train-* exist."""
    sets = {path.partition("/")[0] for path in index.texts}
    has_split = any(name.startswith("train-") for name in sets) and any(name.startswith("dev-") for name in sets)
    rows, rejected = [], []
    for path, clip in _text_files(index, "", ".normalized.txt"):
        corpus_set = path.partition("/")[0]
        if has_split and split != "all" and not corpus_set.startswith("train-" if split == "train" else "dev-"):
            continue
        text = _read_text_file(index, path, clip, rejected)
        if text is not None:
            rows.append(Row(clip, text, clip.partition("_")[0], "en", path.removesuffix(".normalized.txt"), path))
    return Table(rows, rejected, is_split=has_split and split != "all")


def _text_files(index: FolderIndex, prefix: str, suffix: str) -> Iterator[tuple[str, str]]:
    for path in sorted(index.texts):
        if path.startswith(prefix) and path.endswith(suffix):
            yield path, path.rpartition("/")[2].removesuffix(suffix)


def _read_text_file(index: FolderIndex, path: str, clip: str, rejected: list[Rejection]) -> str | None:
    try:
        return " ".join((index.root / path).read_bytes().decode("utf-8-sig").split())
    except UnicodeDecodeError:
        rejected.append(Rejection(clip, path, "invalid UTF-8", f"{path} is not UTF-8 text"))
    except OSError as error:
        rejected.append(Rejection(clip, path, "empty text", f"{path} cannot be read: {error.strerror}"))
    return None


def _read_delimited(index: FolderIndex, name: str, delimiter: str) -> Table:
    """Lines of a metadata file; quotation marks are part of the text, as in LJSpeech."""
    rejected: list[Rejection] = []
    try:
        content = (index.root / name).read_bytes()
    except OSError as error:
        raise CorpusError(f"{index.root / name} cannot be read: {error.strerror}.") from None
    numbered = _decode_lines(content, name, rejected)
    columns = _Columns()
    if numbered and (header := _parse_header(numbered[0][1].split(delimiter))):
        columns = header
        del numbered[0]
    rows: list[Row] = []
    for number, line in numbered:
        cells = line.split(delimiter)
        if len(cells) >= columns.needed:
            rows.append(_row(cells, columns, f"{name}:{number}"))
        elif line and not line.isspace():
            shown = line if len(line) <= 60 else f"{line[:57]}..."
            detail = f"{name}:{number}: {len(cells)} of at least {columns.needed} columns: {shown}"
            rejected.append(Rejection(cells[0].strip(), "", "too few columns", detail))
    return Table(rows, rejected, is_split=False)


def _decode_lines(content: bytes, name: str, rejected: list[Rejection]) -> list[tuple[int, str]]:
    """Lines with their numbers; those that are not UTF-8 are set aside one by one."""
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        return list(enumerate(content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n").split("\n"), start=1))
    except UnicodeDecodeError:
        lines = []
    for number, line in enumerate(content.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"), start=1):
        try:
            lines.append((number, line.decode("utf-8")))
        except UnicodeDecodeError:
            shown = line.decode("utf-8", "backslashreplace")
            rejected.append(Rejection(shown.partition("|")[0], "", "invalid UTF-8", f"{name}:{number}: {shown[:80]}"))
    return lines


def _row(cells: list[str], columns: _Columns, origin: str) -> Row:
    count = len(cells)
    audio = cells[columns.id].strip()
    text = cells[columns.normalised].strip() if columns.normalised < count else ""
    if not text and columns.text < count:
        text = cells[columns.text].strip()
    speaker = cells[columns.speaker].strip() if columns.speaker < count else ""
    language = cells[columns.language].strip() if columns.language < count else ""
    clip_id = audio
    if "." in audio:
        stem, extension = os.path.splitext(audio)
        clip_id = stem if extension.lower() in AUDIO_EXTENSIONS else audio
    return Row(clip_id, text, speaker or SINGLE_SPEAKER, language, audio, origin)


def _parse_header(cells: list[str]) -> _Columns | None:
    """Column positions, if the line names an id and a text."""
    found: dict[str, int] = {}
    for position, cell in enumerate(cells):
        name = cell.strip().casefold()
        for column, names in COLUMN_NAMES.items():
            if name in names:
                found.setdefault(column, position)
    if "id" not in found or not {"text", "normalised"} & found.keys():
        return None
    found.setdefault("text", found.get("normalised", ABSENT))
    return _Columns(**{column: found.get(column, ABSENT) for column in COLUMN_NAMES})
