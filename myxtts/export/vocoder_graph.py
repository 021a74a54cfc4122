"""The vocoder as an ONNX model: `models.vocoder.Vocoder` in the nodes of `myxtts.export.graph`.

Inputs are `mel` (frames, n_mels) and `noise` (frames, bins), the phases of the noise in turns; the output is `samples`. The
inverse Fourier transform is a matrix product with overlap-add; its matrix is computed when the file is loaded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import onnx
from onnx import TensorProto

from myxtts.audio.mel import analysis_window
from myxtts.errors import VoiceError
from myxtts.export.graph import Graph
from myxtts.export.griffin_lim_graph import fourier_bases, overlap_add
from myxtts.models.spec import (
    HIGHEST_LOG_MAGNITUDE,
    INPUT_DEVIATION,
    INPUT_MEAN,
    LOBE_BINS,
    LOBE_SHARPNESS,
    MIDDLE_HZ,
    NOISE_START,
    PITCH_CLASSES,
    PITCH_NEIGHBORS,
    VocoderSpec,
    envelope_matrix,
    pitch_classes,
)
from myxtts.synthesis.onnx_file import GRAPH_FORMAT

END = np.iinfo(np.int64).max
LEAST_OVERLAP = 1e-3
"""Under the sum of the squared windows, as in `models.stft.overlap_weights`."""


def vocoder_model(spec: VocoderSpec, weights: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """The model of a vocoder with these weights, by their names in the network."""
    mel = spec.mel
    if mel.win_length != mel.n_fft:
        raise VoiceError(
            f"A vocoder needs a window as long as its transform. Received: {mel.win_length} and {mel.n_fft}."
        )
    graph = Graph(weights)
    scaled = _plus(graph, graph.node("Mul", "mel", graph.constant(1 / INPUT_DEVIATION)), -INPUT_MEAN / INPUT_DEVIATION)
    pitch = _pitch(graph, spec, scaled)
    real, imaginary = _spectrum(graph, spec, scaled, pitch)
    _samples(graph, spec, real, imaginary)
    written = {tensor.name for tensor in graph.model("vocoder", {}, {}, {}).graph.initializer}
    if left_over := sorted(set(weights) - written):
        raise VoiceError(f"{len(left_over)} weights have no place in a vocoder, such as {left_over[0]!r:.80}.")
    return graph.model(
        "vocoder",
        {"mel": (TensorProto.FLOAT, ("frames", mel.n_mels)), "noise": (TensorProto.FLOAT, ("frames", spec.bins))},
        {"samples": (TensorProto.FLOAT, ("samples",))},
        {"format": GRAPH_FORMAT, "vocoder": json.dumps(spec.to_dict(), sort_keys=True)},
    )


def _plus(graph: Graph, values: str, number: float) -> str:
    return graph.node("Add", values, graph.constant(number))


def _block(graph: Graph, values: str, layer: str) -> str:
    """`models.vocoder.VocoderBlock`."""
    inner = graph.norm(graph.linear_convolution(values, f"{layer}/convolution"), f"{layer}/norm")
    narrowed = graph.dense(graph.silu(graph.dense(inner, f"{layer}/widen")), f"{layer}/narrow")
    return graph.node("Add", values, graph.node("Mul", narrowed, graph.weight(f"{layer}/scale")))


def _pitch(graph: Graph, spec: VocoderSpec, scaled: str) -> str:
    """Hz (frames, 1): the mean of the classes around the likeliest one."""
    values = graph.linear_convolution(scaled, "pitch_input")
    for number in range(spec.pitch_blocks):
        values = _block(graph, values, f"pitch_block_{number}")
    logits = graph.dense(graph.norm(values, "pitch_norm"), "pitch_head")
    best = graph.node("Cast", graph.node("ArgMax", logits, axis=-1, keepdims=1), to=TensorProto.FLOAT)
    classes = graph.constant(np.arange(PITCH_CLASSES, dtype=np.float32)[None])
    distance = graph.node("Abs", graph.node("Sub", classes, best))
    is_near = graph.node("LessOrEqual", distance, graph.constant(PITCH_NEIGHBORS + 0.5))
    weights = graph.node("Softmax", graph.node("Where", is_near, logits, graph.constant(-1e9)), axis=-1)
    return graph.node("Exp", graph.node("MatMul", weights, graph.constant(pitch_classes()[:, None])))


def _spectrum(graph: Graph, spec: VocoderSpec, scaled: str, pitch: str) -> tuple[str, str]:
    """Real and imaginary part (frames, bins) of harmonics plus noise."""
    mel = spec.mel
    bin_hertz = mel.sample_rate / mel.n_fft
    hertz = graph.constant((np.arange(spec.bins) * bin_hertz).astype(np.float32)[None])
    harmonic = graph.node("Max", graph.node("Round", graph.node("Div", hertz, pitch)), graph.constant(1.0))
    away = graph.node("Sub", hertz, graph.node("Mul", harmonic, pitch))
    distance = graph.node("Mul", away, graph.constant(1 / bin_hertz))

    log_pitch = graph.node("Log", graph.node("Mul", pitch, graph.constant(1 / MIDDLE_HZ)))
    values = graph.linear_convolution(graph.node("Concat", scaled, log_pitch, axis=-1), "input_convolution")
    for number in range(spec.blocks):
        values = _block(graph, values, f"block_{number}")
    values = graph.norm(values, "output_norm")

    area, interpolation = envelope_matrix(mel)
    envelope = graph.node("MatMul", graph.node("Sub", "mel", graph.constant(area[None])), graph.constant(interpolation))
    peak = graph.node("Log", graph.node("Mul", pitch, graph.constant(1 / (bin_hertz * LOBE_BINS))))
    lobe = graph.node("Mul", graph.node("Mul", distance, distance), graph.constant(-LOBE_SHARPNESS))
    harmonic_level = graph.node("Add", graph.node("Add", envelope, peak), graph.dense(values, "harmonic_head"))
    harmonic_magnitude = _exponential(graph, graph.node("Add", harmonic_level, lobe))
    noise_level = _plus(graph, graph.node("Add", envelope, graph.dense(values, "noise_head")), NOISE_START)
    noise_magnitude = _exponential(graph, noise_level)

    residual_real, residual_imaginary = graph.nodes(
        "Split", graph.dense(values, "phase_head"), names=(None, None), axis=-1
    )
    residual_real = _plus(graph, residual_real, 1.0)
    squares = [graph.node("Mul", part, part) for part in (residual_real, residual_imaginary)]
    length = graph.node("Sqrt", _plus(graph, graph.node("Add", *squares), 1e-9))
    harmonic_magnitude = graph.node("Div", harmonic_magnitude, length)

    odd = graph.constant(0.5 * (np.arange(spec.bins) % 2).astype(np.float32)[None])
    turns = graph.node("Add", graph.node("Mul", harmonic, _turns(graph, pitch, mel.hop_length / mel.sample_rate)), odd)
    cosine, sine = _cosine_and_sine(graph, turns)
    noise_cosine, noise_sine = _cosine_and_sine(graph, "noise")
    parts = []
    for operator, one, other, noise_part in (("Sub", cosine, sine, noise_cosine), ("Add", sine, cosine, noise_sine)):
        first, second = graph.node("Mul", one, residual_real), graph.node("Mul", other, residual_imaginary)
        turned = graph.node("Mul", harmonic_magnitude, graph.node(operator, first, second))
        parts.append(graph.node("Add", turned, graph.node("Mul", noise_magnitude, noise_part)))
    return parts[0], parts[1]


def _exponential(graph: Graph, level: str) -> str:
    return graph.node("Exp", graph.node("Min", level, graph.constant(HIGHEST_LOG_MAGNITUDE)))


def _cosine_and_sine(graph: Graph, turns: str) -> tuple[str, str]:
    fraction = graph.node("Sub", turns, graph.node("Floor", turns))
    angle = graph.node("Mul", fraction, graph.constant(2 * np.pi))
    return graph.node("Cos", angle), graph.node("Sin", angle)


def _turns(graph: Graph, pitch: str, frame_seconds: float) -> str:
    """`models.vocoder.phase_turns`: (frames, 1), summed as float64."""
    zero, one, axis = graph.integers(0), graph.integers(1), graph.integers(0)
    wide = graph.node("Cast", pitch, to=TensorProto.DOUBLE)
    later = graph.node("Slice", wide, one, graph.integers(END), axis)
    earlier = graph.node("Slice", wide, zero, graph.integers(-1), axis)
    steps = graph.node("Mul", graph.node("Add", later, earlier), graph.constant(0.5 * frame_seconds, np.float64))
    sums = graph.node("CumSum", graph.node("Pad", steps, graph.integers(1, 0, 0, 0)), graph.constant(0, np.int64))
    return graph.node("Cast", graph.node("Sub", sums, graph.node("Floor", sums)), to=TensorProto.FLOAT)


def _samples(graph: Graph, spec: VocoderSpec, real: str, imaginary: str) -> None:
    """The output: samples between the centers of the first and last frame."""
    mel = spec.mel
    _, inverse = fourier_bases(graph, mel)
    pieces = graph.node("MatMul", graph.node("Concat", real, imaginary, axis=-1), inverse)
    column = graph.node("Slice", real, graph.integers(0), graph.integers(1), graph.integers(1))
    ones = graph.node("Exp", graph.node("Mul", column, graph.constant(0.0)))
    windows = graph.node("Mul", ones, graph.constant(analysis_window(mel)[None] ** 2))
    overlap = graph.node("Max", overlap_add(graph, windows, mel), graph.constant(LEAST_OVERLAP))
    sound = graph.node("Reshape", graph.node("Div", overlap_add(graph, pieces, mel), overlap), graph.integers(-1))
    left = mel.n_fft // 2
    right = -(-mel.n_fft // mel.hop_length) * mel.hop_length - left
    graph.node("Slice", sound, graph.integers(left), graph.integers(-right), graph.integers(0), name="samples")
