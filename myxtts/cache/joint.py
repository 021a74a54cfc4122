"""Several corpora in one cache: a cache like any other, in which symbols, speakers and languages have one numbering.

Every corpus keeps its own cache, which other runs use as well. The joint cache is a copy (20 kB per second of speech), so that
plans and batches work as for one corpus; it is written again when one of its parts changes. Speakers and clips keep
their names; where two corpora have the same one, it begins with the name of its corpus.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from myxtts.cache.clip_table import Cache, open_cache
from myxtts.cache.format import COLUMN_TYPES, fingerprint_of, read_header, record_checksum
from myxtts.cache.location import CacheLocation, joint_root, locate_cache, with_prepared_language
from myxtts.cache.worker import open_workers
from myxtts.cache.writer import publish, write_error
from myxtts.config.config import DEFAULT_LANGUAGE, DataConfig, corpus_name
from myxtts.corpus.corpus import license_name, read_corpus
from myxtts.errors import CacheError, ConfigError, CorpusError
from myxtts.runtime.progress import ProgressCallback, ignore_line, ignore_progress
from myxtts.text.phonemes import INSTALL_LINE
from myxtts.text.tokenizer import SymbolTable, build_front_end, resolve_kind

STAGE = "joining corpora"
PROGRESS_CLIPS = 500
"""Clips between two reports of progress."""


def is_joint(data: DataConfig) -> bool:
    """Whether a configuration asks for a joint cache."""
    return bool(data.corpora or data.held_out_speakers)


def part_configs(data: DataConfig) -> dict[str, DataConfig]:
    """The corpora of a configuration by name, each with the configuration that prepares it alone."""
    alone = dataclasses.replace(data, corpora=(), held_out_speakers=())
    if not data.corpora:
        return {Path(data.train_data).name if data.train_data is not None else "bundled": alone}
    return {
        corpus_name(corpus): dataclasses.replace(
            alone, train_data=corpus.folder, language=corpus.language or data.language
        )
        for corpus in data.corpora
    }


@dataclass(frozen=True)
class JointLocation:
    """Where the caches of several corpora and their joint cache are, whether they exist or not."""

    configs: Mapping[str, DataConfig]
    """How each corpus is prepared, by its name."""
    parts: Mapping[str, CacheLocation]
    folder: Path
    """The folder of the joint cache."""


def locate_joint_cache(
    data: DataConfig,
    progress: ProgressCallback = ignore_progress,
    announce: Callable[[str], None] = ignore_line,
    workers: int | None = None,
) -> JointLocation:
    """Read every corpus, and choose the highest of their rates where `data.sample_rate` is auto."""
    front_end = build_front_end(data.text_symbols, data.lexicon, data.language)
    configs = {name: with_prepared_language(part, None, announce) for name, part in part_configs(data).items()}
    for name, part in configs.items():
        if resolve_kind(part.text_symbols, part.language or DEFAULT_LANGUAGE) != front_end.kind:
            raise ConfigError(
                f"The corpora cannot share symbols: {name} is in {part.language}, which needs espeak-ng for phonemes. Run "
                f"{INSTALL_LINE} (GPL), or set data.text_symbols: graphemes."
            )
    corpora = {name: read_corpus(part) for name, part in configs.items()}

    def located() -> dict[str, CacheLocation]:
        with open_workers(data, front_end, workers) as pool:
            return {
                name: locate_cache(configs[name], corpora[name], front_end, pool, progress, announce)
                for name in configs
            }

    parts = located()
    rate = max(part.settings.mel.sample_rate for part in parts.values())
    if any(part.settings.mel.sample_rate != rate for part in parts.values()):
        configs = {name: dataclasses.replace(part, sample_rate=rate) for name, part in configs.items()}
        parts = located()
    identity = [[name, str(part.corpus.folder), part.settings.fingerprint] for name, part in parts.items()]
    folder = joint_root(next(iter(corpora.values())).folder, data) / fingerprint_of({"parts": identity})
    return JointLocation(configs, parts, folder)


@dataclass(frozen=True)
class JoinedCorpus:
    """One of the corpora of a joint cache."""

    name: str
    cache: Cache


def join_caches(
    folder: Path,
    parts: Sequence[JoinedCorpus],
    config: DataConfig,
    progress: ProgressCallback,
    announce: Callable[[str], None],
    with_sound: bool = False,
) -> Cache:
    """The joint cache in `folder`, written if it is missing or no longer that of its parts. The caller holds its lock.

    `with_sound`: with the samples and the pitch of every clip, which all parts were prepared with.
    """
    first, held_out_speakers = parts[0].cache, config.held_out_speakers
    for part in parts[1:]:
        differences = first.mel.compared_with(part.cache.mel, f"{part.name} has")
        if part.cache.front_end_kind != first.front_end_kind:
            differences = f"{first.front_end_kind}, {part.name} has {part.cache.front_end_kind}"
        if differences:
            raise CacheError(
                f"{part.name} and {parts[0].name} were prepared differently: {differences}. Prepare both with the same "
                "settings."
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
        if before["settings"] == settings and (before["samples_file"] or not with_sound):
            return open_cache(folder)
    except CacheError:
        pass  # none yet, or damaged: the parts hold everything
    try:
        _write(folder, _joined_names(parts, chosen), settings, config, before, progress, with_sound)
    except OSError as error:
        raise write_error(folder, error) from None
    return open_cache(folder)


def _kept_clips(part: JoinedCorpus, held_out_speakers: Sequence[str]) -> np.ndarray:
    """Indices of the clips of a part whose speaker is not held out."""
    names = [(speaker, f"{part.name}/{speaker}") for speaker in part.cache.speakers]
    is_held_out = np.array([not set(own).isdisjoint(held_out_speakers) for own in names], bool)
    return np.flatnonzero(~is_held_out[part.cache.speaker_numbers])


def _report_held_out(
    parts: Sequence[JoinedCorpus], chosen: Sequence[np.ndarray], names: Sequence[str], announce: Callable[[str], None]
) -> None:
    """Announce which speakers are held out. A name that no corpus has is an error: its speaker would be trained on unnoticed."""
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
        raise CorpusError("data.held_out_speakers names every speaker, so no clip is left. Remove some names.")


@dataclass(frozen=True)
class _Joined:
    """The clips of one part that are in the joint cache, and what they are called there."""

    name: str
    cache: Cache
    clips: np.ndarray
    ids: Sequence[str]
    """The id of each clip."""
    speakers: Mapping[str, str]
    """Name in the part → name in the joint cache, of speakers with clips."""

    @property
    def languages(self) -> list[str]:
        return [self.cache.languages[one] for one in np.unique(self.cache.language_numbers[self.clips])]


def _joined_names(parts: Sequence[JoinedCorpus], chosen: Sequence[np.ndarray]) -> list[_Joined]:
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
    progress: ProgressCallback,
    with_sound: bool,
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
    columns: dict[str, list[np.ndarray]] = {name: [] for name in COLUMN_TYPES if name not in ("id_ends", "text_ends")}
    report = _Reporter(progress, sum(len(part.clips) for part in parts))
    with contextlib.ExitStack() as stack:
        zero_frame = np.zeros((1, parts[0].cache.mel.n_mels), "<f4")
        kinds = [
            _DataKind("frames_file", "rows", "frame_starts", "frame_counts", f"frames-{generation}.f32", zero_frame)
        ]
        kinds += [
            _DataKind("tokens_file", "tokens", "token_starts", "token_counts", f"tokens-{generation}.i32", _ZERO_TOKEN)
        ]
        if with_sound:
            name = f"samples-{generation}.i16"
            kinds += [_DataKind("samples_file", "samples", "sample_starts", "sample_counts", name, _ZERO_SAMPLE)]
            kinds += [
                _DataKind(
                    "pitch_file", "pitches", "pitch_starts", "frame_counts", f"pitch-{generation}.f32", _ZERO_PITCH
                )
            ]
        files = [stack.enter_context((folder / kind.file).open("wb", buffering=1 << 20)) for kind in kinds]
        sizes = dict.fromkeys((kind.size for kind in kinds), 1)
        for kind, file in zip(kinds, files, strict=True):
            file.write(kind.zero.data)
        for part in parts:
            token_ids = np.array([symbols.id_of[symbol] for symbol in part.cache.symbols.to_list()], "<i4")
            own = {name: column[part.clips] for name, column in part.cache.columns().items() if name in columns}
            if not with_sound:
                own |= {name: np.zeros(len(part.clips)) for name in SOUND_COLUMNS}
            own["checksums"] = _copy_clips(part, token_ids, files, report)
            own["speaker_numbers"] = _renumbered(own["speaker_numbers"], part.cache.speakers, part.speakers, speakers)
            own["language_numbers"] = _renumbered(own["language_numbers"], part.cache.languages, {}, languages)
            for kind in kinds:
                counts = own[kind.count].astype(np.int64)
                own[kind.start] = sizes[kind.size] + np.cumsum(counts) - counts
                sizes[kind.size] += int(counts.sum())
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
        **NO_SOUND,
        **{kind.field: kind.file for kind in kinds},
        **sizes,
    }
    ids = [name for part in parts for name in part.ids]
    texts = [part.cache.texts[clip] for part in parts for clip in part.clips.tolist()]
    publish(folder, settings, {name: np.concatenate(each) for name, each in columns.items()}, ids, texts, tables)


@dataclass(frozen=True)
class _DataKind:
    """A data file: the header's fields for its name and size, the columns that point into it, its name, its element 0."""

    field: str
    size: str
    start: str
    count: str
    file: str
    zero: np.ndarray


_ZERO_TOKEN, _ZERO_SAMPLE, _ZERO_PITCH = np.zeros(1, "<i4"), np.zeros(1, "<i2"), np.zeros(1, "<f4")
SOUND_COLUMNS = ("sample_starts", "sample_counts", "pitch_starts", "sound_checksums")
NO_SOUND = {"samples_file": "", "pitch_file": "", "samples": 0, "pitches": 0}
"""Header fields of a cache without the sound of its clips."""


@dataclass
class _Reporter:
    """Reports every `PROGRESS_CLIPS` clips."""

    progress: ProgressCallback
    total: int
    done: int = 0

    def count(self) -> None:
        self.done += 1
        if self.done % PROGRESS_CLIPS == 0 or self.done == self.total:
            self.progress(STAGE, self.done, self.total)


def _copy_clips(part: _Joined, token_ids: np.ndarray, files: Sequence[BinaryIO], report: _Reporter) -> np.ndarray:
    """Append the clips of a part to the files of frames, tokens and, if there are four, samples and pitch.

    Returns:
        The checksums of frames and renumbered tokens, uint32 (clips,).
    """
    cache, checksums = part.cache, np.zeros(len(part.clips), "<u4")
    for index, clip in enumerate(part.clips.tolist()):
        frames, tokens = cache.clip_frames(clip), token_ids[cache.clip_tokens(clip)]
        checksums[index] = record_checksum(frames, tokens)
        sound = (cache.clip_samples(clip), cache.clip_pitch(clip)) if len(files) > 2 else ()
        for file, data in zip(files, (frames, tokens, *sound), strict=True):
            file.write(np.ascontiguousarray(data).data)
        report.count()
    return checksums


def _renumbered(
    numbers: np.ndarray, names: Sequence[str], joint_names: Mapping[str, str], table: Sequence[str]
) -> np.ndarray:
    """Indices into `names` → indices of the same names in `table`."""
    index_of_name = {name: index for index, name in enumerate(table)}
    return np.array([index_of_name.get(joint_names.get(name, name), -1) for name in names], np.int32)[numbers]


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
