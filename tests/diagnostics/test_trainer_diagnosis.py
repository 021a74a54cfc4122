"""The diagnoses of this trainer: the promised words when, and only when, they were measured; real steps in the slow ones."""

import json

import numpy as np
import pytest

from myxtts.cli import main
from myxtts.diagnostics.observe.pipeline import DatasetStage
from myxtts.diagnostics.observe.source_lines import UNKNOWN
from myxtts.diagnostics.observe.split_steps import find_cyclic_stalls
from myxtts.diagnostics.trainer_diagnosis import BottleneckDiagnosis, RetracingDiagnosis, Trial
from myxtts.runtime.compilation import Counts, Retrace, RetraceKind


def trial(wait: float = 0.0, stall_every: int | None = None, retraces: tuple[Retrace, ...] = ()) -> Trial:
    stages = np.tile([wait, 0.001, 0.5], (42, 1)) + np.random.default_rng(0).uniform(0, 1e-3, (42, 3))
    if stall_every is not None:
        stages[stall_every::stall_every, 0] += 2.0
    return Trial(stages, 2, retraces, Counts(0, 0, 0), Counts(1, 1, 1), {"convolution": "native"})


def retracing(is_closed: bool = True, **changes) -> RetracingDiagnosis:
    return RetracingDiagnosis("packed", ("2 rows",), is_closed, 0.96, 12.0, trial(**changes), None)


def bottleneck(python: tuple[str, ...] = (), **changes) -> BottleneckDiagnosis:
    measured = trial(**changes)
    stages = (DatasetStage("prefetch", "prefetch", UNKNOWN), DatasetStage("map", "map(load)", UNKNOWN, python=python))
    stalls = find_cyclic_stalls(measured.steady.sum(axis=1))
    return BottleneckDiagnosis(stages, (("parallel_map", 0.01),), 0.01, 0.5, measured, stalls, 16.0)


def test_timing_the_step_alone_leaves_the_train_state_as_it_was(tmp_path, monkeypatch):
    from myxtts.diagnostics.trainer_diagnosis import _time_step, trial_trainer
    from tests.corpus.tiny_corpus import make_corpus
    from tests.training.small_runs import small_config

    def values(state):
        scalars = {name: variable.numpy() for name, variable in state.scalars().items()}
        return {"weights": state.flat_weights(), **state.vectors(), **scalars}

    make_corpus(tmp_path, 12)
    with trial_trainer(small_config(tmp_path, tmp_path / "run", enable_graph_mode=False)) as trainer:
        state, learn, during = trainer.task.state, trainer.task.steps.learn, []
        for _ in range(2):  # at first the moments are zeros, and so is the learning rate
            learn([next(trainer.task.feed)])
        before = values(state)
        monkeypatch.setattr(
            trainer.task.steps, "learn", lambda batches: (learn(batches), during.append(values(state)))[0]
        )
        assert _time_step(trainer) > 0
        after = values(state)
    for name in before:
        np.testing.assert_array_equal(before[name], after[name], err_msg=name)
    unchanged = {name for name in before if np.array_equal(before[name], during[-1][name])}
    assert unchanged <= {"loss_scale", "good_steps", "rate_factor"}


def test_compiled_once_ends_with_the_promised_lines():
    diagnosis = retracing()
    assert diagnosis.exit_code == 0
    assert diagnosis.lines()[-2] == "✅ No retracing detected after initial compilation"
    assert diagnosis.lines()[-1] == "Average step time: 0.50s ± 0.00s"


def test_retrace_is_reported_in_the_promised_words():
    event = Retrace(7, 1, RetraceKind.TRACE, "train_step", (), "pad")
    diagnosis = retracing(retraces=(event,))
    text = "\n".join(diagnosis.lines())
    assert diagnosis.exit_code == 1
    assert "tf.function RETRACING detected at step 7 (total retraces: 1)" in text
    assert "No retracing detected" not in text


def test_open_shapes_are_a_problem_even_before_they_retrace():
    assert retracing(is_closed=False).exit_code == 1


def test_healthy_loader_has_none_of_the_promised_warnings():
    diagnosis = bottleneck()
    text = "\n".join(diagnosis.lines())
    assert diagnosis.exit_code == 0
    assert "compute-bound" in text
    assert "HIGH VARIATION" not in text
    assert "numpy_function" not in text


def test_python_function_in_the_graph_is_reported_in_the_promised_words():
    assert "tf.numpy_function found in data pipeline!" in bottleneck(python=("numpy_function",)).lines()[0]


def test_cyclic_stall_is_reported_in_the_promised_words():
    diagnosis = bottleneck(stall_every=8)
    assert "HIGH VARIATION DETECTED - Cyclic pattern identified! Every 8 steps" in diagnosis.lines()[0]
    assert "waiting for data" in diagnosis.lines()[0]


def test_stalls_keep_their_keys_in_json():
    from myxtts.commands.diagnose import _stalls_to_json

    stalls = bottleneck(stall_every=8).stalls
    assert set(_stalls_to_json(stalls)) == {"steps", "period", "excess_seconds", "share"}
    assert _stalls_to_json(None) is None


def test_waiting_is_input_bound():
    assert any("input-bound: 50 %" in problem for problem in bottleneck(wait=0.5).problems)


def test_wrong_configuration_is_reported_before_anything_is_built(capsys):
    assert main(["diagnose", "retracing", "--config", "no-such-file.yaml"]) == 2
    assert "cannot be read" in capsys.readouterr().err


@pytest.mark.slow
def test_real_steps_of_the_default_configuration_are_compiled_once(tmp_path, capsys):
    code = main(["diagnose", "retracing", "--steps", "6", "--json", str(tmp_path / "metrics.json")])
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert (code, metrics["traces_after_warmup"], metrics["signatures_after_warmup"]) == (0, 0, 0)
    assert "No retracing detected after initial compilation" in capsys.readouterr().out


@pytest.mark.slow
def test_real_steps_of_open_shapes_are_a_problem(capsys):
    assert main(["diagnose", "retracing", "--steps", "6", "--disable-static-shapes"]) == 1
    assert "RETRACING detected at step" in capsys.readouterr().out


@pytest.mark.slow
def test_real_loader_keeps_the_device_busy(capsys):
    main(["diagnose", "bottleneck", "--num-batches", "8"])
    assert "Loader alone" in capsys.readouterr().out
