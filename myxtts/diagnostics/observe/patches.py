"""Replaces attributes of modules and classes, and puts them back."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from myxtts.diagnostics.observe.recording import Recording

_ABSENT = object()


class PatchSet:
    """Replaces attributes of modules and classes, and puts every one back."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._replaced: list[tuple[Any, str, Any]] = []

    def replace(self, owner: Any, name: str, make_replacement: Any) -> None:
        """Set `owner.name` to `make_replacement(original)`; what this version does not have is noted and left out."""
        if not hasattr(owner, name):
            self._recording.failed_hooks.append(f"{getattr(owner, '__name__', owner)}.{name}")
            return
        original = getattr(owner, name)
        self._replaced.append((owner, name, vars(owner).get(name, _ABSENT)))
        replacement = make_replacement(original)
        if isinstance(original, FunctionType) and isinstance(replacement, FunctionType):
            for attribute in ("__name__", "__qualname__", "__doc__"):
                setattr(replacement, attribute, getattr(original, attribute))
        setattr(owner, name, replacement)

    def restore(self, only: Any = None) -> None:
        """Everything as it was, last replaced first; or only the attributes of one owner."""
        for entry in list(reversed(self._replaced)):
            owner, name, original = entry
            if only is not None and owner is not only:
                continue
            self._replaced.remove(entry)
            if original is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, original)
