"""Histograms of lengths: numbers in, lines for a terminal or a PNG file out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from myxtts.errors import CorpusError

BAR = "█"
PARTS = " ▏▎▍▌▋▊▉█"


def histogram_lines(lengths: np.ndarray, bins: int = 12, width: int = 40) -> list[str]:
    """One line a bin: its range, a bar, its count."""
    counts, edges = np.histogram(lengths, bins=min(bins, max(1, int(lengths.max() - lengths.min()))))
    digits = len(str(int(edges[-1])))
    lines = []
    for count, low, high in zip(counts.tolist(), edges[:-1], edges[1:], strict=True):
        eighths = round(8 * width * count / max(1, counts.max()))
        if count and not eighths:
            eighths = 1  # few clips are not none
        bar = BAR * (eighths // 8) + (PARTS[eighths % 8] if eighths % 8 else "")
        lines.append(f"{int(low):>{digits}}–{int(high):<{digits}} {bar:<{width}} {count}")
    return lines


def save_histograms(path: str | Path, charts: Mapping[str, np.ndarray]) -> None:
    """A PNG with one histogram for each title; the median and the 99th percentile are marked."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6 * len(charts), 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(charts), squeeze=False)[0]
    for axis, (title, lengths) in zip(axes, charts.items(), strict=True):
        axis.hist(lengths, bins=40, color="#4878a8")
        for share, style in ((50, "--"), (99, ":")):
            value = float(np.percentile(lengths, share))
            axis.axvline(value, color="#b04030", linestyle=style, label=f"{share} %: {value:.0f}")
        axis.set(title=title, xlabel="length", ylabel="clips")
        axis.legend()
    path = Path(path)
    beside = path.with_name(f".{path.name}.part")
    try:
        figure.savefig(beside, format="png", dpi=100)
        beside.replace(path)
    except OSError as error:
        raise CorpusError(f"The histogram cannot be written. Received: {path} ({error.strerror}).") from None
    finally:
        beside.unlink(missing_ok=True)
