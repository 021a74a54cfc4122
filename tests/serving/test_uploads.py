"""Recordings of clients: what is decoded, how much of it, and what is refused."""

import io

import numpy as np
import pytest
import soundfile

from myxtts.errors import AudioError
from myxtts.serving import uploads
from myxtts.serving.encoders import Encoder
from myxtts.serving.uploads import KEPT_RATE, decode
from tests.pyav import needs_pyav

RATE = 24000
TONE = (0.5 * np.sin(2 * np.pi * 440 * np.arange(2 * RATE) / RATE)).astype(np.float32)


def written(samples: np.ndarray, rate: int, container: str, coding: str) -> io.BytesIO:
    stream = io.BytesIO()
    soundfile.write(stream, samples, rate, coding, format=container)
    stream.seek(0)
    return stream


@pytest.mark.parametrize(
    ("container", "coding"),
    [
        ("WAV", "PCM_16"),
        ("WAV", "FLOAT"),
        ("FLAC", "PCM_24"),
        ("OGG", "VORBIS"),
        ("OGG", "OPUS"),
        ("MP3", "MPEG_LAYER_III"),
    ],
)
def test_recordings_become_samples_of_one_channel(container, coding):
    found = decode(written(np.stack([TONE, TONE], axis=1), RATE, container, coding), seconds=60)
    assert found.sample_rate == RATE
    assert len(found.samples) == pytest.approx(len(TONE), abs=2400)
    assert np.sqrt(np.mean(found.samples**2)) == pytest.approx(0.5 / np.sqrt(2), rel=0.05)


def test_only_the_beginning_is_decoded_and_high_rates_are_resampled():
    found = decode(written(np.repeat(TONE, 4), 4 * RATE, "WAV", "PCM_16"), seconds=0.5)
    assert found.sample_rate == KEPT_RATE
    assert len(found.samples) == KEPT_RATE // 2


def test_a_stream_that_states_no_length_is_read_to_its_end():
    encoder = Encoder("flac", RATE)
    content = encoder.add(TONE) + encoder.finish()
    assert len(decode(io.BytesIO(content), seconds=60).samples) == len(TONE)


@pytest.mark.parametrize("rate", [100, 10**6])
def test_a_rate_that_no_recording_of_speech_has_is_refused(rate):
    with pytest.raises(AudioError, match="sample rate"):
        decode(written(TONE[:100], rate, "WAV", "PCM_16"), seconds=1)


@needs_pyav
def test_aac_needs_pyav_and_is_refused_with_one_line_without_it(monkeypatch):
    encoder = Encoder("aac", RATE)
    content = encoder.add(TONE) + encoder.finish()
    assert len(decode(io.BytesIO(content), seconds=60).samples) == pytest.approx(len(TONE), abs=3000)
    monkeypatch.setattr(uploads.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(AudioError, match=r"webm and m4a the server needs PyAV: `pip install '\.\[aac\]'`"):
        decode(io.BytesIO(content), seconds=60)
