"""The Python loader gives the batches of the cache, decoded by Python."""

import numpy as np
import pytest

from myxtts.batches.feed import open_reader
from myxtts.batches.plan import build_plan
from myxtts.cache.prepare import prepare_cache
from myxtts.errors import CacheError
from tests.batches.made_up_table import first_fields, operations_of
from tests.corpus.tiny_corpus import make_corpus, tiny_config

SIZES = {"max_mel_frames": 100, "max_text_length": 30, "batch_size": 3, "seed": 5}


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
    with pytest.raises(CacheError, match="it was changed"):
        frames.rows(start, start + 1)
