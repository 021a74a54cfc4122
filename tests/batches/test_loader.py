"""The gathering loader: what is in a batch, and what is in the dataset's graph."""

import dataclasses

import numpy as np
import psutil
import pytest
import tensorflow as tf

from myxtts.batch import NO_CLIP, Batch
from myxtts.batches.feed import open_reader
from myxtts.batches.loader import LoaderOptions, fits_in_memory, open_tables, prefetched
from myxtts.batches.plan import PLAN_KINDS, build_plan
from myxtts.config.config import DataConfig
from myxtts.errors import CacheError
from tests.batches.made_up_table import graph_of, make_table

SIZES = {"max_text_length": 16, "max_mel_frames": 200, "num_buckets": 3, "batch_size": 8, "n_mels": 20}


def plan_of(table, kind, **changes):
    return build_plan(kind, table.frame_counts, table.token_counts, **(SIZES | changes))


def datasets_of(table, plan, config=None, batches=6):
    reader = open_reader(table, plan, config or DataConfig(), plan.clips)
    segment = next(plan.segments((0, 0), batches))
    return [reader.host_dataset(segment, index) for index in range(len(plan.shapes))]


def expected_batch(table, batch):
    """Tokens and mel copied clip by clip from the table to where the batch says that they are."""
    tokens, mel = np.zeros_like(batch.tokens), np.zeros_like(batch.mel)
    for row, slot in zip(*np.nonzero(batch.clips != NO_CLIP), strict=True):
        clip = batch.clips[row, slot]
        start = batch.token_starts[row, slot]
        tokens[row, start : start + table.token_counts[clip]] = table.clip_tokens(clip)
        start = batch.frame_starts[row, slot]
        mel[row, start : start + table.frame_counts[clip]] = table.clip_frames(clip)
    return tokens, mel


@pytest.mark.parametrize("kind", PLAN_KINDS)
def test_a_batch_holds_the_records_of_its_clips_and_zeros(tmp_path, kind):
    table = make_table(tmp_path)
    seen = 0
    for dataset in datasets_of(table, plan_of(table, kind)):
        for batch in dataset.as_numpy_iterator():
            tokens, mel = expected_batch(table, batch)
            assert np.array_equal(batch.tokens, tokens)
            assert np.array_equal(batch.mel, mel)
            seen += 1
    assert seen == 6


def test_slots_hold_length_speaker_and_language(tmp_path):
    table = make_table(tmp_path, speakers=3)
    (dataset,) = datasets_of(table, plan_of(table, "packed"))
    for batch in dataset.as_numpy_iterator():
        is_clip = batch.clips != NO_CLIP
        clips = batch.clips[is_clip]
        assert np.array_equal(batch.mel_lengths[is_clip], table.frame_counts[clips])
        assert np.array_equal(batch.text_lengths[is_clip], table.token_counts[clips])
        assert np.array_equal(batch.speakers[is_clip], table.speaker_numbers[clips])
        assert np.array_equal(batch.languages[is_clip], table.language_numbers[clips])
        for field in (batch.mel_lengths, batch.text_lengths, batch.speakers, batch.languages, batch.frame_starts):
            assert not field[~is_clip].any()


def test_clips_of_a_row_are_at_least_a_gap_apart(tmp_path):
    table = make_table(tmp_path)
    (dataset,) = datasets_of(table, plan_of(table, "packed", gap_frames=5, gap_tokens=3))
    for batch in dataset.as_numpy_iterator():
        for row in range(len(batch.clips)):
            clips = int((batch.clips[row] != NO_CLIP).sum())
            ends = (batch.frame_starts + batch.mel_lengths)[row, : clips - 1]
            assert np.array_equal(batch.frame_starts[row, 1:clips], ends + 5)
            ends = (batch.token_starts + batch.text_lengths)[row, : clips - 1]
            assert np.array_equal(batch.token_starts[row, 1:clips], ends + 3)


@pytest.mark.parametrize("kind", ["fixed", "buckets", "packed"])
def test_element_spec_is_the_static_signature_of_the_shape(tmp_path, kind):
    table = make_table(tmp_path, speakers=2)
    plan = plan_of(table, kind, reference_frames=10)
    for dataset, shape in zip(datasets_of(table, plan), plan.shapes, strict=True):
        assert dataset.element_spec == shape.signature()


def test_dynamic_batches_are_as_long_as_their_longest_clip(tmp_path):
    table = make_table(tmp_path)
    (dataset,) = datasets_of(table, plan_of(table, "dynamic"))
    shapes = set()
    for batch in dataset.as_numpy_iterator():
        assert batch.mel.shape[1] == batch.mel_lengths.max()
        assert batch.tokens.shape[1] == batch.text_lengths.max()
        shapes.add(batch.mel.shape)
    assert len(shapes) > 1


def test_references_are_repeated_pieces_of_another_clip_of_the_speaker(tmp_path):
    table = make_table(tmp_path, speakers=3)
    (dataset,) = datasets_of(table, plan_of(table, "packed", reference_frames=24))
    for batch in dataset.as_numpy_iterator():
        for row, slot in zip(*np.nonzero(batch.clips != NO_CLIP), strict=True):
            reference = batch.references[row, slot]
            (found,) = np.flatnonzero((table.frames == reference[0]).all(axis=1))
            clip = int(np.searchsorted(table.frame_starts, found, side="right")) - 1
            assert clip != batch.clips[row, slot]
            assert table.speaker_numbers[clip] == batch.speakers[row, slot]
            period = min(24, int(table.frame_counts[clip]))
            assert np.array_equal(reference, table.frames[found + np.arange(24) % period])
        assert not batch.references[batch.clips == NO_CLIP].any()


def test_mapped_and_in_memory_tables_give_the_same_batches(tmp_path):
    table = make_table(tmp_path, clips=2000, longest=200)
    plan = plan_of(table, "packed", max_mel_frames=400)
    in_memory, mapped = (open_reader(table, plan, DataConfig(cache_memory_mb=size), plan.clips) for size in (4096, 1))
    assert fits_in_memory(table, 4096)
    assert not fits_in_memory(table, 1)
    segment = next(plan.segments((0, 0), 20))
    pairs = zip(in_memory.host_dataset(segment, 0), mapped.host_dataset(segment, 0), strict=True)
    for one, other in pairs:
        for field, same_field in zip(one, other, strict=True):
            assert np.array_equal(field, same_field)


def test_a_mapped_table_is_read_no_further_than_the_batches_need(tmp_path):
    table = make_table(tmp_path, clips=10)
    with open(table.frames_path, "r+b") as file:
        file.truncate(3_200_000_000)  # sparse: it takes no space on the disk
    table = dataclasses.replace(table, num_rows=3_000_000_000 // (4 * table.mel.n_mels))
    plan = plan_of(table, "packed")
    process = psutil.Process()
    before = process.memory_info().rss
    reader = open_reader(table, plan, DataConfig(cache_memory_mb=1), plan.clips)
    batches = list(reader.dataset(next(plan.segments((0, 0), 5)), 0))
    assert len(batches) == 5
    assert process.memory_info().rss - before < 300_000_000


@pytest.mark.parametrize("kind", PLAN_KINDS)
def test_no_python_in_the_graph_of_the_default_path(tmp_path, kind):
    table = make_table(tmp_path, speakers=2)
    for dataset in datasets_of(table, plan_of(table, kind, reference_frames=10)):
        operations = {node.op for node in graph_of(dataset)}
        assert not operations & {"PyFunc", "PyFuncStateless", "EagerPyFunc", "GeneratorDataset"}
        assert "GatherV2" in operations  # the function library was looked into


def test_num_workers_sets_the_threads(tmp_path):
    table = make_table(tmp_path)
    (dataset,) = datasets_of(table, plan_of(table, "packed"), DataConfig(num_workers=3))
    assert dataset.options().threading.private_threadpool_size == 3
    graph = {node.name: node for node in graph_of(dataset)}
    (parallel_map,) = (node for node in graph.values() if node.op == "ParallelMapDatasetV2")
    calls = tf.make_ndarray(graph[parallel_map.input[-1]].attr["value"].tensor)
    assert calls == 3


def test_without_overlap_the_loader_uses_the_shared_threads(tmp_path):
    table = make_table(tmp_path)
    (dataset,) = datasets_of(table, plan_of(table, "packed"), DataConfig(optimize_cpu_gpu_overlap=False))
    assert dataset.options().threading.private_threadpool_size is None


@pytest.mark.parametrize(
    ("settings", "buffer"),
    [
        ({}, 2),
        ({"prefetch_buffer_size": 7}, 7),
        ({"prefetch_buffer_size": 7, "enhanced_gpu_prefetch": False}, 1),
        ({"prefetch_buffer_size": 7, "prefetch_to_gpu": False}, 7),
        ({"prefetch_to_gpu": False}, tf.data.AUTOTUNE),
    ],
)
def test_prefetch_is_last_and_as_deep_as_configured(settings, buffer):
    options = LoaderOptions.from_config(DataConfig(**settings))
    graph = {node.name: node for node in graph_of(prefetched(tf.data.Dataset.range(3), options))}
    (result,) = (node for node in graph.values() if node.op == "_Retval")
    last = graph[result.input[0].split(":")[0]]
    assert last.op.startswith("PrefetchDataset")
    assert tf.make_ndarray(graph[last.input[1]].attr["value"].tensor) == buffer


def test_batches_go_to_the_accelerator_unless_configured_otherwise():
    assert LoaderOptions.from_config(DataConfig(), "/GPU:1").device == "/GPU:1"
    assert LoaderOptions.from_config(DataConfig(prefetch_to_gpu=False), "/GPU:1").device is None
    assert LoaderOptions.from_config(DataConfig(), "/job:localhost/replica:0/task:0/device:CPU:0").device is None


def test_a_frame_file_that_is_too_short_is_an_error(tmp_path):
    table = make_table(tmp_path)
    with open(table.frames_path, "r+b") as file:
        file.truncate(table.frames_path.stat().st_size - 3)
    with pytest.raises(CacheError, match="damaged"):
        open_tables(table, 100)


@pytest.mark.parametrize("cache_memory_mb", [100, 0])
def test_a_torn_record_of_an_interrupted_prepare_is_not_read(tmp_path, cache_memory_mb):
    table = make_table(tmp_path)
    for path in (table.frames_path, table.tokens_path):
        with open(path, "ab") as file:
            file.write(b"abc")
    tables = open_tables(table, cache_memory_mb)
    assert fits_in_memory(table, cache_memory_mb) == bool(cache_memory_mb)
    assert np.array_equal(tables.frames, table.frames)
    assert np.array_equal(tables.tokens, table.tokens)


def test_a_missing_frame_file_is_an_error(tmp_path):
    table = make_table(tmp_path)
    table.frames_path.unlink()
    with pytest.raises(CacheError, match="cannot be read"):
        open_tables(table, 100)


def test_a_batch_is_the_batch_of_the_model(tmp_path):
    table = make_table(tmp_path)
    (dataset,) = datasets_of(table, plan_of(table, "packed"))
    assert isinstance(next(iter(dataset)), Batch)


@pytest.mark.parametrize("kind", ["packed", "dynamic"])
def test_the_pitch_of_a_frame_lies_where_the_frame_lies(tmp_path, kind):
    table = make_table(tmp_path)
    (dataset,) = datasets_of(table, plan_of(table, kind, has_pitch=True))
    for batch in dataset:
        np.testing.assert_array_equal(batch.pitch, batch.mel[..., 0])
