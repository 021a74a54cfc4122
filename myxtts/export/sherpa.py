"""Voices for sherpa-onnx (Android, iOS, desktop, WebAssembly): `model.onnx` and `tokens.txt`, with `lexicon.txt` for phonemes.

A voice of phonemes is of sherpa-onnx's Matcha type with the vocoder inside (`audio_output`): it reads words through a lexicon
that our own front end makes, and keeps the punctuation. A voice of letters is of its VITS type with `frontend=characters`.
Words outside the lexicon and digits are skipped by sherpa-onnx 2.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx

from myxtts.errors import VoiceError
from myxtts.export.graph import Graph
from myxtts.export.piper import END, PAD, START, add_program_inputs, espeak_voice, piper_model, symbol_ids
from myxtts.export.whole_voice import (
    FLOAT,
    INT64,
    Shapes,
    WholeVoice,
    exported_lexicon,
    finished_model,
    read_voice,
    write_export,
)
from myxtts.text.pauses import PAUSE_SYMBOLS, WORD_BOUNDARY

BLANK = "xx"
"""A blank, under a name of two letters, after every word of the lexicon. With symbols of one character alone, sherpa-onnx 2.0
loses commas and full stops, and skips words with a hyphen although it has their parts. The graph leaves blanks out."""


def export_sherpa(folder: Path, out: Path, language: str | None = None, words: Sequence[str] = ()) -> Path:
    """Write a folder for sherpa-onnx.

    Args:
        folder: the voice.
        out: a new folder.
        language: of the exported voice; by default its first.
        words: of the lexicon; by default `whole_voice.frequent_words`.
    """
    voice = read_voice(folder, language)
    ids = symbol_ids(voice.description)
    tokens = "".join(f"{symbol} {index}\n" if symbol != " " else f"{index}\n" for symbol, index in ids.items())
    if not voice.speaks_phonemes:
        if words:
            raise VoiceError("This voice reads letters, so it needs no word list. Leave out --words.")
        model = piper_model(voice, _letter_metadata(voice, ids))
        return _write(voice, out, model, {"tokens.txt": tokens.encode()})
    lexicon = re.sub(r"(?m)^\S+", rf"\g<0> {BLANK}", exported_lexicon(voice.description, folder, voice.language, words))
    return _write(
        voice,
        out,
        matcha_model(voice),
        {"tokens.txt": f"{tokens}{BLANK} {ids[PAD]}\n".encode(), "lexicon.txt": lexicon.encode()},
    )


def matcha_model(voice: WholeVoice) -> onnx.ModelProto:
    """The model of one language of a voice, as sherpa-onnx expects a Matcha-TTS with its vocoder.

    Inputs by their order: `x` int64 (1, ids), `x_length` int64 (1,), `noise_scale` float (1,), `length_scale` float (1,), and
    `sid` int64 (1,) for voices of several speakers. Output: `audio_output` float (1, samples).
    """
    graph = Graph(voice.weights)
    inputs: Shapes = {
        "x": (INT64, (1, "ids")),
        "x_length": (INT64, (1,)),
        "noise_scale": (FLOAT, (1,)),
        "length_scale": (FLOAT, (1,)),
    }
    if voice.speaker_vectors is not None:
        inputs["sid"] = (INT64, (1,))
    unused, known = graph.node("Cast", "x_length", to=FLOAT), symbol_ids(voice.description)
    ids = _with_word_boundaries(graph, "x", known)
    samples, _ = add_program_inputs(graph, voice, ids, "noise_scale", "length_scale", unused)
    graph.node("Reshape", samples, graph.integers(1, -1), name="audio_output")
    metadata = {
        "model_type": "matcha-tts",
        "version": "1",
        "voice": espeak_voice(voice),
        "has_espeak": "1",  # versions 1.x of sherpa-onnx phonemize with espeak-ng and exit without it
        "use_eos_bos": "0",
        "pad_id": str(known[PAD]),
        "num_ode_steps": str(voice.description.defaults.steps),
    }
    outputs: Shapes = {"audio_output": (FLOAT, (1, "samples"))}
    return finished_model(graph, voice, inputs, outputs, voice.facts() | metadata)


def _with_word_boundaries(graph: Graph, ids: str, known: dict[str, int]) -> str:
    """Ids (1, ids) with a word boundary after every pause inside the text, as in training: sherpa-onnx leaves it out.

    The blanks between them are left out; the network inserts its own.
    """
    flat = graph.node("Reshape", ids, graph.integers(-1))
    is_blank = graph.node("Equal", flat, graph.integers(known[PAD]))
    ids = graph.node("Compress", flat, graph.node("Not", is_blank), axis=0)
    pauses = graph.integers(*(known[symbol] for symbol in PAUSE_SYMBOLS))
    boundary, zero, one = graph.integers(known[WORD_BOUNDARY]), graph.integers(0), graph.integers(1)
    column = graph.node("Unsqueeze", ids, one)
    is_pause = graph.node("Cast", graph.node("Equal", column, pauses), to=INT64)
    is_pause = graph.node("Greater", graph.node("ReduceSum", is_pause, one, keepdims=1), zero)
    rest = graph.node("Slice", ids, one, graph.integers(np.iinfo(np.int64).max), zero)
    following = graph.node("Unsqueeze", graph.node("Concat", rest, boundary, axis=0), one)
    lacks = graph.node("And", is_pause, graph.node("Not", graph.node("Equal", following, boundary)))
    boundaries = graph.node("Add", graph.node("Mul", column, zero), boundary)
    pairs = graph.node("Reshape", graph.node("Concat", column, boundaries, axis=1), graph.integers(-1))
    always = graph.node("Equal", column, column)
    kept = graph.node("Reshape", graph.node("Concat", always, lacks, axis=1), graph.integers(-1))
    return graph.node("Compress", pairs, kept, axis=0)


def _letter_metadata(voice: WholeVoice, ids: dict[str, int]) -> dict[str, str]:
    return {
        "model_type": "vits",
        "comment": "piper",  # selects the inputs of Piper
        "voice": voice.language,
        "has_espeak": "0",
        "frontend": "characters",
        "blank_id": str(ids[PAD]),
        "pad_id": str(ids[PAD]),
        "use_eos_bos": "0",
        "bos_id": str(ids[START]),
        "eos_id": str(ids[END]),
    }


def _write(voice: WholeVoice, out: Path, model: onnx.ModelProto, files: dict[str, bytes]) -> Path:
    return write_export(voice, out, {"model.onnx": model.SerializeToString(deterministic=True), **files})
