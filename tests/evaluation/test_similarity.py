"""Speaker similarity, with the real encoder where it is installed."""

import numpy as np
import pytest

from myxtts.audio.files import read_audio
from myxtts.corpus.manifest import read_manifest
from myxtts.corpus.recipes import bundled_corpus
from myxtts.evaluation.packages import is_installed
from myxtts.evaluation.similarity import SpeakerEmbedder, speaker_similarities


@pytest.mark.skipif(not is_installed("resemblyzer"), reason="resemblyzer is not installed")
def test_a_lowered_voice_is_less_similar_than_the_speaker_herself():
    clips = [read_audio(each.path) for each in read_manifest(bundled_corpus(), split="validation").utterances[:3]]
    embedder = SpeakerEmbedder.load()
    own = [embedder.embed(samples, rate) for samples, rate in clips]
    lowered = [embedder.embed(samples, round(0.75 * rate)) for samples, rate in clips]
    own_similarity = np.mean(speaker_similarities(own, own, ["her"] * 3))
    assert own_similarity > 0.8
    assert np.mean(speaker_similarities(lowered, own, ["her"] * 3)) < own_similarity - 0.1
    assert embedder.embed(np.zeros(16000, np.float32), 16000) is None


def test_similarity_leaves_out_the_recording_of_the_same_sentence():
    east, north = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    assert speaker_similarities([east, north], [east, north], ["a", "a"]) == pytest.approx([0.0, 0.0])
    assert speaker_similarities([north, None], [east, north], ["a", "a"]) == pytest.approx([1.0, 0.0])


def test_similarity_of_a_speaker_with_one_recording_is_not_measured():
    east = np.array([1.0, 0.0])
    assert speaker_similarities([east], [east], ["a"]) == [None]
