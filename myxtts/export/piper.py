"""Voices for Piper (Home Assistant, NVDA): `NAME.onnx` + `NAME.onnx.json`. sherpa-onnx reads this graph for voices of letters.

The number of steps and the vocoder are inside; the noise is drawn by the graph. The text is normalized and phonemized by the
program, not by MyXTTS: numbers and abbreviations are read as that program reads them.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx

from myxtts.export.graph import Graph
from myxtts.export.whole_voice import (
    FLOAT,
    INT64,
    Shapes,
    WholeVoice,
    add_voice,
    finished_model,
    read_voice,
    write_export,
)
from myxtts.synthesis.voice_folder import VoiceDescription
from myxtts.text.cleanup import base_language
from myxtts.text.g2p import espeak_symbols
from myxtts.text.phonemes import espeak_language, is_installed
from myxtts.text.tokenizer import BLANK_SYMBOL, PADDING_SYMBOL

START, END, PAD = "^", "$", "_"
"""Piper's symbols for the start and end of a sentence, and between two phonemes."""
LARGEST_INT64 = 2**63 - 1
"""The end of a slice that has none."""


def export_piper(folder: Path, out: Path, language: str | None = None) -> Path:
    """Write a folder with `NAME.onnx` and `NAME.onnx.json`, where NAME is the name of the folder."""
    voice = read_voice(folder, language)
    config = json.dumps(piper_config(voice), ensure_ascii=False, indent=2) + "\n"
    model = piper_model(voice, {"model_type": "vits", "comment": "piper", "voice": espeak_voice(voice)})
    content = model.SerializeToString(deterministic=True)
    return write_export(voice, out, {f"{out.name}.onnx": content, f"{out.name}.onnx.json": config.encode()})


def piper_model(voice: WholeVoice, metadata: dict[str, str]) -> onnx.ModelProto:
    """The model of one language of a voice.

    Inputs: `input` int64 (1, ids), `input_lengths` int64 (1,), `scales` float (3,) = noise, length and a third that has no
    effect, and `sid` int64 (1,) for voices of several speakers. Outputs: `output` float (1, 1, samples), and
    `frames_per_id` float (1, ids), for ids that begin with ^ or _ (Piper gives ^ _ a _ b _ $): the blank after a symbol counts
    with the last id before the next symbol.
    """
    graph = Graph(voice.weights)
    noise, length, unused = graph.nodes("Split", "scales", names=(None, None, None), axis=0)
    ignored = graph.node("Add", unused, graph.node("Cast", "input_lengths", to=FLOAT))
    inputs: Shapes = {"input": (INT64, (1, "ids")), "input_lengths": (INT64, (1,)), "scales": (FLOAT, (3,))}
    if voice.speaker_vectors is not None:
        inputs["sid"] = (INT64, (1,))
    samples, frames = add_program_inputs(graph, voice, "input", noise, length, ignored)
    graph.node("Reshape", samples, graph.integers(1, 1, -1), name="output")
    of_ids = _frames_of_ids(graph, "input", frames, voice.description.model_spec().num_symbols)
    graph.node("Unsqueeze", graph.node("Cast", of_ids, to=FLOAT), graph.integers(0), name="frames_per_id")
    outputs: Shapes = {"output": (FLOAT, (1, 1, "samples")), "frames_per_id": (FLOAT, (1, "ids"))}
    return finished_model(graph, voice, inputs, outputs, voice.facts() | {"add_blank": "1"} | metadata)


def add_program_inputs(
    graph: Graph, voice: WholeVoice, ids: str, noise: str, length: str, ignored: str
) -> tuple[str, str]:
    """Add a voice that is fed as Piper and sherpa-onnx do it; returns samples (samples,) and frames per symbol.

    Args:
        graph: a graph of the voice's weights.
        voice: what is added.
        ids: tensor int64 (1, ids), with or without blanks, start and end: programs differ in that.
        noise: tensor float (1,), the temperature.
        length: tensor float (1,), the inverse of the speed.
        ignored: tensor float (1,) without effect: an input that no node uses would be removed from the graph.
    """
    defaults, num_symbols = voice.description.defaults, voice.description.model_spec().num_symbols
    flat, is_symbol = _marked_symbols(graph, ids, num_symbols)
    graph.node("Compress", flat, is_symbol, name="tokens", axis=0)
    temperature = graph.node("Add", noise, graph.node("Mul", ignored, graph.constant(0.0)))
    graph.node("Squeeze", temperature, graph.integers(0), name="temperature")
    scale = graph.node("Mul", length, graph.constant([defaults.duration_scale]))
    graph.node("Squeeze", scale, graph.integers(0), name="duration_scale")
    graph.node("Identity", graph.constant(defaults.steps, np.int64), name="steps")
    language = voice.description.languages.index(voice.language)
    graph.node("Identity", graph.constant(language, np.int64), name="language")
    speaker = graph.node("Squeeze", "sid", graph.integers(0)) if voice.speaker_vectors is not None else None
    return add_voice(graph, voice, speaker, noise=None)


def _marked_symbols(graph: Graph, ids: str, num_symbols: int) -> tuple[str, str]:
    """The ids as (ids,), and which of them are symbols: neither padding, blank, start nor end."""
    flat = graph.node("Reshape", ids, graph.integers(-1))
    is_symbol = graph.node(
        "And", graph.node("Greater", flat, graph.integers(1)), graph.node("Less", flat, graph.integers(num_symbols))
    )
    return flat, is_symbol


def _frames_of_ids(graph: Graph, ids: str, frames: str, num_symbols: int) -> str:
    """Frames of each id (ids,), from those of the blank-expanded symbols; 0 for the end of the sentence."""
    flat, is_symbol = _marked_symbols(graph, ids, num_symbols)
    is_symbol = graph.node("Cast", is_symbol, to=INT64)
    is_end = graph.node("Cast", graph.node("Greater", flat, graph.integers(num_symbols)), to=INT64)
    count = graph.node("CumSum", is_symbol, graph.constant(0, np.int64))

    def next_of(values: str, after_last: int) -> str:
        rest = graph.node("Slice", values, graph.integers(1), graph.integers(LARGEST_INT64))
        return graph.node("Concat", rest, graph.integers(after_last), axis=0)

    symbol_follows = graph.node("Not", graph.node("Equal", count, next_of(count, -1)))
    end_follows = graph.node("Equal", next_of(is_end, 1), graph.integers(1))
    has_blank = graph.node("Cast", graph.node("Or", symbol_follows, end_follows), to=INT64)
    has_blank = graph.node("Mul", has_blank, graph.node("Sub", graph.integers(1), is_end))
    blank = graph.node("Mul", count, graph.integers(2))  # its index among the expanded symbols
    own = graph.node("Mul", graph.node("Gather", frames, graph.node("Sub", blank, is_symbol)), is_symbol)
    return graph.node("Add", own, graph.node("Mul", graph.node("Gather", frames, blank), has_blank))


def phoneme_ids(voice: WholeVoice) -> dict[str, list[int]]:
    """Piper's `phoneme_id_map`. Symbols of espeak-ng, by which Piper phonemizes, get the ids of our own G2P's."""
    known = symbol_ids(voice.description)
    ids = {symbol: [index] for symbol, index in known.items()}
    language = base_language(voice.language)
    if voice.speaks_phonemes and language in voice.description.g2p:
        for symbol, ours in espeak_symbols(language).items():
            ids[symbol] = [known[each] for each in ours if each in known]
    return ids


def symbol_ids(description: VoiceDescription) -> dict[str, int]:
    """The ids of an exported voice: those of the voice, and new ones for start and end."""
    names = {PADDING_SYMBOL: None, BLANK_SYMBOL: PAD}
    ids = {names.get(symbol, symbol): index for index, symbol in enumerate(description.symbols)}
    known = {symbol: index for symbol, index in ids.items() if symbol is not None}
    return known | {START: len(description.symbols), END: len(description.symbols) + 1}


def piper_config(voice: WholeVoice) -> dict:
    """The content of `NAME.onnx.json`."""
    description = voice.description
    mel, speakers = description.mel_spec(), description.speakers
    return {
        "audio": {"sample_rate": mel.sample_rate},
        "espeak": {"voice": espeak_voice(voice)},
        "language": {"code": voice.language},
        "inference": {"noise_scale": description.defaults.temperature, "length_scale": 1.0, "noise_w": 0.0},
        "phoneme_type": "espeak" if voice.speaks_phonemes else "text",
        "phoneme_id_map": phoneme_ids(voice),
        "num_symbols": len(symbol_ids(description)),
        "num_speakers": 1 if voice.speaker_vectors is None else len(speakers),
        "speaker_id_map": {name: index for index, name in enumerate(speakers)} if len(speakers) > 1 else {},
        "hop_length": mel.hop_length,
    }


def espeak_voice(voice: WholeVoice) -> str:
    """The voice of espeak-ng with which other programs make phonemes; a voice of letters needs none.

    English is `en-us` everywhere. Other languages are looked up if espeak-ng is here; their own code is usually its name.
    """
    if not voice.speaks_phonemes:
        return voice.language
    if is_installed():
        return espeak_language(voice.language)
    return "en-us" if voice.language == "en" else voice.language
