"""Several caches joined into one: a cache like any other, in which symbols, speakers and languages have one numbering.

Every corpus keeps its own cache, which other runs use as well. The joint cache is a copy (20 kB per second of speech), so that a
plan, a batch and a gather know nothing of corpora; it is written again when one of its parts changes. Speakers and clips keep
their names; where two corpora have the same one, it begins with the name of its corpus.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from myxtts.cache.format import COLUMN_TYPES, Cache, open_cache, read_header
from myxtts.cache.journal import record_checksum
from myxtts.cache.writer import publish, write_error
from myxtts.config.config import DataConfig
from myxtts.corpus.corpus import license_name
from myxtts.errors import CacheError, CorpusError
from myxtts.runtime.workers import Progress
from myxtts.text.tokenizer import SymbolTable

STAGE = "joining corpora"
PROGRESS_CLIPS = 500
"""Clips between two reports of progress."""


@dataclass(frozen=True)
class Part:
    """One of the corpora of a joint cache."""

    name: str
    cache: Cache


def join_caches(
    folder: Path,
    parts: Sequence[Part],
    config: DataConfig,
    progress: Progress,
    announce: Callable[[str], None],
) -> Cache:
    """The joint cache in `folder`, written if it is missing or no longer that of its parts. The caller holds its lock."""
    first, held_out_speakers = parts[0].cache, config.held_out_speakers
    for part in parts[1:]:
        if part.cache.mel != first.mel or part.cache.front_end_kind != first.front_end_kind:
            raise CacheError(
                f"The corpora {parts[0].name} and {part.name} were prepared differently: {first.mel}, "
                f"{first.front_end_kind}; {part.cache.mel}, {part.cache.front_end_kind}. Prepare both with the same settings."
            )
    chosen = [_kept_clips(part, held_out_speakers) for part in parts]
    _report_held_out(parts, chosen, held_out_speakers, announce)
    settings = dict(first.header["settings"]) | {
        "joint": [[part.name, part.cache.content_id] for part in parts],
        "held_out_speakers": sorted(held_out_speakers),
    }
    before: Mapping[str, Any] = {"generation": 0, "symbols": SymbolTable().to_list(), "languages": []}
    try:
        before = read_header(folder)
        if before["settings"] == settings:
            return open_cache(folder)
    except CacheError:
        pass  # none yet, or damaged: the parts hold everything
    try:
        _write(folder, _joined_names(parts, chosen), settings, config, before, progress)
    except OSError as error:
        raise write_error(folder, error) from None
    return open_cache(folder)


def _kept_clips(part: Part, held_out_speakers: Sequence[str]) -> np.ndarray:
    """Indices of the clips of a part whose speaker is not held out."""
    names = [(speaker, f"{part.name}/{speaker}") for speaker in part.cache.speakers]
    is_held_out = np.array([not set(own).isdisjoint(held_out_speakers) for own in names], bool)
    return np.flatnonzero(~is_held_out[part.cache.speaker_numbers])


def _report_held_out(
    parts: Sequence[Part], chosen: Sequence[np.ndarray], names: Sequence[str], announce: Callable[[str], None]
) -> None:
    """Say which speakers are held out. A name that no corpus has is an error: its speaker would be trained on unnoticed."""
    known = {name for part in parts for speaker in part.cache.speakers for name in (speaker, f"{part.name}/{speaker}")}
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, sorted(known), n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise CorpusError(f"data.held_out_speakers names a speaker that no corpus has. Received: {name}.{hint}")
    if names:
        left_out = sum(part.cache.num_clips - len(clips) for part, clips in zip(parts, chosen, strict=True))
        announce(f"Held out, never trained on: {', '.join(names)} ({left_out} clips)")
    if not any(len(clips) for clips in chosen):
        raise CorpusError("data.held_out_speakers names every speaker, so that no clip is left. Keep some of them.")


@dataclass(frozen=True)
class _Joined:
    """The clips of one part that are in the joint cache, and what they are called there."""

    name: str
    cache: Cache
    clips: np.ndarray
    ids: Sequence[str]
    """Of each of the clips."""
    speakers: Mapping[str, str]
    """Name in the part → name in the joint cache, of speakers with clips."""

    @property
    def languages(self) -> list[str]:
        return [self.cache.languages[one] for one in np.unique(self.cache.language_numbers[self.clips])]


def _joined_names(parts: Sequence[Part], chosen: Sequence[np.ndarray]) -> list[_Joined]:
    """The kept clips of every part; names that two parts share are prefixed with those of their corpora."""
    ids = [[part.cache.ids[clip] for clip in clips.tolist()] for part, clips in zip(parts, chosen, strict=True)]
    speakers = [
        [part.cache.speakers[number] for number in np.unique(part.cache.speaker_numbers[clips])]
        for part, clips in zip(parts, chosen, strict=True)
    ]
    id_counts, speaker_counts = (Counter(name for own in names for name in set(own)) for names in (ids, speakers))

    def unique(corpus: str, name: str, counts: Counter[str]) -> str:
        return f"{corpus}/{name}" if counts[name] > 1 else name

    return [
        _Joined(
            part.name,
            part.cache,
            clips,
            [unique(part.name, name, id_counts) for name in own_ids],
            {name: unique(part.name, name, speaker_counts) for name in own_speakers},
        )
        for part, clips, own_ids, own_speakers in zip(parts, chosen, ids, speakers, strict=True)
    ]


def _write(
    folder: Path,
    parts: Sequence[_Joined],
    settings: Mapping[str, Any],
    config: DataConfig,
    before: Mapping[str, Any],
    progress: Progress,
) -> None:
    """Copy the clips of all parts into new files, and publish them."""
    generation = before["generation"] + 1
    symbols = SymbolTable.from_list(list(before["symbols"])).extended_with(
        {symbol for part in parts for symbol in part.cache.symbols.symbols[2:]}
    )
    present = {language for part in parts for language in part.languages}
    kept = [language for language in before["languages"] if language in present]
    languages = [*kept, *sorted(present.difference(kept))]
    speakers = [name for part in parts for name in part.speakers.values()]
    data = {
        "frames_file": f"frames-{generation}.f32",
        "tokens_file": f"tokens-{generation}.i32",
        "rows": 1,
        "tokens": 1,
    }
    columns: dict[str, list[np.ndarray]] = {name: [] for name in COLUMN_TYPES if name not in ("id_ends", "text_ends")}
    counter = _ClipCounter(progress, sum(len(part.clips) for part in parts))
    with (
        (folder / data["frames_file"]).open("wb", buffering=1 << 20) as frames_file,
        (folder / data["tokens_file"]).open("wb", buffering=1 << 20) as tokens_file,
    ):
        frames_file.write(bytes(4 * parts[0].cache.mel.n_mels))
        tokens_file.write(bytes(4))
        for part in parts:
            token_ids = np.array([symbols.id_of[symbol] for symbol in part.cache.symbols.to_list()], "<i4")
            checksums = _copy_clips(part, token_ids, frames_file, tokens_file, counter)
            own = {name: column[part.clips] for name, column in part.cache.columns().items() if name in columns}
            own["checksums"] = checksums
            own["speaker_numbers"] = _renumbered(own["speaker_numbers"], part.cache.speakers, part.speakers, speakers)
            own["language_numbers"] = _renumbered(own["language_numbers"], part.cache.languages, {}, languages)
            for start, count, size in (
                ("frame_starts", "frame_counts", "rows"),
                ("token_starts", "token_counts", "tokens"),
            ):
                counts = own[count].astype(np.int64)
                own[start] = data[size] + np.cumsum(counts) - counts
                data[size] += int(counts.sum())
            for name, column in own.items():
                columns[name].append(column)
    tables = {
        "generation": generation,
        "symbols": symbols.to_list(),
        "speakers": speakers,
        "speaker_corpora": [part.name for part in parts for _ in part.speakers],
        "languages": languages,
        "data_folder": str(parts[0].cache.data_folder),
        "config": asdict(config),
        "license": _joint_license(parts),
        "attribution": _joint_attribution(parts),
        **data,
    }
    ids = [name for part in parts for name in part.ids]
    texts = [part.cache.texts[clip] for part in parts for clip in part.clips.tolist()]
    publish(folder, settings, {name: np.concatenate(each) for name, each in columns.items()}, ids, texts, tables)


@dataclass
class _ClipCounter:
    """Reports every `PROGRESS_CLIPS` clips."""

    progress: Progress
    total: int
    done: int = 0

    def count(self) -> None:
        self.done += 1
        if self.done % PROGRESS_CLIPS == 0 or self.done == self.total:
            self.progress(STAGE, self.done, self.total)


def _copy_clips(
    part: _Joined, token_ids: np.ndarray, frames_file: BinaryIO, tokens_file: BinaryIO, counter: _ClipCounter
) -> np.ndarray:
    """Append frames and renumbered tokens of the clips of a part; returns their checksums, uint32 (clips,)."""
    checksums = np.zeros(len(part.clips), "<u4")
    for index, clip in enumerate(part.clips.tolist()):
        frames, tokens = part.cache.clip_frames(clip), token_ids[part.cache.clip_tokens(clip)]
        checksums[index] = record_checksum(frames, tokens)
        frames_file.write(np.ascontiguousarray(frames, "<f4").data)
        tokens_file.write(tokens.data)
        counter.count()
    return checksums


def _renumbered(
    numbers: np.ndarray, names: Sequence[str], joint_names: Mapping[str, str], table: Sequence[str]
) -> np.ndarray:
    """Indices into `names` → indices of the same names in `table`."""
    place = {name: index for index, name in enumerate(table)}
    return np.array([place.get(joint_names.get(name, name), -1) for name in names], np.int32)[numbers]


def _license_names(parts: Sequence[_Joined]) -> dict[str, str]:
    return {part.name: license_name(part.cache.license, part.cache.attribution) for part in parts}


def _joint_license(parts: Sequence[_Joined]) -> str:
    """The licenses of all corpora: their names, then every text once."""
    declared = [f"License: {name}" for name in dict.fromkeys(_license_names(parts).values()) if name]
    texts = dict.fromkeys(part.cache.license.strip() for part in parts if part.cache.license.strip())
    return "\n\n".join(["\n".join(declared), *texts]) if texts else ""


def _joint_attribution(parts: Sequence[_Joined]) -> str:
    """Which corpus has which license, and the attributions of all."""
    of_corpora = [f"- {corpus}: {name or 'no license file'}" for corpus, name in _license_names(parts).items()]
    texts = dict.fromkeys(text for part in parts if (text := part.cache.attribution.strip()))
    return "\n\n".join(["Trained on these corpora:", "\n".join(of_corpora), *texts])
