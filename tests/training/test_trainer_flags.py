"""What the settings of a run do: each is seen in the trainer that it makes, not only in the configuration."""

import json

import numpy as np
import pytest
import tensorflow as tf

from myxtts.data.python_loader import NOTICE
from myxtts.errors import TrainingError
from myxtts.training.autotune import (
    FILE_NAME,
    LoaderTrial,
    StepTrial,
    choose_batch_size,
    choose_loader,
    is_worth_trying_more,
)
from myxtts.training.corpus import RUNTIME_NOTICE
from myxtts.training.trainer import XTTSTrainer
from tests.training.small_runs import quiet_display, small_config, text_of

GIB = 2**30


@pytest.fixture
def make_trainer(corpus, tmp_path):
    made = []

    def make(data=None, **training):
        trainer = XTTSTrainer(small_config(corpus, tmp_path / "run", data, **training), display=quiet_display())
        made.append(trainer)
        return trainer

    yield make
    for trainer in made:
        trainer.feed.close()


def batch_of(trainer):
    return [field.numpy() for field in next(trainer.feed)]


def test_python_and_runtime_loading_are_announced_and_give_the_batches_of_the_cache(make_trainer):
    plan = {"plan": "fixed"}
    expected = batch_of(make_trainer(plan))
    by_python = make_trainer(plan | {"use_tf_native_loading": False})
    at_runtime = make_trainer(plan | {"preprocessing_mode": "runtime"})
    assert NOTICE in text_of(by_python.display)
    assert RUNTIME_NOTICE in text_of(at_runtime.display)
    for found in (batch_of(by_python), batch_of(at_runtime)):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, atol=2e-3)


def test_the_seed_decides_the_order_and_the_first_weights(make_trainer):
    one, same, other = make_trainer(seed=1), make_trainer(seed=1), make_trainer(seed=2)
    np.testing.assert_array_equal(one.state.flat_weights(), same.state.flat_weights())
    assert not np.array_equal(one.state.flat_weights(), other.state.flat_weights())
    assert (batch_of(one)[6] == batch_of(same)[6]).all()


def test_epochs_and_accumulation_set_the_number_of_steps(make_trainer):
    once, twice = make_trainer(epochs=8, max_steps=None), make_trainer(epochs=16, max_steps=None)
    accumulated = make_trainer(epochs=16, max_steps=None, gradient_accumulation_steps=2)
    assert twice.total_steps == 2 * once.total_steps
    assert accumulated.total_steps == once.total_steps


def test_the_shape_flags_set_the_plan(make_trainer):
    fixed = make_trainer({"pad_to_fixed_length": True, "batch_size": 3})
    assert [str(shape) for shape in fixed.corpus.plan.shapes] == ["3 rows x 40 tokens x 160 frames"]
    assert not make_trainer({"plan": "dynamic"}).corpus.plan.is_static
    derived = make_trainer({"plan": "fixed", "max_mel_frames": "auto"})
    assert derived.corpus.max_mel_frames == -(-int(derived.corpus.cache.frame_counts.max()) // 32) * 32


def test_loader_settings_reach_the_dataset(make_trainer):
    trainer = make_trainer({"num_workers": 1, "prefetch_buffer_size": 5, "optimize_cpu_gpu_overlap": True})
    reader, segment = trainer.feed.reader, trainer.corpus.plan.single_pass()
    assert reader.host_dataset(segment, 0).options().threading.private_threadpool_size == 1
    graph = str(tf.compat.v1.GraphDef.FromString(_graph_of(reader.dataset(segment, 0))))
    assert "PrefetchDataset" in graph
    shared = make_trainer({"optimize_cpu_gpu_overlap": False}).feed.reader
    assert shared.host_dataset(segment, 0).options().threading.private_threadpool_size is None


def _graph_of(dataset):
    variant = tf.data.experimental.to_variant(dataset)
    return tf.raw_ops.DatasetToGraphV2(
        input_dataset=variant, external_state_policy=1, strip_device_assignment=True
    ).numpy()


def test_tensorboard_files_go_where_they_are_asked_to(make_trainer, tmp_path):
    trainer = make_trainer(tensorboard_log_dir=str(tmp_path / "boards"), max_steps=2, enable_graph_mode=False)
    assert not trainer.hardware.graph_mode
    trainer.train()
    assert list((tmp_path / "boards").glob("events.*"))
    assert not (tmp_path / "run" / "tensorboard").exists()
    assert trainer.steps.functions
    assert all(not hasattr(step, "experimental_get_tracing_count") for step in trainer.steps.functions.values())


def test_eager_debug_names_where_a_number_stopped_being_finite(make_trainer):
    trainer = make_trainer(enable_eager_debug=True)
    assert not trainer.hardware.graph_mode
    batch = next(trainer.feed)
    trainer.steps.learn([batch])
    place = next(number for number, name in enumerate(trainer.state.names) if name.startswith("text_encoder/"))
    trainer.state.weights[place].assign(trainer.state.weights[place] * float("nan"))
    with pytest.raises(TrainingError, match=r"output of layer .*text_encoder.* is not finite; its inputs are finite"):
        trainer.steps.learn([batch])


def test_a_dynamic_plan_runs_and_says_what_it_costs(make_trainer):
    trainer = make_trainer({"plan": "dynamic"}, max_steps=3, log_interval=1)
    trainer.train()
    text = text_of(trainer.display)
    assert "Static shapes (pad_to_fixed_length): False" in text
    assert "RETRACING detected" in text
    assert "a batch of a new size is compiled anew" in text


def test_the_fewest_threads_that_are_nearly_the_fastest_are_chosen():
    trials = [LoaderTrial(1, 0.010, 0.012), LoaderTrial(2, 0.0052, 0.030), LoaderTrial(4, 0.005, 0.02)]
    threads, depth, reason = choose_loader(trials)
    assert (threads, depth) == (2, 6)
    assert "1: 10.00 ms, 2: 5.20 ms, 4: 5.00 ms" in reason
    assert choose_loader([LoaderTrial(1, 0.001, 1.0)])[1] == 16
    assert choose_loader([LoaderTrial(1, 0.001, 0.001)])[1] == 2


def test_the_smallest_batch_that_is_nearly_the_fastest_and_fits_is_chosen():
    trials = [
        StepTrial(4, 500, GIB),
        StepTrial(8, 950, 2 * GIB),
        StepTrial(16, 1000, 4 * GIB),
        StepTrial(32, 2000, 20 * GIB),
    ]
    assert choose_batch_size(trials, 16 * GIB)[0] == 8
    assert choose_batch_size(trials, 64 * GIB)[0] == 32
    assert choose_batch_size([*trials[:2], StepTrial(16, 0, None)], 16 * GIB)[0] == 8
    assert choose_batch_size([StepTrial(4, 0, None)], GIB) == (
        4, "4 clips a batch: even that takes more than 80% of the free memory",
    )  # fmt: skip


def test_larger_batches_are_tried_while_they_gain_and_fit():
    first = StepTrial(4, 500, GIB)
    assert is_worth_trying_more([first], 16 * GIB)
    assert is_worth_trying_more([first, StepTrial(8, 900, GIB)], 16 * GIB)
    assert not is_worth_trying_more([first, StepTrial(8, 510, GIB)], 16 * GIB)
    assert not is_worth_trying_more([first, StepTrial(8, 900, 7 * GIB)], 16 * GIB)
    assert not is_worth_trying_more([first, StepTrial(8, 0, None)], 16 * GIB)


def test_tuning_measures_once_keeps_what_the_user_gave_and_is_remembered(make_trainer, corpus):
    asked = {"auto_tune_performance": True, "num_workers": "auto", "prefetch_buffer_size": 3}
    first = make_trainer(asked)
    assert first.config.data.prefetch_buffer_size == 3
    assert first.config.data.batch_size == 4
    assert isinstance(first.config.data.num_workers, int)
    assert "Measuring the performance of this machine" in text_of(first.display)
    assert "loader threads (a batch by threads: 1:" in text_of(first.display)
    again = make_trainer(asked)
    assert "Performance settings as measured before" in text_of(again.display)
    assert again.config == first.config
    (file,) = corpus.rglob(FILE_NAME)
    assert [choice["batch_size"] for choice in json.loads(file.read_text()).values()] == [None]


@pytest.mark.slow
def test_the_batch_size_is_measured_when_it_is_left_to_us(make_trainer):
    trainer = make_trainer({"auto_tune_performance": True, "batch_size": "auto"})
    assert trainer.config.data.batch_size in (4, 8, 16, 32, 64, 128)
    assert "frames/s" in text_of(trainer.display)
