"""Experiments for what docs/diagnostics.md says about TensorFlow, where older documents explain it wrongly."""

import io
import logging

import keras
import numpy as np
import pytest
import soundfile
import tensorflow as tf

from myxtts.batches.plan import fitting_clips
from myxtts.corpus.corpus import bundled_corpus
from myxtts.runtime.tensorflow_counters import XLA_COMPILATIONS, find_counter, why_unavailable

pytestmark = pytest.mark.filterwarnings("ignore")
needs_counters = pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))


def test_tf_shape_does_not_cause_retracing():
    constants = []

    @tf.function
    def rows_of(batch):
        constants.append(tf.get_static_value(tf.shape(batch)))
        return tf.shape(batch)[0]

    for _ in range(5):
        rows_of(tf.ones((4, 3)))
    assert rows_of.experimental_get_tracing_count() == 1
    assert constants[0].tolist() == [4, 3]


@needs_counters
def test_xla_compiles_once_per_shape_without_a_retrace():
    step = tf.function(lambda batch: batch * 2.0, jit_compile=True, input_signature=[tf.TensorSpec([None])])
    compilations = find_counter(XLA_COMPILATIONS)
    before = compilations()
    for rows in (3, 4, 5, 4, 3):
        step(tf.ones(rows))
    assert step.experimental_get_tracing_count() == 1
    assert compilations() - before == 3


def test_a_function_with_an_input_signature_refuses_other_shapes():
    step = tf.function(lambda batch: batch * 2.0, input_signature=[tf.TensorSpec([None, 3])])
    step(tf.ones((2, 3)))
    step(tf.ones((5, 3)))
    for wrong in (tf.ones((2, 4)), tf.ones((2, 3), tf.int32)):
        try:
            step(wrong)
        except TypeError:
            continue
        raise AssertionError("accepted")
    assert step.experimental_get_tracing_count() == 1


def test_the_warning_about_retracing_also_comes_for_healthy_buckets():
    heard = []
    handler = logging.Handler()
    handler.emit = lambda record: heard.append(record.getMessage())
    tf.get_logger().addHandler(handler)

    def step_for(rows):
        return tf.function(lambda batch: batch * 2.0, input_signature=[tf.TensorSpec((rows, 3))])

    steps = {rows: step_for(rows) for rows in range(1, 6)}
    for rows, step in steps.items():
        step(tf.ones((rows, 3)))
    tf.get_logger().removeHandler(handler)
    assert any("triggered tf.function retracing" in message for message in heard)
    assert all(step.experimental_get_tracing_count() == 1 for step in steps.values())


@needs_counters
def test_fit_compiles_for_every_length():
    batches = [(np.ones((2, length, 4), np.float32),) * 2 for length in (5, 6, 7, 8)]
    spec = (tf.TensorSpec((2, None, 4)),) * 2
    dataset = tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=spec)
    model = keras.Sequential([keras.layers.Dense(4)])
    model.compile("sgd", "mse", jit_compile=True)
    compilations = find_counter(XLA_COMPILATIONS)
    before = compilations()
    model.fit(dataset, verbose=0)
    assert compilations() - before >= len(batches)


def test_operations_in_tf_data_run_on_the_host():
    with tf.device("/GPU:0"):
        dataset = tf.data.Dataset.range(3).map(lambda value: tf.cast(value, tf.float32) * 2.0)
    assert all("CPU:0" in value.device for value in dataset)


def test_numpy_function_runs_python_for_every_element_of_every_epoch():
    calls = []

    def load(value):
        calls.append(int(value))
        return value

    dataset = tf.data.Dataset.range(4).map(lambda value: tf.numpy_function(load, [value], tf.int64))
    for _ in range(3):
        list(dataset)
    assert len(calls) == 12
    calls.clear()
    cached = dataset.cache()
    for _ in range(3):
        list(cached)
    assert len(calls) == 4


def test_a_npy_header_has_no_fixed_length_and_arrays_may_be_in_fortran_order():
    def header(array):
        file = io.BytesIO()
        np.save(file, array)
        file.seek(0)
        np.lib.format.read_magic(file)
        _, is_fortran, _ = np.lib.format.read_array_header_1_0(file)
        return file.tell(), is_fortran

    assert header(np.zeros((2, 3), np.float32)) == (128, False)
    assert header(np.zeros((2, 3), np.float32).T) == (128, True)
    assert header(np.zeros(2, [(f"column_{number}", np.float32) for number in range(9)]))[0] > 128


def test_options_that_are_gone():
    options = tf.data.Options()
    with pytest.raises(AttributeError):
        options.experimental_optimization.map_vectorization = True
    options.deterministic = False
    ready = tf.data.Dataset.range(3).apply(tf.data.experimental.prefetch_to_device("/CPU:0"))
    assert [int(value) for value in ready] == [0, 1, 2]


def test_one_fixed_shape_computes_mostly_padding():
    files = sorted((bundled_corpus() / "wavs").iterdir())[:300]
    frames = np.array([1 + soundfile.info(str(file)).frames // 256 for file in files])
    useful = frames[frames <= 800].mean() / 800
    assert useful < 0.2


def test_sums_over_counts_are_the_gradient_of_the_whole_batch():
    weights = tf.Variable([[1.0], [2.0]])
    first, second = tf.random.normal((6, 2), seed=1), tf.random.normal((2, 2), seed=2)

    @tf.function
    def gradient(batch):
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(tf.matmul(batch, weights) ** 2)
        return tape.gradient(total, weights), tf.cast(tf.shape(batch)[0], tf.float32)

    parts = [gradient(first), gradient(second)]
    whole, rows = gradient(tf.concat([first, second], axis=0))
    accumulated = sum(part for part, _ in parts) / sum(count for _, count in parts)
    mean_of_means = sum(part / count for part, count in parts) / 2
    assert tf.norm(accumulated - whole / rows) < 1e-5 * tf.norm(whole / rows)
    assert tf.norm(mean_of_means - whole / rows) > 1e-2 * tf.norm(whole / rows)


def test_decode_wav_reads_16_bit_pcm_only():
    def decodes(subtype):
        file = io.BytesIO()
        soundfile.write(file, np.zeros(1600, np.float32), 16000, format="WAV", subtype=subtype)
        try:
            tf.audio.decode_wav(file.getvalue())
        except tf.errors.InvalidArgumentError:
            return False
        return True

    assert decodes("PCM_16")
    assert not any(decodes(subtype) for subtype in ("PCM_24", "PCM_32", "FLOAT"))


def test_audio_padded_before_the_stft_has_the_longest_mel():
    def frames(samples):
        return int(tf.signal.stft(samples, 1024, 256).shape[0])

    short, long = tf.ones(8000), tf.ones(32000)
    padded = tf.pad(short, [[0, 32000 - 8000]])
    assert frames(short) < frames(long)
    assert frames(padded) == frames(long)


def test_a_clip_that_is_too_long_is_left_out():
    frames, symbols = np.array([500, 900, 500]), np.array([100, 100, 300])
    assert fitting_clips(frames, symbols, max_text_length=200, max_mel_frames=800).tolist() == [True, False, False]
