"""The compiled steps: one trace per shape, exact accumulation, skipped steps, nothing learned from nothing."""

import numpy as np
import pytest
import tensorflow as tf

from myxtts.batch import BatchShape, shape_of
from myxtts.config.config import TrainingConfig
from myxtts.models.flow_matching import ClipLosses
from myxtts.training.optimization import resolve_optimization
from myxtts.training.state import TrainState
from myxtts.training.steps import METRICS, TERMS, Steps
from tests.models.clips import lay_out, make_clips, tiny_model


def make_steps(*, dropout=0.0, uses_xla=False, graph_mode=True, dtype="float32", **training):
    settings = resolve_optimization(TrainingConfig(warmup_steps=0, **training), "tiny", 1000)
    is_half = dtype == "mixed_float16"  # a CPU has no gradient of a dilated convolution in float16
    model = tiny_model(dropout=dropout, dtype=dtype, dilations=(1,) if is_half else (1, 2, 4))
    state = TrainState(model, settings.ema_decay > 0, is_half)
    strategy = tf.distribute.get_strategy()
    return Steps(state, settings, seed=1, strategy=strategy, uses_xla=uses_xla, graph_mode=graph_mode)


def everything(state):
    return np.concatenate([state.flat_weights(), *state.vectors().values()])


def named(metrics):
    return dict(zip(METRICS, metrics.numpy().tolist(), strict=True))


def test_the_terms_are_those_of_the_losses_in_their_order():
    assert ClipLosses._fields == TERMS


@pytest.fixture(scope="module")
def clips():
    return make_clips(8)


@pytest.fixture(scope="module")
def batch(clips):
    return lay_out([clips[:4], clips[4:]], 60, 240, 4)


def test_a_step_learns_and_moves_the_ema(batch):
    steps = make_steps()
    before = everything(steps.state)
    first = named(steps.train(batch))
    assert first["skipped"] == 0
    assert first["frames"] == batch.mel_lengths.numpy().sum()
    assert not np.allclose(everything(steps.state), before)
    for _ in range(30):
        last = named(steps.train(batch))
    assert last["loss"] < first["loss"]
    assert int(steps.state.step.numpy()) == int(steps.state.updates.numpy()) == 31


def test_an_empty_batch_changes_nothing(batch):
    steps = make_steps()
    steps.train(batch)
    before = everything(steps.state)
    steps.warm_up(steps.train, shape_of(batch))
    np.testing.assert_array_equal(everything(steps.state), before)
    assert int(steps.state.step.numpy()) == 1


def test_each_shape_is_traced_once(clips, batch):
    steps = make_steps()
    other = lay_out([clips[:3]], 50, 200, 3)
    for _ in range(3):
        steps.train(batch)
        steps.train(other)
    assert len(steps.functions) == 2
    assert all(function.experimental_get_tracing_count() == 1 for function in steps.functions.values())


def gradients_of(steps, batches):
    """Flat gradient of several batches taken as one."""
    counts = tf.add_n([steps._count_step(batch) for batch in batches])
    total = tf.zeros(steps.state.layout.size), tf.zeros(len(TERMS))
    for batch in batches:
        total = steps._gradient_step(batch, counts, total)
    return np.concatenate(total)


def test_the_accumulated_gradient_is_that_of_one_large_batch(clips):
    steps = make_steps(dropout=0.2)
    large = lay_out([clips[0:2], clips[2:4], clips[4:6], clips[6:8]], 40, 160, 2)
    small = [lay_out([clips[number : number + 2]], 40, 160, 2) for number in range(0, 8, 2)]
    expected, found = gradients_of(steps, [large]), gradients_of(steps, small)
    assert np.linalg.norm(found - expected) <= 1e-5 * np.linalg.norm(expected)


def test_an_accumulated_step_equals_a_step_on_the_large_batch(clips):
    one, many = make_steps(), make_steps()
    large = lay_out([clips[0:4], clips[4:8]], 60, 240, 4)
    small = [lay_out([clips[0:4]], 60, 240, 4), lay_out([clips[4:8]], 70, 250, 4)]
    for _ in range(3):
        expected, found = named(one.train(large)), named(many.accumulate(small))
    assert found["loss"] == pytest.approx(expected["loss"], rel=1e-4)
    assert found["gradient_norm"] == pytest.approx(expected["gradient_norm"], rel=1e-3)
    assert found["frames"] == expected["frames"]


def test_a_step_whose_loss_is_not_finite_is_skipped_and_counted(batch):
    steps = make_steps()
    steps.train(batch)
    before = everything(steps.state)
    poisoned = batch._replace(mel=batch.mel * float("nan"))
    assert named(steps.train(poisoned))["skipped"] == 1
    np.testing.assert_array_equal(everything(steps.state), before)
    assert (int(steps.state.step.numpy()), int(steps.state.updates.numpy())) == (2, 1)
    assert named(steps.train(batch))["skipped"] == 0


def test_the_gradient_is_clipped_to_the_asked_norm(batch):
    free, clipped = make_steps(clip_norm=1e9), make_steps(clip_norm=1e-3)
    free.train(batch)
    norm = named(clipped.train(batch))["gradient_norm"]
    ratio = np.linalg.norm(clipped.state.first_moment.numpy()) / np.linalg.norm(free.state.first_moment.numpy())
    assert ratio == pytest.approx(1e-3 / norm, rel=1e-3)


def test_eager_steps_give_the_same_losses(batch):
    expected, found = named(make_steps().train(batch)), named(make_steps(graph_mode=False).train(batch))
    assert found["loss"] == pytest.approx(expected["loss"], rel=1e-4)
    assert found["gradient_norm"] == pytest.approx(expected["gradient_norm"], rel=1e-3)


def test_xla_steps_give_the_same_losses_where_no_noise_is_drawn(batch):
    """XLA draws other random numbers from the same key, so the flow term differs; the others must not."""
    expected, found = named(make_steps().train(batch)), named(make_steps(uses_xla=True).train(batch))
    assert found["prior"] == pytest.approx(expected["prior"], rel=1e-4)
    assert found["duration"] == pytest.approx(expected["duration"], rel=1e-4)
    assert found["flow"] == pytest.approx(expected["flow"], rel=0.1)


def test_the_loss_scale_falls_on_overflow_and_gradients_do_not_depend_on_it(batch):
    steps = make_steps(dtype="mixed_float16")
    start = float(steps.state.loss_scale.numpy())
    first = named(steps.train(batch))
    steps.train(batch._replace(mel=batch.mel * float("inf")))
    assert float(steps.state.loss_scale.numpy()) == start / (4 if first["skipped"] else 2)


def test_validation_measures_the_same_thing_every_time_and_changes_nothing(batch):
    steps = make_steps(dropout=0.3)
    before = everything(steps.state)
    first = steps.validate(batch).numpy()
    np.testing.assert_array_equal(steps.validate(batch).numpy(), first)
    np.testing.assert_array_equal(everything(steps.state), before)


def test_within_the_block_the_network_has_the_ema_of_its_weights(batch):
    steps = make_steps()
    for _ in range(3):
        steps.train(batch)
    current, ema = steps.state.flat_weights(), steps.state.ema.numpy()
    with steps.state.with_ema_weights():
        np.testing.assert_array_equal(steps.state.flat_weights(), ema)
    np.testing.assert_array_equal(steps.state.flat_weights(), current)
    assert not np.allclose(current, ema)


def test_repeated_symbols_are_summed_before_the_update(batch):
    """An embedding's sparse gradient must reach the flat vector as the dense one."""
    steps = make_steps()
    table = next(number for number, name in enumerate(steps.state.names) if name.endswith("embedding/embeddings"))
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(tf.gather(steps.state.weights[table], [3, 3, 5]))
    sparse = tape.gradient(total, steps.state.weights[table])
    assert isinstance(sparse, tf.IndexedSlices)
    flat = steps.state.layout.join([sparse]).numpy().reshape(steps.state.layout.shapes[table])
    assert (flat[3] == 2).all()
    assert (flat[5] == 1).all()


def test_many_bucket_shapes_do_not_trigger_tensorflows_retracing_warning(caplog):
    steps = make_steps()
    for frames in range(100, 108):
        shape = BatchShape(rows=2, tokens=20, frames=frames)
        steps.warm_up(lambda batch, shape=shape: steps._run("count_step", shape, batch), shape)
    assert len(steps.functions) == 8
    assert "triggered tf.function retracing" not in caplog.text
