"""Replaces attributes of modules and classes for a while and puts every one back."""

from __future__ import annotations

from types import FunctionType
from typing import Any

_ABSENT = object()


class PatchSet:
    """Attributes that were replaced, and what they were."""

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, str, Any]] = []

    def replace(self, owner: Any, name: str, make_replacement: Any) -> None:
        """Set `owner.name` to `make_replacement(original)`."""
        original = getattr(owner, name)
        self._replaced.append((owner, name, vars(owner).get(name, _ABSENT)))
        replacement = make_replacement(original)
        if isinstance(original, FunctionType) and isinstance(replacement, FunctionType):
            for attribute in ("__name__", "__qualname__", "__doc__"):
                setattr(replacement, attribute, getattr(original, attribute))
        setattr(owner, name, replacement)

    def restore(self) -> None:
        """Everything as it was, last replaced first."""
        while self._replaced:
            owner, name, original = self._replaced.pop()
            if original is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, original)
