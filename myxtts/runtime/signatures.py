"""The signature by which TensorFlow traces a function: shape and dtype of each tensor, the value of each Python argument.

The arguments of a call (a tuple, NamedTuple or mapping, possibly nested) become a hashable signature with a name for each entry;
two signatures can be compared and their difference described. No tensor is copied or evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

ABSENT = ("absent",)
_PYTHON_VALUES = (int, float, bool, str, bytes, type(None))

Signature = tuple
"""One entry per argument, in order; two entries are equal if and only if TensorFlow would use the same trace for them."""


@dataclass(frozen=True)
class ArgumentChange:
    """One argument that differs between two calls."""

    argument: str
    kind: str
    """shape | dtype | value | object | absent"""
    old: str
    new: str

    def __str__(self) -> str:
        return f"argument '{self.argument}' changed its {self.kind} from {self.old} to {self.new}"


def signature_of(arguments: Any, object_key: Callable[[Any], Hashable] = id) -> Signature:
    """The signature of the arguments of one call; takes about a microsecond per tensor.

    `object_key` identifies Python objects that are neither tensors nor plain values.
    """
    entries: list = []
    _collect(arguments, entries, object_key)
    return tuple(entries)


def argument_names(arguments: Any, prefix: str = "") -> tuple[str, ...]:
    """The names of a signature's entries: field names, keys or indices, joined by dots."""
    if isinstance(arguments, Mapping):
        parts = arguments.items()
    elif isinstance(arguments, tuple) and hasattr(arguments, "_fields"):
        parts = zip(getattr(arguments, "_fields"), arguments, strict=True)  # noqa: B009 - a NamedTuple of any type
    elif isinstance(arguments, (tuple, list)):
        parts = enumerate(arguments)
    else:
        return (prefix or "0",)
    names: list[str] = []
    for key, value in parts:
        names += argument_names(value, f"{prefix}.{key}" if prefix else str(key))
    return tuple(names)


def changes_between(old: Signature, new: Signature, names: tuple[str, ...]) -> tuple[ArgumentChange, ...]:
    """The arguments that differ."""
    changes = []
    for index in range(max(len(old), len(new))):
        before = old[index] if index < len(old) else ABSENT
        after = new[index] if index < len(new) else ABSENT
        if before != after:
            name = names[index] if index < len(names) else str(index)
            changes.append(
                ArgumentChange(name, _kind_of_change(before, after), describe_entry(before), describe_entry(after))
            )
    return tuple(changes)


def nearest_signature(signature: Signature, known: list[Signature]) -> Signature | None:
    """The known signature with the fewest differing entries; the latest one if several have as few."""
    if not known:
        return None

    def distance(other: Signature) -> int:
        differing = sum(before != after for before, after in zip(other, signature, strict=False))
        return differing + abs(len(other) - len(signature))

    return min(reversed(known), key=distance)


def describe_entry(entry: tuple) -> str:
    """One entry as text: `float32 (16, 800, 80)`, `int 3`, `Model object`."""
    if entry == ABSENT:
        return "nothing"
    if entry[0] == "tensor":
        _, dtype, shape = entry
        return f"{getattr(dtype, 'name', dtype)} {'of unknown rank' if shape is None else _shape_text(shape)}"
    if entry[0] == "object":
        return f"{entry[1].__name__} object"
    return f"{entry[0].__name__} {entry[1]!r}"


def _shape_text(shape: tuple) -> str:
    return (
        "("
        + ", ".join("None" if size is None else str(size) for size in shape)
        + ("," if len(shape) == 1 else "")
        + ")"
    )


def _kind_of_change(before: tuple, after: tuple) -> str:
    if ABSENT in (before, after):
        return "absent"
    if before[0] == after[0] == "tensor":
        return "dtype" if before[1] != after[1] else "shape"
    if "object" in (before[0], after[0]):
        return "object"
    return "value"


def _collect(value: Any, entries: list, object_key: Callable[[Any], Hashable]) -> None:
    shape_tuple = getattr(value, "_shape_tuple", None)
    if shape_tuple is not None:  # an eager tensor; several times cheaper than building a TensorShape
        entries.append(("tensor", value.dtype, shape_tuple()))
    elif isinstance(value, (tuple, list)):
        for part in value:
            _collect(part, entries, object_key)
    elif isinstance(value, Mapping):
        for part in value.values():
            _collect(part, entries, object_key)
    elif hasattr(value, "shape") and hasattr(value, "dtype"):
        entries.append(("tensor", value.dtype, _static_shape(value.shape)))
    elif isinstance(value, _PYTHON_VALUES):
        entries.append((type(value), value))
    else:
        entries.append(("object", type(value), object_key(value)))


def _static_shape(shape: Any) -> tuple | None:
    if getattr(shape, "rank", 0) is None:
        return None
    return tuple(shape)
