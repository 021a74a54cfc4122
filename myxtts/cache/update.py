"""One run over a located corpus while its cache folder is locked: compare, phonemize, decode, publish.

The workers have two rounds of jobs. The first makes the symbols of all new texts, because tokens are ids in one table of symbols:
it must be complete before the first record is written, and grow in sorted order, or the ids would depend on which worker was
faster. This also means that a phonemizer that cannot start ends the run before any recording is decoded. The second has one job
per clip: compare its content with what is prepared, decode it, make its frames. Every finished clip is journaled at once.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from myxtts.cache.changes import (
    Changes,
    ClipStates,
    RejectionMemory,
    RememberedRejection,
    UpdateOutcome,
    clip_states,
    find_changes,
    read_rejection_memory,
)
from myxtts.cache.clip_table import Cache, cache_records, open_cache
from myxtts.cache.format import AUDIO_FIELDS, HEADER_NAME, record_columns
from myxtts.cache.journal import RecordWriter, open_records
from myxtts.cache.location import CacheLocation, language_notices
from myxtts.cache.worker import (
    NOTHING_TO_SPEAK,
    Failure,
    PreparedAudio,
    more_tokens_than_frames,
    phonemize_texts,
    prepared_audio,
)
from myxtts.cache.writer import compact, is_worth_compacting, publish
from myxtts.config.config import DataConfig
from myxtts.errors import CacheError
from myxtts.runtime.progress import ProgressCallback
from myxtts.runtime.workers import WorkerPool
from myxtts.text.tokenizer import SymbolTable, Tokenizer

SPARE_FRACTION = 0.05
"""Added to the disk estimate for tokens, index and journal. Chosen; not measured."""


def update_cache(
    config: DataConfig,
    location: CacheLocation,
    pool: WorkerPool,
    progress: ProgressCallback,
    announce: Callable[[str], None],
    retry: bool = False,
    with_sound: bool = False,
) -> tuple[Cache | None, UpdateOutcome]:
    """Prepare what is missing, publish, and open the cache (None: not one clip can be used). The caller holds the lock.

    `retry`: try clips again that an earlier run rejected. `with_sound`: samples and pitch belong to a prepared clip.
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
        changes = find_changes(clips, known, {} if retry else memory.rejected, with_sound)
        base_keys = base_records["key"]
        update = _Update(
            config, location, pool, progress, announce, base, base_keys, writer, clips, changes, memory, with_sound
        )
        outcome = update.prepare_clips()
        if not update.is_ready.any():
            return None, outcome
        is_published = update.publish()
    if base is not None and not is_published:
        return base, outcome
    return open_cache(location.folder, location.settings.fingerprint), outcome


def unchanged_cache(location: CacheLocation, with_sound: bool = False) -> tuple[Cache, UpdateOutcome] | None:
    """The published cache if `update_cache` would have nothing to do; otherwise None. Nothing is written: no lock is needed."""
    try:
        base = _open_base(location)
    except CacheError:  # damaged, and not by this user's `prepare`
        base = None
    if base is None:
        return None
    corpus, memory = location.corpus, read_rejection_memory(base)
    changes = find_changes(clip_states(corpus), cache_records(base), memory.rejected)
    is_ready = changes.has_same_audio & changes.has_same_text  # a cache of an older version is used without the quality
    if not (is_ready | changes.is_rejected).all() or (with_sound and not base.sample_starts.all()):
        return None
    clips = np.flatnonzero(is_ready).tolist()
    now = [(one.id, one.speaker, one.language) for one in (corpus.utterances[clip] for clip in clips)]
    speakers = [base.speakers[speaker] for speaker in base.speaker_numbers]
    languages = [base.languages[language] for language in base.language_numbers]
    if now != list(zip(base.ids, speakers, languages, strict=True)):
        return None
    if not np.array_equal(base.is_validation, corpus.is_validation[clips]):
        return None
    return base, UpdateOutcome(0, 0, 0, 0, kept=len(clips), recovered=0, memory=memory, failed={})


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
        progress: ProgressCallback,
        announce: Callable[[str], None],
        base: Cache | None,
        base_keys: np.ndarray,
        writer: RecordWriter,
        clips: ClipStates,
        changes: Changes,
        memory: RejectionMemory,
        with_sound: bool,
    ):
        self.with_sound = with_sound
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

    def prepare_clips(self) -> UpdateOutcome:
        """Make the symbols and frames that are missing."""
        changes, is_wanted = self.changes, ~self.changes.is_rejected
        needs_text = is_wanted & ~changes.has_same_text
        needs_audio = is_wanted & (~changes.has_same_audio | changes.lacks_parts)
        is_recovered = self.is_ready & np.isin(self.records["key"], self.writer.recovered["key"])
        # texts of recovered clips are phonemized again only to count the characters without a symbol
        tokens = self._tokens(np.flatnonzero(needs_text | is_recovered))
        has_text = ~needs_text
        has_text[list(tokens)] = True
        to_decode = np.flatnonzero(needs_audio & has_text)
        self._check_disk(to_decode[(changes.lacks_parts | ~changes.may_have_same_audio)[to_decode]])
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
        return UpdateOutcome(
            **{name: int(flags.sum()) for name, flags in counted.items()},
            removed=len(self.base_keys) - int((self.is_ready & was_there).sum()),
            memory=self.memory,
            failed=self.failed,
        )

    @property
    def memory(self) -> RejectionMemory:
        """The rejections that the next run reads."""
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
        frame_bytes = 4 * mel.n_mels + (2 * mel.hop_length + 4 if self.with_sound else 0)
        needed = int(frames * frame_bytes * (1 + SPARE_FRACTION))
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
            [
                str(self.corpus.utterances[clip].path),
                self.settings.mel.sample_rate,
                self._prepared_hash(clip),
                self.with_sound,
            ]
            for clip in clips.tolist()
        ]
        same = []
        for job, head, payload in self.pool.run("audio", jobs, stage="preparing clips", progress=self.progress):
            clip, audio = int(clips[job]), None
            if "rejected" in head:
                self._reject(clip, Failure.from_head(head))
                continue
            is_same = "frames" not in head or head["hash"] == self.records[clip]["source_hash"].tobytes().hex()
            if is_same:
                same.append(clip)
            if "frames" in head:
                audio = prepared_audio(head, payload, self.settings.mel.n_mels, self.with_sound)
            elif clip not in tokens:  # only the time of the file changed
                self.records["source_mtime_ns"][clip] = self.clips.source_mtimes_ns[clip]
                self.is_ready[clip] = True
                continue
            self._append(clip, audio, tokens.get(clip), bytes.fromhex(head["hash"]), has_frames=is_same)
        return same

    def _prepared_hash(self, clip: int) -> str | None:
        """The hash of the prepared recording where the present one may be the same and nothing else is missing."""
        if not self.changes.may_have_same_audio[clip] or self.changes.lacks_parts[clip]:
            return None
        return self.records[clip]["source_hash"].tobytes().hex()

    def _append(
        self,
        clip: int,
        audio: PreparedAudio | None,
        tokens: Sequence[int] | None,
        source_hash: bytes,
        has_frames: bool = True,
    ) -> None:
        """Append a clip, or reject it if its text is too long for its frames.

        Args:
            audio: None if the recording is as it was, so that only the text is new.
            tokens: None if the text is as it was.
            has_frames: the frames of this recording are already written and are used again.
        """
        frames = audio.frames if audio is not None and not has_frames else None
        frame_count = len(frames) if frames is not None else int(self.records[clip]["frame_count"])
        token_count = len(tokens) if tokens is not None else int(self.records[clip]["token_count"])
        failure = more_tokens_than_frames(token_count, frame_count)
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
            record |= {name: self.records[clip][name] for name in AUDIO_FIELDS}
        if tokens is None:
            record |= {name: self.records[clip][name] for name in ("token_start", "token_count")}
        if audio is not None:
            record |= {"bandwidth": audio.bandwidth, "snr": audio.snr}
        sound = audio.sound if audio is not None else None
        own_tokens = None if tokens is None else np.array(tokens, np.int32)
        self.records[clip] = self.writer.append(record, frames, own_tokens, sound)
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
            **record_columns(records),
            "speaker_numbers": np.array([speakers[one.speaker] for one in utterances], np.int32),
            "language_numbers": np.array([languages[one.language] for one in utterances], np.int32),
            "is_validation": self.corpus.is_validation[clips],
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
            "samples_file": files.samples_file,
            "pitch_file": files.pitch_file,
            **self.writer.sizes(),
        }
        if is_worth_compacting(self.location.folder, records, data, files.n_mels):
            generation += 1  # this run may have appended to files of the generation before
            records, data = compact(self.location.folder, records, data, files.n_mels, generation)
            columns |= record_columns(records)
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
