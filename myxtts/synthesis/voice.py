"""A voice that speaks: a voice folder in, audio out. The entry point of synthesis for Python.

    voice = Voice.load("my-voice")
    for chunk in voice.say("A long text. It comes sentence by sentence."):
        play(chunk.samples, chunk.sample_rate)

One `Voice` may be used by several threads at once. Nothing here imports TensorFlow.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from myxtts.errors import TextError, VoiceError
from myxtts.synthesis.engine import Engine, Sampling, load_engine
from myxtts.synthesis.options import (
    SpeechOptions,
    check_can_clone,
    check_language,
    check_name,
    check_number,
    check_text_length,
)
from myxtts.synthesis.pieces import (
    LONGEST_FRAMES,
    LONGEST_SYMBOLS,
    Piece,
    cut_frames,
    cut_symbols,
    join_parts,
    noise_of,
)
from myxtts.synthesis.speaker import Speaker, reference_pieces
from myxtts.synthesis.vocoder import Vocoder, open_vocoder
from myxtts.synthesis.voice_folder import VoiceDescription, bundled_voice, read_description, voice_identity
from myxtts.text.pauses import PAUSE_SYMBOLS, WORD_BOUNDARY
from myxtts.text.sentences import TextPiece, split_sentences


class Audio(NamedTuple):
    """Speech: float32 samples (samples,) from -1 to 1, and their rate in Hz."""

    samples: np.ndarray
    sample_rate: int

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return len(self.samples) / self.sample_rate


class Chunk(NamedTuple):
    """One spoken piece of a text."""

    samples: np.ndarray
    sample_rate: int
    text: str
    unknown: Counter
    """Symbols of the text that the voice does not have; they are skipped."""


class Voice:
    """A loaded voice."""

    def __init__(
        self,
        description: VoiceDescription,
        engine: Engine,
        vocoder: Vocoder,
        speaker_vectors: np.ndarray | None,
        identity: str,
    ):
        """Use `Voice.load`."""
        self.description = description
        self.engine = engine
        self.vocoder = vocoder
        self.identity = identity
        self.languages = tuple(description.languages)
        self.speakers = tuple(description.speakers)
        self.mel = description.mel_spec()
        self.sample_rate = self.mel.sample_rate
        self.trim_silence_db = description.trim_silence_db
        self.loudness_db = description.loudness_db
        self._model = description.model_spec()
        self._tokenizer = description.tokenizer()
        self._speaker_vectors = speaker_vectors
        id_of = self._tokenizer.symbols.id_of
        self._boundaries = frozenset(id_of[symbol] for symbol in (WORD_BOUNDARY, *PAUSE_SYMBOLS) if symbol in id_of)

    @classmethod
    def load(cls, folder: str | Path | None = None, threads: int | None = None) -> Voice:
        """Read a voice folder; a missing, damaged, foreign or newer one is a `VoiceError`.

        Args:
            folder: the voice folder; None: the bundled voice.
            threads: threads of one sentence; None: as many as there are cores for this process.
        """
        folder = bundled_voice() if folder is None else Path(folder)
        description = read_description(folder)
        engine, speaker_vectors = load_engine(folder, description, threads)
        vocoder = open_vocoder(description.vocoder, description.mel_spec(), folder, threads)
        return cls(description, engine, vocoder, speaker_vectors, voice_identity(folder, description))

    # --- speaking -------------------------------------------------------------------------------------------------

    def say(self, text: str, options: SpeechOptions | None = None, **named) -> Iterator[Chunk]:
        """Speak a text: chunks of audio as they are ready, sentence by sentence, to be played one after the other.

        Options are given by name (`SpeechOptions`) or as an object. What is wrong with them or the text is raised at once.
        """
        options = _options(options, named)
        language, vector = check_language(options.language, self.languages), self.speaker_vector(options.speaker)
        pieces = self._pieces(text, language, options, options.seed)
        first = next(pieces)  # a text with nothing to say raises now
        return self._say(itertools.chain([first], pieces), language, vector, options)

    def _say(
        self, pieces: Iterable[Piece], language: str, vector: np.ndarray, options: SpeechOptions
    ) -> Iterator[Chunk]:
        sampling = self.sampling(language, vector, options)
        for piece in pieces:
            yield Chunk(self._speak(piece, sampling), self.sample_rate, piece.text, piece.unknown)

    def synthesize(self, text: str, options: SpeechOptions | None = None, **named) -> Audio:
        """Speak a text and return all of it: the chunks of `say`, joined."""
        chunks = [chunk.samples for chunk in self.say(text, options, **named)]
        return Audio(np.concatenate(chunks), self.sample_rate)

    def synthesize_many(
        self, texts: Sequence[str], options: SpeechOptions | None = None, *, seeds: Sequence[int] | None = None, **named
    ) -> list[Audio]:
        """Speak several texts, each as `synthesize` speaks it with its seed (0, 1, 2, … if None)."""
        options = _options(options, named)
        if isinstance(texts, str):
            raise TextError(f"Expected a list of texts. Received one text: {texts!r:.60}. Use `synthesize` for one.")
        seeds = range(len(texts)) if seeds is None else seeds
        if len(seeds) != len(texts):
            raise VoiceError(f"Every text needs a seed. Received: {len(texts)} texts and {len(seeds)} seeds.")
        for seed in seeds:
            check_number("seed", seed)
        language, vector = check_language(options.language, self.languages), self.speaker_vector(options.speaker)
        sampling = self.sampling(language, vector, options)
        # Every text is checked before the first one is spoken.
        pieces = [list(self._pieces(text, language, options, seed)) for text, seed in zip(texts, seeds, strict=True)]
        return [
            Audio(np.concatenate([self._speak(piece, sampling) for piece in own]), self.sample_rate) for own in pieces
        ]

    def vocode(self, mel: np.ndarray) -> Audio:
        """A log-mel (frames, n_mels) of this voice's definition as sound, by the voice's vocoder."""
        shape, n_mels = np.shape(mel), self.mel.n_mels
        if len(shape) != 2 or shape[1] != n_mels or shape[0] == 0:
            raise VoiceError(f"Expected a mel of shape (frames, {n_mels}). Received: {shape}.")
        if not np.isfinite(mel).all():
            raise VoiceError("Expected a mel of finite numbers. Received: some that are infinite or not a number.")
        return Audio(self.vocoder(np.asarray(mel, np.float32)), self.sample_rate)

    # --- speakers -------------------------------------------------------------------------------------------------

    @property
    def can_clone(self) -> bool:
        """Whether the voice can follow a reference recording."""
        return self._model.has_speakers

    def clone(self, references: str | Path | Sequence[str | Path]) -> Speaker:
        """The speaker of one or several recordings of at least 1 s each; several are averaged."""
        check_can_clone(self._model)
        paths = [references] if isinstance(references, str | Path) else list(references)
        if not paths:
            raise VoiceError("A clone needs at least one reference recording.")
        vectors = [
            self.engine.speaker_vectors(reference_pieces(path, self.description, self.mel)).mean(axis=0)
            for path in paths
        ]
        return Speaker(np.mean(vectors, axis=0).astype(np.float32), self.identity)

    def speaker_vector(self, speaker: str | Speaker | None) -> np.ndarray:
        """The vector (speaker_channels,) of a name or of a cloned speaker; zeros for a voice of one speaker."""
        channels = self._model.speaker_channels
        if isinstance(speaker, Speaker):
            if not self.can_clone or speaker.voice != self.identity or speaker.vector.shape != (channels,):
                raise VoiceError(
                    f"The speaker belongs to another voice. Received: one of voice {speaker.voice!r:.40}; this is "
                    f"{self.identity!r}. Clone it again with this voice."
                )
            return speaker.vector
        if speaker is not None:
            check_name("speaker", speaker, self.speakers)
        if not self.can_clone:
            return np.zeros(channels, np.float32)
        if not self.speakers or self._speaker_vectors is None:
            raise VoiceError("This voice names no speakers. Give it a recording: myxtts clone REFERENCE TEXT.")
        return self._speaker_vectors[self.speakers.index(speaker) if speaker is not None else 0]

    # --- inside ---------------------------------------------------------------------------------------------------

    def _pieces(self, text: str, language: str, options: SpeechOptions, seed: int) -> Iterator[Piece]:
        """A text as symbols, piece by piece; at least one.

        It reads one part ahead: a part that cannot be spoken leaves its unknown symbols, and the end of its sentence, to its
        neighbor.
        """
        index, held, unknown = 0, None, Counter()
        for part in self._split(text, language):
            encoded = self._tokenizer.encode(part.text, language)
            pause_seconds = options.pause if part.ends_sentence else options.pause / 3
            if not encoded.ids:
                unknown += encoded.unknown
                if held is not None and part.ends_sentence:
                    held = held._replace(pause_seconds=pause_seconds)
                continue
            runs = cut_symbols(encoded.ids, self._boundaries, LONGEST_SYMBOLS)
            for run, ids in enumerate(runs):
                if held is not None:
                    yield held
                held = Piece(
                    text=part.text if run == 0 else "",
                    ids=ids,
                    unknown=encoded.unknown + unknown if run == 0 else Counter(),
                    seed=seed,
                    index=index,
                    pause_seconds=pause_seconds if run == len(runs) - 1 else options.pause / 3,
                )
                index += 1
            unknown = Counter()
        if held is None:
            raise TextError(_nothing_to_speak(text, unknown, language))
        yield held._replace(unknown=held.unknown + unknown)

    def _split(self, text: str, language: str) -> list[TextPiece]:
        if not isinstance(text, str):
            raise TextError(f"Expected a text. Received: {text!r:.60}.")
        check_text_length(text)
        parts = split_sentences(text, language, self.description.max_characters)
        if not parts:
            raise TextError("The text is empty. Expected something to say.")
        return parts

    def _speak(self, piece: Piece, sampling: Sampling) -> np.ndarray:
        """Samples of a piece, with the pause after it."""
        parts = [self.vocoder(_at_least_two_frames(mel)) for mel in self.mels(piece, sampling)]
        return join_parts(parts, self.sample_rate, piece.pause_seconds)

    def mels(self, piece: Piece, sampling: Sampling, longest: int = LONGEST_FRAMES) -> Iterator[np.ndarray]:
        """Log-mels (frames, n_mels) of a piece: one, or several of at most `longest` frames each."""
        features, frames = self.engine.encode(piece.ids, sampling)
        noise = noise_of(piece.seed, piece.index, int(frames.sum()), self.mel.n_mels)
        is_boundary = np.zeros(len(frames), bool)
        is_boundary[1::2] = [each in self._boundaries for each in piece.ids]  # symbols are between blanks
        start = 0
        for part in cut_frames(frames, is_boundary, longest):
            stop = start + int(part.sum())
            yield self.engine.decode(features, part, noise[start:stop], sampling)
            start = stop

    def sampling(self, language: str, vector: np.ndarray, options: SpeechOptions) -> Sampling:
        """The options with the voice's defaults filled in."""
        defaults = self.description.defaults
        return Sampling(
            speaker=vector,
            language=self.languages.index(language),
            duration_scale=defaults.duration_scale / options.speed,
            steps=defaults.steps if options.steps is None else options.steps,
            temperature=defaults.temperature if options.temperature is None else options.temperature,
        )


def _at_least_two_frames(mel: np.ndarray) -> np.ndarray:
    """A vocoder makes sound between frames: of a single one it makes none."""
    return mel if len(mel) > 1 else np.repeat(mel, 2, axis=0)


def _options(options: SpeechOptions | None, named: dict) -> SpeechOptions:
    if options is not None and named:
        raise VoiceError(f"Give a SpeechOptions or options by name, not both. Received both: {sorted(named)}.")
    return options or SpeechOptions(**named)


def _nothing_to_speak(text: str, unknown: Counter, language: str) -> str:
    symbols = "".join(symbol for symbol, _ in unknown.most_common(10))
    reason = f" The voice does not have the symbols {symbols!r}." if symbols else ""
    return f"There is nothing to say in {' '.join(text.split())!r:.60}: no letter that can be spoken in '{language}'.{reason}"
