"""The environment of the observed script is the user's own, without what importing this package sets for its own trainings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

OWN_DEFAULTS = (
    "TF_CPU_ALLOCATOR_USE_BFC",
    "TF_ENABLE_ONEDNN_OPTS",
    "TF_CPP_MIN_LOG_LEVEL",
    "KERAS_HOME",
    "MPLCONFIGDIR",
)
"""Variables that `import myxtts` sets if the user has not."""


def without_own_defaults(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables without those that this process added to the ones that it was started with (known on Linux only)."""
    started_with = _names_at_start()
    if started_with is None:
        return dict(environment)
    return {name: value for name, value in environment.items() if name not in OWN_DEFAULTS or name in started_with}


def _names_at_start() -> set[str] | None:
    try:
        content = Path("/proc/self/environ").read_bytes()
    except OSError:
        return None
    return {os.fsdecode(entry.split(b"=", 1)[0]) for entry in content.split(b"\0") if entry}
