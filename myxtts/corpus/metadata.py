"""One metadata file → rows, whatever its encoding, delimiter, header, or JSON lines.

Understood: `id|text` lines as in LJSpeech, the same with tabs, semicolons or commas (with quotation marks as spreadsheets write
them), with or without a header; JSON lines as of Hugging Face and NeMo. A line that cannot be used is a `Rejection`.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from myxtts.corpus.encodings import UTF8, detect_encoding, encoding_label, marked_encoding
from myxtts.corpus.folder_index import AUDIO_EXTENSIONS, FolderIndex
from myxtts.corpus.utterance import Rejection
from myxtts.errors import CorpusError
from myxtts.runtime.console import printable
from myxtts.runtime.safe_files import read_regular_file

SINGLE_SPEAKER = "speaker"
"""Speaker of a corpus that names none."""
LARGEST_METADATA_BYTES = 2 << 30
"""Common Voice English, with 1.9 million lines, has 0.6 GB."""
DELIMITERS = ("|", "\t", ";", ",")
COLUMN_NAMES = {
    "id": (
        "audio_filepath", "audio_file", "audio_path", "file_name", "filename", "file_path", "filepath", "file", "path",
        "wav_path", "wav_filename", "wav_file", "wav", "audio", "clip", "clip_id", "utterance_id", "id",
    ),
    "text": ("text", "sentence", "transcript", "transcription", "raw_text", "raw_transcription"),
    "normalized": (
        "normalized", "normalised", "normalized_text", "normalised_text", "normalized_transcription",
        "normalised_transcription",
    ),
    "speaker": ("speaker", "speaker_id", "speaker_name", "client_id"),
    "language": ("language", "lang", "locale"),
}  # fmt: skip
"""Column → its usual names, the one that is preferred first."""
ABSENT = 1 << 30
"""Position of a column that a file does not have."""
_SAMPLED_LINES = 200
"""Lines at the beginning of a file from which its separator is found. Chosen; not measured."""
_SHOWN_LINES = 3
_SHOWN_CHARACTERS = 100
"""How much of an unusable file, and of each of its lines, a message shows."""


class ClipRow(NamedTuple):
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
class Metadata:
    """What one file lists."""

    rows: list[ClipRow] = field(default_factory=list)
    rejected: list[Rejection] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    """What was guessed about the file, one sentence each."""
    shown: list[str] = field(default_factory=list)
    """The first lines as they were read, for an error message."""


@dataclass(frozen=True)
class _Columns:
    """Positions of the columns; by default those of LJSpeech, which has no header."""

    id: int = 0
    text: int = 1
    normalized: int = 2
    speaker: int = ABSENT
    language: int = ABSENT
    count: int = ABSENT
    """Cells of a whole line, where more are a mistake."""

    @property
    def needed(self) -> int:
        """Columns that a line must have."""
        return 1 + max(self.id, self.text)

    @property
    def ends_with_text(self) -> bool:
        return self.count == self.text + 1


@dataclass(frozen=True)
class _Dialect:
    delimiter: str
    is_quoted: bool
    """Quotation marks around a cell belong to the file, not to the text."""
    columns: _Columns
    has_header: bool


def read_metadata(index: FolderIndex, name: str, language: str, delimiter: str | None = None) -> Metadata:
    """The lines of a metadata file of the folder; `delimiter` is found by looking at the file unless it is given."""
    try:
        content = read_regular_file(index.root / name, LARGEST_METADATA_BYTES)
    except OSError as error:
        raise CorpusError(f"{index.root / name} cannot be read: {error.strerror}. Expected: a text file.") from None
    found = Metadata()
    lines = _decode_lines(content, name, language, found)
    filled = [line for _, line in lines[:_SAMPLED_LINES] if line and not line.isspace()]
    found.shown.extend(printable(line[:_SHOWN_CHARACTERS], keeps_lines=False) for line in filled[:_SHOWN_LINES])
    if filled and filled[0].lstrip()[0] in "{[" and _is_json(filled[0].strip()):
        _read_json(lines, index, name, found)
    elif filled:
        _read_delimited(lines, index, name, _find_dialect(filled, index, delimiter), found)
    elif not content.strip():
        found.notices.append(f"{name} is empty.")
    return found


def make_row(audio: str, text: str, speaker: str, language: str, origin: str, index: FolderIndex) -> ClipRow:
    """A row; its id is the name of the recording without the extension of an audio file."""
    audio = index.local_name(audio)
    clip_id = audio
    if "." in audio:
        stem, extension = os.path.splitext(audio)
        clip_id = stem if extension.lower() in AUDIO_EXTENSIONS else audio
    return ClipRow(clip_id, text, speaker or SINGLE_SPEAKER, language, audio, origin)


def _decode_lines(content: bytes, name: str, language: str, found: Metadata) -> list[tuple[int, str]]:
    """Lines with their numbers; those that cannot be decoded are rejected one by one."""
    codec = detect_encoding(content, language)
    if codec.startswith(UTF8):
        return _decode_utf8(content.removeprefix(b"\xef\xbb\xbf"), name, found.rejected)
    lines = []
    for number, line in enumerate(_split_lines(content.decode(codec, "replace")), start=1):
        if "\ufffd" in line:
            detail = f"{name}:{number}: {line[:80]}"
            found.rejected.append(Rejection("", "", f"invalid {encoding_label(codec)}", detail))
        else:
            lines.append((number, line))
    example = next((line for _, line in lines if not line.isascii()), "")
    shown = f", e.g. {printable(example[:60], keeps_lines=False)}" if example else ""
    advice = "" if marked_encoding(content) else ". If that is wrong, save the file as UTF-8"
    found.notices.append(f"{name} is not UTF-8 and was read as {encoding_label(codec)}{shown}{advice}.")
    return lines


def _decode_utf8(content: bytes, name: str, rejected: list[Rejection]) -> list[tuple[int, str]]:
    try:
        return list(enumerate(_split_lines(content.decode(UTF8)), start=1))
    except UnicodeDecodeError:
        lines = []
    for number, line in enumerate(content.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"), start=1):
        try:
            lines.append((number, line.decode(UTF8)))
        except UnicodeDecodeError:
            shown = line.decode(UTF8, "backslashreplace")
            rejected.append(Rejection(shown.partition("|")[0], "", "invalid UTF-8", f"{name}:{number}: {shown[:80]}"))
    return lines


def _split_lines(text: str) -> list[str]:
    """Only line ends: other separators of Unicode belong to the text."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _find_dialect(filled: Sequence[str], index: FolderIndex, delimiter: str | None) -> _Dialect:
    """How the lines are written: by the header, otherwise by the delimiter whose first cells name recordings."""
    candidates = (delimiter,) if delimiter is not None else DELIMITERS
    for each in candidates:
        is_quoted = _is_quoted(filled[0], each)
        header = _parse_header(_split(filled[0], each, is_quoted))
        if header is not None:
            return _Dialect(each, is_quoted, header, has_header=True)
    chosen = candidates[0]
    if delimiter is None and 2 * sum("|" in line for line in filled) < len(filled):
        named = {each: sum(_names_recording(line, each, index) for line in filled) for each in candidates}
        is_tabbed = all("\t" in line for line in filled)
        chosen = max(candidates, key=lambda each: (named[each], each == "\t" and is_tabbed))
    columns = {",": _Columns(normalized=ABSENT, count=2), ";": _Columns(count=3)}.get(chosen, _Columns())
    return _Dialect(chosen, _is_quoted(filled[0], chosen), columns, has_header=False)


def _is_quoted(first_line: str, delimiter: str) -> bool:
    """Spreadsheets quote cells with commas; with other delimiters, quotation marks usually belong to the text."""
    first_cell = first_line.partition(delimiter)[0].strip()
    return delimiter in ",;" or (len(first_cell) > 1 and first_cell[0] == first_cell[-1] == '"')


def _names_recording(line: str, delimiter: str, index: FolderIndex) -> bool:
    first, found, _ = line.partition(delimiter)
    name = first.strip().strip('"')
    return bool(found and name) and index.find_audio(index.local_name(name)) is not None


def _split(line: str, delimiter: str, is_quoted: bool) -> list[str]:
    if not is_quoted or '"' not in line:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True))
    except (csv.Error, StopIteration):
        return line.split(delimiter)


def _parse_header(cells: Sequence[str]) -> _Columns | None:
    """Column positions, if the line names an id and a text."""
    written = [cell.strip().casefold() for cell in cells]
    found: dict[str, int] = {}
    for column, names in COLUMN_NAMES.items():
        name = next((name for name in names if name in written), None)
        if name is not None:
            found[column] = written.index(name)
    if "id" not in found or not {"text", "normalized"} & found.keys():
        return None
    found.setdefault("text", found.get("normalized", ABSENT))
    return _Columns(**{column: found.get(column, ABSENT) for column in COLUMN_NAMES}, count=len(cells))


def _read_delimited(
    lines: Sequence[tuple[int, str]], index: FolderIndex, name: str, dialect: _Dialect, found: Metadata
) -> None:
    columns, delimiter = dialect.columns, dialect.delimiter
    records = _quoted_records(lines, dialect, index) if dialect.is_quoted else _plain_records(lines, delimiter)
    if dialect.has_header:
        next((number for number, cells in records if any(cells)), None)
    for number, cells in records:
        if dialect.is_quoted and len(cells) > columns.count and delimiter == "," and columns.ends_with_text:
            cells = [*cells[: columns.text], ",".join(cells[columns.text :])]  # commas of the sentence
        if dialect.is_quoted and len(cells) > columns.count:
            detail = (
                f"{name}:{number}: {len(cells)} columns instead of {columns.count}; put the text in quotation marks"
            )
            found.rejected.append(Rejection(cells[columns.id].strip(), "", "too many columns", detail))
        elif len(cells) >= columns.needed:
            found.rows.append(_row(cells, columns, f"{name}:{number}", index))
        elif any(cell and not cell.isspace() for cell in cells):
            line = delimiter.join(cells)
            shown = line if len(line) <= 60 else f"{line[:57]}..."
            detail = f"{name}:{number}: {len(cells)} of at least {columns.needed} columns: {shown}"
            found.rejected.append(Rejection(cells[0].strip(), "", "too few columns", detail))


def _plain_records(lines: Sequence[tuple[int, str]], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    return ((number, line.split(delimiter)) for number, line in lines)


def _quoted_records(
    lines: Sequence[tuple[int, str]], dialect: _Dialect, index: FolderIndex
) -> Iterator[tuple[int, list[str]]]:
    """Records of a CSV file. A quoted cell may hold line ends; one that is never closed ends with its line."""
    position = 0
    while position < len(lines):
        number, line = lines[position]
        cells, used = line.split(dialect.delimiter), 1
        if '"' in line:
            cells, used = _quoted_record(lines, position, dialect, index)
        position += used
        yield number, cells


def _quoted_record(
    lines: Sequence[tuple[int, str]], start: int, dialect: _Dialect, index: FolderIndex
) -> tuple[list[str], int]:
    used = 0

    def feed() -> Iterator[str]:
        nonlocal used
        for _, line in lines[start : start + _SAMPLED_LINES]:
            if used and _names_recording(line, dialect.delimiter, index):
                return  # the next clip: the quotation mark before it was never closed
            used += 1
            yield f"{line}\n"

    try:
        return next(csv.reader(feed(), delimiter=dialect.delimiter, strict=True)), used
    except (csv.Error, StopIteration):
        return lines[start][1].split(dialect.delimiter), 1


def _row(cells: Sequence[str], columns: _Columns, origin: str, index: FolderIndex) -> ClipRow:
    count = len(cells)
    text = cells[columns.normalized].strip() if columns.normalized < count else ""
    if not text and columns.text < count:
        text = cells[columns.text].strip()
    text = " ".join(text.split()) if "\n" in text else text
    speaker = cells[columns.speaker].strip() if columns.speaker < count else ""
    language = cells[columns.language].strip() if columns.language < count else ""
    return make_row(cells[columns.id].strip(), text, speaker, language, origin, index)


def _is_json(first_line: str) -> bool:
    return first_line in ("[", "{") or first_line.startswith(("[{", "[ {")) or isinstance(_parsed(first_line), dict)


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _read_json(lines: Sequence[tuple[int, str]], index: FolderIndex, name: str, found: Metadata) -> None:
    """One object per line, or one list of objects."""
    whole = _parsed("\n".join(line for _, line in lines)) if lines and not isinstance(_first(lines), dict) else None
    if isinstance(whole, list):
        entries = [(f"{name}, entry {number}", entry) for number, entry in enumerate(whole, start=1)]
    else:
        entries = [(f"{name}:{number}", _parsed(line)) for number, line in lines if line and not line.isspace()]
    for origin, entry in entries:
        values = _values_of(entry) if isinstance(entry, dict) else {}
        if "id" not in values or not {"text", "normalized"} & values.keys():
            shown = printable(json.dumps(entry, ensure_ascii=False)[:80], keeps_lines=False)
            detail = f"{origin}: expected an object with audio_filepath (or file_name) and text: {shown}"
            found.rejected.append(Rejection(values.get("id", ""), "", "not a JSON object with audio and text", detail))
            continue
        text = values.get("normalized") or values.get("text", "")
        speaker, language = values.get("speaker", ""), values.get("language", "")
        found.rows.append(make_row(values["id"], text, speaker, language, origin, index))


def _first(lines: Sequence[tuple[int, str]]) -> Any:
    return next((_parsed(line) for _, line in lines if line and not line.isspace()), None)


def _values_of(entry: dict[str, Any]) -> dict[str, str]:
    """The columns of an object; `audio` may be an object with a path, as in Hugging Face's datasets."""
    by_name = {name.casefold(): value for name, value in entry.items()}
    values: dict[str, str] = {}
    for column, names in COLUMN_NAMES.items():
        for name in names:
            value = by_name.get(name)
            if isinstance(value, dict):
                value = value.get("path")
            if isinstance(value, int) and column in ("speaker", "id"):
                value = str(value)
            if isinstance(value, str):
                values[column] = " ".join(value.split()) if column != "id" else value.strip()
                break
    return values
