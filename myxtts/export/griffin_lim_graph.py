"""Griffin-Lim as ONNX nodes, for files that must give samples by themselves: the steps of `myxtts.synthesis.griffin_lim`.

The Fourier transforms are matrix products, because ONNX has no inverse transform of real signals; their matrices are computed by
the graph from small constants when it is loaded, so that the file stays small.
"""

from __future__ import annotations

import functools

import numpy as np
from onnx import TensorProto

from myxtts.audio.mel import MelSpec, analysis_window, mel_filterbank
from myxtts.export.graph import END, Graph
from myxtts.synthesis.griffin_lim import LEAST_COVERAGE, LOUDEST, TINY, GriffinLimSettings


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
