"""The feed: an endless stream that can be resumed anywhere, on one device or on several."""

import itertools
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from myxtts.batch import NO_CLIP
from myxtts.batches import feed as feed_module
from myxtts.batches.feed import Feed, Replica, open_feed, open_reader, validation_batches
from myxtts.batches.plan import PLAN_KINDS, build_plan
from myxtts.config.config import DataConfig
from myxtts.errors import CacheError, PlanError
from tests.batches.made_up_table import make_table

ROOT = Path(__file__).parents[2]
SIZES = {"max_text_length": 16, "max_mel_frames": 200, "num_buckets": 3, "batch_size": 8, "n_mels": 20}


@pytest.fixture
def table(tmp_path):
    return make_table(tmp_path, speakers=2)


def plan_of(table, kind, **changes):
    return build_plan(kind, table.frame_counts, table.token_counts, **(SIZES | {"reference_frames": 8} | changes))


def taken(feed, count):
    return [(tuple(field.numpy() for field in batch), feed.position) for batch in itertools.islice(feed, count)]


def are_equal(batches, others):
    return all(
        position == other_position and all(map(np.array_equal, fields, other_fields))
        for (fields, position), (other_fields, other_position) in zip(batches, others, strict=True)
    )


@pytest.mark.parametrize("kind", PLAN_KINDS)
def test_resume_mid_epoch_yields_the_remaining_batches(table, kind):
    plan = plan_of(table, kind)
    with open_feed(table, plan, DataConfig()) as feed:
        whole = taken(feed, 30)
    for done in (1, 13):
        with open_feed(table, plan, DataConfig(), position=whole[done - 1][1]) as resumed:
            assert are_equal(taken(resumed, 30 - done), whole[done:])


@pytest.mark.parametrize("kind", PLAN_KINDS)
def test_the_feed_follows_the_plan_across_segments(table, kind):
    plan = plan_of(table, kind)
    with open_feed(table, plan, DataConfig()) as feed:
        for batch, (rows, _, position) in zip(itertools.islice(feed, 110), plan.batches(), strict=False):
            assert np.array_equal(batch.clips, rows)
            assert feed.position == position


def test_closing_ends_the_thread_and_keeps_the_position(table):
    before = threading.active_count()
    feed = open_feed(table, plan_of(table, "packed"), DataConfig())
    next(feed)
    position = feed.position
    feed.close()
    feed.close()
    assert threading.active_count() == before
    assert feed.position == position
    with pytest.raises(StopIteration):
        next(feed)


def test_an_error_of_the_thread_reaches_the_caller(table):
    with (
        open_feed(table, plan_of(table, "packed"), DataConfig(), position=(0, 10_000)) as feed,
        pytest.raises(PlanError),
    ):
        next(feed)


def test_a_feed_that_was_made_but_not_started_has_no_thread(table):
    before = threading.active_count()
    plan = plan_of(table, "packed")
    feed = Feed(open_reader(table, plan, DataConfig(), plan.clips), [Replica()], (0, 0), None)
    assert threading.active_count() == before
    feed.close()


def test_rows_that_cannot_be_split_among_replicas_are_refused(table, monkeypatch):
    monkeypatch.setattr(feed_module, "_local_replicas", lambda strategy: [Replica(0, 3, None)])
    with pytest.raises(PlanError, match="cannot be split among 3 replicas"):
        open_feed(table, plan_of(table, "fixed"), DataConfig(), strategy=object())


def test_a_missing_file_is_reported_at_the_start(table):
    table.frames_path.unlink()
    with pytest.raises(CacheError):
        open_feed(table, plan_of(table, "packed"), DataConfig())


@pytest.mark.parametrize("kind", PLAN_KINDS)
def test_validation_visits_every_clip_exactly_once(table, kind):
    plan = plan_of(table, kind)
    clips = np.concatenate([batch.clips.numpy().ravel() for batch in validation_batches(table, plan, DataConfig())])
    assert sorted(clips[clips != NO_CLIP]) == list(range(40))


def test_validation_is_the_same_every_time(table):
    plan = plan_of(table, "packed")
    first, second = (
        [batch.references.numpy() for batch in validation_batches(table, plan, DataConfig())] for _ in range(2)
    )
    assert all(map(np.array_equal, first, second))


SPLIT_AMONG_REPLICAS = """
from pathlib import Path
import numpy as np, tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from tests.batches.made_up_table import make_table
from myxtts.config.config import DataConfig
from myxtts.batches.feed import open_feed, validation_batches
from myxtts.batches.plan import build_plan
table = make_table(Path({folder!r}), speakers=2)
strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
sizes = dict(max_text_length=16, max_mel_frames=200, num_buckets=3, batch_size=24, n_mels=20, replicas=2, reference_frames=8)
def joined(batch):
    return [np.concatenate([part.numpy() for part in strategy.experimental_local_results(field)]) for field in batch]
for kind in ("fixed", "buckets", "packed", "dynamic"):
    plan = build_plan(kind, table.frame_counts, table.token_counts, **sizes)
    with open_feed(table, plan, DataConfig()) as whole, open_feed(table, plan, DataConfig(), strategy=strategy) as split:
        for _ in range(5):
            batch, parts = next(whole), next(split)
            assert all(map(np.array_equal, batch, joined(parts))), kind
            assert whole.position == split.position
    frames = strategy.run(lambda batch: tf.reduce_sum(batch.mel_lengths), args=(parts,))
    assert sum(int(part) for part in strategy.experimental_local_results(frames)) == int(np.sum(batch.mel_lengths)), kind
    validations = [validation_batches(table, plan, DataConfig(), chosen) for chosen in (None, strategy)]
    pairs = zip(*validations, strict=True)
    assert all(np.array_equal(batch.clips, joined(parts)[6]) for batch, parts in pairs), kind
"""


def test_replicas_get_their_rows_of_the_same_global_batch(tmp_path):
    code = SPLIT_AMONG_REPLICAS.format(folder=str(tmp_path))
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
