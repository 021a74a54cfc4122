"""Speaker similarity and DNSMOS with their real networks."""

import importlib.util

import numpy as np
import pytest

from myxtts.audio.files import read_audio
from myxtts.corpus.manifest import read_manifest
from myxtts.corpus.recipes import bundled_corpus
from myxtts.errors import EvaluationError
from myxtts.evaluation.metrics import NaturalnessJudge, SpeakerEncoder, speaker_similarities


def skip_unless_installed(package):
    """Without importing it: resemblyzer alone cannot be imported beside a current setuptools."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")


@pytest.fixture(scope="module")
def clips():
    return [read_audio(each.path) for each in read_manifest(bundled_corpus(), split="validation").utterances[:3]]


def test_a_lowered_voice_is_less_similar_than_the_speaker_herself(clips):
    skip_unless_installed("resemblyzer")
    encoder = SpeakerEncoder()
    own = [encoder.embed(samples, rate) for samples, rate in clips]
    lowered = [encoder.embed(samples, round(0.75 * rate)) for samples, rate in clips]
    assert np.mean(speaker_similarities(own, own, ["her"] * 3)) > 0.8
    assert (
        np.mean(speaker_similarities(lowered, own, ["her"] * 3))
        < np.mean(speaker_similarities(own, own, ["her"] * 3)) - 0.1
    )
    assert encoder.embed(np.zeros(16000, np.float32), 16000) is None


def test_similarity_leaves_out_the_recording_of_the_same_sentence():
    east, north = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    assert speaker_similarities([east, north], [east, north], ["a", "a"]) == pytest.approx([0.0, 0.0])
    assert speaker_similarities([north, None], [east, north], ["a", "a"]) == pytest.approx([1.0, 0.0])


def test_similarity_of_a_speaker_with_one_recording_is_not_measured():
    east = np.array([1.0, 0.0])
    assert speaker_similarities([east], [east], ["a"]) == [None]


def test_noise_lowers_dnsmos(clips):
    skip_unless_installed("speechmos")
    judge = NaturalnessJudge()
    samples, rate = clips[0]
    noisy = samples + np.random.default_rng(0).normal(0, 0.05, len(samples)).astype(np.float32)
    assert judge.score(noisy, rate) < judge.score(samples, rate) - 0.5
    assert judge.score(np.zeros(0, np.float32), rate) == 1.0


@pytest.mark.parametrize(("model", "package"), [(SpeakerEncoder, "resemblyzer"), (NaturalnessJudge, "speechmos")])
def test_a_missing_package_is_named_with_the_line_that_installs_it(monkeypatch, model, package):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EvaluationError, match=rf"{package}.*`pip install '\.\[evaluate\]'` in the project folder"):
        model()
