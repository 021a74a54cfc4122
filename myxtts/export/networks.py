"""The networks of a voice as ONNX models, built from weights without TensorFlow.

`voice_model`: text encoder, durations and flow decoder (Matcha-TTS, Mehta et al., 2024; P-Flow, Kim et al., 2023).
`speaker_model`: the speaker encoder of voices that clone.

Inputs of the voice: `tokens` int64 (symbols,), `duration_scale` float (), `noise` float (frames, n_mels) with at least as many
frames as are spoken, `steps` int64 (), `temperature` float (), `language` int64 (), for voices of several speakers
`speaker` float (speaker_channels,), and for voices with pitch `expressiveness` float (). Outputs: `mel` float (frames, n_mels)
and `frames_per_symbol` int64 (2 · symbols + 1,), blanks included. A caller that wants exactly as much noise as there are frames
cuts the graph at `features` and `frames_per_symbol` (`myxtts.synthesis.engine`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import TensorProto

from myxtts.audio.mel import MelSpec
from myxtts.batch import BLANK_TOKEN
from myxtts.export.graph import Graph
from myxtts.models.spec import (
    DURATION_LAYERS,
    FRAMES_PER_STEP,
    HIGHEST_PITCH,
    PITCH_CENTER_HZ,
    PITCH_CHANNELS,
    PITCH_DILATIONS,
    PITCH_LOG_SPREAD,
    RECORDING_FEATURES,
    SPEAKER_LAYERS,
    TIME_CHANNELS,
    ModelSpec,
    mel_bands,
)
from myxtts.synthesis.onnx_file import GRAPH_FORMAT
from myxtts.synthesis.voice_folder import (
    FEATURES,
    FRAMES_PER_SYMBOL,
    LONGEST_SYMBOL_SECONDS,
    PITCH_CONDITION,
    SPEAKER_VECTORS,
    TRAINING_WEIGHTS,
)

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def voice_model(spec: ModelSpec, mel: MelSpec, weights: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """The model from tokens to a log-mel. `weights` are those of `XTTS.weights_by_name()`."""
    graph = Graph(weights)
    log_mel, frames = add_speech(graph, spec, mel)
    inputs = {
        "tokens": (INT64, ("symbols",)),
        "duration_scale": (FLOAT, ()),
        "noise": (FLOAT, ("noise_frames", spec.n_mels)),
        "steps": (INT64, ()),
        "temperature": (FLOAT, ()),
        "language": (INT64, ()),
    }
    if spec.has_speakers:
        inputs["speaker"] = (FLOAT, (spec.speaker_channels,))
    if spec.pitch:
        inputs["expressiveness"] = (FLOAT, ())
    outputs = {log_mel: (FLOAT, ("frames", spec.n_mels)), frames: (INT64, ("expanded_symbols",))}
    metadata = {"format": GRAPH_FORMAT, "sample_rate": str(mel.sample_rate), "hop_length": str(mel.hop_length)}
    return graph.model("voice", inputs, outputs, metadata)


def add_speech(
    graph: Graph, spec: ModelSpec, mel: MelSpec, noise: str | None = "noise", decoder_speaker: str = "speaker"
) -> tuple[str, str]:
    """Add the networks of a voice to a graph that has the tensors of `VOICE_INPUTS`; returns `mel` and `frames_per_symbol`.

    Without `noise`, the graph draws it. `decoder_speaker` is the tensor of the speaker vector that the decoder gets.
    """
    language = graph.row("language_embedding/embeddings", graph.node("Add", "language", graph.constant(1, np.int64)))
    condition = of_decoder = language
    if spec.has_speakers:
        condition = of_decoder = graph.node("Add", language, "speaker")
        if decoder_speaker != "speaker":
            of_decoder = graph.node("Add", language, decoder_speaker)
    features = _text_encoder(graph, spec, graph.dense(condition, "text_condition", has_bias=False))
    frames = _frames_per_symbol(graph, features, mel.frames_per_second)
    flow_condition = graph.dense(of_decoder, "flow_condition", has_bias=False)
    if spec.recording_condition:  # of a wide and clean recording: zeros, which add nothing
        clean = graph.constant(np.zeros((1, RECORDING_FEATURES), np.float32))
        recording = graph.dense(clean, "recording_condition", has_bias=False)
        flow_condition = graph.node("Add", flow_condition, recording)
    pitch_condition = None
    if spec.pitch:
        # Of the text's speaker: the pitch of clones whose decoder vector is moved outward was twice as far off.
        graph.describe(PITCH_CONDITION, FLOAT, (1, PITCH_CHANNELS))
        projected = graph.dense(condition, "pitch_condition", has_bias=False)
        pitch_condition = graph.node("Identity", projected, name=PITCH_CONDITION)
    return _decoder(graph, spec, features, frames, flow_condition, pitch_condition, noise), frames


def speaker_model(spec: ModelSpec, weights: Mapping[str, np.ndarray], speaker_vectors: np.ndarray) -> onnx.ModelProto:
    """The model from log-mel references (pieces, frames, n_mels) to vectors (pieces, speaker_channels).

    It also holds the vectors of the named speakers (speakers, speaker_channels), and the weights that only training uses.
    """
    graph = Graph(weights)
    centered = graph.node("Sub", "references", graph.weight("mel_mean"))
    normalized = graph.node("Div", centered, graph.weight("mel_deviation"))
    layer = "speaker_encoder"
    steps = graph.node("Div", graph.size(normalized, axis=1), graph.constant(FRAMES_PER_STEP, np.int64))
    frames = graph.node("Mul", steps, graph.constant(FRAMES_PER_STEP, np.int64))
    one = graph.integers(1)
    whole = graph.node("Slice", normalized, graph.integers(0), graph.node("Reshape", frames, one), one)
    stacked = graph.node("Reshape", whole, _shape_of(graph, 0, steps, FRAMES_PER_STEP * spec.n_mels))
    values = graph.dense(stacked, f"{layer}/stem")
    for index in range(SPEAKER_LAYERS):
        normed = graph.norm(values, f"{layer}/norm_{index}")
        values = graph.node("Add", values, graph.convolution(normed, f"{layer}/convolution_{index}", rank=3))
    mean = graph.node("ReduceMean", values, axes=[1], keepdims=1)
    deviations = graph.node("Sub", values, mean)
    variance = graph.node("ReduceMean", graph.node("Mul", deviations, deviations), axes=[1], keepdims=1)
    spread = graph.node("Sqrt", graph.node("Add", variance, graph.constant(1e-5)))
    pooled = graph.node("Concat", mean, spread, axis=-1)
    projected = graph.dense(graph.node("Squeeze", pooled, one), f"{layer}/output")
    normed = graph.unscaled_norm(projected)
    graph.node("Mul", normed, graph.weight(f"{layer}/output_norm/scale"), name="vectors")
    for name in TRAINING_WEIGHTS:
        graph.keep(name, weights[name])
    graph.keep(SPEAKER_VECTORS, speaker_vectors)
    return graph.model(
        "speaker_encoder",
        {"references": (FLOAT, ("pieces", "frames", spec.n_mels))},
        {"vectors": (FLOAT, ("pieces", spec.speaker_channels))},
        {"format": GRAPH_FORMAT},
    )


def _text_encoder(graph: Graph, spec: ModelSpec, condition: str) -> str:
    """`models.encoder_decoder.TextEncoder` on blank-expanded symbols: (2 · symbols + 1, text_channels)."""
    layer, heads = "text_encoder", spec.text_heads
    values = graph.node("Gather", graph.weight(f"{layer}/embedding/embeddings"), _expand_with_blanks(graph))
    values = graph.node("Add", values, condition)
    rotation = _rotation(graph, graph.size(values), spec.text_channels // heads)
    for index in range(spec.text_layers):
        block = f"{layer}/block_{index}"
        attended = _attention(graph, graph.norm(values, f"{block}/attention_norm"), block, spec, rotation)
        values = graph.node("Add", values, attended)
        widened = graph.convolution(graph.norm(values, f"{block}/convolution_norm"), f"{block}/widen")
        values = graph.node("Add", values, graph.dense(widened, f"{block}/narrow"))
    normed = graph.unscaled_norm(values)
    graph.describe(FEATURES, FLOAT, ("expanded_symbols", spec.text_channels))
    return graph.node("Mul", normed, graph.weight(f"{layer}/output_norm/scale"), name=FEATURES)


def _expand_with_blanks(graph: Graph) -> str:
    """A blank before every symbol and after the last: (symbols,) → (2 · symbols + 1,)."""
    column = graph.node("Unsqueeze", "tokens", graph.integers(1))
    blank = graph.integers(BLANK_TOKEN)
    blanks = graph.node("Add", graph.node("Mul", column, graph.integers(0)), blank)
    pairs = graph.node("Concat", blanks, column, axis=1)
    return graph.node("Concat", graph.node("Reshape", pairs, graph.integers(-1)), blank, axis=0)


def _rotation(graph: Graph, size: str, head_channels: int) -> tuple[str, str]:
    """Cosines and sines (size, head_channels / 2) of the rotary positions (RoFormer, Su et al., 2021)."""
    half = head_channels // 2
    frequencies = 10000.0 ** (-2 * np.arange(half, dtype=np.float32) / head_channels)
    zero, one = graph.constant(0, np.int64), graph.constant(1, np.int64)
    positions = graph.node("Cast", graph.node("Range", zero, size, one), to=FLOAT)
    angles = graph.node("Mul", graph.node("Unsqueeze", positions, graph.integers(1)), graph.constant(frequencies))
    return graph.node("Cos", angles), graph.node("Sin", angles)


def _attention(graph: Graph, values: str, block: str, spec: ModelSpec, rotation: tuple[str, str]) -> str:
    """`models.layers.ClipAttention`: (size, channels) → (size, channels)."""
    heads, head_channels = spec.text_heads, spec.text_channels // spec.text_heads
    projected = graph.dense(values, f"{block}/attention/qkv", has_bias=False)
    split = graph.node("Reshape", projected, graph.integers(0, 3, heads, head_channels))
    by_kind = graph.node("Transpose", split, perm=[1, 2, 0, 3])
    kinds = graph.nodes("Split", by_kind, names=(None, None, None), axis=0)
    query, key, value = (graph.node("Squeeze", kind, graph.integers(0)) for kind in kinds)
    query = graph.node("Mul", _rotate(graph, query, rotation), graph.constant(head_channels**-0.5))
    key = graph.node("Transpose", _rotate(graph, key, rotation), perm=[0, 2, 1])
    weights = graph.node("Softmax", graph.node("MatMul", query, key), axis=-1)
    mixed = graph.node("Transpose", graph.node("MatMul", weights, value), perm=[1, 0, 2])
    joined = graph.node("Reshape", mixed, graph.integers(-1, spec.text_channels))
    return graph.dense(joined, f"{block}/attention/output")


def _rotate(graph: Graph, values: str, rotation: tuple[str, str]) -> str:
    cosine, sine = rotation
    first, second = graph.nodes("Split", values, names=(None, None), axis=-1)
    return graph.node(
        "Concat",
        graph.node("Sub", graph.node("Mul", first, cosine), graph.node("Mul", second, sine)),
        graph.node("Add", graph.node("Mul", first, sine), graph.node("Mul", second, cosine)),
        axis=-1,
    )


def _frames_per_symbol(graph: Graph, features: str, frames_per_second: float) -> str:
    """Frames of each blank-expanded symbol, int64; -1 where the prediction is not a number.

    A symbol lasts at least one frame before `duration_scale` (1 / speed) is applied. Ends are rounded, not durations: the sum is
    right whatever the speed, and a symbol may vanish only in fast speech. If all vanish, the first one lasts one frame.
    """
    layer, values = "duration_predictor", features
    for index in range(DURATION_LAYERS):
        values = graph.norm(graph.convolution(values, f"{layer}/convolution_{index}"), f"{layer}/norm_{index}")
    logarithms = graph.node("Squeeze", graph.dense(values, f"{layer}/output"), graph.integers(1))
    logarithms = graph.node("Cast", logarithms, to=TensorProto.DOUBLE)
    longest = np.log(LONGEST_SYMBOL_SECONDS * frames_per_second)
    clipped = graph.node("Clip", logarithms, graph.constant(0.0, np.float64), graph.constant(longest, np.float64))
    scale = graph.node("Cast", "duration_scale", to=TensorProto.DOUBLE)
    ends = graph.node("CumSum", graph.node("Mul", graph.node("Exp", clipped), scale), graph.constant(0, np.int64))
    rounded = graph.node("Floor", graph.node("Add", ends, graph.constant(0.5, np.float64)))
    whole = graph.node("Cast", rounded, to=INT64)
    zero, one = graph.integers(0), graph.integers(1)
    before = graph.node("Concat", zero, graph.node("Slice", whole, zero, graph.integers(-1), zero), axis=0)
    frames = graph.node("Sub", whole, before)
    total = graph.node("ReduceSum", frames, zero, keepdims=1)
    is_empty = graph.node("Cast", graph.node("Equal", total, zero), to=INT64)
    rest = graph.node("Slice", frames, one, graph.integers(np.iinfo(np.int64).max), zero)
    first = graph.node("Add", graph.node("Slice", frames, zero, one, zero), is_empty)
    known = graph.node("Concat", first, rest, axis=0)
    return graph.node("Where", graph.node("IsNaN", logarithms), graph.integers(-1), known, name=FRAMES_PER_SYMBOL)


def _decoder(
    graph: Graph,
    spec: ModelSpec,
    features: str,
    frames: str,
    condition: str,
    pitch_condition: str | None,
    noise: str | None,
) -> str:
    """`XTTS.decode`: Euler steps of the flow from `temperature` · `noise` to a log-mel (frames, n_mels)."""
    ends = graph.node("CumSum", frames, graph.constant(0, np.int64))
    num_frames = graph.node("ReduceSum", frames, keepdims=0)
    zero, one = graph.constant(0, np.int64), graph.constant(1, np.int64)
    positions = graph.node("Unsqueeze", graph.node("Range", zero, num_frames, one), graph.integers(1))
    is_past = graph.node("Cast", graph.node("GreaterOrEqual", positions, ends), to=INT64)
    symbol_of_frame = graph.node("ReduceSum", is_past, graph.integers(1), keepdims=0)
    text = graph.node("Gather", features, symbol_of_frame)
    means = graph.dense(text, "mean_projection")
    both = graph.node("Concat", text, means, axis=-1)
    projected = graph.dense(both, "decoder/text_projection", has_bias=False)
    if pitch_condition is not None:
        harmonics = _pitch_features(graph, spec, *_pitch(graph, text, pitch_condition))
        projected = graph.node("Add", projected, graph.dense(harmonics, "pitch_projection", has_bias=False))

    if noise is None:
        drawn = graph.node("RandomNormalLike", means)
    else:
        spoken = graph.node("Reshape", num_frames, graph.integers(1))
        drawn = graph.node("Slice", noise, graph.integers(0), spoken, graph.integers(0))
    start = graph.node("Mul", drawn, "temperature")
    step_size = graph.node("Reciprocal", graph.node("Cast", "steps", to=FLOAT))

    def step(index: str, value: str) -> str:
        time = graph.node("Mul", graph.node("Cast", index, to=FLOAT), step_size)
        velocity = _velocity(graph, spec, projected, value, time, condition)
        return graph.node("Add", value, graph.node("Mul", velocity, step_size))

    normalized = graph.loop("steps", start, ("frames", spec.n_mels), step)
    scaled = graph.node("Mul", normalized, graph.weight("mel_deviation"))
    return graph.node("Add", scaled, graph.weight("mel_mean"), name="mel")


def _pitch(graph: Graph, text: str, condition: str) -> tuple[str, str]:
    """Standardized pitch (frames, 1) with the asked expressiveness, and 1 in voiced frames: `XTTS.decode`."""
    layer = "pitch_predictor"
    values = graph.node("Add", graph.dense(text, f"{layer}/input"), condition)
    for index, dilation in enumerate(PITCH_DILATIONS):
        normed = graph.norm(values, f"{layer}/norm_{index}")
        values = graph.node("Add", values, graph.convolution(normed, f"{layer}/convolution_{index}", dilation))
    both = graph.dense(values, f"{layer}/output")
    pitch, voicing = graph.nodes("Split", both, names=(None, None), axis=-1)
    voiced = graph.node("Cast", graph.node("GreaterOrEqual", voicing, graph.constant(0.0)), to=FLOAT)
    count = graph.node("Max", graph.node("ReduceSum", voiced, keepdims=1), graph.constant(1.0))
    total = graph.node("ReduceSum", graph.node("Mul", pitch, voiced), keepdims=1)
    mean = graph.node("Div", total, count)
    movement = graph.node("Mul", graph.node("Sub", pitch, mean), "expressiveness")
    return graph.node("Add", mean, movement), voiced


def _pitch_features(graph: Graph, spec: ModelSpec, pitch: str, voiced: str) -> str:
    """`models.pitch.pitch_features`: (frames, n_mels + 2)."""
    centers, widths = mel_bands(spec.n_mels, spec.f_min, spec.f_max)
    limited = graph.node("Clip", pitch, graph.constant(-HIGHEST_PITCH), graph.constant(HIGHEST_PITCH))
    ratio = graph.node("Exp", graph.node("Mul", limited, graph.constant(-PITCH_LOG_SPREAD)))
    angle = graph.node("Mul", ratio, graph.constant((np.pi * widths / PITCH_CENTER_HZ)[np.newaxis]))
    blur = graph.node("Div", graph.node("Sin", angle), angle)
    turns = graph.node("Mul", ratio, graph.constant((2 * np.pi * centers / PITCH_CENTER_HZ)[np.newaxis]))
    ripple = graph.node("Mul", graph.node("Mul", blur, blur), graph.node("Cos", turns))
    ones = graph.node("Add", graph.node("Mul", limited, graph.constant(0.0)), graph.constant(1.0))
    return graph.node("Mul", graph.node("Concat", ripple, limited, ones, axis=-1), voiced)


def _velocity(graph: Graph, spec: ModelSpec, projected: str, noisy: str, time: str, condition: str) -> str:
    """`models.encoder_decoder.FlowDecoder` at one flow time (a scalar): (frames, n_mels)."""
    layer = "decoder"
    half = TIME_CHANNELS // 2
    frequencies = 1000.0 ** (np.arange(half, dtype=np.float32) / half)
    angles = graph.node("Mul", time, graph.constant(frequencies[np.newaxis]))
    waves = graph.node("Concat", graph.node("Sin", angles), graph.node("Cos", angles), axis=-1)
    embedded = graph.node("Add", graph.silu(graph.dense(waves, f"{layer}/time_hidden")), condition)
    values = graph.node("Add", graph.dense(noisy, f"{layer}/noisy_projection"), projected)
    for index in range(spec.decoder_layers):
        block = f"{layer}/block_{index}"
        modulation = graph.dense(embedded, f"{block}/modulation")
        gain, shift = graph.nodes("Split", modulation, names=(None, None), axis=-1)
        gain = graph.node("Add", gain, graph.constant(1.0))
        modulated = graph.node("Mul", graph.norm(values, f"{block}/norm"), gain)
        modulated = graph.node("Add", modulated, shift)
        dilation = spec.decoder_dilations[index % len(spec.decoder_dilations)]
        widened = graph.convolution(modulated, f"{block}/widen", dilation)
        values = graph.node("Add", values, graph.dense(widened, f"{block}/narrow"))
    return graph.dense(graph.norm(values, f"{layer}/output_norm"), f"{layer}/output_projection")


def _shape_of(graph: Graph, *sizes: int | str) -> str:
    """A shape of constants and int64 scalars."""
    parts = [
        graph.integers(size) if isinstance(size, int) else graph.node("Reshape", size, graph.integers(1))
        for size in sizes
    ]
    return graph.node("Concat", *parts, axis=0)
