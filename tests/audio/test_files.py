"""Audio files of every format are read and written; unusable files are rejected with a reason."""

import io
import os
import subprocess
import sys

import numpy as np
import pytest
import soundfile

from myxtts.audio.files import FORMATS, probe_audio, read_audio, resample, write_audio
from myxtts.errors import AudioError
from tests.audio.tones import RATE, quiet, reason_of, tone


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
def test_every_format_is_read_as_mono(tmp_path, container, coding, tolerance):
    path = tmp_path / "clip"
    samples = tone()
    soundfile.write(path, np.stack([samples, samples], axis=1), RATE, subtype=coding, format=container)
    read, rate = read_audio(path)
    assert (rate, read.dtype, read.shape) == (RATE, np.float32, samples.shape)
    middle = slice(2000, -2000)  # lossy coders need a moment to settle
    np.testing.assert_allclose(read[middle], samples[middle], atol=tolerance)
    assert probe_audio(path) == (len(samples), RATE)


@pytest.mark.parametrize("channels", [1, 2])
def test_16_bit_samples_equal_those_of_libsndfile(tmp_path, channels):
    every_value = np.arange(-32768, 32768).astype(np.int16).reshape(-1, channels)
    soundfile.write(tmp_path / "a.wav", every_value, RATE, "PCM_16")
    expected, _ = soundfile.read(tmp_path / "a.wav", dtype="float32", always_2d=True)
    samples, _ = read_audio(tmp_path / "a.wav")
    np.testing.assert_array_equal(samples, expected.mean(axis=1))


def test_channels_are_averaged(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.stack([tone(), quiet(1.0)], axis=1), RATE, subtype="FLOAT")
    np.testing.assert_allclose(read_audio(tmp_path / "a.wav")[0], tone() / 2, atol=1e-6)


@pytest.mark.parametrize("name", FORMATS)
def test_written_audio_has_the_samples_and_leaves_no_temporary_file(tmp_path, name):
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
    ("name", "rate", "expected"),
    [("mp3", 17000, "16000"), ("ogg", 384_000, "192000"), ("flac", 100_001, "multiples of 10")],
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


def test_a_missing_file_is_rejected():
    assert reason_of(read_audio, "no/such/file.wav") == "missing"


def test_an_empty_file_is_rejected(tmp_path):
    (tmp_path / "a.wav").touch()
    assert reason_of(read_audio, tmp_path / "a.wav") == "empty file"


def test_a_file_without_samples_is_rejected(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros(0), RATE)
    assert reason_of(probe_audio, tmp_path / "a.wav") == "empty file"


@pytest.mark.parametrize("content", [b"This is text.\n" * 100, b"RIFF\x00\x00\x00\x00WAVE", b"\x00" * 5000, b"R"])
def test_a_file_that_is_not_audio_is_rejected(tmp_path, content):
    (tmp_path / "a.wav").write_bytes(content)
    assert reason_of(read_audio, tmp_path / "a.wav") == "not audio"


@pytest.mark.parametrize("name", ["wav", "flac", "ogg", "mp3"])
def test_a_truncated_file_is_rejected(tmp_path, name):
    path = tmp_path / f"clip.{name}"
    write_audio(path, tone(4.0) + np.random.default_rng(0).normal(0, 0.05, 4 * RATE).astype(np.float32), RATE)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 2 // 3])
    assert reason_of(read_audio, path) == "cut off"


def test_an_mp3_whose_length_is_only_estimated_is_read_to_its_end(tmp_path):
    path = tmp_path / "clip.mp3"
    soundfile.write(path, tone(), RATE, format="MP3", bitrate_mode="CONSTANT", compression_level=0.5)
    content = path.read_bytes()
    assert b"Info" in content[:64]
    id3_tag = b"ID3\x04\x00\x00\x00\x00\x0f\x50" + bytes(2000)
    path.write_bytes(id3_tag + content.replace(b"Info", bytes(4), 1))
    samples, _ = read_audio(path)
    assert len(samples) < probe_audio(path)[0]  # the tag counts as sound in the estimate
    assert RATE <= len(samples) <= RATE + 3 * 1152
    path.write_bytes(id3_tag + content[: len(content) // 2])
    assert reason_of(read_audio, path) == "cut off"


def test_a_wav_written_to_a_pipe_without_its_length_is_read(tmp_path):
    path = tmp_path / "piped.wav"
    write_audio(path, tone(), RATE)
    content = bytearray(path.read_bytes())
    content[40:44] = b"\xff\xff\xff\xff"
    path.write_bytes(content)
    assert len(read_audio(path)[0]) == RATE


@pytest.mark.parametrize("seconds", [0.1, 4096 / 16000, 1.3])
def test_a_flac_stream_that_states_no_length_is_read_to_its_end(tmp_path, seconds):
    path, samples = tmp_path / "stream.flac", np.sin(np.arange(round(seconds * 16000)) / 9).astype(np.float32) / 2
    soundfile.write(path, samples, 16000)
    whole = read_audio(path)[0]
    content = bytearray(path.read_bytes())
    content[21:26] = bytes([content[21] & 0xF0, 0, 0, 0, 0])  # the number of samples in STREAMINFO
    path.write_bytes(content)
    np.testing.assert_array_equal(read_audio(path)[0], whole)
    assert probe_audio(path) == (len(samples), 16000)
    assert len(read_audio(path, first_seconds=0.05)[0]) == 800
    with pytest.raises(AudioError, match="longer than"):
        read_audio(path, longest_seconds=0.05)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_samples_that_are_not_finite_are_rejected(tmp_path, value):
    samples = tone()
    samples[100] = value
    soundfile.write(tmp_path / "a.wav", samples, RATE, subtype="FLOAT")
    assert reason_of(read_audio, tmp_path / "a.wav") == "not finite"


def test_resampling_keeps_a_low_tone_and_removes_one_above_half_the_rate():
    both = tone(1.0, 48000, hz=1000.0) + tone(1.0, 48000, hz=11000.0)
    read = resample(both, 48000, RATE)
    assert len(read) == RATE
    np.testing.assert_allclose(read[500:-500], tone(hz=1000.0)[500:-500], atol=2e-3)


@pytest.mark.parametrize("name", ["clip.wav", "clip.flac", "clip.ogg"])
def test_only_the_beginning_of_a_file_is_decoded_if_no_more_is_asked_for(tmp_path, name):
    write_audio(tmp_path / name, tone(), RATE)
    whole, _ = read_audio(tmp_path / name)
    beginning, rate = read_audio(tmp_path / name, first_seconds=0.25)
    assert rate == RATE
    np.testing.assert_array_equal(beginning, whole[: RATE // 4])
    np.testing.assert_array_equal(read_audio(tmp_path / name, first_seconds=1e6)[0], whole)


def test_a_file_name_of_the_maximum_length_is_written(tmp_path):
    write_audio(tmp_path / ("a" * 251 + ".wav"), tone(), RATE)
    assert len(list(tmp_path.iterdir())) == 1


def test_an_mp3_with_a_tag_and_without_a_header_frame_is_read(tmp_path):
    """As in Common Voice: the stated length is an estimate from the size of the file, tag included."""
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


@pytest.mark.skipif(sys.platform != "linux", reason="file names are Unicode on this system")
def test_a_recording_whose_name_is_not_utf8_is_one_clear_error(tmp_path):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.wav")
    write_audio(tmp_path / "a.wav", np.zeros(100, np.float32), 16000)
    os.rename(tmp_path / "a.wav", path)
    with pytest.raises(AudioError, match="not UTF-8"):
        read_audio(path)
