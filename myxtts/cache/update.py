"""One run over a located corpus while its cache folder is locked: compare, phonemize, decode, publish.

The workers are asked twice. First for the symbols of all new texts, because tokens are ids in one table of symbols: it must be
complete before the first record is written, and grow in sorted order, or the ids would depend on which worker was faster. This
also means that a phonemizer that cannot start ends the run before any recording is decoded. Then with one job per clip: compare
its content with what is prepared, decode it, make its frames. Every finished clip is journaled at once.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from myxtts.cache.changes import Changes, ClipStates, clip_states, find_changes
from myxtts.cache.clip_texts import NOTHING_TO_SPEAK, Failure, more_tokens_than_frames, phonemize_texts
from myxtts.cache.format import HEADER_NAME, Cache, open_cache
from myxtts.cache.journal import RecordWriter, cache_records, open_records
from myxtts.cache.location import CacheLocation
from myxtts.cache.prepared_language import language_notices
from myxtts.cache.rejection_memory import RejectionMemory, RememberedRejection, read_rejection_memory
from myxtts.cache.writer import compact, is_worth_compacting, publish
from myxtts.config.config import DataConfig
from myxtts.errors import CacheError
from myxtts.runtime.workers import Progress, WorkerPool
from myxtts.text.tokenizer import SymbolTable, Tokenizer

SPARE_FRACTION = 0.05
"""Added to the disk estimate for tokens, index and journal."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Counts of clips: what they were before this run, and what it did."""

    added: int
    changed: int
    retexted: int
    removed: int
    kept: int
    recovered: int
    memory: RejectionMemory
    failed: Mapping[str, Failure]
    """Clips that failed for a reason that does not follow from the clip: the next run tries them again."""


def join_outcomes(outcomes: Sequence[Outcome]) -> Outcome:
    """The counts of several corpora together."""
    names = ("added", "changed", "retexted", "removed", "kept", "recovered")
    rejected = {name: one for each in outcomes for name, one in each.memory.rejected.items()}
    unknown = {name: one for each in outcomes for name, one in each.memory.unknown.items()}
    failed = {name: one for each in outcomes for name, one in each.failed.items()}
    counts = {name: sum(getattr(each, name) for each in outcomes) for name in names}
    return Outcome(**counts, memory=RejectionMemory(rejected, unknown), failed=failed)


def update_cache(
    config: DataConfig,
    location: CacheLocation,
    pool: WorkerPool,
    progress: Progress,
    announce: Callable[[str], None],
    retry: bool = False,
) -> tuple[Cache | None, Outcome]:
    """Prepare what is missing, publish, and open the cache (None: not one clip can be used). The caller holds the lock.

    `retry`: try clips again that an earlier run rejected.
    """
    base = _open_base(location)
    memory = read_rejection_memory(base) if base else RejectionMemory()
    if base is not None:
        for line in language_notices(base.languages, location.corpus.utterances):
            announce(line)
    clips = clip_states(location.corpus)
    with open_records(location.folder, location.settings, base) as writer:
        base_records = cache_records(base) if base else writer.recovered[:0]
        known = np.concatenate([base_records, writer.recovered])
        changes = find_changes(clips, known, {} if retry else memory.rejected)
        base_keys = base_records["key"]
        update = _Update(config, location, pool, progress, announce, base, base_keys, writer, clips, changes, memory)
        outcome = update.prepare_clips()
        if not update.is_ready.any():
            return None, outcome
        is_published = update.publish()
    if base is not None and not is_published:
        return base, outcome
    return open_cache(location.folder, location.settings.fingerprint), outcome


def unchanged_cache(location: CacheLocation) -> tuple[Cache, Outcome] | None:
    """The published cache if `update_cache` would have nothing to do; otherwise None. Nothing is written: no lock is needed."""
    try:
        base = _open_base(location)
    except CacheError:  # damaged, and not by this user's `prepare`
        base = None
    if base is None:
        return None
    corpus, memory = location.corpus, read_rejection_memory(base)
    changes = find_changes(clip_states(corpus), cache_records(base), memory.rejected)
    if not (changes.is_ready | changes.is_rejected).all():
        return None
    clips = np.flatnonzero(changes.is_ready).tolist()
    now = [(one.id, one.speaker, one.language) for one in (corpus.utterances[clip] for clip in clips)]
    speakers = [base.speakers[speaker] for speaker in base.speaker_numbers]
    languages = [base.languages[language] for language in base.language_numbers]
    if now != list(zip(base.ids, speakers, languages, strict=True)):
        return None
    if not np.array_equal(base.is_validation, corpus.is_validation[clips]):
        return None
    return base, Outcome(0, 0, 0, 0, kept=len(clips), recovered=0, memory=memory, failed={})


def _open_base(location: CacheLocation) -> Cache | None:
    """The published cache that is continued; None if there is none yet."""
    if not (location.folder / HEADER_NAME).exists():
        return None
    return open_cache(location.folder, expected_settings=location.settings.to_dict())


class _Update:
    """The state of one run: which clips are ready, their records, and why others are not."""

    def __init__(
        self,
        config: DataConfig,
        location: CacheLocation,
        pool: WorkerPool,
        progress: Progress,
        announce: Callable[[str], None],
        base: Cache | None,
        base_keys: np.ndarray,
        writer: RecordWriter,
        clips: ClipStates,
        changes: Changes,
        memory: RejectionMemory,
    ):
        self.config, self.location, self.pool, self.progress, self.announce = config, location, pool, progress, announce
        self.base, self.base_keys, self.writer, self.clips, self.changes = base, base_keys, writer, clips, changes
        self.corpus, self.settings = location.corpus, location.settings
        self.records = changes.records
        self.is_ready = changes.is_ready & ~changes.is_rejected
        self.rejected = {
            clips.ids[clip]: memory.rejected[clips.ids[clip]] for clip in np.flatnonzero(changes.is_rejected).tolist()
        }
        self.failed: dict[str, Failure] = {}
        self.unknown = {clip_id: memory.unknown[clip_id] for clip_id in clips.ids if clip_id in memory.unknown}
        self.symbols = SymbolTable()
        if writer.symbols:
            self.symbols = SymbolTable.from_list(writer.symbols)
        elif base is not None:
            self.symbols = base.symbols

    def prepare_clips(self) -> Outcome:
        """Make the symbols and frames that are missing."""
        changes, is_wanted = self.changes, ~self.changes.is_rejected
        needs_text, needs_audio = is_wanted & ~changes.has_same_text, is_wanted & ~changes.has_same_audio
        is_recovered = self.is_ready & np.isin(self.records["key"], self.writer.recovered["key"])
        # texts of recovered clips are phonemized again only to count the characters without a symbol
        tokens = self._tokens(np.flatnonzero(needs_text | is_recovered))
        has_text = ~needs_text
        has_text[list(tokens)] = True
        to_decode = np.flatnonzero(needs_audio & has_text)
        self._check_disk(to_decode[~changes.may_have_same_audio[to_decode]])
        has_same_content = np.zeros(len(is_wanted), bool)
        if (needs_text | needs_audio).any():
            self.writer.start(self.symbols.to_list())
            for clip in np.flatnonzero(needs_text & ~needs_audio & has_text).tolist():
                self._append(clip, None, tokens[clip], self.records[clip]["source_hash"].tobytes())
            for clip in self._decode(to_decode, tokens):
                has_same_content[clip] = True
        is_changed = needs_audio & ~has_same_content
        was_there = np.isin(np.frombuffer(b"".join(self.clips.keys), "V16"), self.base_keys)
        counted = {
            "added": self.is_ready & ~was_there,
            "changed": self.is_ready & was_there & (is_changed | is_recovered),
            "retexted": self.is_ready & was_there & needs_text & ~is_changed,
            "kept": self.is_ready & was_there & ~needs_text & ~is_changed & ~is_recovered,
            "recovered": is_recovered,
        }
        return Outcome(
            **{name: int(flags.sum()) for name, flags in counted.items()},
            removed=len(self.base_keys) - int((self.is_ready & was_there).sum()),
            memory=self.memory,
            failed=self.failed,
        )

    @property
    def memory(self) -> RejectionMemory:
        """What the next run is to remember."""
        return RejectionMemory(self.rejected, self.unknown)

    def _tokens(self, clips: np.ndarray) -> dict[int, list[int]]:
        """Token ids of the given clips; those without speakable text are rejected. The table of symbols grows first."""
        texts = phonemize_texts(self.corpus.utterances, clips.tolist(), self.pool, self.progress)
        for clip, failure in texts.failures.items():
            self._reject(clip, failure)
        self.symbols = self.symbols.extended_with({symbol for text in texts.symbols.values() for symbol in set(text)})
        tokenizer = Tokenizer(self.symbols, self.location.front_end)
        tokens = {}
        for clip in sorted(texts.symbols):
            encoded = tokenizer.number(texts.symbols[clip])
            if encoded.unknown:
                self.unknown[self.clips.ids[clip]] = dict(encoded.unknown)
            else:
                self.unknown.pop(self.clips.ids[clip], None)
            if encoded.ids:
                tokens[clip] = encoded.ids
            else:
                self._reject(clip, NOTHING_TO_SPEAK)
        return tokens

    def _check_disk(self, clips: np.ndarray) -> None:
        """Announce how many bytes the clips need at most; raise if the disk has fewer."""
        mel, folder, rates = self.settings.mel, self.location.folder, self.location.rates[clips]
        rates = rates[rates["rate"] > 0]
        seconds = np.minimum(rates["samples"] / rates["rate"], self.config.max_seconds)
        frames = float(np.sum(seconds * mel.frames_per_second + 1))
        needed = int(frames * mel.n_mels * 4 * (1 + SPARE_FRACTION))
        free = shutil.disk_usage(folder).free
        if needed > free:
            raise CacheError(
                f"Preparing {len(clips)} clips needs about {needed / 1e6:,.1f} MB in {folder}, but only "
                f"{free / 1e6:,.1f} MB are free. Free some space, or name a folder on another disk: --cache-dir FOLDER "
                "(data.cache_dir)."
            )
        if len(clips):
            self.announce(
                f"{len(clips)} clips to prepare, {float(seconds.sum()) / 60:.1f} minutes of recordings: about "
                f"{needed / 1e6:,.1f} MB in {folder} ({free / 1e9:,.1f} GB free)"
            )

    def _decode(self, clips: np.ndarray, tokens: Mapping[int, list[int]]) -> list[int]:
        """Prepare the recordings of these clips; returns those whose content is already prepared."""
        jobs = [
            [str(self.corpus.utterances[clip].path), self.settings.mel.sample_rate, self._prepared_hash(clip)]
            for clip in clips.tolist()
        ]
        same = []
        for job, head, payload in self.pool.run("audio", jobs, stage="preparing clips", progress=self.progress):
            clip, frames = int(clips[job]), None
            if "rejected" in head:
                self._reject(clip, Failure.from_head(head))
                continue
            if "frames" in head:
                frames = np.frombuffer(payload, "<f4").reshape(-1, self.settings.mel.n_mels)
            else:
                same.append(clip)
            if frames is None and clip not in tokens:  # only the time of the file changed
                self.records["source_mtime_ns"][clip] = self.clips.source_mtimes_ns[clip]
                self.is_ready[clip] = True
                continue
            own_tokens = tokens[clip] if clip in tokens else self.writer.files.tokens_of(self.records[clip])
            self._append(clip, frames, own_tokens, bytes.fromhex(head["hash"]))
        return same

    def _prepared_hash(self, clip: int) -> str | None:
        """The hash of the prepared recording where the present one may be the same."""
        return self.records[clip]["source_hash"].tobytes().hex() if self.changes.may_have_same_audio[clip] else None

    def _append(
        self, clip: int, frames: np.ndarray | None, tokens: Sequence[int] | np.ndarray, source_hash: bytes
    ) -> None:
        """Append a clip, or reject it if its text is too long for its frames; frames None: only the text is new."""
        frame_count = len(frames) if frames is not None else int(self.records[clip]["frame_count"])
        failure = more_tokens_than_frames(len(tokens), frame_count)
        if failure is not None:
            self._reject(clip, failure)
            return
        record: dict[str, Any] = {
            "key": self.clips.keys[clip],
            "source_bytes": self.clips.source_bytes[clip],
            "source_mtime_ns": self.clips.source_mtimes_ns[clip],
            "source_hash": source_hash,
            "text_hash": self.clips.text_hashes[clip],
        }
        if frames is None:
            record |= {name: self.records[clip][name] for name in ("frame_start", "frame_count")}
        self.records[clip] = self.writer.append(record, frames, np.array(tokens, np.int32))
        self.is_ready[clip] = True

    def _reject(self, clip: int, failure: Failure) -> None:
        """Leave a clip out; only what follows from its recording and text is remembered for the next run."""
        self.is_ready[clip] = False
        clip_id = self.clips.ids[clip]
        if failure.is_transient:
            self.failed[clip_id] = failure
            return
        self.rejected[clip_id] = RememberedRejection(
            failure.reason,
            failure.detail,
            int(self.clips.source_bytes[clip]),
            int(self.clips.source_mtimes_ns[clip]),
            int(self.clips.text_hashes[clip]),
        )

    def publish(self) -> bool:
        """Publish the usable clips in the order of the metadata; returns False if exactly that is published already."""
        self.writer.sync()
        clips = np.flatnonzero(self.is_ready)
        utterances = [self.corpus.utterances[clip] for clip in clips]
        records = self.records[clips]
        base = self.base.header if self.base else {"speakers": [], "languages": [], "generation": 0}
        speakers = _grown_table(base["speakers"], [one.speaker for one in utterances])
        languages = _grown_table(base["languages"], [one.language for one in utterances])
        columns = {
            "frame_starts": records["frame_start"],
            "token_starts": records["token_start"],
            "frame_counts": records["frame_count"],
            "token_counts": records["token_count"],
            "checksums": records["checksum"],
            "speaker_numbers": np.array([speakers[one.speaker] for one in utterances], np.int32),
            "language_numbers": np.array([languages[one.language] for one in utterances], np.int32),
            "is_validation": self.corpus.is_validation[clips],
            "source_bytes": records["source_bytes"],
            "source_mtimes_ns": records["source_mtime_ns"],
            "source_hashes": records["source_hash"],
            "text_hashes": records["text_hash"],
        }
        ids = [one.id for one in utterances]
        facts = {
            "speakers": list(speakers),
            "languages": list(languages),
            "license": self.corpus.license,
            "attribution": self.corpus.attribution,
        }
        has_same_clips = self.base_keys.tobytes() == records["key"].tobytes()
        if self.base and has_same_clips and _is_published(self.base, columns, facts, self.memory):
            self.writer.discard()
            return False
        generation, files = base["generation"] + 1, self.writer.files
        data = {
            "frames_file": files.frames_file,
            "tokens_file": files.tokens_file,
            "rows": self.writer.num_rows,
            "tokens": self.writer.num_tokens,
        }
        if is_worth_compacting(self.location.folder, records, data, files.n_mels):
            records, data = compact(self.location.folder, records, data, files.n_mels, generation)
            columns |= {"frame_starts": records["frame_start"], "token_starts": records["token_start"]}
        tables = {
            "generation": generation,
            "symbols": self.symbols.to_list(),
            "data_folder": str(self.corpus.folder),
            "config": dataclasses.asdict(self.config),
            **facts,
            **data,
        }
        texts = [one.text for one in utterances]
        publish(self.location.folder, self.settings.to_dict(), columns, ids, texts, tables, self.memory.to_bytes())
        return True


def _grown_table(known: Sequence[str], names: Sequence[str]) -> dict[str, int]:
    """Name → index: known names stay in their order, new ones follow sorted, names that no clip has are left out."""
    present = set(names)
    kept = [name for name in known if name in present]
    return {name: index for index, name in enumerate([*kept, *sorted(present.difference(known))])}


def _is_published(
    base: Cache, columns: Mapping[str, np.ndarray], facts: Mapping[str, Any], memory: RejectionMemory
) -> bool:
    """Whether the base already holds exactly this, so that an unchanged corpus is not written again."""
    published = base.columns()
    return (
        all(np.array_equal(published[name], column) for name, column in columns.items())
        and all(base.header[name] == value for name, value in facts.items())
        and read_rejection_memory(base) == memory
    )
