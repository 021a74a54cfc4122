"""Whose line it is: the script's, a framework's or another package's."""

import sys
import threading
import time
from types import FrameType, SimpleNamespace
from typing import cast

import pytest
import tensorflow as tf

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


def test_iterator_of_a_strategy_is_not_the_scripts_python():
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    seen, thread = set(), threading.get_ident()
    iterator = iter(strategy.experimental_distribute_dataset(tf.data.Dataset.range(10**6)))
    is_done = threading.Event()

    def watch():
        while not is_done.is_set():
            seen.add(activity_of(sys._current_frames()[thread]))
            time.sleep(1e-4)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        deadline = time.perf_counter() + 30
        while "next" not in seen and time.perf_counter() < deadline:
            next(iterator)
    finally:
        is_done.set()
        watcher.join()
    assert "next" in seen
