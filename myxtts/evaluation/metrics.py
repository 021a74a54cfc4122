"""The metrics: their names, the packages that each needs, and values with a 95 % interval from the ratios of each sentence.

Missing packages are named before anything is measured. Every metric is one sum over one count (edits over characters, seconds
over seconds, scores over clips), never a mean of means. The interval is a bootstrap over sentences: the voice could have been
measured on other sentences just as well.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from myxtts.errors import EvaluationError, install_line

INSTALL_LINE = install_line("evaluate")

METRIC_PACKAGES: dict[str, tuple[str, ...]] = {
    "cer": ("rapidfuzz",),
    "wer": ("rapidfuzz",),
    "similarity": ("resemblyzer", "torch"),
    "dnsmos": ("speechmos", "onnxruntime", "librosa"),
    "pesq": ("pesq",),
    "mcd": ("librosa",),
    "log_f0_rmse": ("pyworld", "librosa"),
    "duration_error": (),
    "failed": (),
    "rtf": (),
}
ALWAYS_NEEDED = ("scipy",)
"""Packages for the intervals."""
PAGE_PACKAGES = ("matplotlib",)
"""Packages for the pictures of the HTML page."""
METRIC_NAMES = tuple(METRIC_PACKAGES)
"""In the order of the report."""
NEED_RECORDINGS = frozenset({"similarity", "pesq", "mcd", "log_f0_rmse", "duration_error"})
"""Metrics that compare a clip with a recording."""


def has_package(package: str) -> bool:
    """Whether a package can be imported, without importing it."""
    return importlib.util.find_spec(package) is not None


def check_packages(metrics: Sequence[str], writes_page: bool = False) -> None:
    """Raise an `EvaluationError` that names every package that these metrics, and the HTML page, lack."""
    needed: dict[str, tuple[str, ...]] = {metric: (*METRIC_PACKAGES[metric], *ALWAYS_NEEDED) for metric in metrics}
    if writes_page:
        needed["--html"] = PAGE_PACKAGES
    lacking = {name: [each for each in packages if not has_package(each)] for name, packages in needed.items()}
    missing = dict.fromkeys(package for packages in lacking.values() for package in packages)
    if missing:
        raise EvaluationError(
            f"Packages that are not installed: {', '.join(missing)}. They are needed by: "
            f"{', '.join(name for name, packages in lacking.items() if packages)}. Run {INSTALL_LINE}, or choose other metrics "
            "with --metrics."
        )


RESAMPLES = 2000
"""Resamples of a bootstrap: the ends of its 95 % interval rest on 50 of them each."""


@dataclass(frozen=True)
class Ratio:
    """What one clip contributes to a metric: a sum, and what it is divided by."""

    numerator: float
    denominator: float = 1.0

    @property
    def value(self) -> float:
        """The metric of this clip alone."""
        return self.numerator / max(1e-12, self.denominator)


RatioRows = Sequence[Sequence[Ratio | None]]
"""One row per sentence, one entry per clip (seed); None where a clip could not be measured."""


@dataclass(frozen=True)
class Estimate:
    """A measured value and its 95 % interval."""

    value: float
    low: float
    high: float


def estimate(rows: RatioRows, is_mean_square: bool = False) -> Estimate | None:
    """Estimate a metric over sentences; None if nothing was measured.

    Args:
        rows: the ratios of each sentence. Unmeasured clips are left out of both sums.
        is_mean_square: the ratios are squares over counts, and the metric is the root of their sum.
    """
    measured = [[ratio for ratio in row if ratio is not None] for row in rows]
    numerators = np.array([sum(ratio.numerator for ratio in row) for row in measured], np.float64)
    denominators = np.array([sum(ratio.denominator for ratio in row) for row in measured], np.float64)
    has_weight = denominators > 0.0
    numerators, denominators = numerators[has_weight], denominators[has_weight]
    if len(numerators) == 0:
        return None

    def statistic(numerators: np.ndarray, denominators: np.ndarray, axis: int = -1) -> np.ndarray:
        value = numerators.sum(axis=axis) / denominators.sum(axis=axis)
        return np.sqrt(value) if is_mean_square else value

    value = float(statistic(numerators, denominators))
    if len(numerators) == 1:  # nothing to draw from
        return Estimate(value, value, value)
    from scipy.stats import bootstrap

    interval = bootstrap(
        (numerators, denominators), statistic, n_resamples=RESAMPLES, paired=True, method="percentile", rng=0
    ).confidence_interval
    return Estimate(value, float(interval.low), float(interval.high))
