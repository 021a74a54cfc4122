"""Every format decodes to the samples that went in, and can be sent in pieces."""

import io

import numpy as np
import pytest

pytest.importorskip("av", reason="the extra `serve` or `test` is not installed")

import av

from myxtts.errors import AudioError
from myxtts.serving.encoders import FORMATS, Encoder, output_rate, wav_header

TONE = (0.5 * np.sin(2 * np.pi * 440 * np.arange(16000) / 16000)).astype(np.float32)


def decoded(content: bytes) -> tuple[np.ndarray, int]:
    with av.open(io.BytesIO(content), "r") as container:
        resampler = av.AudioResampler("flt", "mono")
        frames = [part.to_ndarray()[0] for frame in container.decode(audio=0) for part in resampler.resample(frame)]
        return np.concatenate(frames), container.streams.audio[0].rate


def encode(format: str, **options) -> bytes:
    encoder = Encoder(format, 16000, **options)
    return encoder.add(TONE[:5000]) + encoder.add(TONE[5000:]) + encoder.finish()


def loudest_frequency(samples: np.ndarray, rate: int) -> float:
    spectrum = np.abs(np.fft.rfft(samples))
    return float(np.argmax(spectrum)) * rate / len(samples)


@pytest.mark.parametrize("format", sorted(set(FORMATS) - {"pcm"}))
def test_a_format_decodes_to_the_same_tone_and_length(format):
    samples, rate = decoded(encode(format))
    assert len(samples) / rate == pytest.approx(1.0, abs=0.15)
    assert loudest_frequency(samples, rate) == pytest.approx(440, abs=3)


def test_pcm_is_24_khz_unless_asked_otherwise():
    assert len(encode("pcm")) == 2 * 24000
    assert len(encode("pcm", sample_rate=8000)) == 2 * 8000


def test_mp3_answers_can_be_concatenated():
    content = encode("mp3")
    assert b"Xing" not in content
    assert b"Info" not in content
    assert content[:3] != b"ID3"
    one, rate = decoded(content)
    three, _ = decoded(3 * content)
    assert len(three) == 3 * len(one)
    assert loudest_frequency(three, rate) == pytest.approx(440, abs=3)


@pytest.mark.parametrize("format", sorted(FORMATS))
def test_the_first_piece_is_sent_before_the_second_is_known(format):
    encoder = Encoder(format, 16000)
    first = encoder.add(TONE)
    assert len(first) > 0.5 * (len(first) + len(encoder.finish()))


def test_rates_that_a_format_lacks_are_refused_or_the_next_higher_one_is_taken():
    assert output_rate("opus", 22050, None) == 24000
    assert output_rate("mp3", 22050, None) == 22050
    assert output_rate("mp3", 96000, None) == 48000
    with pytest.raises(AudioError, match="opus has no sample rate of 22050"):
        output_rate("opus", 22050, 22050)
    with pytest.raises(AudioError, match="between"):
        output_rate("wav", 22050, 10**9)


def test_a_wav_header_states_the_length_if_it_is_known():
    assert decoded(wav_header(16000, 200) + bytes(200))[0].shape == (100,)
