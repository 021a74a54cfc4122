"""A voice as one ONNX file from symbols to samples, for programs that are not MyXTTS: networks and vocoder in one graph.

`myxtts.export.piper` and `myxtts.export.sherpa` give it the inputs that those programs expect. `export_onnx` is for your own
program: the inputs of voice.onnx, samples as output, and next to it the symbols, the defaults and a lexicon.

The lexicon has a line `word p1 p2 …` per word. Programs that have no other way from text to phonemes leave out words that they do
not find, so it is long; our own front end reads every word of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto

from myxtts.errors import VoiceError
from myxtts.export.graph import Graph
from myxtts.export.networks import add_speech
from myxtts.export.vocoder_graph import GriffinLimGraph
from myxtts.runtime.progress import open_progress
from myxtts.runtime.safe_files import cause_of, replacing_folder
from myxtts.synthesis.guidance import with_guidance
from myxtts.synthesis.onnx_file import read_model, weights_of
from myxtts.synthesis.options import check_language
from myxtts.synthesis.reader import open_tokenizer
from myxtts.synthesis.speaker import emphasize
from myxtts.synthesis.vocoder import VOCODER_TENSORS, vocoder_file
from myxtts.synthesis.voice_folder import (
    EXPRESSIVENESS_INPUT,
    GRIFFIN_LIM,
    LICENSE_NAME,
    REFERENCES,
    SPEAKER_INPUT,
    SPEAKER_MODEL_NAME,
    VECTORS,
    VoiceDescription,
    license_file,
    read_weights,
    speaker_vectors_of,
)
from myxtts.text import g2p
from myxtts.text.cleanup import base_language
from myxtts.text.english_numbers import cardinal
from myxtts.text.pauses import WORD_BOUNDARY
from myxtts.text.rules import roman_value
from myxtts.text.tokenizer import Tokenizer

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
VOCODER_SEED = 1.0
"""Seed of the random noise inside an exported graph: every new session draws the same numbers."""

Shapes = dict[str, tuple[int, Sequence[str | int]]]
"""Number type and shape of named tensors."""


@dataclass(frozen=True, eq=False)
class WholeVoice:
    """A voice that was read from its folder, with everything that goes into one file."""

    folder: Path
    description: VoiceDescription
    weights: dict[str, np.ndarray]
    speaker_vectors: np.ndarray | None
    """(speakers, speaker_channels); None for a voice of one speaker."""
    vocoder: onnx.ModelProto | None
    """None: Griffin-Lim."""
    language: str

    @property
    def speaks_phonemes(self) -> bool:
        """Whether its symbols are phonemes and not letters."""
        return self.description.front_end["kind"] == "phonemes"

    def facts(self) -> dict[str, str]:
        """Metadata that every exported file has."""
        return {
            "language": self.language,
            "sample_rate": str(self.description.mel_spec().sample_rate),
            "n_speakers": str(1 if self.speaker_vectors is None else len(self.description.speakers)),
            "license": self.description.licence[:1000],
            "attribution": self.description.attribution[:5000],
        }


def read_voice(folder: Path, language: str | None = None) -> WholeVoice:
    """Read a voice folder; `language` is that of the exported voice, by default its first."""
    description, weights = read_weights(folder)
    vectors = vocoder = None
    if description.model_spec().has_speakers:
        model = read_model(folder / SPEAKER_MODEL_NAME, (REFERENCES,), (VECTORS,))
        vectors = speaker_vectors_of(weights_of(model), description)
        if not len(vectors):
            raise VoiceError(f"{folder} has no named speakers to export. Train a voice with named speakers.")
    if description.vocoder.name != GRIFFIN_LIM:
        path = vocoder_file(description.vocoder, folder)
        vocoder = read_model(path, *VOCODER_TENSORS, description.vocoder.sha256)
    language = check_language(language, description.languages)
    return WholeVoice(folder, description, weights, vectors, vocoder, language)


def add_voice(graph: Graph, voice: WholeVoice, speaker_index: str | None, noise: str | None) -> tuple[str, str]:
    """Add networks and vocoder to a graph with the tensors of `VOICE_INPUTS`; returns samples (samples,) and frames per symbol.

    Args:
        graph: a graph of the voice's weights.
        voice: what is added.
        speaker_index: tensor int64 () of the speaker's index, for voices of several.
        noise: tensor (frames, n_mels); None: the graph draws it.
    """
    description, of_decoder = voice.description, SPEAKER_INPUT
    if voice.speaker_vectors is not None and speaker_index is not None:
        vectors, factor = voice.speaker_vectors, description.defaults.decoder_emphasis
        graph.node("Gather", graph.constant(vectors), speaker_index, name=SPEAKER_INPUT)
        if factor != 1:
            of_decoder = graph.node("Gather", graph.constant(emphasize(vectors, vectors, factor)), speaker_index)
    if description.model_spec().pitch:
        graph.node("Identity", graph.constant(1.0), name=EXPRESSIVENESS_INPUT)
    mel, frames = add_speech(graph, description.model_spec(), description.mel_spec(), noise, of_decoder)
    if voice.vocoder is None:
        samples = GriffinLimGraph(graph, description.mel_spec()).samples(mel)
    else:
        samples = graph.embed(voice.vocoder, _vocoder_inputs(graph, voice.vocoder, mel), "vocoder/")["samples"]
    return graph.node("Clip", samples, graph.constant(-1.0), graph.constant(1.0)), frames


def finished_model(
    graph: Graph, voice: WholeVoice, inputs: Shapes, outputs: Shapes, metadata: Mapping[str, str]
) -> onnx.ModelProto:
    """The model of a graph to which `add_voice` was applied, with the guidance of the voice."""
    model = graph.model("voice", inputs, outputs, metadata)
    guidance = voice.description.defaults.guidance
    return with_guidance(model, guidance, voice.speaker_vectors) if guidance else model


def _vocoder_inputs(graph: Graph, vocoder: onnx.ModelProto, mel: str) -> dict[str, str]:
    """The mel, and for a vocoder with noise (frames, bins) uniform numbers that the graph draws."""
    shapes = {each.name: each.type.tensor_type.shape.dim for each in vocoder.graph.input}
    given = {"mel": mel}
    if "noise" in shapes:
        first_band = graph.node("Slice", mel, graph.integers(0), graph.integers(1), graph.integers(1))
        zeros = graph.node("Mul", first_band, graph.constant(np.zeros((1, shapes["noise"][1].dim_value))))
        given["noise"] = graph.node("RandomUniformLike", zeros, seed=VOCODER_SEED)
    return given


# --- the format `onnx` ------------------------------------------------------------------------------------------------


def whole_model(voice: WholeVoice) -> onnx.ModelProto:
    """The model of `--format onnx`.

    Inputs as in voice.onnx: `tokens` int64 (symbols,), `duration_scale` float (), `noise` float (frames, n_mels) with at least as
    many frames as are spoken, `steps` int64 (), `temperature` float (), `language` int64 (), and `speaker_index` int64 ()
    for voices of several speakers.
    Outputs: `samples` float (samples,) and `frames_per_symbol` int64 (2 · symbols + 1,).
    """
    n_mels = voice.description.mel_spec().n_mels
    inputs: Shapes = {
        "tokens": (INT64, ("symbols",)),
        "duration_scale": (FLOAT, ()),
        "noise": (FLOAT, ("noise_frames", n_mels)),
        "steps": (INT64, ()),
        "temperature": (FLOAT, ()),
        "language": (INT64, ()),
    }
    if voice.speaker_vectors is not None:
        inputs["speaker_index"] = (INT64, ())
    graph = Graph(voice.weights)
    samples, frames = add_voice(graph, voice, "speaker_index", "noise")
    graph.node("Identity", samples, name="samples")
    outputs: Shapes = {"samples": (FLOAT, ("samples",)), frames: (INT64, ("expanded_symbols",))}
    return finished_model(graph, voice, inputs, outputs, voice.facts())


def export_onnx(folder: Path, out: Path, language: str | None = None, words: Sequence[str] = ()) -> Path:
    """Write a folder with `model.onnx`, `model.json` and, for voices of phonemes, `lexicon.txt` (`word p1 p2 …`)."""
    voice = read_voice(folder, language)
    description, mel = voice.description, voice.description.mel_spec()
    content = {
        "sample_rate": mel.sample_rate,
        "hop_length": mel.hop_length,
        "n_mels": mel.n_mels,
        "symbols": description.symbols,
        "kind": description.front_end["kind"],
        "language": description.languages.index(voice.language),
        "languages": description.languages,
        "speakers": description.speakers if voice.speaker_vectors is not None else [],
        "steps": description.defaults.steps,
        "temperature": description.defaults.temperature,
        "duration_scale": description.defaults.duration_scale,
    }
    files = {
        "model.onnx": whole_model(voice).SerializeToString(deterministic=True),
        "model.json": (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode(),
    }
    if voice.speaks_phonemes:
        files["lexicon.txt"] = exported_lexicon(description, folder, voice.language, words).encode()
    return write_export(voice, out, files)


# --- files ------------------------------------------------------------------------------------------------------------


def check_new_folder(out: Path) -> None:
    """Raise a `VoiceError` if an export cannot become the folder `out`."""
    try:
        os.lstat(out)
    except FileNotFoundError:
        return
    except OSError as error:
        raise VoiceError(f"{str(out)[:200]} could not be written: {cause_of(error)}.") from None
    raise VoiceError(f"{out} exists, so it was not replaced. Name a new folder.")


def write_export(voice: WholeVoice, out: Path, files: dict[str, bytes]) -> Path:
    """Write the files of an export, and the license of the voice, into a new folder."""
    check_new_folder(out)
    if (full_license := license_file(voice.folder)) is not None:
        files[LICENSE_NAME] = full_license.read_bytes()
    try:
        with replacing_folder(out) as temporary:
            for name, content in files.items():
                (temporary / name).write_bytes(content)
    except OSError as error:
        raise VoiceError(f"{out} could not be written: {cause_of(error)}. Name another folder.") from error
    return out


WORDS_AT_ONCE = 2000
"""Words that are phonemized before progress is reported."""
CONSONANTS = frozenset("bcdfghjklmnpqrstvwxz")
CONTRACTIONS = ("n't", "'re", "'ve", "'ll", "'d", "'m")
ROMAN_NUMERALS = "ii iii iv vi vii viii ix xi xii xiii xiv xv xvi xvii xviii xix xx xxi"
TITLES = {"dr": "doctor"}
"""CMUdict reads it "drive"; before a name it is the title."""


def exported_lexicon(description: VoiceDescription, folder: Path, language: str, words: Sequence[str] = ()) -> str:
    """The lexicon of a voice of phonemes; words that it cannot speak are left out.

    Args:
        description: of the voice.
        folder: of the voice.
        language: in which the words are read.
        words: as they are written; by default `frequent_words`.
    """
    given = {_key(word): word for word in words if len(word.split()) == 1} or frequent_words(language)
    if not given:
        raise VoiceError(
            f"This voice reads phonemes, so it needs a lexicon, and MyXTTS has no word list for {language!r}. Give one: "
            "--words FILE, one word per line."
        )
    tokenizer = open_tokenizer(description, folder)
    lines, pairs, done = [], iter(given.items()), 0
    with open_progress() as progress:
        while part := dict(islice(pairs, WORDS_AT_ONCE)):
            lines += _lines(tokenizer, part, language)
            done += len(part)
            progress("phonemizing words", done, len(given))
    return "".join(lines)


def frequent_words(language: str) -> dict[str, str]:
    """Words of a language, in small letters, with the text that is read for each; none without a pronunciation model of ours.

    English: CMUdict, and what it lacks: the words of `g2p.frequent_english_words`, possessives, strings of two or three
    consonants, which are read letter by letter ("NHS"), Roman numerals, and contractions without their apostrophe.
    """
    code = base_language(language)
    if not g2p.covers(code):
        return {}
    known = (g2p.english_model() if code == "en" else g2p.persian_model()).lexicon
    words = {word: word for word in known if not any(character.isspace() for character in word)}
    if code == "en":
        first, *others = g2p.frequent_english_words()
        more = {word.lower(): word for band in (first, *others) for word in band}
        names = [word for word in others[0] if word.istitle()]
        more |= {f"{word.lower()}'s": f"{word}'s" for word in (*first, *names) if not word.lower().endswith("s")}
        more |= {
            "".join(letters): "".join(letters).upper()
            for count in (2, 3)
            for letters in product(CONSONANTS, repeat=count)
        }
        more |= {word.replace("'", ""): word for word in words if word.endswith(CONTRACTIONS)}
        values = {numeral: roman_value(numeral.upper()) for numeral in ROMAN_NUMERALS.split()}
        more |= {numeral: cardinal(value) for numeral, value in values.items() if value is not None}
        words = more | words | TITLES
    return dict(sorted(words.items()))


def _key(word: str) -> str:
    return word.strip().lower().replace("’", "'")


def _lines(tokenizer: Tokenizer, words: Mapping[str, str], language: str) -> list[str]:
    """A word with an apostrophe has two lines: these programs find it only as it is written, and phones write it’s."""
    names = tokenizer.symbols.symbols
    spelled = [[names[each] for each in encoded.ids] for encoded in tokenizer.encode_many([*words.values()], language)]
    return [
        f"{form} {' '.join(sounds)}\n"
        for word, symbols in zip(words, spelled, strict=True)
        if (sounds := [each for each in symbols if each != WORD_BOUNDARY])
        for form in dict.fromkeys((word, word.replace("'", "’")))
    ]
