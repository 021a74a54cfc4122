"""Static shapes: every batch of the real loader has the one shape that the step was compiled for.

`python tests/test_static_shapes_fix.py` prints what was checked; pytest runs the same tests.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as a script, Python searches the folder tests/ only

from tests.check_script import run_as_script
from tests.training.small_runs import small_config

ROWS, TOKENS, FRAMES = 3, 40, 160


def data_config(folder, plan, **changes):
    sizes = {"batch_size": ROWS, "max_text_length": TOKENS, "max_mel_frames": FRAMES}
    return small_config(folder, folder, {"plan": plan, "pad_to_fixed_length": plan == "fixed"} | sizes | changes).data


def batches_of(data, epochs=1):
    from myxtts.data.ljspeech import LJSpeechDataset

    return LJSpeechDataset(config=data).create_tf_dataset(epochs=epochs)


def test_fixed_batches_have_exactly_the_configured_shape(tone_corpus, record_property):
    dataset = batches_of(data_config(tone_corpus, "fixed"), epochs=2)
    shapes = [tuple(field.shape) for field in dataset.element_spec]
    record_property("text, mel, text lengths, mel lengths", ", ".join(map(str, shapes)))
    assert shapes == [(ROWS, TOKENS), (ROWS, FRAMES, 80), (ROWS,), (ROWS,)]
    assert [field.dtype.name for field in dataset.element_spec] == ["int32", "float32", "int32", "int32"]
    clip_lengths = set()
    for text, mel, text_lengths, mel_lengths in dataset:
        assert [tuple(field.shape) for field in (text, mel, text_lengths, mel_lengths)] == shapes
        clip_lengths |= set(mel_lengths.numpy().tolist()) - {0}
    record_property("clips of these lengths, in frames", str(sorted(clip_lengths)))
    assert len(clip_lengths) > 1


def test_what_follows_a_clip_is_padding(tone_corpus):
    for text, mel, text_lengths, mel_lengths in batches_of(data_config(tone_corpus, "fixed")):
        assert not text.numpy()[np.arange(TOKENS) >= text_lengths.numpy()[:, None]].any()
        assert not mel.numpy()[np.arange(FRAMES) >= mel_lengths.numpy()[:, None]].any()


def test_a_clip_that_is_too_long_is_skipped_and_never_cut(tone_corpus, record_property):
    from myxtts.data.ljspeech import LJSpeechDataset

    whole = LJSpeechDataset(config=data_config(tone_corpus, "fixed"), subset="all")
    frames = whole.clip_table.frame_counts
    limit = int(np.median(frames))
    shorter = LJSpeechDataset(config=data_config(tone_corpus, "fixed", max_mel_frames=limit), subset="all")
    found = [length for *_, lengths in shorter.create_tf_dataset() for length in lengths.numpy().tolist() if length]
    record_property("clips", f"{len(found)} of {len(frames)} have at most {limit} frames")
    assert sorted(found) == sorted(frames[frames <= limit].tolist())
    assert len(found) < len(frames)


@pytest.mark.parametrize("plan", ["fixed", "buckets", "packed"])
def test_real_steps_of_a_static_plan_are_compiled_before_the_first_one(tone_corpus, plan, record_property):
    from myxtts.diagnostics.trainer_diagnosis import run_trial, trial_trainer

    with trial_trainer(small_config(tone_corpus, tone_corpus, {"plan": plan, "num_buckets": 2})) as trainer:
        trainer.warm_up()
        trial = run_trial(trainer, 6)
        record_property("shapes", ", ".join(str(shape) for shape in trainer.task.corpus.plan.shapes))
        record_property("retraces in 6 steps", len(trial.retraces))
        assert (trial.retraces, trial.since_warmup.traces, trial.since_warmup.signatures) == ((), 0, 0)


def test_real_steps_of_batches_padded_to_their_longest_clip_are_traced_again(tone_corpus, record_property):
    from myxtts.diagnostics.trainer_diagnosis import diagnose_retracing

    diagnosis = diagnose_retracing(small_config(tone_corpus, tone_corpus, {"plan": "dynamic"}), 5)
    record_property("retraces in 5 steps", len(diagnosis.trial.retraces))
    assert not diagnosis.are_shapes_closed
    assert diagnosis.trial.retraces
    assert diagnosis.exit_code == 1
    assert any("Fix: " in problem and "--enable-static-shapes" in problem for problem in diagnosis.problems)


if __name__ == "__main__":
    sys.exit(run_as_script(__file__))
