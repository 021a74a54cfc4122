"""Audio files of every kind are read; what is wrong with a file is named by its reason."""

import io
import subprocess
import sys

import numpy as np
import pytest
import soundfile

from myxtts.audio.files import (
    FORMATS,
    level_loudness,
    load_clip,
    probe_audio,
    read_audio,
    resample,
    trim_silence,
    write_audio,
)
from myxtts.config.config import DataConfig
from myxtts.errors import AudioError

RATE = 16000


def tone(seconds: float = 1.0, rate: int = RATE, amplitude: float = 0.3, hz: float = 440.0) -> np.ndarray:
    return (amplitude * np.sin(2 * np.pi * hz * np.arange(int(seconds * rate)) / rate)).astype(np.float32)


def quiet(seconds: float) -> np.ndarray:
    return np.zeros(int(seconds * RATE), np.float32)


def reason_of(action, *arguments) -> str:
    with pytest.raises(AudioError) as caught:
        action(*arguments)
    return caught.value.reason


@pytest.mark.parametrize(
    ("container", "coding", "tolerance"),
    [
        ("WAV", "PCM_U8", 0.01),
        ("WAV", "PCM_16", 1e-4),
        ("WAV", "PCM_24", 1e-6),
        ("WAV", "PCM_32", 1e-6),
        ("WAV", "FLOAT", 1e-7),
        ("WAV", "DOUBLE", 1e-7),
        ("FLAC", "PCM_16", 1e-4),
        ("FLAC", "PCM_24", 1e-6),
        ("OGG", "VORBIS", 0.05),
        ("OGG", "OPUS", 0.05),
        ("MP3", "MPEG_LAYER_III", 0.05),
        ("AIFF", "PCM_16", 1e-4),
    ],
)
@pytest.mark.parametrize("channels", [1, 2])
def test_every_format_is_read_as_mono(tmp_path, container, coding, tolerance, channels):
    path = tmp_path / "clip"
    samples = tone()
    soundfile.write(path, np.stack([samples] * channels, axis=1), RATE, subtype=coding, format=container)
    read, rate = read_audio(path)
    assert (rate, read.dtype, read.shape) == (RATE, np.float32, samples.shape)
    middle = slice(2000, -2000)  # lossy coders need a moment to settle
    np.testing.assert_allclose(read[middle], samples[middle], atol=tolerance)
    assert probe_audio(path) == (len(samples), RATE)


@pytest.mark.parametrize("channels", [1, 2])
def test_16_bit_samples_are_the_numbers_of_libsndfile(tmp_path, channels):
    every_value = np.arange(-32768, 32768).astype(np.int16).reshape(-1, channels)
    soundfile.write(tmp_path / "a.wav", every_value, RATE, "PCM_16")
    expected, _ = soundfile.read(tmp_path / "a.wav", dtype="float32", always_2d=True)
    samples, _ = read_audio(tmp_path / "a.wav")
    np.testing.assert_array_equal(samples, expected.mean(axis=1))


def test_channels_are_averaged(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.stack([tone(), quiet(1.0)], axis=1), RATE, subtype="FLOAT")
    np.testing.assert_allclose(read_audio(tmp_path / "a.wav")[0], tone() / 2, atol=1e-6)


@pytest.mark.parametrize("name", FORMATS)
def test_written_audio_has_the_samples_and_leaves_nothing_beside(tmp_path, name):
    path = tmp_path / f"clip.{name}"
    samples = tone()
    write_audio(path, samples, RATE)
    if name == "raw":
        read = np.frombuffer(path.read_bytes(), "<i2") / 32767
    else:
        read, rate = read_audio(path)
        assert rate == RATE
    assert len(read) == len(samples)
    np.testing.assert_allclose(read[2000:-2000], samples[2000:-2000], atol=0.05)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_audio_is_written_to_a_stream_that_cannot_seek():
    class Pipe(io.RawIOBase):
        def __init__(self):
            self.content = b""

        def writable(self):
            return True

        def write(self, data):
            self.content += bytes(data)
            return len(data)

    pipe = Pipe()
    write_audio(pipe, tone(), RATE, "wav")
    read, _ = soundfile.read(io.BytesIO(pipe.content), dtype="float32")
    np.testing.assert_allclose(read, tone(), atol=1e-4)


def test_too_loud_samples_are_clipped_not_wrapped(tmp_path):
    write_audio(tmp_path / "loud.wav", tone(amplitude=3.0), RATE)
    read, _ = read_audio(tmp_path / "loud.wav")
    assert np.sign(read[np.abs(read) > 0.5]).tolist() == np.sign(tone()[np.abs(read) > 0.5]).tolist()


def test_a_long_clip_is_encoded_as_vorbis(tmp_path):
    code = (
        "import numpy as np, sys; from myxtts.audio.files import *;"
        "write_audio(sys.argv[1], np.random.default_rng(0).normal(0, .1, 60 * 48000), 48000); print(probe_audio(sys.argv[1]))"
    )
    result = subprocess.run([sys.executable, "-c", code, str(tmp_path / "long.ogg")], capture_output=True, text=True)
    assert result.stdout.strip() == "(2880000, 48000)", result.stderr


@pytest.mark.parametrize(("target", "format"), [("clip.xyz", None), ("clip.wav", "aac")])
def test_an_unknown_format_is_refused(tmp_path, target, format):
    with pytest.raises(AudioError, match="Expected one of: wav"):
        write_audio(tmp_path / target, tone(), RATE, format)


@pytest.mark.parametrize(
    ("name", "rate", "expected"), [("mp3", 17000, "16000"), ("ogg", 384_000, "192000"), ("flac", 100_001, "tens")]
)
def test_a_format_refuses_a_rate_that_it_does_not_have(tmp_path, name, rate, expected):
    with pytest.raises(AudioError, match=f"{rate} Hz.*{expected}"):
        write_audio(tmp_path / f"clip.{name}", tone(), rate)


def test_a_failed_write_keeps_the_old_file(tmp_path):
    write_audio(tmp_path / "clip.wav", tone(), RATE)
    before = (tmp_path / "clip.wav").read_bytes()
    with pytest.raises(AudioError):
        write_audio(tmp_path / "clip.wav", np.array([np.nan]), RATE)
    assert (tmp_path / "clip.wav").read_bytes() == before


def test_missing_file():
    assert reason_of(read_audio, "no/such/file.wav") == "missing"


def test_empty_file(tmp_path):
    (tmp_path / "a.wav").touch()
    assert reason_of(read_audio, tmp_path / "a.wav") == "empty file"


def test_file_without_samples(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros(0), RATE)
    assert reason_of(probe_audio, tmp_path / "a.wav") == "empty file"


@pytest.mark.parametrize("content", [b"This is text.\n" * 100, b"RIFF\x00\x00\x00\x00WAVE", b"\x00" * 5000, b"R"])
def test_not_audio(tmp_path, content):
    (tmp_path / "a.wav").write_bytes(content)
    assert reason_of(read_audio, tmp_path / "a.wav") == "not audio"


@pytest.mark.parametrize("name", ["wav", "flac", "ogg", "mp3"])
def test_cut_off_file(tmp_path, name):
    path = tmp_path / f"clip.{name}"
    write_audio(path, tone(4.0) + np.random.default_rng(0).normal(0, 0.05, 4 * RATE).astype(np.float32), RATE)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 2 // 3])
    assert reason_of(read_audio, path) == "cut off"


def test_wav_whose_length_was_never_filled_in_is_whole(tmp_path):
    path = tmp_path / "piped.wav"
    write_audio(path, tone(), RATE)
    content = bytearray(path.read_bytes())
    content[40:44] = b"\xff\xff\xff\xff"
    path.write_bytes(content)
    assert len(read_audio(path)[0]) == RATE


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_samples_that_are_not_finite(tmp_path, value):
    samples = tone()
    samples[100] = value
    soundfile.write(tmp_path / "a.wav", samples, RATE, subtype="FLOAT")
    assert reason_of(read_audio, tmp_path / "a.wav") == "not finite"


def test_a_resampled_tone_keeps_its_pitch_and_loses_what_cannot_be_kept():
    both = tone(1.0, 48000, hz=1000.0) + tone(1.0, 48000, hz=11000.0)
    read = resample(both, 48000, RATE)
    assert len(read) == RATE
    np.testing.assert_allclose(read[500:-500], tone(hz=1000.0)[500:-500], atol=2e-3)


def test_silence_is_trimmed_at_both_ends_and_kept_inside():
    samples = np.concatenate([quiet(0.5), tone(0.4), quiet(0.3), tone(0.4), quiet(0.7)])
    trimmed = trim_silence(samples, RATE, 45.0)
    assert len(trimmed) / RATE == pytest.approx(0.4 + 0.3 + 0.4 + 0.06, abs=0.021)


def test_trimming_leaves_sound_without_silence_alone():
    np.testing.assert_array_equal(trim_silence(tone(), RATE, 45.0), tone())


def test_level_is_that_of_the_spoken_parts():
    samples = np.concatenate([tone(0.5, amplitude=0.02), quiet(2.0)])
    levelled = level_loudness(samples, RATE, -23.0)
    spoken = levelled[: RATE // 2]
    assert 20 * np.log10(np.sqrt(np.mean(spoken**2))) == pytest.approx(-23.0, abs=0.1)


def test_levelling_never_clips():
    samples = tone(amplitude=0.01)
    samples[5000] = 0.5
    assert np.abs(level_loudness(samples, RATE, -5.0)).max() == pytest.approx(0.99, abs=1e-3)


def test_load_clip_resamples_trims_and_levels(tmp_path):
    soundfile.write(tmp_path / "a.flac", np.concatenate([quiet(1.5), tone(1.0, 48000), quiet(1.5)]), 48000)
    samples = load_clip(tmp_path / "a.flac", DataConfig(), RATE)
    assert len(samples) / RATE == pytest.approx(1.06, abs=0.021)
    assert 20 * np.log10(np.sqrt(np.mean(samples[1000:-1000] ** 2))) == pytest.approx(-23.0, abs=0.2)


def test_load_clip_leaves_the_recording_alone_when_told_so(tmp_path):
    samples = np.concatenate([quiet(0.5), tone()])
    soundfile.write(tmp_path / "a.wav", samples, RATE, subtype="FLOAT")
    config = DataConfig(trim_silence_db=None, loudness_db=None)
    np.testing.assert_array_equal(load_clip(tmp_path / "a.wav", config, RATE), samples)


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        (quiet(1.0), "silent"),
        (tone(amplitude=0.0005), "silent"),
        (tone(0.1), "too short"),
        (np.concatenate([quiet(2.0), tone(0.1), quiet(2.0)]), "too short"),
        (tone(3.5), "too long"),
        (tone(9.0), "too long"),
    ],
)
def test_unusable_clips_are_named_by_their_reason(tmp_path, samples, reason):
    write_audio(tmp_path / "a.wav", samples, RATE)
    config = DataConfig(min_seconds=0.3, max_seconds=3.0)
    assert reason_of(load_clip, tmp_path / "a.wav", config, RATE) == reason


@pytest.mark.parametrize("name", ["clip.wav", "clip.flac", "clip.ogg"])
def test_only_the_beginning_of_a_file_is_decoded_if_no_more_is_asked_for(tmp_path, name):
    write_audio(tmp_path / name, tone(), RATE)
    whole, _ = read_audio(tmp_path / name)
    beginning, rate = read_audio(tmp_path / name, first_seconds=0.25)
    assert rate == RATE
    np.testing.assert_array_equal(beginning, whole[: RATE // 4])
    np.testing.assert_array_equal(read_audio(tmp_path / name, first_seconds=1e6)[0], whole)


def test_a_name_as_long_as_a_name_can_be_is_written(tmp_path):
    write_audio(tmp_path / ("a" * 251 + ".wav"), tone(), RATE)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_short_clip_is_named_by_its_length(tmp_path):
    write_audio(tmp_path / "a.wav", tone(0.1), RATE)
    with pytest.raises(AudioError, match=r"is only 0\.10 s long; data\.min_seconds is 0\.3\."):
        load_clip(tmp_path / "a.wav", DataConfig(min_seconds=0.3, trim_silence_db=None), RATE)


def test_an_mp3_with_a_tag_and_without_a_header_frame_is_whole(tmp_path):
    """As Common Voice has them: the announced length is an estimate from the size of the file, tag included."""
    with soundfile.SoundFile(
        tmp_path / "a.mp3",
        "w",
        48_000,
        1,
        "MPEG_LAYER_III",
        format="MP3",
        bitrate_mode="CONSTANT",
        compression_level=0.8,
    ) as file:
        file.write(tone(2.0, 48_000))
    data = (tmp_path / "a.mp3").read_bytes()
    first_frame_of_sound = data.index(data[:2], data.index(b"Info"))
    tag = b"ID3\x04\x00\x00\x00\x00\x00#" + bytes(35)
    (tmp_path / "b.mp3").write_bytes(tag + data[first_frame_of_sound:])
    announced, _ = probe_audio(tmp_path / "b.mp3")
    samples, _ = read_audio(tmp_path / "b.mp3")
    assert announced - 2304 <= len(samples) < announced
