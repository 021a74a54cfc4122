"""Files of speech: whole or not at all."""

import errno
import io
import os
import signal

import numpy as np
import pytest
import soundfile

from myxtts.errors import AudioError
from myxtts.runtime.console import exit_on_signals
from myxtts.synthesis import output as output_module
from myxtts.synthesis.output import AudioFileWriter, open_output, synthetic_tags


def speech(seconds=0.5):
    time = np.arange(round(seconds * 16000)) / 16000
    return (0.5 * np.sin(2 * np.pi * 300 * time)).astype(np.float32)


@pytest.mark.parametrize("format", ["wav", "flac", "ogg", "mp3"])
def test_chunks_become_one_file_of_every_format(tmp_path, format):
    path = tmp_path / f"speech.{format}"
    with AudioFileWriter(path, 16000) as writer:
        for _ in range(3):
            writer.write(speech())
    samples, rate = soundfile.read(path)
    assert rate == 16000
    assert abs(len(samples) - 24000) <= 2400  # mp3 pads
    assert 0.4 < np.abs(samples).max() < 0.65


def test_an_interrupted_file_leaves_the_old_one_and_nothing_else(tmp_path):
    path = tmp_path / "speech.wav"
    path.write_bytes(b"the old one")

    def interrupted():
        with AudioFileWriter(path, 16000) as writer:
            writer.write(speech())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"the old one"
    assert [file.name for file in tmp_path.iterdir()] == ["speech.wav"]


def test_a_full_disk_is_one_error_and_leaves_nothing(tmp_path, monkeypatch):
    class Full(io.BytesIO):
        def write(self, data):
            raise OSError(errno.ENOSPC, "No space left on device")

    def open_full(path, mode):
        path.touch()
        return Full()

    monkeypatch.setattr("myxtts.synthesis.output.open", open_full, raising=False)
    with pytest.raises(AudioError, match="No space left"), AudioFileWriter(tmp_path / "a.wav", 16000) as writer:
        writer.write(speech())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["missing/a.wav", "a.exe", "a"])
def test_a_folder_or_format_that_does_not_exist_raises_before_anything_is_written(tmp_path, name):
    with pytest.raises(AudioError, match=r"does not exist|Unknown audio format"):
        AudioFileWriter(tmp_path / name, 16000)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_place_of_the_file_raises(tmp_path):
    (tmp_path / "a.wav").mkdir()
    with pytest.raises(AudioError, match="not a regular file"):
        AudioFileWriter(tmp_path / "a.wav", 16000)


def test_raw_speech_streams_as_it_comes():
    stream = io.BytesIO()
    with open_output(None, 16000, "raw", stream) as output:
        output.write(speech())
        assert len(stream.getvalue()) == 2 * 8000
    samples = np.frombuffer(stream.getvalue(), "<i2") / 32767
    np.testing.assert_allclose(samples, speech(), atol=1e-4)


def test_standard_output_gets_a_whole_wav():
    stream = io.BytesIO()
    with open_output(None, 16000, None, stream) as output:
        output.write(speech())
    samples, rate = soundfile.read(io.BytesIO(stream.getvalue()))
    assert (len(samples), rate) == (8000, 16000)


def test_a_name_as_long_as_a_name_can_be_is_written(tmp_path):
    path = tmp_path / ("a" * 251 + ".wav")
    with AudioFileWriter(path, 16000) as writer:
        writer.write(speech())
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("name", ["a" * 300 + ".wav", "a" * 300 + "/a.wav", "a\0b.wav"])
def test_a_name_that_no_file_can_have_raises(tmp_path, name):
    with pytest.raises(AudioError, match=r"cannot be written|not a valid file name"):
        AudioFileWriter(tmp_path / name, 16000)


@pytest.mark.parametrize(("name", "rate"), [("a.ogg", 384_000), ("a.mp3", 17_000), ("a.flac", 100_001)])
def test_a_rate_that_the_format_lacks_raises_and_leaves_nothing(tmp_path, name, rate):
    with pytest.raises(AudioError, match=f"{rate} Hz"), AudioFileWriter(tmp_path / name, rate) as writer:
        writer.write(speech())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format", ["raw", "wav", "ogg"])
def test_a_stream_that_is_full_is_one_error(format):
    with (
        open("/dev/full", "wb", buffering=0) as full,
        pytest.raises(AudioError, match="Standard output cannot be written: No space left"),
        open_output(None, 16000, format, full) as output,
    ):
        output.write(speech())


def test_a_reader_that_left_is_for_the_command_to_take_quietly():
    class Left(io.BytesIO):
        def write(self, data):
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError), open_output(None, 16000, "raw", Left()) as output:
        output.write(speech())


def test_a_signal_while_libsndfile_writes_ends_the_file_cleanly(tmp_path, monkeypatch):
    flush = output_module._FileOfLibsndfile.flush

    def flush_and_be_told_to_end(stream):
        os.kill(os.getpid(), signal.SIGTERM)
        flush(stream)

    monkeypatch.setattr(output_module._FileOfLibsndfile, "flush", flush_and_be_told_to_end)
    with (
        pytest.raises(SystemExit),
        exit_on_signals(),
        AudioFileWriter(tmp_path / "a.wav", 16000) as writer,
    ):
        writer.write(speech())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format", ["wav", "flac", "ogg", "mp3"])
def test_a_file_says_that_it_is_synthetic_and_names_the_voice(tmp_path, format):
    path = tmp_path / f"speech.{format}"
    with AudioFileWriter(path, 24000, tags=synthetic_tags("صدا\nkathleen")) as file:
        file.write(np.zeros(2400, np.float32))
    with soundfile.SoundFile(path) as sound:
        tags = sound.copy_metadata()
    shown = "????" if format == "mp3" else "صدا"
    assert "Synthetic speech by MyXTTS" in tags["comment"]
    for tag in ("artist", "comment"):
        assert tags[tag].endswith("kathleen")
        assert shown[:3] in tags[tag]
        assert "\n" not in tags[tag]


def test_raw_samples_have_no_tags(tmp_path):
    with AudioFileWriter(tmp_path / "speech.raw", 24000, tags=synthetic_tags("kathleen")) as file:
        file.write(np.zeros(100, np.float32))
    assert (tmp_path / "speech.raw").stat().st_size == 200
