"""Signatures: equal for calls that TensorFlow traces once, and their differences are named."""

from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from myxtts.runtime.signatures import argument_names, changes_between, nearest_signature, signature_of

SHAPES = st.lists(st.integers(0, 4), max_size=3).map(tuple)
ARRAYS = st.builds(np.zeros, SHAPES, st.sampled_from([np.float32, np.int32]))
VALUES = st.one_of(ARRAYS, st.integers(), st.booleans(), st.text(max_size=3), st.none())
ARGUMENTS = st.recursive(
    VALUES, lambda part: st.lists(part, max_size=3).map(tuple) | st.dictionaries(st.text(max_size=3), part)
)


class Call(NamedTuple):
    mel: np.ndarray
    scale: float


@given(ARGUMENTS)
def test_every_entry_has_a_name_and_nothing_changes_between_equal_calls(arguments):
    signature = signature_of(arguments)
    assert len(argument_names(arguments)) == len(signature)
    assert changes_between(signature, signature_of(arguments), argument_names(arguments)) == ()
    hash(signature)


@given(ARRAYS, ARRAYS)
def test_arrays_have_one_signature_if_and_only_if_shape_and_dtype_are_equal(left, right):
    is_equal = (left.shape, left.dtype) == (right.shape, right.dtype)
    assert (signature_of((left,)) == signature_of((right,))) == is_equal


def test_a_change_names_its_argument_kind_and_both_sides():
    old, new = Call(np.zeros((2, 3), np.float32), 1.0), Call(np.zeros((2, 4), np.float32), 2.0)
    changes = changes_between(signature_of(old), signature_of(new), argument_names(new))
    assert [(change.argument, change.kind, change.old, change.new) for change in changes] == [
        ("mel", "shape", "float32 (2, 3)", "float32 (2, 4)"),
        ("scale", "value", "float 1.0", "float 2.0"),
    ]


def test_a_missing_argument_and_another_object_are_named():
    assert [change.kind for change in changes_between(signature_of((1,)), signature_of((1, 2)), ("a", "b"))] == [
        "absent"
    ]
    first, second = object(), object()
    (change,) = changes_between(signature_of((first,)), signature_of((second,)), ("model",))
    assert str(change) == "argument 'model' changed its object from object object to object object"


def test_the_nearest_signature_has_the_fewest_differences_and_is_the_latest():
    known = [signature_of((1, 1, 1)), signature_of((2, 2, 1)), signature_of((2, 1, 2))]
    assert nearest_signature(signature_of((2, 2, 2)), known) == known[2]
    assert nearest_signature(signature_of((1,)), []) is None
