"""The metrics by name, and the packages that each needs: what is missing is named before anything is measured."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from myxtts.errors import EvaluationError

INSTALL_LINE = "`pip install '.[evaluate]'` in the project folder"
"""From the sources, with the versions of pyproject.toml."""

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
"""For the intervals."""
PAGE_PACKAGES = ("matplotlib",)
"""For the pictures of the HTML page."""
METRIC_NAMES = tuple(METRIC_PACKAGES)
"""In the order of the report."""
NEED_RECORDINGS = frozenset({"similarity", "pesq", "mcd", "log_f0_rmse", "duration_error"})
"""Metrics that compare a clip with a recording."""


def is_installed(package: str) -> bool:
    """Whether a package can be imported, without importing it."""
    return importlib.util.find_spec(package) is not None


def check_packages(metrics: Sequence[str], writes_page: bool = False) -> None:
    """Raise an `EvaluationError` that names every package that these metrics, and the HTML page, lack."""
    needed: dict[str, tuple[str, ...]] = {metric: (*METRIC_PACKAGES[metric], *ALWAYS_NEEDED) for metric in metrics}
    if writes_page:
        needed["--html"] = PAGE_PACKAGES
    lacking = {name: [each for each in packages if not is_installed(each)] for name, packages in needed.items()}
    missing = dict.fromkeys(package for packages in lacking.values() for package in packages)
    if missing:
        raise EvaluationError(
            f"Packages that are not installed: {', '.join(missing)}. They are needed by: "
            f"{', '.join(name for name, packages in lacking.items() if packages)}. Run {INSTALL_LINE}, or choose other metrics "
            "with --metrics."
        )
