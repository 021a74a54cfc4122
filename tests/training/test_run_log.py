"""The file for TensorBoard: valid records, and none of them torn."""

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from myxtts.training.run_log import TensorBoardFile
from tests.cache.full_disk import largest_file


def test_tensorflow_reads_the_checksums_of_every_event(tmp_path):
    events = TensorBoardFile(tmp_path)
    events.scalars(7, {"a": 1.5, "b": float("nan")})
    events.picture("p", 8, np.zeros((2, 3, 3), np.uint8))
    records = [tf.compat.v1.Event.FromString(record.numpy()) for record in tf.data.TFRecordDataset(str(events.path))]
    assert records[0].file_version == "brain.Event:2"
    assert [record.step for record in records] == [0, 7, 8]


def test_what_does_not_fit_leaves_no_torn_record_and_later_ones_arrive(tmp_path):
    events = TensorBoardFile(tmp_path)
    picture = np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)
    with largest_file(5000):
        events.scalars(1, {"a": 1.0})
        with pytest.raises(OSError, match="too large"):
            events.picture("p", 2, picture)
        events.scalars(3, {"a": 3.0})
    events.scalars(4, {"a": 4.0})
    found = EventAccumulator(str(tmp_path)).Reload()
    assert [event.step for event in found.Scalars("a")] == [1, 3, 4]
