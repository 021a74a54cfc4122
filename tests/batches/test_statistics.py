"""Lengths, limits, padding and recommended settings of a made-up cache."""

import dataclasses

import numpy as np
import pytest

from myxtts.audio.mel import MelSpec
from myxtts.batches.plan import (
    LONG_CLIP,
    LONG_TEXT,
    automatic_max_mel_frames,
    describe_sound,
    resolved_max_mel_frames,
    usable_clips,
)
from myxtts.batches.statistics import (
    dropped_by,
    get_statistics,
    histogram_lines,
    length_statistics,
    save_histograms,
    settings_to_paste,
)
from myxtts.cache.clip_table import open_cache
from myxtts.config.config import DataConfig
from myxtts.config.load import parse_config
from myxtts.errors import CorpusError
from tests.cache.cache_builder import build_cache


@pytest.fixture
def cache(tmp_path):
    """Forty clips of 20 to 780 frames; two of them have texts of 500 symbols."""
    build_cache(tmp_path, clips=40)
    opened = open_cache(tmp_path)
    frames = np.linspace(20, 780, 40).astype(np.int32)
    tokens = (frames // 6).astype(np.int32)
    tokens[-2:] = 500
    return dataclasses.replace(opened, frame_counts=frames, token_counts=tokens)


def test_lengths_are_described_as_promised():
    found = length_statistics(np.arange(1, 102))
    assert found["min"] == 1
    assert found["mean"] == 51.0
    assert found["max"] == 101
    assert [found[f"percentile_{share}"] for share in (50, 90, 95, 99)] == [51.0, 91.0, 96.0, 100.0]


def test_a_candidate_limit_drops_what_is_longer():
    assert dropped_by(np.array([5, 10, 10, 11]), [10, 4, 20]) == {4: 4, 10: 1, 20: 0}


def test_clips_beyond_the_limits_are_left_out_whole_and_reported(cache):
    clips, rejections = usable_clips(cache, max_text_length=200, max_mel_frames=700)
    assert clips.tolist() == list(range(35))
    assert [each.id for each in rejections] == cache.ids[35:]
    assert [each.reason for each in rejections] == [LONG_CLIP] * 3 + [LONG_TEXT] * 2


def test_packing_wastes_less_than_buckets_and_buckets_less_than_one_shape(cache):
    waste = get_statistics(cache, DataConfig())["padding_waste"]
    assert waste["packed"] < waste["fixed"]
    assert waste["buckets_12"] < waste["buckets_8"] < waste["buckets_4"] < waste["fixed"]


def test_the_waste_of_the_fixed_plan_is_what_the_lengths_say(cache):
    clips, _ = usable_clips(cache, 200, 800)
    expected = 1 - cache.frame_counts[clips].mean() / 800
    assert get_statistics(cache, DataConfig())["padding_waste"]["fixed"] == pytest.approx(expected)


def test_recommended_settings_are_a_valid_configuration_that_drops_nothing(cache):
    recommended = get_statistics(cache, DataConfig())["recommended"]
    config = parse_config({"data": recommended}).data
    assert usable_clips(cache, config.max_text_length, config.max_mel_frames)[1] == []
    assert settings_to_paste(recommended).startswith("data:\n  plan: packed\n")


def test_a_far_outlier_does_not_decide_the_automatic_limit():
    frames = np.append(np.full(1000, 400), 5000)
    assert automatic_max_mel_frames(frames, "fixed") == 416
    assert automatic_max_mel_frames(frames, "packed") >= 4 * 400


def test_a_number_is_taken_as_it_is(cache):
    assert resolved_max_mel_frames(cache, 321, 200) == 321
    short = dataclasses.replace(cache, mel=MelSpec(24000, n_fft=1200, win_length=1200, hop_length=300))
    assert resolved_max_mel_frames(short, 800, 200) == 800


def test_the_sound_is_described_with_what_the_limits_drop(cache):
    line = describe_sound(cache, DataConfig(max_mel_frames=700), np.array([44100, 16000, 44100, 0]))
    assert line == (
        "recordings at 44100, 16000 Hz → voice at 16000 Hz; hop 256, frames of 16.0 ms; clips up to 11.2 s fit "
        "(700 frames, 200 symbols); 5 of 40 clips are longer and dropped"
    )


def test_subsets_are_counted_apart(cache):
    parts = [get_statistics(cache, DataConfig(), subset)["clips"] for subset in ("train", "validation", "all")]
    assert parts == [32, 8, 40]


def test_an_empty_subset_is_an_error(cache):
    nothing_held_out = dataclasses.replace(cache, is_validation=np.zeros(40, bool))
    with pytest.raises(CorpusError, match="validation"):
        get_statistics(nothing_held_out, DataConfig(), "validation")


def test_speakers_and_languages_are_counted(cache):
    found = get_statistics(cache, DataConfig())
    assert found["speakers"] == {"speaker": 40}
    assert found["languages"] == {"en": 40}


def test_a_histogram_has_a_bar_for_every_clip():
    lines = histogram_lines(np.array([1, 1, 1, 1, 20]), bins=4, width=10)
    assert [int(line.split()[-1]) for line in lines] == [4, 0, 0, 1]
    assert "█" * 10 in lines[0]
    assert "█" not in lines[1]


def test_a_histogram_of_equal_lengths_is_one_bar():
    assert len(histogram_lines(np.full(3, 7))) == 1


def test_the_picture_is_a_png(tmp_path):
    save_histograms(tmp_path / "lengths.png", {"frames": np.arange(50), "symbols": np.arange(20)})
    assert (tmp_path / "lengths.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["lengths.png"]
