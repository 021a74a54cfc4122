"""A corpus without a prepared cache (`preprocessing_mode: runtime`): folder in, what a plan and a trainer need of it out.

Texts are spelled and headers are read at the start; recordings are decoded while training (`myxtts.data.runtime_loader`). That is
possible for 16-bit WAV at the corpus's sample rate only: all others are listed in one error. No TensorFlow here.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from myxtts.audio.files import load_clip, probe_audio
from myxtts.audio.mel import MelSpec, mel_numpy, num_frames
from myxtts.config.config import DataConfig
from myxtts.data.cache_location import most_frequent_rate
from myxtts.data.source import Source, read_source
from myxtts.data.utterance import Rejection, Utterance
from myxtts.errors import AudioError, CorpusError
from myxtts.text.tokenizer import SymbolTable, Tokenizer, build_front_end, letters_notice

LISTED_FILES = 10


@dataclass(frozen=True, eq=False)
class RecordingTable:
    """Stands for a `myxtts.data.cache.Cache` where nothing is prepared; arrays hold one value per clip."""

    folder: Path
    paths: tuple[str, ...]
    ids: tuple[str, ...]
    texts: tuple[str, ...]
    mel: MelSpec
    symbols: SymbolTable
    front_end_kind: str
    speakers: tuple[str, ...]
    languages: tuple[str, ...]
    frame_counts: np.ndarray
    """int32: frames of the whole recording; what is left after silence is cut is known when it is read."""
    frame_starts: np.ndarray
    """int64: 0, because there is no table of frames."""
    token_starts: np.ndarray
    token_counts: np.ndarray
    speaker_numbers: np.ndarray
    language_numbers: np.ndarray
    is_validation: np.ndarray
    tokens: np.ndarray
    """int32: of all clips; element 0 is padding."""
    rejections: tuple[Rejection, ...]
    notices: tuple[str, ...]
    """What was guessed about the corpus, and whether letters stand in for phonemes: one sentence each."""
    config: DataConfig

    @property
    def num_clips(self) -> int:
        return len(self.ids)

    @property
    def content_id(self) -> str:
        """Changes when a clip is added, removed or said differently."""
        lines = "\n".join(f"{clip}|{text}" for clip, text in zip(self.ids, self.texts, strict=True))
        return f"recordings-{hashlib.sha256(lines.encode()).hexdigest()[:16]}"

    def clip_frames(self, clip: int) -> np.ndarray:
        """Log-mel of one clip, (frames, n_mels), read from its recording."""
        return mel_numpy(load_clip(self.paths[clip], self.config, self.mel.sample_rate), self.mel)


def open_recordings(config: DataConfig, folder: str | Path | None = None) -> RecordingTable:
    """The corpus in `folder` (default: `config.train_data`, then the bundled prompts), ready to be decoded while training."""
    source = read_source(config, folder)
    rates = np.array([_rate(one.path) for one in source.utterances])
    sample_rate = most_frequent_rate(rates) if config.sample_rate == "auto" else config.sample_rate
    _refuse_undecodable([one for one in source.utterances if not _is_decodable(one.path, sample_rate)], sample_rate)
    mel = MelSpec.from_config(config, sample_rate)
    front_end = build_front_end(config.text_symbols, config.lexicon)
    spelled = _spelled(source, front_end.symbols_of)
    symbols = SymbolTable().extended_with({symbol for one in spelled for symbol in one})
    tokenizer = Tokenizer(symbols, front_end)
    encoded = [tokenizer.number(one).ids for one in spelled]
    samples = [probe_audio(one.path)[0] for one in source.utterances]
    frames = np.array([num_frames(count, mel) for count in samples], np.int32)
    reasons = [
        _unusable(count / sample_rate, len(ids), int(n), config)
        for count, ids, n in zip(samples, encoded, frames, strict=True)
    ]
    kept = np.array([place for place, reason in enumerate(reasons) if reason is None], np.int64)
    rejected = tuple(
        Rejection(one.id, str(one.path), reason)
        for one, reason in zip(source.utterances, reasons, strict=True)
        if reason is not None
    )
    if not len(kept):
        raise CorpusError(f"No clip of {source.folder} can be used: the first one is '{rejected[0].reason}'.")
    utterances = [source.utterances[place] for place in kept]
    token_counts = np.array([len(encoded[place]) for place in kept], np.int32)
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
        tokens=np.concatenate([[0], *(encoded[place] for place in kept)]).astype(np.int32),
        rejections=(*source.rejections, *rejected),
        notices=tuple(
            notice for notice in (*source.notices, letters_notice(config.text_symbols, front_end.kind)) if notice
        ),
        config=config,
    )


def _spelled(source: Source, symbols_of) -> list[list[str]]:
    """Symbols of every text, language by language."""
    spelled: list[list[str]] = [[] for _ in source.utterances]
    for language in sorted({one.language for one in source.utterances}):
        places = [place for place, one in enumerate(source.utterances) if one.language == language]
        texts = symbols_of([source.utterances[place].text for place in places], language)
        for place, symbols in zip(places, texts, strict=True):
            spelled[place] = symbols
    return spelled


def _unusable(seconds: float, num_tokens: int, frames: int, config: DataConfig) -> str | None:
    if seconds < config.min_seconds:
        return "too short"
    if seconds > config.max_seconds:
        return "too long"
    if not num_tokens:
        return "empty text"
    return "more tokens than frames" if 2 * num_tokens + 1 > frames else None


def _rate(path: Path) -> int:
    try:
        return probe_audio(path)[1]
    except AudioError:
        return 0


def _is_decodable(path: Path, sample_rate: int) -> bool:
    try:
        facts = soundfile.info(path)
    except soundfile.SoundFileError:
        return False
    return (facts.format, facts.subtype, facts.samplerate) == ("WAV", "PCM_16", sample_rate)


def _refuse_undecodable(utterances: list[Utterance], sample_rate: int) -> None:
    if not utterances:
        return
    listed = "\n".join(f"  {one.path}" for one in utterances[:LISTED_FILES])
    rest = f"\n  … and {len(utterances) - LISTED_FILES} more" if len(utterances) > LISTED_FILES else ""
    raise CorpusError(
        f"data.preprocessing_mode: runtime decodes 16-bit WAV at {sample_rate} Hz only. {len(utterances)} recordings are "
        f"something else:\n{listed}{rest}\nUse preprocessing_mode: precompute (the default), which reads every format."
    )
