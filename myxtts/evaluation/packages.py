"""The metrics by name, and the packages that each needs: what is missing is named before anything is measured."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
import threading
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

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

_stand_ins_lock = threading.Lock()


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


@contextmanager
def removed_modules() -> Iterator[None]:
    """Provide stand-ins for two modules that current packages have removed, while an older package is imported.

    webrtcvad (used by resemblyzer) and pyworld ask pkg_resources for their own version; setuptools 81 and later do not have it.
    resemblyzer takes one function from scipy.ndimage.morphology, which is deprecated. Both stand-ins are gone afterwards.
    """
    import scipy.ndimage

    versions = types.ModuleType("pkg_resources")
    vars(versions)["get_distribution"] = importlib.metadata.distribution
    morphology = types.ModuleType("scipy.ndimage.morphology")
    vars(morphology)["binary_dilation"] = scipy.ndimage.binary_dilation
    stand_ins = {"pkg_resources": versions, "scipy.ndimage.morphology": morphology}
    with _stand_ins_lock:
        replaced = {name: sys.modules[name] for name in stand_ins if name in sys.modules}
        sys.modules.update(stand_ins)
        try:
            yield
        finally:
            for name in stand_ins:
                del sys.modules[name]
            sys.modules.update(replaced)
