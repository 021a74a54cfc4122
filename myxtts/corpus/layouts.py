"""The kinds of corpus folders: `recognize_layout` finds the kind, and its `read` lists the clips of a split.

A `ClipList` holds the rows as the metadata has them (recordings are not yet looked up), the lines that cannot be understood,
and whether the corpus has a validation set of its own.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from myxtts.corpus.encodings import UTF8, detect_encoding, encoding_label, marked_encoding, unmarked_utf16
from myxtts.corpus.folder_index import AUDIO_EXTENSIONS, FolderIndex, speakers_by_folder
from myxtts.corpus.metadata import SINGLE_SPEAKER, ClipRow, Metadata, read_metadata
from myxtts.corpus.utterance import Rejection
from myxtts.errors import CorpusError
from myxtts.runtime.console import printable
from myxtts.runtime.safe_files import read_regular_file

METADATA_TYPES = (".csv", ".tsv", ".txt", ".jsonl", ".json")
EVERYTHING = ("metadata",)
TRAINING = ("metadata_train",)
EVALUATION = ("metadata_eval", "metadata_val", "metadata_valid")
OTHER_EVERYTHING = ("manifest", "transcripts", "transcript")
OTHER_TRAINING = ("train_manifest", "manifest_train", "train")
OTHER_EVALUATION = (
    "val_manifest", "dev_manifest", "valid_manifest", "validation_manifest", "manifest_val", "validation", "valid", "val", "dev",
)  # fmt: skip
"""Names without extension; the second kind counts only where no other layout is recognized."""
OUR_TABLES = frozenset({"rejected.csv"})
SHOWN_FOLDERS = 3
"""Folders that a message shows; the rest is counted."""
LARGEST_TEXT_BYTES = 1 << 20
"""Largest .txt file of one clip."""

EXPECTED_TABLE = (
    "Expected: metadata.csv with `id|text` lines (commas, tabs or semicolons with a header such as `file_name,text` also work; "
    'metadata.jsonl: {"file_name": …, "text": …}), and the recordings in the same folder or below it (docs/corpora.md).'
)
EXPECTED_COMMON_VOICE = (
    "Expected: train.tsv, dev.tsv or validated.tsv with the columns path and sentence, and the recordings in clips/ "
    "(docs/corpora.md)."
)
EXPECTED_VCTK = "Expected: txt/SPEAKER/CLIP.txt and wav48/SPEAKER/CLIP.wav (docs/corpora.md)."
EXPECTED_LIBRITTS = "Expected: CLIP.wav next to CLIP.normalized.txt (docs/corpora.md)."
EXPECTED_PAIRS = "Expected: pairs such as hello.wav and hello.txt (docs/corpora.md)."


@dataclass(frozen=True)
class ClipList:
    """What a folder lists for one split."""

    rows: list[ClipRow]
    rejected: list[Rejection]
    is_split: bool
    """False: the corpus has no validation set of its own, and these are all its clips."""
    notices: list[str] = field(default_factory=list)
    """What was guessed about the files, one sentence each."""
    shown: list[str] = field(default_factory=list)
    """The first lines as they were read, for an error message."""


@dataclass(frozen=True)
class CorpusLayout:
    """A kind of folder, and how it is read."""

    name: str
    read: Callable[[FolderIndex, str, str], ClipList]
    """Takes the folder, the split (train, validation or all) and the language of clips whose metadata names none."""
    expected: str
    """What such a folder should hold, for an error message."""


@dataclass(frozen=True)
class _Lists:
    """Names of the metadata files of a folder; None where there is none of a kind."""

    everything: str | None
    training: str | None
    evaluation: str | None

    def __bool__(self) -> bool:
        return bool(self.names)

    @property
    def names(self) -> list[str]:
        return [name for name in (self.everything, self.training, self.evaluation) if name is not None]

    @property
    def are_plain_texts(self) -> bool:
        return all(name.endswith(".txt") for name in self.names)


def recognize_layout(index: FolderIndex) -> CorpusLayout:
    """The kind of a folder, by the names of the files in it."""
    if _find_lists(index, EVERYTHING, TRAINING, EVALUATION):
        return CorpusLayout("LJSpeech", read_ljspeech, EXPECTED_TABLE)
    if index.top_files & {"validated.tsv", "train.tsv"} and "clips" in index.top_folders:
        return CorpusLayout("Common Voice", read_common_voice, EXPECTED_COMMON_VOICE)
    if "txt" in index.top_folders and any(name.startswith("wav") for name in index.top_folders):
        return CorpusLayout("VCTK", read_vctk, EXPECTED_VCTK)
    if any(name.endswith(".normalized.txt") for name in index.texts):
        return CorpusLayout("LibriTTS", read_libritts, EXPECTED_LIBRITTS)
    has_pairs = next(_pairs(index), None) is not None
    others = _find_lists(index, OTHER_EVERYTHING, OTHER_TRAINING, OTHER_EVALUATION)
    if others and not (has_pairs and others.are_plain_texts):  # next to pairs, train.txt may be anything
        return CorpusLayout("a list of clips", read_other_lists, EXPECTED_TABLE)
    tables = sorted(name for name in index.top_files - OUR_TABLES if name.lower().endswith((".csv", ".tsv", ".jsonl")))
    if has_pairs:
        return CorpusLayout("recordings with .txt files", read_pairs, EXPECTED_PAIRS)
    if len(tables) == 1:
        return CorpusLayout(tables[0], functools.partial(read_only_list, tables[0]), EXPECTED_TABLE)
    raise CorpusError(f"No corpus was recognized in {index.root}. {_explain_unknown(index, tables)}")


def _explain_unknown(index: FolderIndex, tables: Sequence[str]) -> str:
    """What the folder holds instead of a corpus, and what to do."""
    recordings = _recordings(index)
    if tables:
        return f"It has several lists: {', '.join(tables[:5])}. Name the right one metadata.csv."
    if lists := _lists_in_subfolders(index):
        example = index.root / os.path.dirname(lists[0])
        return (
            f"Its lists of clips are in subfolders: {', '.join(lists[:5])}. Use such a folder: --train-data {example} "
            f"(and --val-data for a validation set), or `myxtts prepare {example}`."
        )
    if any(name.lower().endswith((".parquet", ".arrow")) for name in index.audio.values()):
        return (
            "It holds Parquet or Arrow files of a Hugging Face dataset. Write the recordings and a metadata.csv from them first: "
            "docs/corpora.md has the lines for that."
        )
    if recordings:
        return (
            f"It holds {len(recordings)} recordings such as {recordings[0]}, but no texts. Add metadata.csv with `id|text` "
            "lines, or a .txt file of the same name next to each recording. A speech recognizer can write first drafts."
        )
    return (
        f"{EXPECTED_TABLE} VCTK, LibriTTS and Common Voice folders and recordings with same-named .txt files are understood as "
        "well."
    )


def _lists_in_subfolders(index: FolderIndex) -> list[str]:
    """Metadata files one level down, as in Hugging Face's folders (train/metadata.csv), those of training first."""
    names = [f"{stem}{extension}" for stem in (*EVERYTHING, *TRAINING) for extension in METADATA_TYPES]
    folders = sorted(index.top_folders, key=lambda folder: (not folder.startswith("train"), folder))
    return [f"{folder}/{name}" for folder in folders for name in names if (index.root / folder / name).is_file()]


def read_ljspeech(index: FolderIndex, split: str, language: str) -> ClipList:
    """metadata.csv, or metadata_train.csv and metadata_eval.csv."""
    return _read_tables(index, split, language, _find_lists(index, EVERYTHING, TRAINING, EVALUATION))


def read_other_lists(index: FolderIndex, split: str, language: str) -> ClipList:
    """manifest.json and train_manifest.json (NeMo), transcripts.tsv, train.csv and validation.csv."""
    return _read_tables(index, split, language, _find_lists(index, OTHER_EVERYTHING, OTHER_TRAINING, OTHER_EVALUATION))


def read_only_list(name: str, index: FolderIndex, split: str, language: str) -> ClipList:
    """The one CSV, TSV or JSON lines file of the folder, whatever its name."""
    return _read_tables(index, split, language, _Lists(name, None, None))


def _find_lists(
    index: FolderIndex, everything: Sequence[str], training: Sequence[str], evaluation: Sequence[str]
) -> _Lists:
    def first(stems: Sequence[str]) -> str | None:
        names = (f"{stem}{extension}" for stem in stems for extension in METADATA_TYPES)
        return next((name for name in names if name in index.top_files), None)

    return _Lists(first(everything), first(training), first(evaluation))


def _read_tables(index: FolderIndex, split: str, language: str, lists: _Lists) -> ClipList:
    """The rows of the lists, with a notice where subfolders might be speakers that no column names."""
    clips = _read_lists(index, split, language, lists)
    if all(row.speaker == SINGLE_SPEAKER for row in clips.rows):
        found = (index.find_audio(row.audio) for row in clips.rows)
        folders = sorted(set(speakers_by_folder([path for path in found if path is not None])) - {""})
        if len(folders) > 1:
            more = ", …" if len(folders) > SHOWN_FOLDERS else ""
            clips.notices.append(
                f"All clips count as one speaker: no speaker column names any. If the subfolders "
                f"({', '.join(printable(each, keeps_lines=False) for each in folders[:SHOWN_FOLDERS])}{more}) are speakers, add "
                "that column (docs/corpora.md)."
            )
    return clips


def _read_lists(index: FolderIndex, split: str, language: str, lists: _Lists) -> ClipList:
    if split == "all" or lists.evaluation is None:
        names = [lists.everything] if lists.everything else [lists.training, lists.evaluation]
        if split != "all" and lists.training:
            names = [lists.training]
        return _joined(read_metadata(index, name, language) for name in names if name)
    held_out = read_metadata(index, lists.evaluation, language)
    if split == "validation":
        return _clip_list(held_out, is_split=True)
    source = lists.training or lists.everything
    if source is None:
        raise CorpusError(
            f"{index.root} holds {lists.evaluation} but no list to train on. Expected: metadata_train.csv or metadata.csv."
        )
    rest = read_metadata(index, source, language)
    held_out_files = {index.find_audio(row.audio) for row in held_out.rows} - {None}
    rows, rejected = [], rest.rejected
    for row in rest.rows:
        if index.find_audio(row.audio) not in held_out_files:
            rows.append(row)
        elif (
            lists.training
        ):  # metadata.csv names every clip; metadata_train.csv should not name those that are held out
            detail = f"{row.origin}: also in {lists.evaluation}, so it is not trained on"
            rejected.append(Rejection(row.id, row.audio, "duplicate id", detail))
    return ClipList(rows, rejected, is_split=True, notices=rest.notices, shown=rest.shown)


def _clip_list(metadata: Metadata, is_split: bool) -> ClipList:
    return ClipList(metadata.rows, metadata.rejected, is_split, metadata.notices, metadata.shown)


def _joined(files: Iterable[Metadata]) -> ClipList:
    clips = ClipList([], [], is_split=False)
    for each in files:
        clips.rows.extend(each.rows)
        clips.rejected.extend(each.rejected)
        clips.notices.extend(each.notices)
        clips.shown.extend(each.shown)
    return clips


def read_common_voice(index: FolderIndex, split: str, language: str) -> ClipList:
    """train.tsv and dev.tsv, or validated.tsv; recordings in clips/."""
    has_split = {"train.tsv", "dev.tsv"} <= index.top_files
    if has_split and split != "all":
        name = "train.tsv" if split == "train" else "dev.tsv"
    else:
        name = "validated.tsv" if "validated.tsv" in index.top_files else "train.tsv"
    clips = _clip_list(read_metadata(index, name, language, "\t"), is_split=has_split and split != "all")
    clips.rows[:] = [row._replace(audio=f"clips/{row.audio}", id=os.path.splitext(row.id)[0]) for row in clips.rows]
    return clips


def read_vctk(index: FolderIndex, split: str, language: str) -> ClipList:
    """txt/SPEAKER/CLIP.txt and wav48*/SPEAKER/CLIP[_mic1].{wav,flac}. English; the corpus has no validation set."""
    by_clip: dict[str, str] = {}
    for key in sorted(index.audio):
        clip = key.rpartition("/")[2]
        by_clip.setdefault(clip.removesuffix("_mic1"), key)
    files = list(_text_files(index, "txt/", ".txt"))
    texts = read_texts(index.root, [path for path, _ in files], "en")
    clips = ClipList([], texts.rejected, is_split=False, notices=texts.notices)
    for path, clip in files:
        if path in texts.by_path:
            speaker = path.split("/")[1] if path.count("/") > 1 else clip.partition("_")[0]
            clips.rows.append(ClipRow(clip, texts.by_path[path], speaker, "en", by_clip.get(clip, clip), path))
    return clips


def read_libritts(index: FolderIndex, split: str, language: str) -> ClipList:
    """SET/SPEAKER/CHAPTER/CLIP.wav with CLIP.normalized.txt; sets named dev-* are the validation set where train-* exist."""
    sets = {path.partition("/")[0] for path in index.texts}
    has_split = any(name.startswith("train-") for name in sets) and any(name.startswith("dev-") for name in sets)
    wanted = "" if split == "all" or not has_split else "train-" if split == "train" else "dev-"
    files = list(_text_files(index, wanted, ".normalized.txt"))
    texts = read_texts(index.root, [path for path, _ in files], "en")
    clips = ClipList([], texts.rejected, is_split=bool(wanted), notices=texts.notices)
    for path, clip in files:
        if path in texts.by_path:
            audio = path.removesuffix(".normalized.txt")
            clips.rows.append(ClipRow(clip, texts.by_path[path], clip.partition("_")[0], "en", audio, path))
    return clips


def _text_files(index: FolderIndex, prefix: str, suffix: str) -> Iterator[tuple[str, str]]:
    for path in sorted(index.texts):
        if path.startswith(prefix) and path.endswith(suffix):
            yield path, path.rpartition("/")[2].removesuffix(suffix)


def read_pairs(index: FolderIndex, split: str, language: str) -> ClipList:
    """hello.wav and hello.txt; subfolders are speakers."""
    pairs = list(_pairs(index))
    with_text = {audio for audio, _ in pairs}
    speakers = speakers_by_folder([audio for audio, _ in pairs])
    texts = read_texts(index.root, [text for _, text in pairs], language)
    clips = ClipList([], texts.rejected, is_split=False, notices=texts.notices)
    for (audio, path), speaker in zip(pairs, speakers, strict=True):
        if path in texts.by_path:
            clip_id = os.path.splitext(audio)[0]
            clips.rows.append(ClipRow(clip_id, texts.by_path[path], speaker or SINGLE_SPEAKER, "", audio, path))
    for audio in _recordings(index):
        if audio not in with_text:
            clips.rejected.append(
                Rejection(os.path.splitext(audio)[0], audio, "empty text", "no .txt of the same name")
            )
    return clips


def _pairs(index: FolderIndex) -> Iterator[tuple[str, str]]:
    """Recordings with the .txt file of the same name, in order."""
    texts = {os.path.splitext(path)[0]: path for path in index.texts}
    for audio in sorted(index.audio.values()):
        text = texts.get(os.path.splitext(audio)[0])
        if text is not None:
            yield audio, text


def _recordings(index: FolderIndex) -> list[str]:
    """Files that are recordings by their extension, in order."""
    return sorted(name for name in index.audio.values() if os.path.splitext(name)[1].lower() in AUDIO_EXTENSIONS)


@dataclass(frozen=True)
class Texts:
    """The contents of text files, by path; white space is folded."""

    by_path: dict[str, str] = field(default_factory=dict)
    rejected: list[Rejection] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)


def read_texts(root: Path, paths: Sequence[str], language: str) -> Texts:
    """Text files below `root` in one encoding, which is detected from all of them together."""
    found = Texts()
    contents: dict[str, bytes] = {}
    for path in paths:
        try:
            contents[path] = read_regular_file(root / path, LARGEST_TEXT_BYTES)
        except OSError as error:
            clip = path.rpartition("/")[2].removesuffix(".txt")
            found.rejected.append(Rejection(clip, path, "empty text", f"{path} cannot be read: {error.strerror}"))
    wide = {path: marked_encoding(content) or unmarked_utf16(content) for path, content in contents.items()}
    shared = detect_encoding(b"\n".join(contents[path] for path, codec in wide.items() if codec is None), language)
    guessed = []
    for path, content in contents.items():
        codec = wide[path] or shared
        try:
            found.by_path[path] = " ".join(content.decode(codec).split())
        except UnicodeDecodeError:
            label = encoding_label(codec)
            clip = path.rpartition("/")[2].removesuffix(".txt")
            found.rejected.append(Rejection(clip, path, f"invalid {label}", f"{path} is not {label} text"))
        else:
            if codec not in (UTF8, "utf-8-sig") and (wide[path] or not content.isascii()):
                guessed.append(path)
    if guessed:
        example = printable(found.by_path[guessed[0]][:60], keeps_lines=False)
        label = encoding_label(wide[guessed[0]] or shared)
        found.notices.append(
            f"{len(guessed)} .txt files are not UTF-8 and were read as {label}, e.g. {example}. "
            "If that is wrong, save them as UTF-8."
        )
    return found
