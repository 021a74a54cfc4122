"""A voice that speaks, loaded from a voice folder. The entry point of synthesis for Python.

    voice = Voice.load("my-voice")
    for chunk in voice.say("A long text. It comes sentence by sentence."):
        play(chunk.samples, chunk.sample_rate)

One `Voice` may be used by several threads at once. Nothing here imports TensorFlow.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from myxtts.errors import TextError, VoiceError
from myxtts.synthesis.bundled import find_voice
from myxtts.synthesis.engine import (
    LONGEST_FRAMES,
    EncodedText,
    Engine,
    Sampling,
    cut_frames,
    join_parts,
    load_engine,
    noise_of,
)
from myxtts.synthesis.markup import Part, SpokenText, Style, parse_markup
from myxtts.synthesis.options import (
    SpeechOptions,
    check_can_clone,
    check_expressiveness,
    check_language,
    check_number,
    check_text_length,
    parse_mixture,
)
from myxtts.synthesis.reader import Piece, Reader, Source, open_tokenizer, styles_of
from myxtts.synthesis.speaker import Speaker, emphasize, reference_pieces, sample_pieces
from myxtts.synthesis.timings import Timed, TimedWord, time_symbols, time_words
from myxtts.synthesis.vocoder import Vocoder, check_vocoder, find_vocoder, open_vocoder, open_vocoder_file
from myxtts.synthesis.voice_folder import VoiceDescription, read_description, read_models, voice_identity
from myxtts.text.lexicon import Lexicon
from myxtts.text.tokenizer import Tokenizer


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
    unknown: Counter[str]
    """Symbols of the text that the voice does not have; they are skipped."""
    symbols: tuple[Timed, ...] = ()
    """The symbols that are spoken, in seconds from the start of the chunk."""
    language: str = ""
    marks: tuple[Timed, ...] = ()
    """The marks of SSML, in seconds from the start of the chunk."""
    sources: tuple[Source, ...] = ()
    """The texts that are spoken in it, for `Voice.words_of`."""

    @property
    def seconds(self) -> float:
        """How long it lasts, with the pause after it."""
        return len(self.samples) / self.sample_rate


class Voice:
    """A loaded voice."""

    def __init__(
        self,
        description: VoiceDescription,
        tokenizer: Tokenizer,
        engine: Engine,
        vocoder: Vocoder,
        speaker_vectors: np.ndarray | None,
        identity: str,
        name: str = "",
    ):
        """Use `Voice.load`."""
        self.name = name
        self.description = description
        self.tokenizer = tokenizer
        self.engine = engine
        self.vocoder = vocoder
        self.identity = identity
        self.languages = tuple(description.languages)
        self.speakers = tuple(description.speakers)
        self.mel = description.mel_spec()
        self.sample_rate = self.mel.sample_rate
        self.trim_silence_db = description.trim_silence_db
        self.trim_noise_db = description.trim_noise_db
        self.loudness_db = description.loudness_db
        self._model = description.model_spec()
        self._speaker_vectors = speaker_vectors
        self._reader = Reader(self.tokenizer, description.max_characters)
        self._boundaries = self._reader.boundaries

    @classmethod
    def load(cls, folder: str | Path | None = None, threads: int = 1, vocoder: str | Path | None = None) -> Voice:
        """Read a voice folder; a missing, damaged, foreign or newer one is a `VoiceError`.

        Args:
            folder: the voice folder, or the name of a bundled voice (`kathleen`, `base`); None: the bundled English voice.
            threads: threads of one sentence. Several sentences may be spoken at once, one on each core.
            vocoder: the .onnx file or the name of a vocoder to use instead of the voice's own.
        """
        folder = find_voice(folder)
        description = read_description(folder)
        tokenizer = open_tokenizer(description, folder)
        engine, speaker_vectors = load_engine(folder, description, threads)
        mel = description.mel_spec()
        if vocoder is None:
            opened = open_vocoder(description.vocoder, mel, folder, threads)
        else:
            opened = open_vocoder_file(find_vocoder(vocoder), mel, threads)
        identity = voice_identity(folder, description)
        return cls(description, tokenizer, engine, opened, speaker_vectors, identity, folder.resolve().name)

    def with_lexicon(self, lexicon: Lexicon) -> Voice:
        """The same voice, which reads the words of a lexicon as it says; for other words its own lexicon stays.

        A voice that reads letters has no use for phonemes: a `TextError`.
        """
        front_end = self.tokenizer.front_end
        own = front_end.lexicon.entries if front_end.lexicon else {}
        merged = dataclasses.replace(front_end, lexicon=Lexicon({**own, **lexicon.entries}))
        voice = copy.copy(self)
        voice.tokenizer = dataclasses.replace(self.tokenizer, front_end=merged)
        voice._reader = Reader(voice.tokenizer, self.description.max_characters)
        return voice

    # --- speaking -------------------------------------------------------------------------------------------------

    def say(self, text: str, options: SpeechOptions | None = None, **named) -> Iterator[Chunk]:
        """Speak a text: chunks of audio as they are ready, sentence by sentence, to be played one after the other.

        Options are given by name (`SpeechOptions`) or as an object; the text may have marks (`myxtts.synthesis.markup`). What is
        wrong with them or the text is raised at once.
        """
        options = _options(options, named)
        pieces = self.pieces(text, options, options.seed)
        samplings = self._samplings(text, options)
        first = next(pieces)  # a text with nothing to say raises now
        return (self._chunk(piece, samplings[piece.style]) for piece in itertools.chain([first], pieces))

    def words_of(self, chunk: Chunk) -> list[TimedWord]:
        """The written words of a chunk in the order in which they are spoken, in seconds from its start."""
        return [
            word
            for source in chunk.sources
            for word in time_words(chunk.symbols, self._reader.reading_of(source), source.start, source.first_word)
        ]

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
            raise VoiceError(f"seeds must have one seed per text. Received: {len(texts)} texts and {len(seeds)} seeds.")
        for seed in seeds:
            check_number("seed", seed)
        # Every text is checked before the first one is spoken.
        pieces = [list(self.pieces(text, options, seed)) for text, seed in zip(texts, seeds, strict=True)]
        samplings = [self._samplings(text, options) for text in texts]
        return [
            Audio(np.concatenate([self._chunk(piece, own[piece.style]).samples for piece in each]), self.sample_rate)
            for each, own in zip(pieces, samplings, strict=True)
        ]

    def vocode(self, mel: np.ndarray) -> Audio:
        """A log-mel (frames, n_mels) of this voice's definition as sound, by the voice's vocoder."""
        shape, n_mels = np.shape(mel), self.mel.n_mels
        if len(shape) != 2 or shape[1] != n_mels or shape[0] == 0:
            raise VoiceError(f"Expected a mel of shape (frames, {n_mels}). Received: {shape}.")
        if not np.isfinite(mel).all():
            raise VoiceError("Expected a mel of finite numbers. Received: NaN or infinity.")
        return Audio(self.vocoder(np.asarray(mel, np.float32)), self.sample_rate)

    # --- speakers -------------------------------------------------------------------------------------------------

    @property
    def can_clone(self) -> bool:
        """Whether the voice can follow a reference recording."""
        return self._model.has_speakers

    @property
    def speaks_phonemes(self) -> bool:
        """Whether its symbols are phonemes and not letters."""
        return self.tokenizer.front_end.kind == "phonemes"

    def clone(self, references: str | Path | Audio | Sequence[str | Path | Audio]) -> Speaker:
        """The speaker of one or several recordings (files or samples) of at least 1 s each; several are averaged."""
        check_can_clone(self._model)
        listed = [references] if isinstance(references, str | Path | Audio) else list(references)
        if not listed:
            raise VoiceError("A clone needs at least one reference recording. Received: none.")
        vectors = [
            self.engine.speaker_vectors(self._reference_pieces(each, number)).mean(axis=0)
            for number, each in enumerate(listed, start=1)
        ]
        vector, defaults = np.mean(vectors, axis=0), self.description.defaults
        emphasized = emphasize(vector, self._speaker_vectors, defaults.clone_emphasis)
        of_decoder = None
        if defaults.clone_decoder_emphasis is not None:
            of_decoder = emphasize(vector, self._speaker_vectors, defaults.clone_decoder_emphasis)
        return Speaker(emphasized, self.identity, decoder_vector=of_decoder)

    def _reference_pieces(self, reference: str | Path | Audio, number: int) -> np.ndarray:
        if isinstance(reference, Audio):
            return sample_pieces(*reference, f"Recording {number}", self.description, self.mel)
        return reference_pieces(reference, self.description, self.mel)

    def speaker_vector(self, speaker: str | Speaker | None) -> np.ndarray:
        """The vector (speaker_channels,) of a name, of a mixture (`anna:0.7+ben:0.3`) or of a cloned speaker.

        Zeros for a voice of one speaker.
        """
        channels = self._model.speaker_channels
        if isinstance(speaker, Speaker):
            if not self.can_clone or speaker.voice != self.identity or speaker.vector.shape != (channels,):
                raise VoiceError(
                    f"The speaker belongs to another voice. Received: one of voice {speaker.voice!r:.40}; this is "
                    f"{self.identity!r}. Clone it again with this voice."
                )
            return speaker.vector
        first = dict.fromkeys(self.speakers[:1], 1.0)
        weights = first if speaker is None else parse_mixture(speaker, self.speakers)
        if self._speaker_vectors is None:
            return np.zeros(channels, np.float32)
        if not weights:
            raise VoiceError(
                "This voice has no named speakers. Clone one from a recording: myxtts clone REFERENCE TEXT."
            )
        rows = [self.speakers.index(name) for name in weights]
        return np.average(self._speaker_vectors[rows], axis=0, weights=list(weights.values())).astype(np.float32)

    # --- inside ---------------------------------------------------------------------------------------------------

    def pieces(self, text: str, options: SpeechOptions, seed: int) -> Iterator[Piece]:
        """A text as symbols, piece by piece; at least one."""
        language = check_language(options.language, self.languages)
        return self._reader.read(self._parts(text), language, options.pause, seed, options.starts_early)

    def _parts(self, text: str) -> list[Part]:
        if not isinstance(text, str):
            raise TextError(f"Expected a text. Received: {text!r:.60}.")
        check_text_length(text)
        parts = parse_markup(text)
        if not any(isinstance(part, SpokenText) for part in parts):
            raise TextError("The text is empty. Expected text to speak.")
        return parts

    def _samplings(self, text: str, options: SpeechOptions) -> dict[Style, Sampling]:
        """The sampling of each style of a text; unknown languages and speakers raise."""
        return {style: self.sampling(options, style) for style in {Style(), *styles_of(self._parts(text))}}

    def _chunk(self, piece: Piece, sampling: Sampling) -> Chunk:
        """A spoken piece, with the pause after it."""
        language = self.languages[sampling.language]
        if not piece.ids:
            return Chunk(join_parts([], self.sample_rate, piece.pause_seconds), self.sample_rate, "", Counter())
        encoded = self.engine.encode(piece.ids, sampling)
        mels = self.mels(piece, encoded, sampling)
        parts = [self.vocoder(_at_least_two_frames(mel)) for mel in mels]
        samples = join_parts(parts, self.sample_rate, piece.pause_seconds)
        names = self.tokenizer.symbols.symbols
        spoken_seconds = sum(map(len, parts)) / self.sample_rate
        symbols = time_symbols([names[each] for each in piece.ids], encoded.frames, spoken_seconds)
        starts = [*(symbol.start for symbol in symbols), spoken_seconds]
        marks = tuple(Timed(name, starts[at], starts[at]) for at, name in piece.marks)
        return Chunk(
            samples, self.sample_rate, piece.text, piece.unknown, tuple(symbols), language, marks, piece.sources
        )

    def mels(
        self, piece: Piece, encoded: EncodedText, sampling: Sampling, longest: int = LONGEST_FRAMES
    ) -> Iterator[np.ndarray]:
        """Log-mels (frames, n_mels) of a piece: one, or several of at most `longest` frames each."""
        frames = encoded.frames
        noise = noise_of(piece.seed, piece.position, int(frames.sum()), self.mel.n_mels)
        is_boundary = np.zeros(len(frames), bool)
        is_boundary[1::2] = [each in self._boundaries for each in piece.ids]  # symbols are between blanks
        start = 0
        for part in cut_frames(frames, is_boundary, longest):
            stop = start + int(part.sum())
            yield self.engine.decode(encoded._replace(frames=part), noise[start:stop], sampling)
            start = stop

    def sampling(self, options: SpeechOptions, style: Style = Style()) -> Sampling:  # noqa: B008 - it is immutable
        """The options with the voice's defaults filled in, and with what a style changes."""
        check_expressiveness(options.expressiveness, self._model)
        text_language = check_language(options.language, self.languages)
        language = text_language if style.language is None else check_language(style.language, self.languages)
        speaker = style.speaker or options.speaker or self.description.default_speakers.get(text_language)
        vector = self.speaker_vector(speaker)
        defaults = self.description.defaults
        of_decoder = None
        if isinstance(speaker, Speaker):
            of_decoder = speaker.decoder_vector
        elif defaults.decoder_emphasis != 1:
            of_decoder = emphasize(vector, self._speaker_vectors, defaults.decoder_emphasis)
        return Sampling(
            speaker=vector,
            language=self.languages.index(language),
            duration_scale=defaults.duration_scale / (options.speed * style.speed),
            steps=defaults.steps if options.steps is None else options.steps,
            temperature=defaults.temperature if options.temperature is None else options.temperature,
            decoder_speaker=of_decoder,
            expressiveness=options.expressiveness,
        )


def _at_least_two_frames(mel: np.ndarray) -> np.ndarray:
    """A vocoder makes sound between frames: of a single one it makes none."""
    return mel if len(mel) > 1 else np.repeat(mel, 2, axis=0)


def _options(options: SpeechOptions | None, named: dict) -> SpeechOptions:
    if options is not None and named:
        raise VoiceError(f"Give either a SpeechOptions or options by name. Received both: {sorted(named)}.")
    return options or SpeechOptions(**named)


def check_voice(folder: str | Path) -> VoiceDescription:
    """The description of a voice whose files are all there and whole; otherwise the `VoiceError` of `Voice.load`.

    The models are read and checked, and not opened: a list of voices needs no sessions.
    """
    folder = Path(folder)
    description = read_description(folder)
    open_tokenizer(description, folder)
    read_models(folder, description)
    check_vocoder(description.vocoder, description.mel_spec(), folder)
    return description
