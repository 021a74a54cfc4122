"""Plans: kinds, limits, shapes, and the plans of a whole corpus."""

import dataclasses
import itertools
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from myxtts.audio.mel import MelSpec
from myxtts.batch import NO_CLIP
from myxtts.batches.plan import (
    LONG_CLIP,
    LONG_TEXT,
    PLAN_KINDS,
    build_plan,
    copies_per_epoch,
    fitting_clips,
    plan_corpus,
    plan_kind,
    with_clips,
)
from myxtts.config.config import DataConfig
from myxtts.errors import CorpusError, PlanError
from tests.batches.made_up_table import make_table, speech_lengths


def clips_in(rows):
    return rows[rows != NO_CLIP]


def test_the_configuration_decides_the_kind():
    assert plan_kind(DataConfig()) == "packed"
    assert plan_kind(DataConfig(pad_to_fixed_length=True)) == "fixed"
    assert plan_kind(DataConfig(plan="dynamic")) == "dynamic"
    assert plan_kind(DataConfig(preprocessing_mode="runtime")) == "fixed"


def test_unknown_kind_is_an_error_that_lists_the_known():
    with pytest.raises(PlanError, match="buckets"):
        build_plan("bucket", np.array([5]), np.array([5]))


def test_fixed_has_exactly_the_promised_shape():
    (shape,) = build_plan("fixed", *speech_lengths(300), batch_size=16, max_text_length=200, max_mel_frames=800).shapes
    assert (shape.rows, shape.tokens, shape.frames, shape.slots) == (16, 200, 800, 1)


@pytest.mark.parametrize("kind", PLAN_KINDS)
def test_one_clip_is_enough(kind):
    plan = build_plan(kind, np.array([50]), np.array([9]), batch_size=3)
    rows = [clips_in(rows).tolist() for rows, _, _ in itertools.islice(plan.batches(), 3)]
    assert set(itertools.chain(*rows)) == {0}


def test_nothing_to_plan_is_an_error():
    with pytest.raises(PlanError, match="No clip"):
        build_plan("packed", np.zeros(0, int), np.zeros(0, int))


def test_a_clip_beyond_the_limits_is_refused_and_named():
    with pytest.raises(PlanError, match=r"clip 1 \(5 tokens, 900 frames\)"):
        build_plan("packed", np.array([100, 900]), np.array([5, 5]))


def test_fitting_clips_are_within_both_limits():
    fits = fitting_clips(np.array([800, 801, 10]), np.array([200, 10, 201]), 200, 800)
    assert fits.tolist() == [True, False, False]


@pytest.mark.parametrize("kind", ["fixed", "packed"])
def test_rows_that_cannot_be_split_among_replicas_come_with_a_suggestion_that_works(kind):
    lengths = speech_lengths(500)
    with pytest.raises(PlanError, match=r"Try data\.batch_size=") as caught:
        build_plan(kind, *lengths, batch_size=17, replicas=4)
    suggested = int(str(caught.value).split("batch_size=")[1].rstrip("."))
    plan = build_plan(kind, *lengths, batch_size=suggested, replicas=4)
    assert plan.shapes[0].rows % 4 == 0


def test_buckets_are_split_evenly_among_replicas():
    plan = build_plan("buckets", *speech_lengths(300), batch_size=16, replicas=3)
    assert all(shape.rows % 3 == 0 for shape in plan.shapes)


@pytest.mark.parametrize("kind", PLAN_KINDS)
def test_validation_clips_share_the_shapes_of_training(kind):
    frames, tokens = speech_lengths(200)
    frames[0], tokens[0] = 790, 199  # longer than every training clip
    held_out = np.arange(0, 200, 10)
    plan = build_plan(kind, frames, tokens, clips=np.setdiff1d(np.arange(200), held_out), other_clips=held_out)
    validation = with_clips(plan, held_out, frames, tokens)
    assert validation.shapes == plan.shapes
    segment = validation.single_epoch()
    assert sorted(np.concatenate([clips_in(rows) for rows in segment.rows])) == held_out.tolist()
    for rows, shape in zip(segment.rows, validation.shapes, strict=True):
        clips = clips_in(rows)
        assert tokens[clips].max(initial=0) <= shape.tokens
        assert frames[clips].max(initial=0) <= shape.frames


def planned(table, **changes):
    data = DataConfig(
        **({"max_mel_frames": 60, "max_text_length": 11, "batch_size": 4, "reference_frames": 16} | changes)
    )
    return plan_corpus(table, data, seed=1)


def test_a_corpus_is_planned_without_the_clips_that_its_limits_drop(tmp_path):
    table = make_table(tmp_path, speakers=2)
    table.frame_counts[3], table.token_counts[5] = 61, 12
    found = planned(table)
    visited = np.sort(np.concatenate([found.training.clips, found.validation.clips]))
    assert visited.tolist() == [clip for clip in range(40) if clip not in (3, 5)]
    assert table.is_validation[found.validation.clips].all()
    assert not table.is_validation[found.training.clips].any()
    assert found.validation.shapes == found.training.shapes
    assert found.training.shapes[0].reference_frames == 16
    assert [(one.id, one.reason) for one in found.dropped] == [("clip3", LONG_CLIP), ("clip5", LONG_TEXT)]
    assert "2 of 40 clips are longer and dropped" in found.sound
    assert found.sound.startswith("recordings at 16000 Hz → voice at 16000 Hz")


def test_automatic_frames_hold_the_longest_clip(tmp_path):
    table = make_table(tmp_path)
    found = planned(table, max_mel_frames="auto", plan="fixed")
    assert table.frame_counts.max() <= found.max_mel_frames == found.training.shapes[0].frames
    assert found.dropped == ()


def test_a_corpus_of_one_speaker_has_no_references_and_may_hold_nothing_out(tmp_path):
    table = dataclasses.replace(make_table(tmp_path), is_validation=np.zeros(40, bool))
    found = planned(table)
    assert found.validation is None
    assert found.training.shapes[0].reference_frames == 0


def test_the_measured_batch_size_replaces_auto_only(tmp_path):
    table = make_table(tmp_path)
    sizes = {"plan": "fixed", "max_mel_frames": 60}
    automatic, explicit = DataConfig(batch_size="auto", **sizes), DataConfig(batch_size=4, **sizes)
    assert plan_corpus(table, automatic, seed=1, batch_size=6).training.shapes[0].rows == 6
    assert plan_corpus(table, explicit, seed=1, batch_size=6).training.shapes[0].rows == 4


def test_a_corpus_without_usable_clips_is_an_error_that_names_its_shortest(tmp_path):
    table = make_table(tmp_path)
    with pytest.raises(CorpusError, match=f"the shortest clip {table.frame_counts.min()} frames. Raise these limits"):
        planned(table, max_mel_frames=2)


def test_a_corpus_whose_usable_clips_are_all_held_out_is_an_error(tmp_path):
    table = dataclasses.replace(make_table(tmp_path), is_validation=np.ones(40, bool))
    with pytest.raises(CorpusError, match=r"No clip of .* is left for training"):
        planned(table)


def test_plans_need_no_tensorflow():
    code = "import sys, myxtts.batches.plan; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def minutes(speaker_numbers, speakers, speaker_corpora=()):
    """What is read of a table of clips of one minute each."""
    mel = MelSpec(16000)
    frame_counts = np.full(len(speaker_numbers), int(60 * mel.frames_per_second), np.int32)
    return SimpleNamespace(
        speaker_numbers=speaker_numbers,
        speakers=speakers,
        speaker_corpora=speaker_corpora,
        mel=mel,
        frame_counts=frame_counts,
    )


def copies_of_speakers(table, data):
    clips = np.arange(len(table.speaker_numbers))
    copies = copies_per_epoch(table, clips, data)
    return [float(copies[table.speaker_numbers == number].sum()) for number in range(len(table.speakers))]


def test_a_speaker_gets_the_root_of_the_minutes_and_the_epoch_stays_as_long():
    table = minutes(np.repeat([0, 1], [36, 4]), ("long", "short"))
    long, short = copies_of_speakers(table, DataConfig(balance=0.5))
    assert long / short == pytest.approx(3)
    assert long + short == pytest.approx(40)


def test_a_clip_of_a_short_speaker_is_not_repeated_too_often():
    table = minutes(np.repeat([0, 1], [400, 1]), ("long", "short"))
    assert copies_of_speakers(table, DataConfig(balance=0.5))[1] == 4.0


def test_the_weight_of_a_corpus_multiplies_the_fraction_of_its_speakers():
    table = minutes(np.repeat([0, 1, 2], [9, 9, 9]), ("a", "b", "c"), ("one", "two", "two"))
    data = DataConfig(corpora=({"folder": "one", "weight": 2.0}, {"folder": "two", "weight": 0.5}))  # type: ignore[arg-type]
    a, b, c = copies_of_speakers(table, data)
    assert (a / b, b / c) == (pytest.approx(4), pytest.approx(1))


def test_without_balance_and_weights_every_clip_is_used_once():
    assert copies_per_epoch(minutes(np.zeros(3, np.int32), ("a",)), np.arange(3), DataConfig()) is None
