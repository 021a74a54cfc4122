"""Order: what every kind of plan promises about epochs, batches and positions."""

import dataclasses
import itertools
import threading

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from myxtts.batch import NO_CLIP
from myxtts.batches import order
from myxtts.batches.order import random_bits, shuffled
from myxtts.batches.plan import PLAN_KINDS, build_plan
from myxtts.errors import PlanError
from tests.batches.made_up_table import speech_lengths


def speech_plan(kind, clips=300, lengths_seed=0, **sizes):
    return build_plan(kind, *speech_lengths(clips, lengths_seed), **({"batch_size": 16} | sizes))


def clips_in(rows):
    return rows[rows != NO_CLIP]


def first_batches(plan, count, position=(0, 0)):
    return list(itertools.islice(plan.batches(position), count))


kinds = st.sampled_from(PLAN_KINDS)


@pytest.mark.parametrize("kind", ["fixed", "packed"])
@pytest.mark.parametrize("epoch", [0, 7])
def test_an_epoch_visits_every_clip_once(kind, epoch):
    assert sorted(clips_in(speech_plan(kind).rows_of_epoch(epoch).rows)) == list(range(300))


@pytest.mark.parametrize("kind", ["buckets", "dynamic"])
def test_the_stream_of_one_clip_per_row_visits_every_clip_once_per_epoch(kind):
    plan = speech_plan(kind)
    orders = [plan.rows_of_epoch(epoch) for epoch in range(12)]
    rows, epochs = (np.concatenate([getattr(one, name) for one in orders]) for name in ("rows", "epochs"))
    for epoch in range(8):  # the batches of the last epochs may still be open
        assert sorted(rows[epochs == epoch, 0]) == list(range(300))


@pytest.mark.parametrize("kind", PLAN_KINDS)
def test_rows_follow_from_seed_and_epoch_alone(kind):
    first, second = speech_plan(kind), speech_plan(kind)
    second.rows_of_epoch(0)
    assert np.array_equal(first.rows_of_epoch(4).rows, second.rows_of_epoch(4).rows)
    assert not np.array_equal(first.rows_of_epoch(4).rows, first.rows_of_epoch(5).rows)
    assert not np.array_equal(first.rows_of_epoch(4).rows, speech_plan(kind, seed=99).rows_of_epoch(4).rows)


@pytest.mark.parametrize("kind", PLAN_KINDS)
def test_neighboring_seeds_share_no_epoch(kind):
    """Epoch e of seed 1 must not be epoch e - 1 of seed 2."""

    def epochs(seed):
        plan = speech_plan(kind, seed=seed)
        return {plan.rows_of_epoch(epoch).rows.tobytes() for epoch in range(4)}

    assert not epochs(1) & epochs(2)


@settings(deadline=None, max_examples=40)
@given(kinds, st.integers(1, 90), st.integers(1, 24), st.integers(0, 30))
def test_resume_from_any_position_yields_the_remaining_batches(kind, clips, batch_size, done):
    plan = speech_plan(kind, clips, batch_size=batch_size)
    whole = first_batches(plan, 40)
    position = whole[done - 1][2] if done else (0, 0)
    for found, expected in zip(first_batches(plan, 40 - done, position), whole[done:], strict=True):
        assert np.array_equal(found[0], expected[0])
        assert found[1:] == expected[1:]


@pytest.mark.parametrize("kind", PLAN_KINDS)
def test_the_stream_does_not_depend_on_its_segments(kind):
    plan = speech_plan(kind, clips=83)
    expected = [position for _, _, position in first_batches(plan, 30)]
    positions = []
    for segment in itertools.islice(plan.segments((0, 0), 3, 8), 5):
        positions += [tuple(position) for position in segment.next_positions.tolist()]
    assert len(positions) > 30
    assert positions[:30] == expected


@pytest.mark.parametrize("kind", ["fixed", "packed"])
def test_a_batch_may_straddle_two_epochs(kind):
    plan = speech_plan(kind, clips=83, batch_size=24)
    rows_of_first_epoch = len(plan.rows_of_epoch(0).rows)
    straddling = rows_of_first_epoch // plan.shapes[0].rows
    rows, _, position = first_batches(plan, straddling + 1)[-1]
    assert rows_of_first_epoch % plan.shapes[0].rows
    assert position[0] == 1
    assert len(rows) == plan.shapes[0].rows


@settings(deadline=None, max_examples=30)
@given(kinds, st.integers(1, 200), st.integers(1, 40))
def test_a_single_epoch_holds_every_clip_once_in_whole_batches(kind, clips, batch_size):
    plan = speech_plan(kind, clips, batch_size=batch_size)
    segment = plan.single_epoch()
    assert sorted(np.concatenate([clips_in(rows) for rows in segment.rows])) == list(range(clips))
    for rows, shape in zip(segment.rows, plan.shapes, strict=True):
        assert rows.shape[1:] == (shape.rows, shape.slots)


@settings(deadline=None, max_examples=30)
@given(kinds, st.integers(1, 300), st.integers(0, 100))
def test_no_batch_exceeds_its_shape_and_empty_slots_come_last(kind, clips, lengths_seed):
    plan = speech_plan(kind, clips, lengths_seed)
    for rows, shape, _ in first_batches(plan, 30):
        assert (np.diff((rows != NO_CLIP).astype(int), axis=1) <= 0).all()
        for row in rows:
            members = clips_in(row)
            gaps = max(0, len(members) - 1)
            assert plan.frame_counts[members].sum() + gaps * plan.row_size.gap_frames <= shape.frames
            assert plan.token_counts[members].sum() + gaps * plan.row_size.gap_tokens <= shape.tokens


@pytest.mark.parametrize("kind", PLAN_KINDS)
def test_a_position_outside_the_plan_is_refused(kind):
    with pytest.raises(PlanError, match=r"Position \(0, 100000\) is not in this plan: its epoch has \d+ rows"):
        next(speech_plan(kind, clips=20).batches((0, 100_000)))


def test_a_position_inside_a_batch_of_buckets_is_refused():
    with pytest.raises(PlanError, match=r"No batch begins at position \(0, 1\)"):
        next(speech_plan("buckets", batch_size=32).batches((0, 1)))


@settings(max_examples=15, deadline=None)
@given(kind=kinds, epochs=st.integers(1, 20))
@example(kind="buckets", epochs=20)
@example(kind="packed", epochs=1)
def test_the_batches_of_some_epochs_show_every_clip_as_often(kind, epochs):
    plan = speech_plan(kind)
    batches = first_batches(plan, int(np.ceil(plan.batches_in(epochs))))
    shown = np.bincount(np.concatenate([clips_in(rows) for rows, _, _ in batches]), minlength=300)
    # A batch is always full: its last rows may belong to the next epoch, and one batch of each bucket may still be open.
    assert abs(shown - epochs).max() <= 1
    assert abs(shown.sum() - epochs * 300) <= max(len(clips_in(rows)) for rows, _, _ in batches)


def test_packed_rows_of_many_epochs_are_counted_in_the_first_ones():
    plan = speech_plan("packed", clips=2000)
    rows = [len(plan.rows_of_epoch(epoch).rows) for epoch in range(10)]
    assert plan.batches_in(10) == pytest.approx(sum(rows) / plan.shapes[0].rows)
    assert plan.batches_in(1000) == pytest.approx(100 * plan.batches_in(10))


def test_packed_rows_hold_about_batch_size_clips():
    plan = speech_plan("packed", clips=2000, batch_size=32)
    assert plan.mean_clips_per_batch() == pytest.approx(32, rel=0.15)


def test_packed_wastes_less_than_buckets_and_buckets_less_than_fixed():
    fractions = [speech_plan(kind, clips=1000).useful_fraction() for kind in ("fixed", "buckets", "packed")]
    assert fractions == sorted(fractions)
    assert fractions[0] < 0.2
    assert fractions[1] > 0.8
    assert fractions[2] > 0.94


@pytest.mark.parametrize("kind", PLAN_KINDS)
def test_the_useful_fraction_of_fewer_clips_than_a_batch_is_a_fraction(kind):
    assert 0 <= speech_plan(kind, clips=3, batch_size=32).useful_fraction() <= 1


def counting_packing(monkeypatch):
    """Counts the calls of `pack_rows` by the plans."""
    calls, pack_rows = [], order.pack_rows
    monkeypatch.setattr(order, "pack_rows", lambda *args: calls.append(threading.get_ident()) or pack_rows(*args))
    return calls


def test_the_first_epoch_of_a_large_corpus_is_packed_once_at_the_start(monkeypatch):
    plan = speech_plan("packed", clips=12_000)
    calls = counting_packing(monkeypatch)
    plan.batches_in(100)
    plan.mean_clips_per_batch()
    plan.useful_fraction()
    plan.single_epoch()
    next(plan.segments((0, 0), 4))
    assert len(calls) == 1


def test_threads_that_ask_for_the_same_epoch_share_one_packing(monkeypatch):
    plan = speech_plan("packed", clips=3000)
    calls, found = counting_packing(monkeypatch), []
    threads = [threading.Thread(target=lambda: found.append(plan.rows_of_epoch(0))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    assert all(one is found[0] for one in found)


@pytest.mark.parametrize("kind", PLAN_KINDS)
def test_the_fingerprint_identifies_the_order_of_the_clips(kind):
    frames, tokens = speech_lengths(300, 0)
    plan = build_plan(kind, frames, tokens)
    fingerprint = plan.fingerprint("cache")
    assert build_plan(kind, frames, tokens).fingerprint("cache") == fingerprint
    assert plan.fingerprint("another cache") != fingerprint
    others = ({"seed": 5}, {"batch_size": 24}, {"clips": np.arange(299)})
    assert fingerprint not in {build_plan(kind, frames, tokens, **other).fingerprint("cache") for other in others}
    other_kinds = {build_plan(other, frames, tokens).fingerprint("cache") for other in PLAN_KINDS if other != kind}
    assert fingerprint not in other_kinds


def test_the_fingerprint_of_saved_checkpoints_stays_valid():
    # A checkpoint stores it: another value here means that every run under way starts a new epoch (raise ORDER_VERSION).
    plan = build_plan(
        "fixed", np.array([50, 20]), np.array([9, 3]), batch_size=2, max_mel_frames=64, max_text_length=16
    )
    assert plan.fingerprint("cache").startswith("c5914e0bebec7123")


@pytest.mark.parametrize(
    ("kind", "is_same"), [("fixed", True), ("packed", True), ("dynamic", True), ("buckets", False)]
)
def test_another_number_of_replicas_changes_the_order_of_buckets_only(kind, is_same):
    plans = [speech_plan(kind, batch_size=40, replicas=replicas) for replicas in (1, 2)]
    assert (plans[0].fingerprint("cache") == plans[1].fingerprint("cache")) == is_same


def test_shuffled_is_a_permutation_that_belongs_to_its_keys():
    assert sorted(shuffled(100, 1, 2)) == list(range(100))
    assert np.array_equal(shuffled(100, 1, 2), shuffled(100, 1, 2))
    assert not np.array_equal(shuffled(100, 1, 2), shuffled(100, 2, 1))


@given(st.lists(st.integers(0, 2**63 - 1), max_size=3), st.integers(0, 10**6))
def test_random_bits_are_those_of_plain_integer_arithmetic(keys, last):
    def finalized(number):
        number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        number = (number ^ (number >> 27)) * 0x94D049BB133111EB % 2**64
        return number ^ (number >> 31)

    state = 0
    for key in (*keys, last):
        state = (finalized(state ^ key) + 0x9E3779B97F4A7C15) % 2**64
    assert int(random_bits(*keys, np.array([last]))[0]) == finalized(state)


def test_random_bits_are_evenly_distributed():
    counts = np.bincount((random_bits(7, np.arange(40_000)) % np.uint64(16)).astype(int), minlength=16)
    assert counts.min() > 2300
    assert counts.max() < 2700


def balanced_plan(rates, kind="packed"):
    frames, tokens = speech_lengths(len(rates))
    plan = build_plan(kind, frames, tokens, batch_size=4, seed=3)
    return dataclasses.replace(plan, rates=np.asarray(rates, np.float64))


def copies(plan, epoch):
    rows = plan.rows_of_epoch(epoch).rows
    return np.bincount(rows[rows != NO_CLIP], minlength=len(plan.clips))


@pytest.mark.parametrize("kind", ["packed", "fixed"])
def test_a_clip_of_rate_r_occurs_floor_r_or_one_more_times(kind):
    rates = np.linspace(0, 3, 200)
    plan = balanced_plan(rates, kind)
    counts = np.array([copies(plan, epoch) for epoch in range(40)])
    assert ((counts == np.floor(rates)) | (counts == np.floor(rates) + 1)).all()
    assert counts.mean(axis=0) == pytest.approx(rates, abs=0.35)
    assert counts.sum(axis=1).mean() == pytest.approx(rates.sum(), rel=0.02)


def test_balanced_epochs_differ_but_repeat_exactly_from_a_position():
    plan, again = balanced_plan(np.full(60, 1.5)), balanced_plan(np.full(60, 1.5))
    assert (copies(plan, 0) != copies(plan, 1)).any()
    stream = list(itertools.islice(plan.batches(), 30))
    position = stream[9][2]
    for (rows, _, _), (expected, _, _) in zip(itertools.islice(again.batches(position), 20), stream[10:], strict=True):
        np.testing.assert_array_equal(rows, expected)


def test_other_rates_are_another_fingerprint():
    plan = balanced_plan(np.full(60, 1.5))
    assert plan.fingerprint("x") != dataclasses.replace(plan, rates=None).fingerprint("x")
