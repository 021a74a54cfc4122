"""Files of speech: whole or not at all."""

import errno
import io

import numpy as np
import pytest
import soundfile

from myxtts.errors import AudioError
from myxtts.synthesis.output import AudioFileWriter, open_output


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
def test_a_place_or_format_that_does_not_exist_is_told_before_anything_is_written(tmp_path, name):
    with pytest.raises(AudioError, match=r"does not exist|Unknown audio format"):
        AudioFileWriter(tmp_path / name, 16000)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_the_place_of_the_file_is_told(tmp_path):
    (tmp_path / "a.wav").mkdir()
    with pytest.raises(AudioError, match="not a file"):
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
