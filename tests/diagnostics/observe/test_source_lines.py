"""Whose line it is: the script's, a framework's or another package's."""

import pytest

from myxtts.diagnostics.observe.source_lines import is_keras, is_user_code


@pytest.mark.parametrize(
    ("file", "is_users", "is_kerass"),
    [
        ("/home/anna/project/train.py", True, False),
        ("/home/anna/keras/train.py", True, False),
        ("/home/anna/packages/tf_keras/src/engine/training.py", False, True),
        ("/home/anna/packages/tensorflow/python/eager/context.py", False, False),
        ("/usr/lib/python3/site-packages/keras/src/trainers/trainer.py", False, True),
        ("/usr/lib/python3/site-packages/pandas/core/frame.py", False, False),
    ],
)
def test_frameworks_are_recognized_wherever_they_are_installed(file, is_users, is_kerass):
    assert (is_user_code(file), is_keras(file)) == (is_users, is_kerass)
