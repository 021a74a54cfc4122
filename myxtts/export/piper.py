"""Voices for other programs: one ONNX file from symbols to samples, as Piper and sherpa-onnx read it.

`NAME.onnx` + `NAME.onnx.json` for Piper (Home Assistant, NVDA), and `tokens.txt`, `lexicon.txt` for sherpa-onnx (Android, iOS).
The networks, the number of steps and the vocoder are inside; the noise is drawn by the graph. The text is normalized and
phonemized by the program, not by MyXTTS: numbers and abbreviations are read as that program reads them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto

from myxtts.errors import VoiceError
from myxtts.export.graph import Graph
from myxtts.export.griffin_lim_graph import GriffinLimGraph
from myxtts.export.networks import add_speech
from myxtts.runtime.atomic import cause_of, replacing_folder
from myxtts.synthesis.onnx_file import read_model, weights_of
from myxtts.synthesis.options import check_language
from myxtts.synthesis.voice_folder import (
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
from myxtts.text.pauses import WORD_BOUNDARY
from myxtts.text.phonemes import resolve_language
from myxtts.text.tokenizer import BLANK_SYMBOL, PADDING_SYMBOL

START, END, PAD = "^", "$", "_"
"""Piper's symbols for the start and end of a sentence, and between two phonemes."""
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def piper_model(
    description: VoiceDescription,
    weights: dict[str, np.ndarray],
    speaker_vectors: np.ndarray | None,
    language: str,
    metadata: dict[str, str],
) -> onnx.ModelProto:
    """The model of one language of a voice.

    Inputs: `input` int64 (1, ids), `input_lengths` int64 (1,), `scales` float (3,) = noise, length and a third that has no
    effect, and `sid` int64 (1,) for voices of several speakers. Outputs: `output` float (1, 1, samples), and
    `frames_per_id` float (1, ids), which is right for ids as Piper gives them: ^ _ a _ b _ $.
    """
    spec, mel, defaults = description.model_spec(), description.mel_spec(), description.defaults
    if description.vocoder.name != GRIFFIN_LIM:
        raise VoiceError(f"The vocoder {description.vocoder.name!r} cannot be exported yet.")
    graph = Graph(weights)
    ids = graph.node("Reshape", "input", graph.integers(-1))
    # Blanks, start and end are dropped here and blanks inserted by the network: programs differ in where they put them.
    is_symbol = graph.node(
        "And",
        graph.node("Greater", ids, graph.integers(1)),
        graph.node("Less", ids, graph.integers(spec.num_symbols)),
    )
    graph.node("Compress", ids, is_symbol, name="tokens", axis=0)
    noise, length, unused = graph.nodes("Split", "scales", names=(None, None, None), axis=0)
    lengths = graph.node("Cast", "input_lengths", to=FLOAT)
    ignored = graph.node("Mul", graph.node("Add", unused, lengths), graph.constant(0.0))
    scale = graph.node("Mul", length, graph.constant([defaults.duration_scale]))
    graph.node("Squeeze", scale, graph.integers(0), name="duration_scale")
    graph.node("Squeeze", graph.node("Add", noise, ignored), graph.integers(0), name="temperature")
    graph.node("Identity", graph.constant(defaults.steps, np.int64), name="steps")
    graph.node("Identity", graph.constant(description.languages.index(language), np.int64), name="language")
    inputs = {"input": (INT64, (1, "ids")), "input_lengths": (INT64, (1,)), "scales": (FLOAT, (3,))}
    if speaker_vectors is not None:
        row = graph.node("Gather", graph.constant(speaker_vectors), "sid")
        graph.node("Squeeze", row, graph.integers(0), name=SPEAKER_INPUT)
        inputs["sid"] = (INT64, (1,))
    log_mel, frames = add_speech(graph, spec, mel, noise=None)
    samples = graph.node(
        "Clip", GriffinLimGraph(graph, mel).samples(log_mel), graph.constant(-1.0), graph.constant(1.0)
    )
    graph.node("Reshape", samples, graph.integers(1, 1, -1), name="output")
    edge = graph.constant([0.0])
    with_edges = graph.node("Concat", edge, graph.node("Cast", frames, to=FLOAT), edge, axis=0)
    graph.node("Unsqueeze", with_edges, graph.integers(0), name="frames_per_id")
    outputs = {"output": (FLOAT, (1, 1, "samples")), "frames_per_id": (FLOAT, (1, "expanded_ids"))}
    return graph.model("voice", inputs, outputs, metadata)


def symbol_ids(description: VoiceDescription) -> dict[str, int]:
    """The ids of an exported voice: those of the voice, and new ones for start and end."""
    names = {PADDING_SYMBOL: None, BLANK_SYMBOL: PAD}
    ids = {names.get(symbol, symbol): index for index, symbol in enumerate(description.symbols)}
    known = {symbol: index for symbol, index in ids.items() if symbol is not None}
    return known | {START: len(description.symbols), END: len(description.symbols) + 1}


def piper_config(description: VoiceDescription, language: str) -> dict:
    """The content of `NAME.onnx.json`."""
    mel, speakers = description.mel_spec(), description.speakers
    ids = symbol_ids(description)
    return {
        "audio": {"sample_rate": mel.sample_rate},
        "espeak": {"voice": _espeak_voice(description, language)},
        "language": {"code": language},
        "inference": {"noise_scale": description.defaults.temperature, "length_scale": 1.0, "noise_w": 0.0},
        "phoneme_type": "espeak" if description.front_end["kind"] == "phonemes" else "text",
        "phoneme_id_map": {symbol: [index] for symbol, index in ids.items()},
        "num_symbols": len(ids),
        "num_speakers": len(speakers) if description.model_spec().has_speakers else 1,
        "speaker_id_map": {name: index for index, name in enumerate(speakers)} if len(speakers) > 1 else {},
        "hop_length": mel.hop_length,
    }


def export_piper(voice: Path, out: Path, language: str | None = None) -> Path:
    """Write a folder with `NAME.onnx` and `NAME.onnx.json`, where NAME is the name of the folder."""
    description, model = _read(voice, language)
    language = check_language(language, description.languages)
    content = json.dumps(piper_config(description, language), ensure_ascii=False, indent=2) + "\n"
    return _write(out, voice, {f"{out.name}.onnx": model, f"{out.name}.onnx.json": content.encode()})


def export_sherpa(voice: Path, out: Path, language: str | None = None, words: Sequence[str] = ()) -> Path:
    """Write a folder with `model.onnx`, `tokens.txt` and, for voices of phonemes, `lexicon.txt` of the given words."""
    description, model = _read(voice, language)
    language = check_language(language, description.languages)
    lines = [f"{symbol} {index}" if symbol != " " else f"{index}" for symbol, index in symbol_ids(description).items()]
    files = {"model.onnx": model, "tokens.txt": ("\n".join(lines) + "\n").encode()}
    if description.front_end["kind"] == "phonemes":
        if not words:
            raise VoiceError(
                "sherpa-onnx reads a voice of phonemes through a lexicon. Give it the words: --words FILE, one word per line."
            )
        files["lexicon.txt"] = _lexicon(description, language, words).encode()
    return _write(out, voice, files)


def _lexicon(description: VoiceDescription, language: str, words: Iterable[str]) -> str:
    """`word p1 p2 …` per line, phonemized by the voice's own front end; words that it cannot speak are left out."""
    tokenizer = description.tokenizer()
    words = list(dict.fromkeys(word.strip().lower() for word in words if word.strip()))
    names = tokenizer.symbols.symbols
    lines = [
        f"{word} {' '.join(symbols)}"
        for word, encoded in zip(words, tokenizer.encode_many(words, language), strict=True)
        if (symbols := [names[each] for each in encoded.ids if names[each] != WORD_BOUNDARY]) and " " not in word
    ]
    return "\n".join(lines) + "\n"


def _read(voice: Path, language: str | None) -> tuple[VoiceDescription, bytes]:
    description, weights = read_weights(voice)
    language = check_language(language, description.languages)
    vectors = None
    if description.model_spec().has_speakers:
        vectors = speaker_vectors_of(
            weights_of(read_model(voice / SPEAKER_MODEL_NAME, (REFERENCES,), (VECTORS,))), description
        )
    metadata = {
        "model_type": "vits",
        "comment": "piper",
        "language": language,
        "voice": _espeak_voice(description, language),
        "sample_rate": str(description.mel_spec().sample_rate),
        "n_speakers": str(len(description.speakers) if vectors is not None else 1),
        "has_espeak": "1" if description.front_end["kind"] == "phonemes" else "0",
        "add_blank": "1",
        "license": description.licence[:1000],
        "attribution": description.attribution[:5000],
    }
    if description.front_end["kind"] == "graphemes":
        ids = symbol_ids(description)
        metadata |= {
            "frontend": "characters",
            "blank_id": str(ids[PAD]),
            "pad_id": str(ids[PAD]),
            "use_eos_bos": "0",
            "bos_id": str(ids[START]),
            "eos_id": str(ids[END]),
        }
    model = piper_model(description, weights, vectors, language, metadata)
    return description, model.SerializeToString(deterministic=True)


def _espeak_voice(description: VoiceDescription, language: str) -> str:
    """The voice of espeak-ng with which phonemes are made; a voice of letters needs none."""
    return resolve_language(language) if description.front_end["kind"] == "phonemes" else language


def _write(out: Path, voice: Path, files: dict[str, bytes]) -> Path:
    if out.exists():
        raise VoiceError(f"{out} exists, so it is not replaced. Name a new folder.")
    if (full_license := license_file(voice)) is not None:
        files[LICENSE_NAME] = full_license.read_bytes()
    try:
        with replacing_folder(out) as temporary:
            for name, content in files.items():
                (temporary / name).write_bytes(content)
    except OSError as error:
        raise VoiceError(f"{out} could not be written: {cause_of(error)}.") from error
    return out
