"""The trainer: what opening does, and what each setting of a run changes in it."""

import re

import numpy as np
import pytest
import tensorflow as tf

from myxtts.batches.on_the_fly import NOTICE
from myxtts.config.config import TrainingConfig
from myxtts.errors import CheckpointError, CorpusError, TrainingError
from myxtts.runtime.locks import RunLock
from myxtts.training.trainer import XTTSTrainer
from myxtts.training.training_corpus import RUNTIME_NOTICE, open_training_corpus
from tests.corpus.tiny_corpus import make_corpus
from tests.runtime.other_process import another_training
from tests.training.small_runs import quiet_display, small_config, text_of


def batch_of(trainer):
    """A batch without the noise of its recordings, which is measured when clips are prepared."""
    return [field.numpy() for field in next(trainer.task.feed)._replace(noise=tf.zeros(()))]


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
    np.testing.assert_array_equal(one.task.state.flat_weights(), same.task.state.flat_weights())
    assert not np.array_equal(one.task.state.flat_weights(), other.task.state.flat_weights())
    assert (batch_of(one)[6] == batch_of(same)[6]).all()


def test_epochs_and_accumulation_set_the_number_of_steps(make_trainer):
    once, twice = make_trainer(epochs=8, max_steps=None), make_trainer(epochs=16, max_steps=None)
    accumulated = make_trainer(epochs=16, max_steps=None, gradient_accumulation_steps=2)
    assert twice.task.total_steps == 2 * once.task.total_steps
    assert accumulated.task.total_steps == once.task.total_steps


def test_the_shape_flags_set_the_plan(make_trainer):
    fixed = make_trainer({"pad_to_fixed_length": True, "batch_size": 3})
    assert [str(shape) for shape in fixed.task.corpus.plan.shapes] == ["3 rows x 40 tokens x 160 frames"]
    assert not make_trainer({"plan": "dynamic"}).task.corpus.plan.is_static
    derived = make_trainer({"plan": "fixed", "max_mel_frames": "auto"})
    assert derived.task.corpus.max_mel_frames == -(-int(derived.task.corpus.cache.frame_counts.max()) // 32) * 32


def test_loader_settings_reach_the_dataset(make_trainer):
    trainer = make_trainer({"num_workers": 1, "prefetch_buffer_size": 5, "optimize_cpu_gpu_overlap": True})
    reader, segment = trainer.task.feed.reader, trainer.task.corpus.plan.single_epoch()
    assert reader.host_dataset(segment, 0).options().threading.private_threadpool_size == 1
    graph = _graph_of(reader.dataset(segment, 0))
    (result,) = (node for node in graph.values() if node.op == "_Retval")
    last = graph[result.input[0].split(":")[0]]
    assert last.op.startswith("PrefetchDataset")
    assert tf.make_ndarray(graph[last.input[1]].attr["value"].tensor) == 5
    shared = make_trainer({"optimize_cpu_gpu_overlap": False}).task.feed.reader
    assert shared.host_dataset(segment, 0).options().threading.private_threadpool_size is None


def _graph_of(dataset):
    """The nodes of the dataset's graph by name."""
    serialized = tf.raw_ops.DatasetToGraphV2(
        input_dataset=tf.data.experimental.to_variant(dataset), external_state_policy=1, strip_device_assignment=True
    )
    return {node.name: node for node in tf.compat.v1.GraphDef.FromString(serialized.numpy()).node}


def test_tensorboard_files_go_where_they_are_asked_to(make_trainer, tmp_path):
    trainer = make_trainer(tensorboard_log_dir=str(tmp_path / "boards"), max_steps=2, enable_graph_mode=False)
    assert not trainer.task.hardware.graph_mode
    trainer.train()
    assert list((tmp_path / "boards").glob("events.*"))
    assert not (tmp_path / "run" / "tensorboard").exists()
    assert trainer.task.steps.functions
    assert all(not hasattr(step, "experimental_get_tracing_count") for step in trainer.task.steps.functions.values())


def test_eager_debug_names_where_a_number_stopped_being_finite(make_trainer):
    trainer = make_trainer(enable_eager_debug=True)
    assert not trainer.task.hardware.graph_mode
    batch = next(trainer.task.feed)
    trainer.task.steps.learn([batch])
    place = next(number for number, name in enumerate(trainer.task.state.names) if name.startswith("text_encoder/"))
    trainer.task.state.weights[place].assign(trainer.task.state.weights[place] * float("nan"))
    with pytest.raises(TrainingError, match=r"output of layer .*text_encoder.* is not finite; its inputs are finite"):
        trainer.task.steps.learn([batch])


def test_a_dynamic_plan_runs_and_says_what_it_costs(make_trainer):
    trainer = make_trainer({"plan": "dynamic"}, max_steps=3, log_interval=1)
    trainer.train()
    text = text_of(trainer.display)
    assert "Static shapes (pad_to_fixed_length): False" in text
    assert "RETRACING detected" in text
    assert "a batch of a new size is compiled again" in text


def test_a_retrace_ends_the_run_where_that_is_asked_for(make_trainer):
    trainer = make_trainer({"plan": "dynamic"}, max_steps=3, on_retrace="fail")
    with pytest.raises(TrainingError, match="RETRACING detected at step"):
        trainer.train()


def test_the_first_lines_say_how_many_clips_are_used_and_how_many_are_not(make_trainer):
    trainer = make_trainer(max_steps=1, enable_graph_mode=False)
    described = trainer.task.described()
    assert described["Corpus"].startswith("10 clips for training, 2 held out, nothing rejected; speakers 1")
    assert described["Sound"].startswith("recordings at 16000 Hz → voice at 16000 Hz; hop 256,")
    assert "--auto-tune" not in text_of(trainer.display)
    shorter = make_trainer({"max_text_length": 8}, max_steps=1, enable_graph_mode=False, max_minutes=5)
    described = shorter.task.described()
    assert re.search(r"\d+ held out, \d+ rejected: longer than max_text_length \d+; speakers 1", described["Corpus"])
    assert described["Steps"] == "1 or 5 minutes, batches per step 1"


def test_limits_that_no_clip_fits_are_named_with_the_shortest_clip(make_trainer):
    with pytest.raises(
        CorpusError, match=r"fits .*data\.max_mel_frames \(3 frames\).* the shortest clip \d\d frames\. Raise"
    ):
        make_trainer({"max_mel_frames": 3})


def test_held_out_clips_alone_are_no_training_set(tmp_path):
    make_corpus(tmp_path, 1)
    with pytest.raises(CorpusError, match=r"is left for training: 1 of 1 fit the limits, and those are held out"):
        open_training_corpus(small_config(tmp_path, tmp_path).data, TrainingConfig())


def test_a_batch_size_that_is_not_measured_is_announced(make_trainer):
    trainer = make_trainer({"batch_size": "auto"})
    assert "data.batch_size: auto is 32 clips per batch; with --auto-tune it is measured." in text_of(trainer.display)


def test_a_trainer_is_refused_before_it_moves_the_earlier_run(corpus, tmp_path):
    (tmp_path / "step-00000005").mkdir()
    (tmp_path / "log.jsonl").write_text("{}\n")
    with another_training(tmp_path):
        before = sorted(path.name for path in tmp_path.iterdir())
        with pytest.raises(TrainingError, match="Another training uses"):
            XTTSTrainer(small_config(corpus, tmp_path), display=quiet_display(), reset_training=True).open()
        assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_trainer_gives_the_folder_back_at_its_end_and_when_it_fails(corpus, tmp_path):
    with pytest.raises(CheckpointError):
        XTTSTrainer(small_config(corpus, tmp_path, init_from=str(tmp_path / "nothing")), display=quiet_display()).open()
    with another_training(tmp_path):
        pass
    trainer = XTTSTrainer(small_config(corpus, tmp_path, max_steps=1, enable_graph_mode=False), display=quiet_display())
    trainer.task.sample = lambda saved, log: []
    assert (tmp_path / "run.lock.json").exists()
    trainer.train()
    assert sorted(path.name for path in tmp_path.glob("run.lock*")) == [RunLock.NAME]
    with another_training(tmp_path):
        pass


def test_nothing_happens_before_a_trainer_is_opened(corpus, tmp_path):
    run = tmp_path / "run"
    trainer = XTTSTrainer(small_config(corpus, run), display=quiet_display())
    trainer.close()
    assert not run.exists()
    assert text_of(trainer.display) == ""
    with trainer:
        task = trainer.task
        assert trainer.open() is task
        assert (run / "run.lock.json").exists()
    assert not (run / "run.lock.json").exists()
    assert task.state.flat_weights().any()  # the network stays usable
