"""Decoding while training: the batches of the cache, by TensorFlow ops alone."""

from __future__ import annotations

import numpy as np
import pytest
import soundfile
import tensorflow as tf

from myxtts.audio.clips import load_clip
from myxtts.audio.files import write_audio
from myxtts.audio.mel import MelSpec, mel_numpy
from myxtts.batches.feed import open_feed, open_reader, validation_batches
from myxtts.batches.on_the_fly import trimmed_and_leveled
from myxtts.batches.plan import build_plan
from myxtts.cache.prepare import prepare_cache
from myxtts.cache.recordings import open_recordings
from myxtts.data.tf_native_loader import TFNativeDataLoader
from myxtts.errors import CacheError, PlanError
from tests.batches.made_up_table import first_fields, operations_of
from tests.corpus.tiny_corpus import make_corpus, tiny_config

SIZES = {"max_mel_frames": 100, "max_text_length": 30, "batch_size": 3, "seed": 5}


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    make_corpus(folder, count=8)
    return tiny_config(
        train_data=str(folder), cache_dir=str(tmp_path_factory.mktemp("cache")), preprocessing_mode="runtime"
    )


@pytest.fixture(scope="module")
def table(config):
    return open_recordings(config)


def test_clips_decoded_while_training_are_those_of_the_cache(table, config):
    cache = prepare_cache(config)
    plan = build_plan("fixed", table.frame_counts, table.token_counts, **SIZES)
    indices = {clip_id: index for index, clip_id in enumerate(cache.ids)}
    for batch in validation_batches(table, plan, config):
        for row, clip in enumerate(batch.clips.numpy()[:, 0].tolist()):
            if clip < 0:
                assert not batch.mel.numpy()[row].any()
                assert batch.mel_lengths.numpy()[row, 0] == 0
                continue
            index = indices[table.ids[clip]]
            expected = cache.clip_frames(index)
            assert batch.mel_lengths.numpy()[row, 0] == len(expected)
            assert np.abs(batch.mel.numpy()[row, : len(expected)] - expected).max() < 2e-3
            symbols = [table.symbols.symbols[token] for token in batch.tokens.numpy()[row] if token]
            assert symbols == [cache.symbols.symbols[token] for token in cache.clip_tokens(index)]


@pytest.mark.parametrize("kind", ["fixed", "dynamic"])
def test_decoding_while_training_is_static_or_as_long_as_the_longest(table, config, kind):
    plan = build_plan(kind, table.frame_counts, table.token_counts, reference_frames=20, **SIZES)
    reader = open_reader(table, plan, config, plan.clips)
    dataset = reader.host_dataset(next(plan.segments((0, 0), 2)), 0)
    if kind == "fixed":
        assert dataset.element_spec == plan.shapes[0].signature()
    for batch in dataset:
        assert kind == "fixed" or batch.mel.shape[1] == int(tf.reduce_max(batch.mel_lengths))


def test_decoding_while_training_has_no_python_in_the_graph(table, config):
    plan = build_plan("fixed", table.frame_counts, table.token_counts, **SIZES)
    reader = open_reader(table, plan, config, plan.clips)
    operations = operations_of(reader.host_dataset(next(plan.segments((0, 0), 2)), 0))
    assert "DecodeWav" in operations
    assert not operations & {"PyFunc", "EagerPyFunc", "GeneratorDataset"}


def test_packing_needs_prepared_clips(table, config):
    plan = build_plan("packed", table.frame_counts, table.token_counts, **SIZES)
    with open_feed(table, plan, config) as feed, pytest.raises(PlanError, match="fixed or dynamic"):
        next(feed)


@pytest.mark.parametrize("noise", [1e-4, 3e-3])
def test_silence_is_trimmed_and_loudness_leveled_as_for_the_cache(tmp_path, noise):
    quiet = np.random.default_rng(0).normal(scale=noise, size=16000)
    quiet[5000:12345] += 0.1 * np.sin(np.arange(7345) / 9)
    soundfile.write(tmp_path / "clip.wav", quiet, 16000)
    config = tiny_config()
    expected = load_clip(tmp_path / "clip.wav", config, 16000)
    samples = trimmed_and_leveled(tf.constant(soundfile.read(tmp_path / "clip.wav", dtype="float32")[0]), 16000, config)
    assert samples.shape == expected.shape
    assert len(expected) < 9500
    assert np.abs(samples.numpy() - expected).max() < 1e-5


@pytest.fixture
def recording(tmp_path):
    samples = np.random.default_rng(0).uniform(-0.5, 0.5, 9000).astype(np.float32)
    write_audio(tmp_path / "clip.wav", samples, 16000)
    return tmp_path / "clip.wav"


def test_load_and_process_audio_runs_in_a_graph_and_equals_the_numpy_mel(recording):
    spec = MelSpec(16000)
    loader = TFNativeDataLoader(spec)
    dataset = tf.data.Dataset.from_tensors(str(recording)).map(lambda path: loader.load_and_process_audio(path, 100))
    audio, mel = next(dataset.as_numpy_iterator())
    assert audio.shape == (9000,)
    assert np.abs(mel - mel_numpy(audio, spec)).max() < 1e-3


def test_load_and_process_audio_refuses_another_sample_rate(recording):
    with pytest.raises(tf.errors.InvalidArgumentError, match="not at 22050 Hz"):
        TFNativeDataLoader(MelSpec(22050)).load_and_process_audio(tf.constant(str(recording)), 100)


def test_load_and_process_audio_never_cuts(recording):
    with pytest.raises(tf.errors.InvalidArgumentError, match="more than 10 frames"):
        TFNativeDataLoader(MelSpec(16000)).load_and_process_audio(tf.constant(str(recording)), 10)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    make_corpus(folder, count=8)
    return folder


@pytest.fixture(scope="module")
def configs(corpus, tmp_path_factory):
    """The configurations of the native and of the Python loader."""
    paths = {"train_data": str(corpus), "cache_dir": str(tmp_path_factory.mktemp("cache"))}
    return tiny_config(**paths), tiny_config(**paths, use_tf_native_loading=False)


@pytest.fixture(scope="module")
def cache(configs):
    return prepare_cache(configs[0])


@pytest.mark.parametrize("kind", ["packed", "fixed", "dynamic"])
def test_the_batches_are_those_of_the_cache(cache, configs, kind):
    plan = build_plan(kind, cache.frame_counts, cache.token_counts, reference_frames=20, **SIZES)
    native, python = (first_fields(cache, plan, config, 5) for config in configs)
    for batch, expected in zip(python, native, strict=True):
        for field, same_field in zip(batch, expected, strict=True):
            assert np.allclose(field, same_field, atol=1e-6)


def test_python_is_found_in_the_graph(cache, configs):
    plan = build_plan("packed", cache.frame_counts, cache.token_counts, **SIZES)
    reader = open_reader(cache, plan, configs[1], plan.clips)
    assert "PyFunc" in operations_of(reader.host_dataset(next(plan.segments((0, 0), 2)), 0))


def test_a_clip_that_is_gone_is_an_error(cache, tmp_path):
    make_corpus(tmp_path, count=2)
    plan = build_plan("packed", cache.frame_counts, cache.token_counts, **SIZES)
    config = tiny_config(train_data=str(tmp_path), use_tf_native_loading=False)
    with pytest.raises(CacheError, match="not in the corpus any more"):
        open_reader(cache, plan, config, plan.clips)


def test_a_recording_that_changed_is_an_error(tmp_path):
    make_corpus(tmp_path, count=2)
    config = tiny_config(train_data=str(tmp_path), cache_dir=str(tmp_path / "cache"), use_tf_native_loading=False)
    cache = prepare_cache(config)
    plan = build_plan("fixed", cache.frame_counts, cache.token_counts, **SIZES)
    frames = open_reader(cache, plan, config, plan.clips).python_frames
    first, second = (tmp_path / "wavs" / f"clip{index:03d}.wav" for index in range(2))
    assert cache.frame_counts[0] != cache.frame_counts[1]
    first.write_bytes(second.read_bytes())
    start = int(cache.frame_starts[0])
    with pytest.raises(CacheError, match="the recording was changed"):
        frames.rows(start, start + 1)
