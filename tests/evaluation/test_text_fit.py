"""Texts and recordings are compared by the mean mels of a voice."""

import itertools

import numpy as np
import pytest

from myxtts.audio.files import write_audio
from myxtts.corpus.utterance import Utterance
from myxtts.evaluation.text_fit import TextFitter, path_errors
from myxtts.synthesis.voice import Voice
from tests.synthesis.tiny_voice import write_voice


def slow_error(mel, means):
    """All monotonic paths, one after the other."""
    frames, symbols = len(mel), len(means)
    best = np.inf
    for starts in itertools.combinations(range(1, frames), symbols - 1):
        symbol_of_frame = np.searchsorted(starts, np.arange(frames), side="right")
        best = min(best, float(0.5 * np.mean((mel - means[symbol_of_frame]) ** 2)))
    return best


def test_the_error_is_that_of_the_best_monotonic_path():
    generator = np.random.default_rng(1)
    mel = generator.normal(size=(8, 3))
    texts = [generator.normal(size=(count, 3)) for count in (1, 3, 5, 8)]
    np.testing.assert_allclose(path_errors(mel, texts), [slow_error(mel, each) for each in texts])


def test_more_symbols_than_frames_cannot_fit():
    assert np.isinf(path_errors(np.zeros((3, 2)), [np.zeros((4, 2))])[0])


@pytest.mark.parametrize("speakers", [("anna",), ("anna", "ben")])
def test_a_text_fits_the_recording_that_the_voice_makes_of_it(tmp_path, speakers):
    """The mel of each symbol's mean, vocoded: what the network takes for the text."""
    folder = write_voice(tmp_path / "voice", speakers)
    texts = ["hello there", "good morning", "a red balloon", "who are you", "six of them", "not now please"]
    voice = Voice.load(folder)
    utterances = []
    for number, text in enumerate(texts):
        path = tmp_path / f"{number}.wav"
        write_audio(path, voice.synthesize(text, temperature=0.0, steps=1, speed=0.25).samples, voice.sample_rate)
        utterances.append(Utterance(str(number), path, text, "en", "anna"))
    done = []
    fits = TextFitter.load(folder).measure(utterances, done.append)
    assert done == [1, 2, 3, 4, 5, 6]
    assert set(fits) == {one.id for one in utterances}
    assert all(np.isfinite(fit.error) for fit in fits.values())
