"""Whose line it is: the script's, a framework's or another package's."""

from types import FrameType, SimpleNamespace
from typing import cast

import pytest

from myxtts.diagnostics.observe.source_lines import activity_of, is_keras, is_user_code


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


@pytest.mark.parametrize(
    ("files", "activity"),
    [
        (["utils/image_utils.py"], "python"),
        (["backend/tensorflow/core.py", "layers/core/dense.py", "utils/traceback_utils.py"], "keras"),
    ],
)
def test_keras_that_reads_data_builds_no_model(files, activity):
    frame = SimpleNamespace(f_code=SimpleNamespace(co_filename="/home/anna/utils/train.py"), f_back=None)
    for file in reversed(files):
        code = SimpleNamespace(co_filename=f"/home/anna/utils/site-packages/keras/src/{file}")
        frame = SimpleNamespace(f_code=code, f_back=frame)
    assert activity_of(cast(FrameType, frame)) == activity
