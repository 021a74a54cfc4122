"""Crops of a cache with its sound: where they lie, and that their order is arithmetic."""

import dataclasses
import importlib.util

import numpy as np
import pytest

from myxtts.audio.mel import mel_numpy
from myxtts.batches.crops import CropFeed, crop_table
from myxtts.cache.prepare import prepare_cache
from myxtts.errors import CorpusError
from tests.corpus.tiny_corpus import make_corpus, tiny_config

pytestmark = pytest.mark.skipif(importlib.util.find_spec("pyworld") is None, reason="pyworld is not installed")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    make_corpus(folder, 4)
    return prepare_cache(tiny_config(), folder, with_sound=True)


def test_every_crop_lies_inside_its_clip_with_the_pitch_of_its_frames(cache):
    table = crop_table(cache, np.arange(cache.num_clips), 20)
    batch = table.spread(0, 1, int(table.ends[-1]))  # every possible crop once
    half = cache.mel.n_fft // 2
    for row, clip in enumerate(batch.clips.tolist()):
        whole = cache.clip_samples(clip)
        matches = [
            frame
            for frame in range(2, cache.frame_counts[clip])
            if np.array_equal(whole[frame * cache.mel.hop_length - half :][: table.crop_samples], batch.samples[row])
        ]
        assert len(matches) == 1
        np.testing.assert_array_equal(batch.pitch[row], cache.clip_pitch(clip)[matches[0] : matches[0] + 20])
    assert set(batch.clips.tolist()) == set(range(cache.num_clips))


def test_the_crops_of_a_step_depend_on_seed_and_step_alone(cache):
    table = crop_table(cache, np.arange(cache.num_clips), 20, (-12.0, 4.0))
    with CropFeed(table, 7, 0, 3) as feed, CropFeed(table, 7, 2, 3) as resumed:
        first = [next(feed) for _ in range(4)]
        second = [next(resumed) for _ in range(2)]
    for one, other in zip(first[2:], second, strict=True):
        for left, right in zip(one, other, strict=True):
            np.testing.assert_array_equal(left, right)
    assert not np.array_equal(first[0].samples, first[1].samples)


def test_the_frames_of_a_crop_are_those_of_the_cache(cache):
    table = crop_table(cache, np.arange(cache.num_clips), 20)
    batch = table.drawn(1, 0, 1)
    mel = mel_numpy(batch.samples[0].astype(np.float32) / 32767, cache.mel)[2:-2]
    whole = cache.clip_frames(int(batch.clips[0]))
    assert min(np.abs(mel - whole[start : start + len(mel)]).max() for start in range(len(whole) - len(mel) + 1)) < 0.2


def test_clips_that_are_all_too_short_are_an_error_with_the_length_they_need(cache):
    with pytest.raises(CorpusError, match=r"crop of 400 frames, which needs 6\.\d+ s"):
        crop_table(cache, np.arange(cache.num_clips), 400)


def test_a_fraction_of_the_crops_gets_the_deviations_of_its_frames(cache):
    table = crop_table(cache, np.arange(cache.num_clips), 20)
    numbers = np.arange(cache.num_rows * cache.mel.n_mels, dtype=np.float16).reshape(cache.num_rows, -1) / 1e4
    some = dataclasses.replace(table, deviations=numbers, deviating_fraction=0.5)
    plain, found = table.drawn(1, 2, 64), some.drawn(1, 2, 64)
    for name in set(plain._fields) - {"deviations"}:
        np.testing.assert_array_equal(getattr(plain, name), getattr(found, name))
    assert not plain.deviations.any()
    has_some = found.deviations.any(axis=(1, 2))
    assert 8 < has_some.sum() < 56
    for crop in np.flatnonzero(has_some):
        first = int(np.flatnonzero((numbers == found.deviations[crop, 0]).all(axis=1))[0])
        np.testing.assert_array_equal(found.deviations[crop], numbers[first : first + 20])
        clip = found.clips[crop]
        assert cache.frame_starts[clip] <= first <= cache.frame_starts[clip] + cache.frame_counts[clip] - 20
