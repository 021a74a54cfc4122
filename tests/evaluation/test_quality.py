"""DNSMOS and PESQ with their real packages."""

import numpy as np
import pytest

from myxtts.audio.files import read_audio
from myxtts.corpus.manifest import read_manifest
from myxtts.corpus.recipes import bundled_corpus
from myxtts.evaluation.quality import NaturalnessJudge, measure_pesq


@pytest.fixture(scope="module")
def clip():
    return read_audio(read_manifest(bundled_corpus(), split="validation").utterances[0].path)


@pytest.fixture(scope="module")
def noisy(clip):
    return clip[0] + np.random.default_rng(0).normal(0, 0.05, len(clip[0])).astype(np.float32)


def test_noise_lowers_dnsmos(clip, noisy):
    pytest.importorskip("speechmos")
    judge = NaturalnessJudge.load()
    samples, rate = clip
    assert judge.score(noisy, rate) < judge.score(samples, rate) - 0.5
    assert judge.score(0.1 * samples, rate) == pytest.approx(judge.score(samples, rate), abs=0.02)
    assert judge.score(np.zeros(0, np.float32), rate) == 1.0


def test_pesq_is_highest_for_the_recording_itself_and_lower_with_noise(clip, noisy):
    pytest.importorskip("pesq")
    samples, rate = clip
    assert measure_pesq(samples, samples, rate) > 4.6
    assert measure_pesq(noisy, samples, rate) < 3.0


@pytest.mark.parametrize("samples", [np.zeros(16000, np.float32), np.full(100, 0.1, np.float32)])
def test_pesq_of_a_clip_without_speech_is_not_measured(samples, clip):
    pytest.importorskip("pesq")
    assert measure_pesq(samples, samples, clip[1]) is None
