"""Loading without the prepared frames: through Python, and by TensorFlow while training."""

import itertools

import numpy as np
import pytest
import soundfile
import tensorflow as tf
from sabotage import sabotage_workers
from tiny_corpus import make_corpus, tiny_config, write_metadata, write_tone

from myxtts.audio.clips import load_clip
from myxtts.audio.mel import MelSpec
from myxtts.batches.feed import Feed, SegmentReader, validation_batches
from myxtts.batches.on_the_fly import cut_and_levelled
from myxtts.batches.plan import build_plan
from myxtts.batches.recordings import open_recordings
from myxtts.cache.format import open_cache
from myxtts.cache.prepare import prepare_corpus
from myxtts.errors import CacheError, CorpusError, PlanError

SIZES = {"max_mel_frames": 100, "max_text_length": 30, "batch_size": 3, "seed": 5}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    make_corpus(folder, count=8)
    return folder


@pytest.fixture(scope="module")
def config(corpus, tmp_path_factory):
    return tiny_config(train_data=str(corpus), cache_dir=str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def cache(config):
    return open_cache(prepare_corpus(config).folder)


def with_changes(config, **changes):
    return tiny_config(train_data=config.train_data, cache_dir=config.cache_dir, **changes)


def drawn(table, plan, config, count=5):
    with Feed(table, plan, config) as feed:
        return [[field.numpy() for field in batch] for batch in itertools.islice(feed, count)]


def operations_of(dataset):
    serialized = tf.raw_ops.DatasetToGraphV2(
        input_dataset=tf.data.experimental.to_variant(dataset), external_state_policy=1, strip_device_assignment=True
    )
    graph = tf.compat.v1.GraphDef.FromString(serialized.numpy())
    functions = [node for function in graph.library.function for node in function.node_def]
    return {node.op for node in [*graph.node, *functions]}


@pytest.mark.parametrize("kind", ["packed", "fixed", "dynamic"])
def test_the_python_loader_gives_the_batches_of_the_cache(cache, config, kind):
    plan = build_plan(kind, cache.frame_counts, cache.token_counts, reference_frames=20, **SIZES)
    slow = with_changes(config, use_tf_native_loading=False)
    for batch, expected in zip(drawn(cache, plan, slow), drawn(cache, plan, config), strict=True):
        for field, same_field in zip(batch, expected, strict=True):
            assert np.allclose(field, same_field, atol=1e-6)


def test_the_python_loader_is_found_in_the_graph(cache, config):
    plan = build_plan("packed", cache.frame_counts, cache.token_counts, **SIZES)
    reader = SegmentReader(cache, plan, with_changes(config, use_tf_native_loading=False), plan.clips)
    assert "PyFunc" in operations_of(reader.host_dataset(next(plan.segments((0, 0), 2)), 0))


def test_the_python_loader_misses_a_clip_that_is_gone(cache, corpus, tmp_path):
    make_corpus(tmp_path, count=2)
    plan = build_plan("packed", cache.frame_counts, cache.token_counts, **SIZES)
    config = tiny_config(train_data=str(tmp_path), use_tf_native_loading=False)
    with pytest.raises(CacheError, match="not in the corpus any more"):
        SegmentReader(cache, plan, config, plan.clips)


def test_clips_decoded_while_training_are_those_of_the_cache(cache, config):
    table = open_recordings(with_changes(config, preprocessing_mode="runtime"))
    plan = build_plan("fixed", table.frame_counts, table.token_counts, **SIZES)
    numbers = {clip_id: number for number, clip_id in enumerate(cache.ids)}
    for batch in validation_batches(table, plan, config):
        for row, clip in enumerate(batch.clips.numpy()[:, 0].tolist()):
            if clip < 0:
                assert not batch.mel.numpy()[row].any()
                assert batch.mel_lengths.numpy()[row, 0] == 0
                continue
            number = numbers[table.ids[clip]]
            expected = cache.clip_frames(number)
            assert batch.mel_lengths.numpy()[row, 0] == len(expected)
            assert np.abs(batch.mel.numpy()[row, : len(expected)] - expected).max() < 2e-3
            symbols = [table.symbols.symbols[token] for token in batch.tokens.numpy()[row] if token]
            assert symbols == [cache.symbols.symbols[token] for token in cache.clip_tokens(number)]


@pytest.mark.parametrize("kind", ["fixed", "dynamic"])
def test_decoding_while_training_is_static_or_as_long_as_the_longest(config, kind):
    table = open_recordings(with_changes(config, preprocessing_mode="runtime"))
    plan = build_plan(kind, table.frame_counts, table.token_counts, reference_frames=20, **SIZES)
    reader = SegmentReader(table, plan, config, plan.clips)
    dataset = reader.host_dataset(next(plan.segments((0, 0), 2)), 0)
    if kind == "fixed":
        assert dataset.element_spec == plan.shapes[0].signature()
    for batch in dataset:
        assert kind == "fixed" or batch.mel.shape[1] == int(tf.reduce_max(batch.mel_lengths))


def test_decoding_while_training_has_no_python_in_the_graph(config):
    table = open_recordings(with_changes(config, preprocessing_mode="runtime"))
    plan = build_plan("fixed", table.frame_counts, table.token_counts, **SIZES)
    reader = SegmentReader(table, plan, config, plan.clips)
    operations = operations_of(reader.host_dataset(next(plan.segments((0, 0), 2)), 0))
    assert "DecodeWav" in operations
    assert not operations & {"PyFunc", "EagerPyFunc", "GeneratorDataset"}


def test_packing_needs_prepared_clips(config):
    table = open_recordings(with_changes(config, preprocessing_mode="runtime"))
    plan = build_plan("packed", table.frame_counts, table.token_counts, **SIZES)
    with Feed(table, plan, config) as feed, pytest.raises(PlanError, match="fixed or dynamic"):
        next(feed)


def test_recordings_that_cannot_be_decoded_while_training_are_listed(tmp_path):
    make_corpus(tmp_path, count=4)
    samples, rate = soundfile.read(tmp_path / "wavs" / "clip001.wav")
    soundfile.write(tmp_path / "wavs" / "clip001.wav", samples, rate, subtype="FLOAT")
    write_tone(tmp_path / "wavs" / "clip002.wav", rate=22050)
    with pytest.raises(CorpusError, match="2 recordings") as caught:
        open_recordings(tiny_config(train_data=str(tmp_path), preprocessing_mode="runtime"))
    assert "clip001.wav" in str(caught.value)
    assert "clip002.wav" in str(caught.value)
    assert "clip000.wav" not in str(caught.value)


def test_what_prepare_rejects_is_rejected_with_its_reason(tmp_path, monkeypatch):
    lines = make_corpus(tmp_path, count=3)
    wavs = tmp_path / "wavs"
    soundfile.write(wavs / "silent.wav", np.zeros(16000), 16000)
    blip = np.zeros(16000)
    blip[8000:8800] = 0.5 * np.sin(np.arange(800))
    soundfile.write(wavs / "blip.wav", blip, 16000)  # a second long, but 0.11 s after trimming
    padded = np.zeros(64000)
    padded[20000:30000] = 0.3 * np.sin(np.arange(10000) / 9)
    soundfile.write(wavs / "crowded.wav", padded, 16000)  # long enough for its text only with its silence
    (wavs / "empty.wav").write_bytes(b"")
    (wavs / "cut.wav").write_bytes((wavs / "clip000.wav").read_bytes()[:5000])
    write_tone(wavs / "mute.wav")
    write_tone(wavs / "unspeakable.wav")
    bad = dict.fromkeys(("silent", "blip", "empty", "cut"), "one two")
    crowded = "a text that needs more frames than are left"
    write_metadata(tmp_path, lines | bad | {"crowded": crowded, "mute": "☃", "unspeakable": "cannot be said"})
    sabotage_workers(
        monkeypatch,
        tmp_path / "sabotage",
        "from myxtts.errors import TextError\n"
        "from myxtts.text.tokenizer import FrontEnd\n"
        "symbols_of = FrontEnd.symbols_of\n"
        "def failing(self, texts, language):\n"
        "    if 'cannot be said' in texts:\n"
        "        raise TextError('no such sound')\n"
        "    return symbols_of(self, texts, language)\n"
        "FrontEnd.symbols_of = failing\n",
    )
    config = tiny_config(train_data=str(tmp_path), preprocessing_mode="runtime")
    table = open_recordings(config)
    prepared = prepare_corpus(config)
    assert {one.id: one.reason for one in table.rejections} == {
        "silent": "silent",
        "blip": "too short",
        "empty": "empty file",
        "cut": "cut off",
        "crowded": "more tokens than frames",
        "mute": "empty text",
        "unspeakable": "text cannot be spoken",
    }
    assert set(table.rejections) == set(prepared.rejections)
    cache = open_cache(prepared.folder)
    lengths = dict(zip(cache.ids, cache.frame_counts.tolist(), strict=True))
    assert dict(zip(table.ids, table.frame_counts.tolist(), strict=True)) == lengths
    assert table.rejection_report()[0].startswith("7 ")
    assert any("blip" in line and "0.3" in line for line in table.rejection_report())


def test_recordings_decoded_while_training_keep_their_rate(tmp_path):
    for clip_id in make_corpus(tmp_path, count=2):
        write_tone(tmp_path / "wavs" / f"{clip_id}.wav", rate=22050)
    table = open_recordings(tiny_config(train_data=str(tmp_path), preprocessing_mode="runtime"))
    assert table.mel == MelSpec.from_config(tiny_config(), 22050)


def test_silence_is_cut_and_loudness_levelled_as_for_the_cache(tmp_path):
    quiet = np.random.default_rng(0).normal(scale=1e-4, size=16000)
    quiet[5000:12345] += 0.1 * np.sin(np.arange(7345) / 9)
    soundfile.write(tmp_path / "clip.wav", quiet, 16000)
    config = tiny_config()
    expected = load_clip(tmp_path / "clip.wav", config, 16000)
    samples = cut_and_levelled(tf.constant(soundfile.read(tmp_path / "clip.wav", dtype="float32")[0]), 16000, config)
    assert samples.shape == expected.shape
    assert len(expected) < 9000
    assert np.abs(samples.numpy() - expected).max() < 1e-5
