"""A voice that speaks: a voice folder in, audio out. The door of synthesis for Python.

    voice = Voice.load("my-voice")
    for chunk in voice.say("A long text. It comes sentence by sentence."):
        play(chunk.samples, chunk.sample_rate)

One `Voice` may be used by many threads at once.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from myxtts.errors import TextError, VoiceError
from myxtts.models.griffin_lim import GriffinLimSettings
from myxtts.runtime.compilation import Counts
from myxtts.synthesis.engine import (
    FRAME_SHAPES,
    TOKEN_SHAPES,
    Engine,
    Piece,
    Renderer,
    Sampling,
    cut_symbols,
    join_piece,
    round_up,
)
from myxtts.synthesis.options import (
    SpeechOptions,
    check_can_clone,
    check_language,
    check_name,
    check_number,
    check_text_length,
)
from myxtts.synthesis.speaker import Speaker, reference_pieces
from myxtts.synthesis.voice_folder import (
    SPEAKER_VECTORS,
    WEIGHTS_NAME,
    VoiceDescription,
    read_description,
    voice_identity,
)
from myxtts.synthesis.weights_file import read_weights
from myxtts.text.pauses import PAUSE_SYMBOLS, WORD_BOUNDARY
from myxtts.text.sentences import TextPiece, split_sentences

BATCH_ROWS = 8
"""Sentences that are spoken at once by `synthesize_many`."""


class Audio(NamedTuple):
    """Speech: float32 samples (samples,) in -1…1, and their rate in Hz."""

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
    """Symbols of the text that the voice has not learnt and left out."""


class Voice:
    """A loaded voice."""

    def __init__(
        self, description: VoiceDescription, engine: Engine, speaker_vectors: np.ndarray | None, identity: str
    ):
        """Use `Voice.load`. A trainer that wants to hear its network makes a voice of `Engine.of_model` here."""
        self.description = description
        self.engine = engine
        self.identity = identity
        self.languages = tuple(description.languages)
        self.speakers = tuple(description.speakers)
        self.mel = engine.mel
        self.sample_rate = engine.mel.sample_rate
        self.trim_silence_db = description.trim_silence_db
        self.loudness_db = description.loudness_db
        self._tokenizer = description.tokenizer()
        self._speaker_vectors = speaker_vectors
        id_of = self._tokenizer.symbols.id_of
        self._boundaries = frozenset(id_of[symbol] for symbol in (WORD_BOUNDARY, *PAUSE_SYMBOLS) if symbol in id_of)

    @classmethod
    def load(cls, folder: str | Path, vocoder: GriffinLimSettings | None = None) -> Voice:
        """Read a voice folder; a missing, cut-off, foreign or newer one is a `VoiceError`."""
        description = read_description(folder)
        engine = Engine(description.model_spec(), description.mel_spec(), vocoder)
        shapes = engine.weight_shapes()
        if engine.spec.has_speakers:
            shapes[SPEAKER_VECTORS] = (len(description.speakers), engine.spec.speaker_channels)
        weights = read_weights(Path(folder) / WEIGHTS_NAME, shapes)
        engine.assign(weights)
        vectors = weights[SPEAKER_VECTORS] if engine.spec.has_speakers else None
        return cls(description, engine, vectors, voice_identity(folder))

    # --- speaking -------------------------------------------------------------------------------------------------

    def say(self, text: str, options: SpeechOptions | None = None, **named) -> Iterator[Chunk]:
        """Speak a text: chunks of audio as they are ready, sentence by sentence, to be played one after the other.

        Options are given by name (`SpeechOptions`) or as an object. What is wrong with them or the text is raised at once.
        """
        options = _options(options, named)
        language, vector = check_language(options.language, self.languages), self.speaker_vector(options.speaker)
        pieces = self._pieces(text, language, options, options.seed)
        first = next(pieces)  # a text without anything to speak is told now
        return self._say(itertools.chain([first], pieces), language, vector, options)

    def _say(
        self, pieces: Iterable[Piece], language: str, vector: np.ndarray, options: SpeechOptions
    ) -> Iterator[Chunk]:
        for piece in pieces:
            samples = self._speak([piece], language, vector, options)[0]
            yield Chunk(samples, self.sample_rate, piece.text, piece.unknown)

    def synthesize(self, text: str, options: SpeechOptions | None = None, **named) -> Audio:
        """Speak a text and return all of it: the chunks of `say`, joined."""
        chunks = [chunk.samples for chunk in self.say(text, options, **named)]
        return Audio(np.concatenate(chunks), self.sample_rate)

    def synthesize_many(
        self, texts: Sequence[str], options: SpeechOptions | None = None, *, seeds: Sequence[int] | None = None, **named
    ) -> list[Audio]:
        """Speak many texts, several sentences at once; each as `synthesize` speaks it with its seed (0, 1, 2, … if None)."""
        options = _options(options, named)
        if isinstance(texts, str):
            raise TextError(f"Expected a list of texts. Received one text: {texts!r:.60}. Use `synthesize` for one.")
        seeds = range(len(texts)) if seeds is None else seeds
        if len(seeds) != len(texts):
            raise VoiceError(f"Every text needs a seed. Received: {len(texts)} texts and {len(seeds)} seeds.")
        for seed in seeds:
            check_number("seed", seed)
        language, vector = check_language(options.language, self.languages), self.speaker_vector(options.speaker)
        pieces: list[Piece] = []
        for owner, (text, seed) in enumerate(zip(texts, seeds, strict=True)):
            pieces += self._pieces(text, language, options, seed, owner)
        spoken = self._speak(pieces, language, vector, options, BATCH_ROWS if len(pieces) > 1 else 1)
        parts: list[list[np.ndarray]] = [[] for _ in texts]
        for piece, samples in zip(pieces, spoken, strict=True):
            parts[piece.owner].append(samples)
        return [Audio(np.concatenate(part), self.sample_rate) for part in parts]

    def vocode(self, mel: np.ndarray) -> Audio:
        """A log-mel (frames, n_mels) of this voice's definition as sound, by the vocoder that the voice speaks with."""
        shape, n_mels = np.shape(mel), self.mel.n_mels
        if len(shape) != 2 or shape[1] != n_mels or shape[0] == 0:
            raise VoiceError(f"Expected a mel of shape (frames, {n_mels}). Received: {shape}.")
        if not np.isfinite(mel).all():
            raise VoiceError("Expected a mel of finite numbers. Received: some that are infinite or not a number.")
        frames = shape[0]
        padded = np.zeros((1, round_up(frames, FRAME_SHAPES), n_mels), np.float32)
        padded[0, :frames] = mel
        samples = self.engine.vocode(padded, np.array([frames], np.int32))[0]
        return Audio(samples[: (frames - 1) * self.mel.hop_length], self.sample_rate)

    # --- speakers -------------------------------------------------------------------------------------------------

    @property
    def can_clone(self) -> bool:
        """Whether the voice learnt to follow a reference recording."""
        return self.engine.spec.has_speakers

    def clone(self, references: str | Path | Sequence[str | Path]) -> Speaker:
        """The speaker of one or several recordings of at least 1 s each; several are averaged."""
        check_can_clone(self.engine.spec)
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
        channels = self.engine.spec.speaker_channels
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
        if not self.speakers:
            raise VoiceError("This voice names no speakers. Give it a recording: myxtts clone REFERENCE TEXT.")
        return self._speaker_vectors[self.speakers.index(speaker) if speaker is not None else 0]

    # --- compiled functions ---------------------------------------------------------------------------------------

    def warm_up(self, rows: int = 1) -> None:
        """Compile every function that a text may need, so that the first sentence does not wait for it."""
        self.engine.prepare(rows)

    @property
    def seconds_compiling(self) -> float:
        """Spent so far on making functions ready, first run included: what the first use of a shape waits for.

        `myxtts say` takes it off the time of speaking, for a real-time factor that does not depend on how short the text is.
        """
        return self.engine.seconds_compiling

    def counts(self) -> Counts:
        """Traces so far, by the counters that training uses."""
        return self.engine.counts()

    # --- inside ---------------------------------------------------------------------------------------------------

    def _pieces(self, text: str, language: str, options: SpeechOptions, seed: int, owner: int = 0) -> Iterator[Piece]:
        """A text as symbols, a piece when it is asked for; at least one.

        One part is looked ahead: what cannot be spoken gives its unknown symbols, and the end of its sentence, to its neighbour.
        """
        number, held, unknown = 0, None, Counter()
        for part in self._split(text, language):
            encoded = self._tokenizer.encode(part.text, language)
            pause_seconds = options.pause if part.ends_sentence else options.pause / 3
            if not encoded.ids:
                unknown += encoded.unknown
                if held is not None and part.ends_sentence:
                    held = held._replace(pause_seconds=pause_seconds)
                continue
            runs = cut_symbols(encoded.ids, self._boundaries, TOKEN_SHAPES[-1])
            for index, ids in enumerate(runs):
                if held is not None:
                    yield held
                held = Piece(
                    text=part.text if index == 0 else "",
                    ids=ids,
                    unknown=encoded.unknown + unknown if index == 0 else Counter(),
                    seed=seed,
                    number=number,
                    pause_seconds=pause_seconds if index == len(runs) - 1 else options.pause / 3,
                    owner=owner,
                )
                number += 1
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

    def _speak(
        self, pieces: list[Piece], language: str, vector: np.ndarray, options: SpeechOptions, rows: int = 1
    ) -> list[np.ndarray]:
        """Samples of each piece, joined ready."""
        renderer = Renderer(self.engine, rows, boundaries=self._boundaries)
        rendered = renderer.render(pieces, self.sampling(language, vector, options))
        return [
            join_piece(spoken.parts, self.sample_rate, piece.pause_seconds)
            for piece, spoken in zip(pieces, rendered, strict=True)
        ]

    def sampling(self, language: str, vector: np.ndarray, options: SpeechOptions) -> Sampling:
        """The options with the voice's defaults filled in."""
        defaults = self.description.defaults
        return Sampling(
            vector=vector,
            language=self.languages.index(language),
            duration_scale=defaults.duration_scale / options.speed,
            steps=defaults.steps if options.steps is None else options.steps,
            temperature=defaults.temperature if options.temperature is None else options.temperature,
        )


def _options(options: SpeechOptions | None, named: dict) -> SpeechOptions:
    if options is not None and named:
        raise VoiceError(f"Give a SpeechOptions or options by name, not both. Received both: {sorted(named)}.")
    return options or SpeechOptions(**named)


def _nothing_to_speak(text: str, unknown: Counter, language: str) -> str:
    symbols = "".join(symbol for symbol, _ in unknown.most_common(10))
    reason = f" The voice has not learnt {symbols!r}." if symbols else ""
    return f"There is nothing to say in {' '.join(text.split())!r:.60}: no letter that can be spoken in '{language}'.{reason}"
