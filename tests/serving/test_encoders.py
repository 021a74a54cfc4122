"""Every format decodes to the samples that went in, and can be sent in pieces."""

import io

import numpy as np
import pytest
import soundfile

from myxtts.errors import AudioError
from myxtts.serving import encoders
from myxtts.serving.encoders import FORMATS, MP3_KILOBITS, Encoder, output_rate, wav_header
from tests.pyav import WITHOUT_PYAV

RATE = 24000
TONE = (0.5 * np.sin(2 * np.pi * 440 * np.arange(RATE) / RATE)).astype(np.float32)
MPEG_KILOBITS = {
    3: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),  # MPEG-1, layer III
    2: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    0: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),  # MPEG-2.5
}


def decoded(content: bytes) -> tuple[np.ndarray, int]:
    """By libsndfile; what it does not know by FFmpeg."""
    try:
        # A stream states no length, which soundfile takes for the longest possible.
        return soundfile.read(io.BytesIO(content), frames=10 * RATE, dtype="float32")
    except soundfile.LibsndfileError:
        return decoded_by_ffmpeg(content)


def decoded_by_ffmpeg(content: bytes) -> tuple[np.ndarray, int]:
    av = pytest.importorskip("av", reason=WITHOUT_PYAV)
    with av.open(io.BytesIO(content), "r") as container:
        resampler = av.AudioResampler("flt", "mono")
        frames = [part.to_ndarray()[0] for frame in container.decode(audio=0) for part in resampler.resample(frame)]
        return np.concatenate(frames), container.streams.audio[0].rate


def encode(format: str, *, samples: np.ndarray = TONE, voice_rate: int = RATE, **options) -> bytes:
    if not encoders.is_available(format):
        pytest.skip(WITHOUT_PYAV)
    encoder = Encoder(format, voice_rate, **options)
    return encoder.add(samples[:5000]) + encoder.add(samples[5000:]) + encoder.finish()


def loudest_frequency(samples: np.ndarray, rate: int) -> float:
    spectrum = np.abs(np.fft.rfft(samples))
    return float(np.argmax(spectrum)) * rate / len(samples)


@pytest.mark.parametrize("format", sorted(set(FORMATS) - {"pcm"}))
def test_a_format_decodes_to_the_same_tone_and_length(format):
    samples, rate = decoded(encode(format))
    assert len(samples) / rate == pytest.approx(1.0, abs=0.15)
    assert loudest_frequency(samples, rate) == pytest.approx(440, abs=3)


def test_pcm_is_24_khz_unless_asked_otherwise():
    assert len(encode("pcm", voice_rate=16000)) == 2 * 36000
    assert len(encode("pcm", sample_rate=8000)) == 2 * 8000


def frames_of(content: bytes) -> list[tuple[int, int]]:
    """(kilobits per second, sample rate) of each frame of an MP3 stream that has nothing but frames."""
    found, at = [], 0
    while at < len(content):
        sync, version = content[at] << 3 | content[at + 1] >> 5, content[at + 1] >> 3 & 3
        assert (sync, content[at + 1] >> 1 & 3) == (0x7FF, 1), f"no frame of layer III at byte {at}"
        kilobits = MPEG_KILOBITS[version][content[at + 2] >> 4]
        rate = (44100, 48000, 32000)[content[at + 2] >> 2 & 3] // {3: 1, 2: 2, 0: 4}[version]
        samples = 1152 if version == 3 else 576
        found.append((kilobits, rate))
        at += samples * kilobits * 125 // rate + (content[at + 2] >> 1 & 1)
    return found


@pytest.mark.parametrize("rate", encoders.MP3_RATES)
def test_mp3_is_nothing_but_frames_of_one_bit_rate(rate):
    content = encode("mp3", voice_rate=rate)
    assert set(frames_of(content)) == {(MP3_KILOBITS, rate)}
    assert not any(name in content[:200] for name in (b"Xing", b"Info", b"ID3", b"LAME"))


@pytest.mark.parametrize("size", [37, 576, 4001])
def test_mp3_is_the_same_stream_whatever_the_size_of_its_pieces(size):
    encoder = Encoder("mp3", RATE)
    content = (
        b"".join(encoder.add(TONE[start : start + size]) for start in range(0, len(TONE), size)) + encoder.finish()
    )
    assert content == encode("mp3")


@pytest.mark.parametrize("decode", [decoded, decoded_by_ffmpeg])
def test_mp3_answers_can_be_concatenated(decode):
    """Two tones, then the first again: each is heard where it was put, by two decoders."""
    high = np.sin(2 * np.pi * 880 * np.arange(RATE) / RATE).astype(np.float32) / 2
    parts = [encode("mp3"), encode("mp3", samples=high), encode("mp3")]
    lengths = [len(decode(part)[0]) for part in parts]
    samples, rate = decode(b"".join(parts))
    assert len(samples) == pytest.approx(sum(lengths), abs=3 * 1152)
    third = len(samples) // 3
    heard = [loudest_frequency(samples[at : at + third], rate) for at in (0, third, 2 * third)]
    assert heard == pytest.approx([440, 880, 440], abs=3)


@pytest.mark.parametrize(("format", "held_seconds"), [("mp3", 0.2), ("opus", 0.25), ("aac", 0.2), ("flac", 0.2)])
def test_little_of_a_piece_is_held_back_until_the_next_one(format, held_seconds):
    """The client can play nearly all of the first piece while the second is made."""
    if not encoders.is_available(format):
        pytest.skip(WITHOUT_PYAV)
    encoder = Encoder(format, RATE)
    first = encoder.add(TONE)
    sent = decoded_by_ffmpeg(first)[0] if format != "mp3" else decoded(first)[0]
    assert len(sent) / RATE > 1 - held_seconds
    encoder.finish()


def test_a_flac_stream_is_the_file_without_its_corrected_header():
    """libsndfile corrects the header at the end (sizes, length, checksum); what was sent cannot be corrected."""
    whole = io.BytesIO()
    with soundfile.SoundFile(whole, "w", RATE, 1, "PCM_16", format="FLAC") as sound:
        sound.write(TONE[:5000])
        sound.write(TONE[5000:])
    header_bytes = 42
    assert encode("flac")[header_bytes:] == whole.getvalue()[header_bytes:]


@pytest.mark.parametrize("format", sorted(FORMATS))
def test_an_empty_piece_changes_nothing(format):
    if not encoders.is_available(format):
        pytest.skip(WITHOUT_PYAV)
    encoder = Encoder(format, RATE)
    content = encoder.add(TONE) + encoder.add(TONE[:0]) + encoder.finish()
    assert len(content) == pytest.approx(len(encode(format)), rel=0.05)


def test_aac_is_not_available_without_pyav(monkeypatch):
    monkeypatch.setattr(encoders.importlib.util, "find_spec", lambda name: None)
    assert [name for name in FORMATS if not encoders.is_available(name)] == ["aac"]


def test_rates_that_a_format_lacks_are_refused_or_the_next_higher_one_is_taken():
    assert output_rate("opus", 22050, None) == 24000
    assert output_rate("mp3", 22050, None) == 22050
    assert output_rate("mp3", 96000, None) == 48000
    with pytest.raises(AudioError, match="opus does not support a sample rate of 22050"):
        output_rate("opus", 22050, 22050)
    with pytest.raises(AudioError, match="between"):
        output_rate("wav", 22050, 10**9)


def test_a_wav_header_states_the_length_if_it_is_known():
    assert decoded(wav_header(16000, 200) + bytes(200))[0].shape == (100,)
