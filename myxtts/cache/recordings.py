"""A corpus that is decoded while training instead of prepared (`preprocessing_mode: runtime`): the table of its recordings.

At the start, the worker processes of `prepare` phonemize the texts and decode every recording once: the same clips are rejected,
and the lengths without silence are known. While training, recordings are decoded again (`myxtts.batches.on_the_fly`). That works
only for 16-bit WAV at the corpus's sample rate: all other recordings are listed in one error. No TensorFlow here.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from myxtts.audio.clips import load_clip
from myxtts.audio.files import probe_audio
from myxtts.audio.mel import MelSpec, mel_numpy
from myxtts.cache.clip_table import ClipTable
from myxtts.cache.location import most_frequent_rate
from myxtts.cache.worker import (
    NOTHING_TO_SPEAK,
    Failure,
    more_tokens_than_frames,
    open_workers,
    phonemize_texts,
)
from myxtts.config.config import DataConfig
from myxtts.corpus.corpus import Corpus, read_corpus
from myxtts.corpus.utterance import Rejection, Utterance, summarize_rejections
from myxtts.errors import AudioError, CorpusError
from myxtts.runtime.progress import ProgressCallback, ignore_progress
from myxtts.runtime.workers import WorkerPool
from myxtts.text.tokenizer import SymbolTable, Tokenizer, build_front_end, letters_notices

LISTED_FILES = 10
"""Files listed in a message; the rest is counted."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RecordingTable(ClipTable):
    """The clips of a corpus that is not prepared. There is no table of frames: `frame_starts` are 0, and `frame_counts` are those
    after silence is trimmed."""

    paths: tuple[str, ...]
    tokens: np.ndarray
    """int32: of all clips; element 0 is padding."""
    rejections: tuple[Rejection, ...]
    notices: tuple[str, ...]
    """What was guessed about the corpus, and whether letters are used instead of phonemes: one sentence each."""
    config: DataConfig
    frames_path: None = None
    """There is no file of frames: this distinguishes the table from a prepared one."""

    @property
    def content_id(self) -> str:
        """Changes when a clip is added or removed, or its text changes."""
        lines = "\n".join(f"{clip}|{text}" for clip, text in zip(self.ids, self.texts, strict=True))
        return f"recordings-{hashlib.sha256(lines.encode()).hexdigest()[:16]}"

    def rejection_report(self) -> list[str]:
        """Lines for the user: how many clips were rejected, and the first of them with their reasons."""
        if not self.rejections:
            return []
        listed = [f"  {one.id}: {one.detail or one.reason}" for one in self.rejections[:LISTED_FILES]]
        rest = [f"  … and {len(self.rejections) - LISTED_FILES} more"] if len(self.rejections) > LISTED_FILES else []
        return [summarize_rejections(self.rejections), *listed, *rest]

    def clip_frames(self, clip: int) -> np.ndarray:
        """Log-mel of one clip, (frames, n_mels), read from its recording."""
        return mel_numpy(load_clip(self.paths[clip], self.config, self.mel.sample_rate), self.mel)


def open_recordings(config: DataConfig, progress: ProgressCallback = ignore_progress) -> RecordingTable:
    """The table of the corpus in `config.train_data`, or of the bundled prompts.

    Raises `CorpusError` if a recording cannot be decoded by TensorFlow or no clip can be used.
    """
    source = read_corpus(config)
    rates = np.array([_rate(one.path) for one in source.utterances])
    sample_rate = most_frequent_rate(rates) if config.sample_rate == "auto" else config.sample_rate
    _refuse_undecodable([one for one in source.utterances if not _is_decodable(one.path, sample_rate)], sample_rate)
    mel = MelSpec.from_config(config, sample_rate)
    front_end = build_front_end(config.text_symbols, config.lexicon, config.language)
    with open_workers(config, front_end) as pool:
        texts = phonemize_texts(source.utterances, range(len(source.utterances)), pool, progress)
        failures = dict(texts.failures)
        frames = _frame_counts(source, sample_rate, failures, pool, progress)
    symbols = SymbolTable().extended_with({symbol for text in texts.symbols.values() for symbol in text})
    tokenizer = Tokenizer(symbols, front_end)
    encoded = {index: tokenizer.number(text).ids for index, text in texts.symbols.items()}
    for index, ids in encoded.items():
        failure = more_tokens_than_frames(len(ids), int(frames[index])) if ids else NOTHING_TO_SPEAK
        if failure is not None:
            failures.setdefault(index, failure)
    kept = np.array([index for index in range(len(source.utterances)) if index not in failures], np.int64)
    rejected = tuple(
        Rejection(one.id, str(one.path), failures[index].reason, failures[index].detail)
        for index, one in enumerate(source.utterances)
        if index in failures
    )
    if not len(kept):
        raise CorpusError(
            f"No clip of {source.folder} can be used: {summarize_rejections(rejected)}. The first: {rejected[0].detail}"
        )
    utterances = [source.utterances[index] for index in kept]
    token_counts = np.array([len(encoded[index]) for index in kept], np.int32)
    speakers = tuple(sorted({one.speaker for one in utterances}))
    languages = tuple(sorted({one.language for one in utterances}))
    return RecordingTable(
        folder=source.folder,
        paths=tuple(str(one.path) for one in utterances),
        ids=tuple(one.id for one in utterances),
        texts=tuple(one.text for one in utterances),
        mel=mel,
        symbols=symbols,
        front_end_kind=front_end.kind,
        speakers=speakers,
        languages=languages,
        frame_counts=frames[kept],
        frame_starts=np.zeros(len(kept), np.int64),
        token_starts=1 + np.cumsum(token_counts, dtype=np.int64) - token_counts,
        token_counts=token_counts,
        speaker_numbers=np.array([speakers.index(one.speaker) for one in utterances], np.int32),
        language_numbers=np.array([languages.index(one.language) for one in utterances], np.int32),
        is_validation=source.is_validation[kept],
        tokens=np.concatenate([[0], *(encoded[index] for index in kept)]).astype(np.int32),
        rejections=(*source.rejections, *rejected),
        notices=(*letters_notices(config.text_symbols, front_end.kind), *source.notices),
        config=config,
        license=source.license,
        attribution=source.attribution,
        _front_end=front_end,
    )


def _frame_counts(
    source: Corpus, sample_rate: int, failures: dict[int, Failure], pool: WorkerPool, progress: ProgressCallback
) -> np.ndarray:
    """int32 (utterances,): frames of each clip; recordings that cannot be used have 0 and are added to `failures`."""
    frames = np.zeros(len(source.utterances), np.int32)
    jobs = [[str(one.path), sample_rate] for one in source.utterances]
    for index, head, _ in pool.run("length", jobs, stage="measuring clips", progress=progress):
        if "rejected" in head:
            failures[index] = Failure.from_head(head)
        else:
            frames[index] = head["frames"]
    return frames


def _rate(path: Path) -> int:
    """Sample rate in Hz, 0 for an unreadable file."""
    try:
        return probe_audio(path)[1]
    except AudioError:
        return 0


def _is_decodable(path: Path, sample_rate: int) -> bool:
    """Whether TensorFlow can decode the file. Unreadable files pass: they are rejected later, with their reason."""
    try:
        facts = soundfile.info(path)
    except soundfile.SoundFileError:
        return True
    return (facts.format, facts.subtype, facts.samplerate) == ("WAV", "PCM_16", sample_rate)


def _refuse_undecodable(utterances: list[Utterance], sample_rate: int) -> None:
    """Raise one error that lists the recordings that TensorFlow cannot decode."""
    if not utterances:
        return
    listed = "\n".join(f"  {one.path}" for one in utterances[:LISTED_FILES])
    rest = f"\n  … and {len(utterances) - LISTED_FILES} more" if len(utterances) > LISTED_FILES else ""
    raise CorpusError(
        f"data.preprocessing_mode: runtime decodes 16-bit WAV at {sample_rate} Hz only. {len(utterances)} recordings have "
        f"another format or rate:\n{listed}{rest}\nUse preprocessing_mode: precompute (the default), which reads every format."
    )
