"""One run of `prepare` over a located corpus: compare, phonemize, decode, publish. The cache folder stays locked meanwhile.

Takes a `CacheLocation` and a pool of workers; returns an `Outcome` after the cache is published. Every finished clip is
journalled at once.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from myxtts.cache.changes import Clips, Notes, Setback, find_changes, read_notes
from myxtts.cache.clip_texts import NOTHING_TO_SPEAK, Failure, more_tokens_than_frames, phonemize_texts
from myxtts.cache.corpus_state import Source
from myxtts.cache.format import HEADER_NAME, Cache, open_cache
from myxtts.cache.journal import RecordWriter, cache_records, clip_key, text_hash
from myxtts.cache.location import CacheLocation
from myxtts.cache.writer import compact, is_worth_compacting, publish
from myxtts.config.config import DataConfig
from myxtts.errors import CacheError
from myxtts.runtime.workers import Progress, WorkerPool
from myxtts.text.tokenizer import SymbolTable, Tokenizer

SPARE_SHARE = 0.05
"""Added to the disk estimate for tokens, index and journal."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Numbers of clips: what they were before this run, and what it did."""

    added: int
    changed: int
    retexted: int
    removed: int
    kept: int
    recovered: int
    estimated_bytes: int
    notes: Notes
    failed: Mapping[str, Failure]
    """Clips that failed for a reason that says nothing about them: the next run tries them again."""


class Preparation:
    """The state of one run; `finish` does it."""

    def __init__(
        self,
        config: DataConfig,
        location: CacheLocation,
        pool: WorkerPool,
        progress: Progress,
        announce: Callable[[str], None],
        retries: bool = False,
    ):
        """`retries`: try clips again that an earlier run rejected."""
        self.config, self.location, self.pool, self.progress, self.announce = config, location, pool, progress, announce
        self.source, self.settings, self.folder = location.source, location.settings, location.folder
        self.base = open_base(location)
        self.writer = RecordWriter(self.folder, self.settings, self.base)
        self.clips = clips_of(self.source)
        notes = read_notes(self.folder / self.base.header["notes_file"]) if self.base else Notes()
        self.base_records = cache_records(self.base) if self.base else self.writer.recovered[:0]
        known = np.concatenate([self.base_records, self.writer.recovered])
        self.changes = find_changes(self.clips, known, {} if retries else notes.set_aside)
        self.records = self.changes.records
        self.is_ready = np.zeros(len(self.clips.ids), bool)
        self.set_aside = {
            self.clips.ids[number]: notes.set_aside[self.clips.ids[number]]
            for number in np.flatnonzero(self.changes.is_set_aside)
        }
        self.failed: dict[str, Failure] = {}
        """Transient failures of this run, by clip id."""
        self.unknown = {clip_id: notes.unknown[clip_id] for clip_id in self.clips.ids if clip_id in notes.unknown}
        self.symbols = SymbolTable()
        if self.writer.symbols or self.base:
            self.symbols = SymbolTable.from_list(self.writer.symbols or self.base.symbols.to_list())

    def finish(self) -> Outcome:
        """Do what is missing, then publish."""
        has_same_audio = self.changes.has_same_audio | self._has_same_content()
        is_wanted = ~self.changes.is_set_aside
        needs_audio = is_wanted & ~has_same_audio
        needs_text = is_wanted & (needs_audio | ~self.changes.has_same_text)
        self.is_ready = is_wanted & ~needs_text
        is_recovered = self.is_ready & np.isin(self.records["key"], self.writer.recovered["key"])
        # the texts of recovered clips are spelled again only to count what has no symbol
        tokens = self._tokens(np.flatnonzero(needs_text | is_recovered))
        estimated_bytes = self._estimate([number for number in np.flatnonzero(needs_audio) if number in tokens])
        if needs_text.any():
            self.writer.start(self.symbols.to_list())
            self._prepare_audio([number for number in np.flatnonzero(needs_audio) if number in tokens], tokens)
            for number in np.flatnonzero(needs_text & ~needs_audio):
                if number in tokens:
                    self._keep_record(number, None, tokens[number], self.records[number]["source_hash"].tobytes())
        was_there = np.isin(np.frombuffer(b"".join(self.clips.keys), "V16"), self.base_records["key"])
        if self.is_ready.any():
            self._publish()
        counted = {
            "added": self.is_ready & ~was_there,
            "changed": self.is_ready & was_there & (needs_audio | is_recovered),
            "retexted": self.is_ready & was_there & needs_text & ~needs_audio,
            "kept": self.is_ready & was_there & ~needs_text & ~is_recovered,
            "recovered": is_recovered,
        }
        return Outcome(
            **{name: int(flags.sum()) for name, flags in counted.items()},
            removed=len(self.base_records) - int((self.is_ready & was_there).sum()),
            estimated_bytes=estimated_bytes,
            notes=Notes(self.set_aside, self.unknown),
            failed=self.failed,
        )

    def _has_same_content(self) -> np.ndarray:
        """Recordings whose time changed, but not one of their bytes; their records get the new time."""
        is_same = np.zeros(len(self.clips.ids), bool)
        numbers = np.flatnonzero(self.changes.needs_hash)
        for place, head, _ in self.pool.run(
            "hash",
            [self._path(number) for number in numbers],
            stage="comparing recordings",
            progress=self.progress,
        ):
            number = numbers[place]
            if "rejected" not in head and bytes.fromhex(head["hash"]) == self.records[number]["source_hash"].tobytes():
                self.records["source_mtime_ns"][number] = self.clips.source_mtimes_ns[number]
                is_same[number] = True
        return is_same

    def _tokens(self, numbers: np.ndarray) -> dict[int, list[int]]:
        """Token ids of the given clips; those without speakable text are rejected. The symbol table grows first."""
        texts = phonemize_texts(self.source.utterances, numbers.tolist(), self.pool, self.progress)
        for number, failure in texts.failures.items():
            self._reject(number, failure)
        self.symbols = self.symbols.extended_with({symbol for text in texts.symbols.values() for symbol in set(text)})
        tokenizer = Tokenizer(self.symbols, self.location.front_end)
        tokens = {}
        for number in sorted(texts.symbols):
            encoded = tokenizer.number(texts.symbols[number])
            if encoded.unknown:
                self.unknown[self.clips.ids[number]] = dict(encoded.unknown)
            else:
                self.unknown.pop(self.clips.ids[number], None)
            if encoded.ids:
                tokens[number] = encoded.ids
            else:
                self._reject(number, NOTHING_TO_SPEAK)
        return tokens

    def _estimate(self, numbers: Sequence[int]) -> int:
        """Bytes that the clips will need at most; an error if the disk has less."""
        mel, rates = self.settings.mel, self.location.rates[numbers]
        rates = rates[rates["rate"] > 0]
        seconds = np.minimum(rates["samples"] / rates["rate"], self.config.max_seconds)
        frames = float(np.sum(seconds * mel.frames_per_second + 1))
        needed = int(frames * mel.n_mels * 4 * (1 + SPARE_SHARE))
        free = shutil.disk_usage(self.folder).free
        if needed > free:
            raise CacheError(
                f"Preparing {len(numbers)} clips needs about {needed / 1e6:,.1f} MB in {self.folder}, but only "
                f"{free / 1e6:,.1f} MB are free. Free some space, or name a folder on another disk: --cache-dir FOLDER "
                "(data.cache_dir)."
            )
        if numbers:
            self.announce(
                f"{len(numbers)} clips to prepare, {float(seconds.sum()) / 60:.1f} minutes of recordings: about "
                f"{needed / 1e6:,.1f} MB in {self.folder} ({free / 1e9:,.1f} GB free)"
            )
        return needed

    def _prepare_audio(self, numbers: Sequence[int], tokens: Mapping[int, list[int]]) -> None:
        jobs = [[self._path(number), self.settings.mel.sample_rate] for number in numbers]
        for place, head, payload in self.pool.run("audio", jobs, stage="preparing clips", progress=self.progress):
            number = numbers[place]
            if "rejected" in head:
                self._reject(number, Failure.from_head(head))
                continue
            frames = np.frombuffer(payload, "<f4").reshape(-1, self.settings.mel.n_mels)
            self._keep_record(number, frames, tokens[number], bytes.fromhex(head["hash"]))

    def _keep_record(self, number: int, frames: np.ndarray | None, tokens: list[int], source_hash: bytes) -> None:
        """Append a clip, or reject it if its text is too long for its frames; frames None: only the text is new."""
        frame_count = len(frames) if frames is not None else int(self.records[number]["frame_count"])
        failure = more_tokens_than_frames(len(tokens), frame_count)
        if failure is not None:
            self._reject(number, failure)
            return
        record: dict[str, Any] = {
            "key": self.clips.keys[number],
            "source_bytes": self.clips.source_bytes[number],
            "source_mtime_ns": self.clips.source_mtimes_ns[number],
            "source_hash": source_hash,
            "text_hash": self.clips.text_hashes[number],
        }
        if frames is None:
            record |= {name: self.records[number][name] for name in ("frame_start", "frame_count")}
        self.records[number] = self.writer.append(record, frames, np.array(tokens, np.int32))
        self.is_ready[number] = True

    def _reject(self, number: int, failure: Failure) -> None:
        """Leave a clip out; only what follows from its recording and text is remembered for the next run."""
        self.is_ready[number] = False
        clip_id = self.clips.ids[number]
        if failure.is_transient:
            self.failed[clip_id] = failure
            return
        self.set_aside[clip_id] = Setback(
            failure.reason,
            failure.detail,
            int(self.clips.source_bytes[number]),
            int(self.clips.source_mtimes_ns[number]),
            int(self.clips.text_hashes[number]),
        )

    def _publish(self) -> None:
        """Publish the usable clips in the order of the metadata, unless exactly that is published already."""
        self.writer.sync()
        numbers = np.flatnonzero(self.is_ready)
        utterances = [self.source.utterances[number] for number in numbers]
        records = self.records[numbers]
        base = self.base.header if self.base else {"speakers": [], "languages": [], "generation": 0}
        speakers = grown_table(base["speakers"], [one.speaker for one in utterances])
        languages = grown_table(base["languages"], [one.language for one in utterances])
        notes = Notes(self.set_aside, self.unknown)
        flags = self.source.is_validation[numbers]
        speaker_numbers = np.array([speakers[one.speaker] for one in utterances], np.int32)
        language_numbers = np.array([languages[one.language] for one in utterances], np.int32)
        if self.base and is_published(
            self.base, records, flags, speaker_numbers, language_numbers, speakers, languages, notes
        ):
            self.writer.discard()
            return
        generation = base["generation"] + 1
        data = {
            "frames_file": self.writer.frames_name,
            "tokens_file": self.writer.tokens_name,
            "rows": self.writer.num_rows,
            "tokens": self.writer.num_tokens,
        }
        if is_worth_compacting(self.folder, records, data, self.settings.mel.n_mels):
            records, data = compact(self.folder, records, data, self.settings.mel.n_mels, generation)
        publish(
            self.folder,
            self.settings.to_dict(),
            {
                "frame_starts": records["frame_start"],
                "token_starts": records["token_start"],
                "frame_counts": records["frame_count"],
                "token_counts": records["token_count"],
                "checksums": records["checksum"],
                "speaker_numbers": speaker_numbers,
                "language_numbers": language_numbers,
                "is_validation": flags,
                "source_bytes": records["source_bytes"],
                "source_mtimes_ns": records["source_mtime_ns"],
                "source_hashes": records["source_hash"],
                "text_hashes": records["text_hash"],
            },
            [one.id for one in utterances],
            [one.text for one in utterances],
            {
                "generation": generation,
                "symbols": self.symbols.to_list(),
                "speakers": list(speakers),
                "languages": list(languages),
                "data_folder": str(self.source.folder),
                "config": dataclasses.asdict(self.config),
                **data,
            },
            notes.to_bytes(),
        )

    def _path(self, number: int) -> str:
        return str(self.source.utterances[number].path)


def clips_of(source: Source) -> Clips:
    """The clips of a corpus as they are now."""
    return Clips(
        ids=[one.id for one in source.utterances],
        keys=[clip_key(one.id) for one in source.utterances],
        source_bytes=source.sizes,
        source_mtimes_ns=source.mtimes_ns,
        text_hashes=np.array([text_hash(one.language, one.text) for one in source.utterances], np.uint64),
    )


def unchanged_outcome(location: CacheLocation) -> Outcome | None:
    """What `prepare` would return if it had nothing to do; None if it has. Nothing is written, so no lock is needed."""
    try:
        base = open_base(location)
    except CacheError:  # damaged, and not by this user's `prepare`
        base = None
    if base is None:
        return None
    notes = read_notes(base.folder / base.header["notes_file"])
    changes = find_changes(clips_of(location.source), cache_records(base), notes.set_aside)
    is_ready = changes.has_same_audio & changes.has_same_text
    if not (is_ready | changes.is_set_aside).all():
        return None
    numbers = np.flatnonzero(is_ready).tolist()
    now = [(one.id, one.speaker, one.language) for one in (location.source.utterances[number] for number in numbers)]
    speakers = [base.speakers[number] for number in base.speaker_numbers]
    languages = [base.languages[number] for number in base.language_numbers]
    if now != list(zip(base.ids, speakers, languages, strict=True)):
        return None
    if not np.array_equal(base.is_validation, location.source.is_validation[numbers]):
        return None
    return Outcome(0, 0, 0, 0, kept=len(numbers), recovered=0, estimated_bytes=0, notes=notes, failed={})


def open_base(location: CacheLocation) -> Cache | None:
    """The published cache that is continued; None if there is none yet."""
    if not (location.folder / HEADER_NAME).exists():
        return None
    return open_cache(location.folder, expected_settings=location.settings.to_dict())


def grown_table(known: Sequence[str], names: Sequence[str]) -> dict[str, int]:
    """Name → number: known names stay in their order, new ones follow sorted, those that nobody bears any more are left out."""
    present = set(names)
    return {
        name: number
        for number, name in enumerate(
            [*(name for name in known if name in present), *sorted(present.difference(known))]
        )
    }


def is_published(
    base: Cache,
    records: np.ndarray,
    is_validation: np.ndarray,
    speaker_numbers: np.ndarray,
    language_numbers: np.ndarray,
    speakers: Iterable[str],
    languages: Iterable[str],
    notes: Notes,
) -> bool:
    """Whether the base already says exactly this, so that an unchanged corpus is not written again."""
    return (
        base.num_clips == len(records)
        and cache_records(base).tobytes() == records.tobytes()
        and np.array_equal(base.is_validation, is_validation)
        and np.array_equal(base.speaker_numbers, speaker_numbers)
        and np.array_equal(base.language_numbers, language_numbers)
        and (tuple(speakers), tuple(languages)) == (base.speakers, base.languages)
        and read_notes(base.folder / base.header["notes_file"]) == notes
    )
