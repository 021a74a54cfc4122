"""Plans: what every kind promises about clips, shapes, order and positions."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
from made_up_table import speech_lengths

from myxtts.batch import NO_CLIP
from myxtts.batches.plan import PLAN_KINDS, build_plan, fitting_clips, plan_kind, with_clips
from myxtts.config.config import DataConfig
from myxtts.errors import PlanError

STATIC_KINDS = ("fixed", "buckets", "packed")


def speech_plan(kind, clips=300, seed=0, **sizes):
    frames, tokens = speech_lengths(clips, seed)
    return build_plan(kind, frames, tokens, **sizes)


def clips_in(rows):
    return rows[rows != NO_CLIP]


def first_batches(plan, count, position=(0, 0)):
    return list(itertools.islice(plan.batches(position), count))


@pytest.mark.parametrize("kind", ["fixed", "packed"])
@pytest.mark.parametrize("pass_number", [0, 1, 7])
def test_a_pass_visits_every_clip_once(kind, pass_number):
    plan = speech_plan(kind)
    assert sorted(clips_in(plan.rows_of_pass(pass_number).rows)) == list(range(300))


@pytest.mark.parametrize("kind", ["buckets", "dynamic"])
def test_the_stream_of_one_clip_a_row_visits_every_clip_once_a_pass(kind):
    plan = speech_plan(kind)
    orders = [plan.rows_of_pass(number) for number in range(12)]
    rows, passes = (np.concatenate([getattr(order, name) for order in orders]) for name in ("rows", "passes"))
    for number in range(8):  # the batches of the last passes may still be open
        assert sorted(rows[passes == number, 0]) == list(range(300))


@pytest.mark.parametrize("kind", PLAN_KINDS)
def test_rows_follow_from_seed_and_pass_alone(kind):
    first, second = speech_plan(kind, seed=3), speech_plan(kind, seed=3)
    second.rows_of_pass(0)
    assert np.array_equal(first.rows_of_pass(4).rows, second.rows_of_pass(4).rows)
    assert not np.array_equal(first.rows_of_pass(4).rows, first.rows_of_pass(5).rows)


@pytest.mark.parametrize("kind", PLAN_KINDS)
def test_another_seed_is_another_order(kind):
    orders = [speech_plan(kind, seed=3), speech_plan(kind, seed=3)]
    other = build_plan(kind, *speech_lengths(300, 3), seed=99)
    assert not np.array_equal(orders[0].rows_of_pass(0).rows, other.rows_of_pass(0).rows)


@pytest.mark.parametrize("kind", PLAN_KINDS)
def test_resume_from_any_position_yields_the_remaining_batches(kind):
    plan = speech_plan(kind, clips=83)
    whole = first_batches(plan, 40)
    for done in (1, 2, 7, 20, 33):
        resumed = first_batches(plan, 40 - done, whole[done - 1][2])
        for (rows, shape, position), (expected_rows, expected_shape, expected_position) in zip(
            resumed, whole[done:], strict=True
        ):
            assert np.array_equal(rows, expected_rows)
            assert (shape, position) == (expected_shape, expected_position)


@pytest.mark.parametrize("kind", PLAN_KINDS)
def test_the_stream_does_not_depend_on_how_it_is_cut_into_segments(kind):
    plan = speech_plan(kind, clips=83)
    whole = first_batches(plan, 30)
    positions = []
    for segment in itertools.islice(plan.segments((0, 0), 3, 8), 5):
        positions += [tuple(position) for position in segment.next_positions.tolist()]
    assert positions[:30] == [position for _, _, position in whole][: len(positions)]


@pytest.mark.parametrize("kind", ["fixed", "packed"])
def test_a_batch_may_straddle_two_passes(kind):
    plan = speech_plan(kind, clips=83, batch_size=24)
    rows_of_first_pass = len(plan.rows_of_pass(0).rows)
    straddling = rows_of_first_pass // plan.shapes[0].rows
    rows, _, position = first_batches(plan, straddling + 1)[-1]
    assert rows_of_first_pass % plan.shapes[0].rows
    assert position[0] == 1
    assert len(rows) == plan.shapes[0].rows


@pytest.mark.parametrize("kind", PLAN_KINDS)
def test_validation_visits_every_clip_exactly_once_in_whole_batches(kind):
    plan = speech_plan(kind, clips=77)
    segment = plan.single_pass()
    assert sorted(np.concatenate([clips_in(rows) for rows in segment.rows])) == list(range(77))
    for rows, shape in zip(segment.rows, plan.shapes, strict=True):
        assert rows.shape[1:] == (shape.rows, shape.slots)


@pytest.mark.parametrize("kind", PLAN_KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_no_batch_exceeds_its_shape(kind, seed):
    plan = speech_plan(kind, seed=seed)
    for rows, shape, _ in first_batches(plan, 60):
        for row in rows:
            clips = clips_in(row)
            gaps = max(0, len(clips) - 1)
            assert plan.frame_counts[clips].sum() + gaps * plan.row_size.gap_frames <= shape.frames
            assert plan.token_counts[clips].sum() + gaps * plan.row_size.gap_tokens <= shape.tokens


@pytest.mark.parametrize("kind", PLAN_KINDS)
def test_empty_slots_come_after_the_clips_of_a_row(kind):
    for rows, _, _ in first_batches(speech_plan(kind), 60):
        is_clip = rows != NO_CLIP
        assert (np.diff(is_clip.astype(int), axis=1) <= 0).all()


def test_fixed_has_exactly_the_promised_shape():
    (shape,) = speech_plan("fixed", batch_size=16, max_text_length=200, max_mel_frames=800).shapes
    assert (shape.rows, shape.tokens, shape.frames, shape.slots) == (16, 200, 800, 1)


def test_packed_rows_hold_about_batch_size_clips():
    plan = speech_plan("packed", clips=2000, batch_size=32)
    assert plan.mean_clips_per_batch() == pytest.approx(32, rel=0.15)


def test_packed_wastes_less_than_buckets_and_buckets_less_than_fixed():
    shares = [speech_plan(kind, clips=1000).useful_share() for kind in ("fixed", "buckets", "packed")]
    assert shares == sorted(shares)
    assert shares[0] < 0.2
    assert shares[1] > 0.8
    assert shares[2] > 0.94


@pytest.mark.parametrize("kind", PLAN_KINDS)
def test_useful_share_is_that_of_the_batches(kind):
    plan = speech_plan(kind, clips=400)
    useful = total = 0
    for rows, shape, position in plan.batches():
        frames = plan.frame_counts[clips_in(rows)]
        useful += frames.sum()
        total += len(rows) * (shape.frames if plan.is_static else frames.max())
        if position[0] >= 6:
            break
    assert plan.useful_share() == pytest.approx(useful / total, abs=0.01)


@pytest.mark.parametrize("kind", PLAN_KINDS)
def test_useful_share_of_fewer_clips_than_a_batch_is_a_fraction(kind):
    assert 0 <= speech_plan(kind, clips=3, batch_size=32).useful_share() <= 1


def test_a_clip_that_does_not_fit_is_refused_and_named():
    with pytest.raises(PlanError, match=r"clip 1 \(5 tokens, 900 frames\)"):
        build_plan("packed", np.array([100, 900]), np.array([5, 5]))


def test_fitting_clips_judges_frames_and_tokens():
    fits = fitting_clips(np.array([800, 801, 10]), np.array([200, 10, 201]), 200, 800)
    assert fits.tolist() == [True, False, False]


def test_nothing_to_plan_is_an_error():
    with pytest.raises(PlanError, match="No clip"):
        build_plan("packed", np.zeros(0, int), np.zeros(0, int))


def test_unknown_kind_is_an_error_that_lists_the_known():
    with pytest.raises(PlanError, match="buckets"):
        build_plan("bucket", np.array([5]), np.array([5]))


@pytest.mark.parametrize("kind", ["fixed", "packed"])
def test_rows_that_cannot_be_split_among_replicas_come_with_a_suggestion_that_works(kind):
    lengths = speech_lengths(500)
    with pytest.raises(PlanError, match=r"Try data\.batch_size=") as caught:
        build_plan(kind, *lengths, batch_size=17, replicas=4)
    suggested = int(str(caught.value).split("batch_size=")[1].rstrip("."))
    plan = build_plan(kind, *lengths, batch_size=suggested, replicas=4)
    assert plan.shapes[0].rows % 4 == 0


def test_buckets_are_split_evenly_among_replicas():
    assert all(shape.rows % 3 == 0 for shape in speech_plan("buckets", replicas=3).shapes)


@pytest.mark.parametrize("kind", PLAN_KINDS)
def test_validation_clips_share_the_shapes_of_training(kind):
    frames, tokens = speech_lengths(200)
    frames[0], tokens[0] = 790, 199  # longer than every training clip
    held_out = np.arange(0, 200, 10)
    plan = build_plan(kind, frames, tokens, clips=np.setdiff1d(np.arange(200), held_out), other_clips=held_out)
    validation = with_clips(plan, held_out, frames, tokens)
    assert validation.shapes == plan.shapes
    assert sorted(np.concatenate([clips_in(rows) for rows in validation.single_pass().rows])) == held_out.tolist()
    for rows, shape in zip(validation.single_pass().rows, validation.shapes, strict=True):
        clips = clips_in(rows)
        assert tokens[clips].max(initial=0) <= shape.tokens
        assert frames[clips].max(initial=0) <= shape.frames


@pytest.mark.parametrize("kind", PLAN_KINDS)
def test_a_position_outside_the_plan_is_refused(kind):
    with pytest.raises(PlanError, match=r"position|Position"):
        next(speech_plan(kind, clips=20).batches((0, 100_000)))


@pytest.mark.parametrize("kind", PLAN_KINDS)
def test_one_clip_is_enough(kind):
    plan = build_plan(kind, np.array([50]), np.array([9]), batch_size=3)
    rows = [clips_in(rows).tolist() for rows, _, _ in first_batches(plan, 3)]
    assert set(itertools.chain(*rows)) == {0}


@pytest.mark.parametrize("kind", PLAN_KINDS)
@pytest.mark.parametrize("epochs", [1, 3, 20])
def test_the_batches_of_some_epochs_show_every_clip_as_often(kind, epochs):
    plan = speech_plan(kind)
    batches = first_batches(plan, int(np.ceil(plan.batches_in(epochs))))
    shown = np.bincount(np.concatenate([clips_in(rows) for rows, _, _ in batches]), minlength=300)
    # A batch is always full: its last rows may belong to the next epoch, and one batch of each bucket may still be open.
    assert abs(shown - epochs).max() <= 1
    assert abs(shown.sum() - epochs * 300) <= max(len(clips_in(rows)) for rows, _, _ in batches)


def test_packed_rows_of_many_epochs_are_counted_in_the_first_ones():
    plan = speech_plan("packed", clips=2000)
    rows = [len(plan.rows_of_pass(number).rows) for number in range(10)]
    assert plan.batches_in(10) == pytest.approx(sum(rows) / plan.shapes[0].rows)
    assert plan.batches_in(1000) == pytest.approx(100 * plan.batches_in(10))


@pytest.mark.parametrize("kind", PLAN_KINDS)
def test_the_fingerprint_names_the_order_of_the_clips(kind):
    frames, tokens = speech_lengths(300, 0)
    plan = build_plan(kind, frames, tokens)
    fingerprint = plan.fingerprint("cache")
    assert build_plan(kind, frames, tokens).fingerprint("cache") == fingerprint
    assert plan.fingerprint("another cache") != fingerprint
    others = ({"seed": 5}, {"batch_size": 24}, {"clips": np.arange(299)})
    assert fingerprint not in {build_plan(kind, frames, tokens, **other).fingerprint("cache") for other in others}
    other_kinds = {build_plan(other, frames, tokens).fingerprint("cache") for other in PLAN_KINDS if other != kind}
    assert fingerprint not in other_kinds


@pytest.mark.parametrize(
    ("kind", "is_same"), [("fixed", True), ("packed", True), ("dynamic", True), ("buckets", False)]
)
def test_another_number_of_replicas_changes_the_order_of_buckets_only(kind, is_same):
    plans = [speech_plan(kind, batch_size=40, replicas=replicas) for replicas in (1, 2)]
    assert (plans[0].fingerprint("cache") == plans[1].fingerprint("cache")) == is_same


def test_the_plan_asked_for_by_the_configuration():
    assert plan_kind(DataConfig()) == "packed"
    assert plan_kind(DataConfig(pad_to_fixed_length=True)) == "fixed"
    assert plan_kind(DataConfig(plan="dynamic")) == "dynamic"
    assert plan_kind(DataConfig(preprocessing_mode="runtime")) == "fixed"


def test_plans_need_no_tensorflow():
    code = "import sys, myxtts.batches.plan; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
