"""Random numbers that follow from seed, step, clip and position."""

import numpy as np
import pytest
import tensorflow as tf

from myxtts.models.layout import RowLayout
from myxtts.models.randomness import ClipRandomness, NoRandomness


def normal_of(clip, start, size=40, length=12, step=3, seed=1, name="flow"):
    """The noise of one clip that begins at `start` of a row."""
    layout = RowLayout(tf.constant([[start]]), tf.constant([[length]]), size)
    noise = ClipRandomness(seed, step, tf.constant([[clip]])).normal(name, layout, 5)
    return noise.numpy()[0, start : start + length]


def test_noise_depends_on_clip_step_seed_and_use_but_not_on_the_position_in_the_row():
    noise = normal_of(7, 0)
    assert np.array_equal(normal_of(7, 23), noise)
    assert np.array_equal(normal_of(7, 2, size=64), noise)
    others = [normal_of(8, 0), normal_of(7, 0, step=4), normal_of(7, 0, seed=2), normal_of(7, 0, name="other")]
    assert all(not np.allclose(other, noise) for other in others)


def test_noise_is_standard_normal():
    noise = normal_of(0, 0, size=2000, length=2000)
    assert abs(noise.mean()) < 0.05
    assert noise.std() == pytest.approx(1, abs=0.05)


def test_dropout_keeps_the_mean_and_drops_the_given_fraction():
    layout = RowLayout(tf.zeros((1, 1), tf.int32), tf.constant([[1500]]), 1500)
    randomness = ClipRandomness(1, 2, tf.constant([[5]]))
    found = randomness.dropout("one", layout, tf.ones((1, 1500, 8)), 0.3).numpy()
    assert (found == 0).mean() == pytest.approx(0.3, abs=0.02)
    assert found.mean() == pytest.approx(1, abs=0.05)
    assert not np.array_equal(randomness.dropout("another", layout, tf.ones((1, 1500, 8)), 0.3), found)


def test_channels_dropped_for_a_clip_are_the_same_in_all_values():
    clips = tf.reshape(tf.range(200), (10, 20))
    randomness = ClipRandomness(1, 2, clips)
    first, second = randomness.dropout_per_clip("block", (tf.ones((10, 20, 6)), 3 * tf.ones((10, 20, 6))), 0.25)
    np.testing.assert_allclose(3 * first.numpy(), second, rtol=1e-6)
    assert (first.numpy() == 0).mean() == pytest.approx(0.25, abs=0.05)


def test_a_fraction_of_the_clips_is_hidden():
    clips = tf.reshape(tf.range(2000), (100, 20))
    assert ClipRandomness(1, 2, clips).hides("speaker", 0.1).numpy().mean() == pytest.approx(0.1, abs=0.03)


def test_without_drops_nothing_is_dropped_or_hidden_but_noise_stays():
    layout = RowLayout(tf.zeros((1, 1), tf.int32), tf.constant([[30]]), 30)
    validation = ClipRandomness(1, 2, tf.constant([[5]]), drops=False)
    values = tf.ones((1, 30, 4))
    assert validation.dropout("one", layout, values, 0.5) is values
    assert not validation.hides("speaker", 1.0).numpy().any()
    expected = ClipRandomness(1, 2, tf.constant([[5]])).normal("flow", layout, 4)
    assert np.array_equal(validation.normal("flow", layout, 4), expected)


def test_no_randomness_changes_nothing():
    values = tf.ones((1, 3, 2))
    assert NoRandomness().dropout("one", None, values, 0.9) is values
    assert NoRandomness().dropout_per_clip("one", (values,), 0.9)[0] is values
