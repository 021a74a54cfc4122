"""Vocoders as ONNX nodes: the neural one (`models.vocoder.Vocoder`), and Griffin-Lim for files that must give samples alone.

The inputs of a neural vocoder are `mel` (frames, n_mels) and `noise` (frames, bins), the phases of the noise in turns; the output
is `samples`. Griffin-Lim takes the steps of `myxtts.synthesis.vocoder`. Fourier transforms are matrix products, because ONNX
has no inverse transform of real signals; their matrices are computed from small constants when the file is loaded, so that it
stays small.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping

import numpy as np
import onnx
from onnx import TensorProto

from myxtts.audio.mel import MelSpec, analysis_window, mel_filterbank
from myxtts.errors import VoiceError
from myxtts.export.graph import END, Graph
from myxtts.models.spec import (
    CHIRP_BINS,
    HIGHEST_LOG_MAGNITUDE,
    INPUT_DEVIATION,
    INPUT_MEAN,
    LARGEST_LEVEL_CHANGE,
    LARGEST_PITCH_STEP,
    LEVEL_ROUNDS,
    LOBE_BINS,
    LOBE_SHARPNESS,
    MIDDLE_HZ,
    NOISE_START,
    PITCH_CLASSES,
    PITCH_NEIGHBORS,
    VocoderSpec,
    envelope_matrix,
    pitch_classes,
    time_interpolation,
)
from myxtts.synthesis.onnx_file import GRAPH_FORMAT
from myxtts.synthesis.vocoder import LEAST_COVERAGE, LOUDEST, TINY, GriffinLimSettings

LEAST_OVERLAP = 1e-3
"""Lower limit of the sum of the squared windows, as in `models.vocoder.overlap_weights`."""


def vocoder_model(spec: VocoderSpec, weights: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """The model of a vocoder with these weights, by their names in the network."""
    mel = spec.mel
    if mel.win_length != mel.n_fft:
        raise VoiceError(
            f"A vocoder needs data.win_length equal to data.n_fft. Received: {mel.win_length} and {mel.n_fft}. "
            f"Train it with data.win_length: {mel.n_fft}."
        )
    graph = Graph(weights)
    scaled = _plus(graph, graph.node("Mul", "mel", graph.constant(1 / INPUT_DEVIATION)), -INPUT_MEAN / INPUT_DEVIATION)
    pitch = _pitch(graph, spec, scaled)
    real, imaginary, gains = _spectrum(graph, spec, scaled, _smoothed(graph, pitch))
    _samples(graph, spec, real, imaginary, gains)
    written = {tensor.name for tensor in graph.model("vocoder", {}, {}, {}).graph.initializer}
    if left_over := sorted(set(weights) - written):
        raise VoiceError(
            f"{len(left_over)} weights do not belong to a vocoder, such as {left_over[0]!r:.80}. "
            "Use a checkpoint of this version of MyXTTS."
        )
    return graph.model(
        "vocoder",
        {"mel": (TensorProto.FLOAT, ("frames", mel.n_mels)), "noise": (TensorProto.FLOAT, ("frames", spec.bins))},
        {"samples": (TensorProto.FLOAT, ("samples",))},
        {"format": GRAPH_FORMAT, "vocoder": json.dumps(spec.to_dict(), sort_keys=True)},
    )


def _plus(graph: Graph, values: str, number: float) -> str:
    return graph.node("Add", values, graph.constant(number))


def _matrix(graph: Graph, values: np.ndarray) -> str:
    """A constant matrix, stored as float16 like the weights."""
    return graph.node("Cast", graph.constant(values, np.float16), to=TensorProto.FLOAT)


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


def _spectrum(graph: Graph, spec: VocoderSpec, scaled: str, pitch: str) -> tuple[str, str, str]:
    """Real and imaginary part (frames, bins) of harmonics plus noise, and the gains of the samples (frames, n_fft)."""
    log_pitch = graph.node("Log", graph.node("Mul", pitch, graph.constant(1 / MIDDLE_HZ)))
    values = graph.linear_convolution(graph.node("Concat", scaled, log_pitch, axis=-1), "input_convolution")
    for number in range(spec.blocks):
        values = _block(graph, values, f"block_{number}")
    values = graph.norm(values, "output_norm")

    area, interpolation = envelope_matrix(spec.mel)
    between_bands = _matrix(graph, interpolation)
    envelope = graph.node("MatMul", graph.node("Sub", "mel", graph.constant(area[None])), between_bands)
    parts = _harmonics(graph, spec, values, envelope, pitch)
    noise_level = graph.node("Add", envelope, graph.dense(values, "noise_head"))
    noise_level = _plus(graph, noise_level, NOISE_START + spec.noise_gain)
    noise = _exponential(graph, noise_level)
    parts = [
        graph.node("Add", part, graph.node("Mul", noise, turned))
        for part, turned in zip(parts, _cosine_and_sine(graph, "noise"), strict=True)
    ]
    level = graph.node("Add", "mel", graph.dense(values, "gain_head"))
    factor = _level_factor(graph, spec, parts, level, between_bands)
    gains = graph.node(
        "MatMul", _limited(graph, graph.dense(values, "time_head")), _matrix(graph, time_interpolation(spec.mel.n_fft))
    )
    return graph.node("Mul", parts[0], factor), graph.node("Mul", parts[1], factor), graph.node("Exp", gains)


def _harmonics(graph: Graph, spec: VocoderSpec, values: str, envelope: str, pitch: str) -> list[str]:
    """`models.vocoder.Vocoder._harmonics`."""
    mel = spec.mel
    frame_seconds, bin_hertz = mel.hop_length / mel.sample_rate, mel.sample_rate / mel.n_fft
    hertz = graph.constant((np.arange(spec.bins) * bin_hertz).astype(np.float32)[None])
    harmonic = graph.node("Max", graph.node("Round", graph.node("Div", hertz, pitch)), graph.constant(1.0))
    away = graph.node("Sub", hertz, graph.node("Mul", harmonic, pitch))
    distance = graph.node("Mul", away, graph.constant(1 / bin_hertz))
    slope = graph.node("Mul", _slope(graph, pitch, frame_seconds), graph.constant(CHIRP_BINS / bin_hertz**2))
    bend = graph.node("Mul", harmonic, slope)
    spread = _plus(graph, graph.node("Mul", bend, bend), 1.0)
    square = graph.node("Mul", graph.node("Mul", distance, distance), graph.constant(LOBE_SHARPNESS))
    lobe = graph.node("Div", square, spread)
    peak = graph.node("Log", graph.node("Mul", pitch, graph.constant(1 / (bin_hertz * LOBE_BINS))))
    lower = graph.node("Mul", graph.node("Log", spread), graph.constant(0.25))
    level = graph.node("Add", graph.node("Add", envelope, peak), graph.dense(values, "harmonic_head"))
    level = graph.node("Sub", graph.node("Sub", level, lower), lobe)

    residual_real, residual_imaginary = graph.nodes(
        "Split", graph.dense(values, "phase_head"), names=(None, None), axis=-1
    )
    residual_real = _plus(graph, residual_real, 1.0)
    squares = [graph.node("Mul", part, part) for part in (residual_real, residual_imaginary)]
    length = graph.node("Sqrt", _plus(graph, graph.node("Add", *squares), 1e-9))
    magnitude = graph.node("Div", _exponential(graph, level), length)

    odd = graph.constant(0.5 * (np.arange(spec.bins) % 2).astype(np.float32)[None])
    turns = graph.node("Add", graph.node("Mul", harmonic, _turns(graph, pitch, frame_seconds)), odd)
    bent = graph.node(
        "Sub", graph.node("Mul", graph.node("Atan", bend), graph.constant(0.5)), graph.node("Mul", lobe, bend)
    )
    cosine, sine = _cosine_and_sine(
        graph, graph.node("Add", turns, graph.node("Mul", bent, graph.constant(0.5 / np.pi)))
    )
    parts = []
    for operator, one, other in (("Sub", cosine, sine), ("Add", sine, cosine)):
        first, second = graph.node("Mul", one, residual_real), graph.node("Mul", other, residual_imaginary)
        parts.append(graph.node("Mul", magnitude, graph.node(operator, first, second)))
    return parts


def _level_factor(graph: Graph, spec: VocoderSpec, parts: list[str], level: str, between_bands: str) -> str:
    """`models.vocoder.Vocoder._level_factor`."""
    filterbank = _matrix(graph, mel_filterbank(spec.mel))
    squares = [graph.node("Mul", part, part) for part in parts]
    magnitude = graph.node("Sqrt", _plus(graph, graph.node("Add", *squares), 1e-14))
    factor = ""
    for _ in range(LEVEL_ROUNDS):
        scaled = graph.node("Mul", magnitude, factor) if factor else magnitude
        bands = graph.node("Max", graph.node("MatMul", scaled, filterbank), graph.constant(spec.mel.log_floor))
        change = _limited(graph, graph.node("Sub", level, graph.node("Log", bands)))
        step = graph.node("Exp", graph.node("MatMul", change, between_bands))
        factor = graph.node("Mul", factor, step) if factor else step
    return factor


def _limited(graph: Graph, values: str) -> str:
    return graph.node("Clip", values, graph.constant(-LARGEST_LEVEL_CHANGE), graph.constant(LARGEST_LEVEL_CHANGE))


def _neighbors(graph: Graph, pitch: str) -> tuple[str, str]:
    """The pitch of the frame before and of the frame after (frames, 1); at the ends, their own."""
    padded = graph.node("Pad", pitch, graph.integers(1, 0, 1, 0), mode="edge")
    axis = graph.integers(0)
    before = graph.node("Slice", padded, graph.integers(0), graph.integers(-2), axis)
    return before, graph.node("Slice", padded, graph.integers(2), graph.integers(END), axis)


def _smoothed(graph: Graph, pitch: str) -> str:
    around = graph.node("Mul", graph.node("Add", *_neighbors(graph, pitch)), graph.constant(0.25))
    return graph.node("Add", around, graph.node("Mul", pitch, graph.constant(0.5)))


def _slope(graph: Graph, pitch: str, frame_seconds: float) -> str:
    before, after = _neighbors(graph, pitch)
    change = graph.node("Sub", after, before)
    is_jump = graph.node(
        "GreaterOrEqual", graph.node("Abs", change), graph.node("Mul", pitch, graph.constant(LARGEST_PITCH_STEP))
    )
    slope = graph.node("Mul", change, graph.constant(0.5 / frame_seconds))
    return graph.node("Where", is_jump, graph.constant(0.0), slope)


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


def _samples(graph: Graph, spec: VocoderSpec, real: str, imaginary: str, gains: str) -> None:
    """The output: samples between the centers of the first and last frame."""
    mel = spec.mel
    _, inverse = fourier_bases(graph, mel)
    pieces = graph.node("MatMul", graph.node("Concat", real, imaginary, axis=-1), inverse)
    pieces = graph.node("Mul", pieces, gains)
    column = graph.node("Slice", real, graph.integers(0), graph.integers(1), graph.integers(1))
    ones = graph.node("Exp", graph.node("Mul", column, graph.constant(0.0)))
    windows = graph.node("Mul", ones, graph.constant(analysis_window(mel)[None] ** 2))
    overlap = graph.node("Max", overlap_add(graph, windows, mel), graph.constant(LEAST_OVERLAP))
    sound = graph.node("Reshape", graph.node("Div", overlap_add(graph, pieces, mel), overlap), graph.integers(-1))
    left = mel.n_fft // 2
    right = -(-mel.n_fft // mel.hop_length) * mel.hop_length - left
    graph.node("Slice", sound, graph.integers(left), graph.integers(-right), graph.integers(0), name="samples")


# --- Griffin-Lim and Fourier transforms -----------------------------------------------------------------------------------


class GriffinLimGraph:
    """The nodes of one vocoder."""

    def __init__(self, graph: Graph, spec: MelSpec, settings: GriffinLimSettings | None = None):
        self._graph = graph
        self._spec = spec
        self._settings = settings or GriffinLimSettings()
        self._hops_per_frame = -(-spec.n_fft // spec.hop_length)
        self._bins = 1 + spec.n_fft // 2
        filterbank = mel_filterbank(spec)
        weight = filterbank.sum(axis=1)
        self._filterbank = graph.constant(filterbank)
        self._back = graph.constant((filterbank / (weight + TINY)[:, None]).T)

    def samples(self, mel: str) -> str:
        """Log-mel (frames, n_mels) → samples ((frames - 1) * hop_length,)."""
        graph, spec = self._graph, self._spec
        is_heard = graph.node("Greater", mel, graph.constant(np.log(spec.log_floor) + 1e-3))
        strength = graph.node("Exp", graph.node("Min", mel, graph.constant(LOUDEST)))
        bands = graph.node("Where", is_heard, strength, graph.constant(0.0))
        forward, inverse = self._bases()
        ones = graph.node("Exp", graph.node("Mul", self._column(mel), graph.constant(0.0)))
        windows = graph.node("Mul", ones, graph.constant(analysis_window(spec)[None] ** 2))
        covered = graph.node("Max", self._overlap_add(windows), graph.constant(LEAST_COVERAGE))
        coverage = graph.node("Reciprocal", covered)

        magnitude = graph.node("MatMul", bands, self._back)
        for _ in range(self._settings.spread_iterations):
            magnitude = graph.node("Mul", magnitude, self._correction(magnitude, bands))
        silence = graph.node("Mul", magnitude, graph.constant(0.0))
        spectrum = graph.node("Concat", magnitude, silence, axis=-1)
        # The first round extrapolates from itself: no momentum.
        found = self._round_trip(spectrum, coverage, forward, inverse)
        spectrum = self._with_mel(found, bands)
        state = graph.node("Concat", spectrum, found, axis=-1)

        def refine(_: str, value: str) -> str:
            current, previous = graph.nodes("Split", value, names=(None, None), axis=-1)
            new = self._round_trip(current, coverage, forward, inverse)
            step = graph.node("Mul", graph.node("Sub", new, previous), graph.constant(self._settings.momentum))
            return graph.node("Concat", self._with_mel(graph.node("Add", new, step), bands), new, axis=-1)

        rounds = graph.constant(self._settings.iterations - 1, np.int64)
        state = graph.loop(rounds, state, ("frames", 4 * self._bins), refine)
        spectrum, _ = graph.nodes("Split", state, names=(None, None), axis=-1)
        hops = graph.node("Mul", self._sound(spectrum, inverse), coverage)
        sound = graph.node("Reshape", hops, graph.integers(-1))
        left = spec.n_fft // 2
        right = self._hops_per_frame * spec.hop_length - left
        return graph.node("Slice", sound, graph.integers(left), graph.integers(-right), graph.integers(0))

    def _column(self, mel: str) -> str:
        """(frames, 1) of numbers that do not matter."""
        graph = self._graph
        return graph.node("Slice", mel, graph.integers(0), graph.integers(1), graph.integers(1))

    def _bases(self) -> tuple[str, str]:
        """Windowed samples → (real, imaginary), and back: (n_fft, 2 · bins) and (2 · bins, n_fft)."""
        return fourier_bases(self._graph, self._spec)

    def _correction(self, magnitude: str, bands: str) -> str:
        graph = self._graph
        found = graph.node("Add", graph.node("MatMul", magnitude, self._filterbank), graph.constant(TINY))
        return graph.node("MatMul", graph.node("Div", bands, found), self._back)

    def _with_mel(self, spectrum: str, bands: str) -> str:
        graph = self._graph
        real, imaginary = graph.nodes("Split", spectrum, names=(None, None), axis=-1)
        power = graph.node("Add", graph.node("Mul", real, real), graph.node("Mul", imaginary, imaginary))
        factor = self._correction(graph.node("Sqrt", power), bands)
        return graph.node("Concat", graph.node("Mul", real, factor), graph.node("Mul", imaginary, factor), axis=-1)

    def _round_trip(self, spectrum: str, coverage: str, forward: str, inverse: str) -> str:
        """The spectrum of the sound of a spectrum."""
        graph, hops = self._graph, self._hops_per_frame
        sound = graph.node("Mul", self._sound(spectrum, inverse), coverage)
        shifted = [
            graph.node(
                "Slice",
                sound,
                graph.integers(index),
                graph.integers(index - hops + 1 if index < hops - 1 else END),
                graph.integers(0),
            )
            for index in range(hops)
        ]
        frames = graph.node("Concat", *shifted, axis=-1)
        if hops * self._spec.hop_length != self._spec.n_fft:
            one = graph.integers(1)
            frames = graph.node("Slice", frames, graph.integers(0), graph.integers(self._spec.n_fft), one)
        return graph.node("MatMul", frames, forward)

    def _sound(self, spectrum: str, inverse: str) -> str:
        """Overlapping sum (hops, hop_length) of the inverse transforms."""
        return self._overlap_add(self._graph.node("MatMul", spectrum, inverse))

    def _overlap_add(self, frames: str) -> str:
        """(frames, n_fft) → (frames + hops per frame - 1, hop_length)."""
        return overlap_add(self._graph, frames, self._spec)


def fourier_bases(graph: Graph, spec: MelSpec) -> tuple[str, str]:
    """Windowed samples → (real, imaginary), and back with the window again: (n_fft, 2 · bins) and (2 · bins, n_fft)."""
    size = spec.n_fft
    rows = graph.constant(np.arange(size)[:, None], np.int64)
    columns = graph.constant(np.arange(1 + size // 2)[None], np.int64)
    turns = graph.node("Mod", graph.node("Mul", rows, columns), graph.constant(size, np.int64))
    angles = graph.node("Mul", graph.node("Cast", turns, to=TensorProto.FLOAT), graph.constant(2 * np.pi / size))
    waves = graph.node("Concat", graph.node("Cos", angles), graph.node("Neg", graph.node("Sin", angles)), axis=-1)
    window = graph.constant(analysis_window(spec)[:, None])
    forward = graph.node("Mul", waves, window)
    # Frequencies between 0 and the highest stand for two, themselves and their mirror image.
    counts = np.full((1 + size // 2), 2.0 / size, np.float32)
    counts[0] = 1.0 / size
    counts[-1] = (1.0 if size % 2 == 0 else 2.0) / size
    weighted = graph.node("Mul", forward, graph.constant(np.tile(counts, 2)[None]))
    return forward, graph.node("Transpose", weighted, perm=[1, 0])


def overlap_add(graph: Graph, frames: str, spec: MelSpec) -> str:
    """(frames, n_fft) → (frames + hops per frame - 1, hop_length)."""
    hop, hops = spec.hop_length, -(-spec.n_fft // spec.hop_length)
    missing = hops * hop - spec.n_fft
    if missing:
        frames = graph.node("Pad", frames, graph.integers(0, 0, 0, missing))
    parts = []
    for index in range(hops):
        limits = graph.integers(index * hop), graph.integers((index + 1) * hop)
        part = graph.node("Slice", frames, *limits, graph.integers(1))
        parts.append(graph.node("Pad", part, graph.integers(index, 0, hops - 1 - index, 0)))
    return functools.reduce(lambda one, other: graph.node("Add", one, other), parts)
