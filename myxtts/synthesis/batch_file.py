"""Many texts from a list: one line each in a .txt, .csv, .tsv or .jsonl file, one audio file each."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from myxtts.audio.files import resample
from myxtts.errors import MyXTTSError, TextError
from myxtts.runtime.safe_files import read_regular_file, remove_unfinished
from myxtts.synthesis.options import SpeechOptions, check_language, check_text_length, parse_mixture
from myxtts.synthesis.output import AudioFileWriter, check_output_rate, resolve_format, synthetic_tags
from myxtts.synthesis.voice import Voice
from myxtts.synthesis.voice_folder import VoiceDescription

MOST_BYTES = 256 << 20
ID_COLUMNS = ("id", "name", "file", "file_name")
OPTION_COLUMNS = ("language", "speaker", "speed", "seed", "pause")
_UNSAFE = re.compile(r"[^\w.-]+")


@dataclass(frozen=True)
class BatchItem:
    """One text of a list."""

    name: str
    """Name of its file, without the extension."""
    text: str
    options: dict[str, Any] = field(default_factory=dict)
    """Options of `SpeechOptions` that this text has of its own."""


@dataclass
class BatchReport:
    """What became of a list."""

    num_spoken: int = 0
    num_skipped: int = 0
    """Files that existed already."""
    failures: list[str] = field(default_factory=list)
    """`name: reason` of texts that could not be spoken."""


def read_batch(path: str | Path, description: VoiceDescription) -> list[BatchItem]:
    """The texts of a list, checked against the voice; a `TextError` names the first line that cannot be used.

    A .txt file has one text per line. The other formats have the column `text`, and optionally an id (`id`, `name`, `file` or
    `file_name`), `language`, `speaker`, `speed`, `seed` and `pause`. Without an id, files are named by the line: 0001, 0002, …
    """
    path = Path(path)
    try:
        content = read_regular_file(path, MOST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise TextError(f"{path} cannot be read: {error.strerror}. Name another file.") from None
    except UnicodeDecodeError as error:
        raise TextError(f"{path} is not UTF-8 text (byte {error.start}). Convert it: iconv -t UTF-8.") from None
    items, names = [], set()
    for line, row in _rows(path, content):
        try:
            item = _item(row, f"{line:04d}")
            _check(item, description)
        except MyXTTSError as error:
            raise TextError(f"{path}, line {line}: {error}") from None
        if item.name in names:
            raise TextError(
                f"{path}, line {line}: the name {item.name!r:.80} was used above. Give each text its own name."
            )
        names.add(item.name)
        items.append(item)
    if not items:
        raise TextError(f"{path} has no texts. Expected one text per line.")
    return items


def _rows(path: Path, content: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line numbers and the columns of each line."""
    ending = path.suffix.lower()
    if ending == ".txt":
        for number, line in enumerate(content.splitlines(), start=1):
            if line.strip():
                yield number, {"text": line}
    elif ending == ".jsonl":
        for number, line in enumerate(content.splitlines(), start=1):
            if line.strip():
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError):
                    row = None
                if not isinstance(row, dict):
                    raise TextError(f"{path}, line {number}: expected a JSON object with the key text.")
                yield number, row
    elif ending in (".csv", ".tsv"):
        reader = csv.DictReader(
            io.StringIO(content, newline=""), delimiter="," if ending == ".csv" else "\t", strict=True
        )
        try:
            for row in reader:
                yield reader.line_num, {name: value for name, value in row.items() if name is not None and value}
        except csv.Error as error:
            raise TextError(
                f"{path}, after line {reader.line_num}: {error!s:.100}. Close every quotation mark; texts of more than "
                f"{csv.field_size_limit():,} characters need a .jsonl file."
            ) from None
    else:
        raise TextError(f"Expected a .txt, .csv, .tsv or .jsonl file. Received: {str(path)!r:.80}.")


def _item(row: dict[str, Any], default_name: str) -> BatchItem:
    text = row.get("text")
    if not isinstance(text, str) or not text.strip():
        raise TextError(f"expected a text in the column text. Columns: {', '.join(map(str, row))!s:.100}.")
    given = next((str(row[column]) for column in ID_COLUMNS if row.get(column)), default_name)
    name = _UNSAFE.sub("_", Path(given).name).lstrip(".")[:200] or default_name
    options = {column: row[column] for column in OPTION_COLUMNS if row.get(column) not in (None, "")}
    for column, convert in (("speed", float), ("pause", float), ("seed", int)):
        if column in options:
            try:
                options[column] = convert(options[column])
            except (TypeError, ValueError):
                raise TextError(f"{column} is not a number: {options[column]!r:.40}. Expected a number.") from None
    return BatchItem(name, text, options)


def _check(item: BatchItem, description: VoiceDescription) -> None:
    check_text_length(item.text)
    options = SpeechOptions(**item.options)
    check_language(options.language, description.languages)
    if isinstance(options.speaker, str):
        parse_mixture(options.speaker, description.speakers)


def speak_batch(
    voice: Voice,
    items: Sequence[BatchItem],
    options: SpeechOptions,
    folder: Path,
    *,
    format: str,
    sample_rate: int,
    replaces: bool = False,
) -> BatchReport:
    """Speak every text into `folder`/`name`.`format`.

    A file that exists is skipped unless `replaces`: files are written completely or not at all, so an interrupted run is
    resumed by repeating it, which also removes what a killed one had begun. A text that cannot be spoken is reported, and the
    others are spoken.
    """
    resolve_format(None, format)
    check_output_rate(sample_rate)
    report = BatchReport()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TextError(f"The folder {folder} cannot be created: {error.strerror}. Name another one with -o.") from None
    paths = [folder / f"{item.name}.{format}" for item in items]
    remove_unfinished(folder, [path.name for path in paths])
    for item, path in zip(items, paths, strict=True):
        if path.exists() and not replaces:
            report.num_skipped += 1
            continue
        try:
            chunks = voice.say(item.text, replace(options, **item.options))
            with AudioFileWriter(path, sample_rate, format, synthetic_tags(voice.name)) as file:
                for chunk in chunks:
                    file.write(resample(chunk.samples, chunk.sample_rate, sample_rate))
            report.num_spoken += 1
        except TextError as error:
            report.failures.append(f"{item.name}: {error}")
    return report
