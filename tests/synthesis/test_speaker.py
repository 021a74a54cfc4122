"""Speakers: recordings that are used or refused, and vectors that come back from their files as they were."""

import json
import os

import numpy as np
import pytest
import soundfile

from myxtts.audio.files import write_audio
from myxtts.errors import AudioError, VoiceError
from myxtts.synthesis import speaker as speaker_module
from myxtts.synthesis.speaker import Speaker, check_reference, reference_pieces
from tests.synthesis.tiny_voice import MEL, describe, write_recording

DESCRIPTION = describe(("anna", "ben"))


def test_a_saved_speaker_comes_back_exactly(tmp_path):
    vector = np.random.default_rng(0).normal(size=96).astype(np.float32) / 3
    Speaker(vector, "0123abcd").save(tmp_path / "speaker.json")
    loaded = Speaker.load(tmp_path / "speaker.json")
    np.testing.assert_array_equal(loaded.vector, vector)
    assert loaded.voice == "0123abcd"


@pytest.mark.parametrize("vector", [[10**400], [True, False], [], [1e39], [float("nan")], ["1"], {}, None, 3])
def test_a_speaker_that_is_no_vector_of_numbers_is_damaged(tmp_path, vector):
    content = {"format": "myxtts-speaker", "format_version": 1, "voice": "0123abcd", "vector": vector}
    (tmp_path / "s.json").write_text(json.dumps(content))
    with pytest.raises(VoiceError, match="is damaged"):
        Speaker.load(tmp_path / "s.json")


@pytest.mark.parametrize("vector", [[1.0], [float("nan")] * 2, [], None, "12"])
def test_a_decoder_vector_that_does_not_fit_is_damaged(tmp_path, vector):
    content = {"format": "myxtts-speaker", "format_version": 1, "voice": "0123abcd", "vector": [1.0, 2.0]}
    (tmp_path / "s.json").write_text(json.dumps(content | {"decoder_vector": vector}))
    with pytest.raises(VoiceError, match="is damaged"):
        Speaker.load(tmp_path / "s.json")


@pytest.mark.parametrize("name", ["a" * 300 + ".json", "file/s.json", "nowhere/s.json"])
def test_a_speaker_that_cannot_be_written_raises(tmp_path, name):
    (tmp_path / "file").touch()
    with pytest.raises(VoiceError, match="could not be written"):
        Speaker(np.zeros(4, np.float32), "0").save(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_click_in_silence_is_no_reference(tmp_path):
    samples = np.zeros(32000, np.float32)
    samples[16000:16100] = 0.5
    write_audio(tmp_path / "click.wav", samples, 16000)
    with pytest.raises(AudioError, match="at least 1 s of speech"):
        reference_pieces(tmp_path / "click.wav", DESCRIPTION, MEL)


def test_a_second_of_speech_with_a_little_silence_is_a_reference(tmp_path):
    speech, rate = soundfile.read(write_recording(tmp_path / "a.wav", seconds=0.8))
    write_audio(tmp_path / "b.wav", np.pad(speech, round(0.1 * rate)), rate)
    assert reference_pieces(tmp_path / "b.wav", DESCRIPTION, MEL).shape[1:] == (
        DESCRIPTION.reference_frames,
        MEL.n_mels,
    )


def test_a_reference_of_more_than_an_hour_is_used_up_to_a_minute(tmp_path, monkeypatch):
    speech, rate = soundfile.read(write_recording(tmp_path / "a.wav", seconds=100, sample_rate=8000), dtype="int16")
    with soundfile.SoundFile(tmp_path / "long.wav", "w", rate, 1, "PCM_16") as file:
        for _ in range(37):
            file.write(speech)
    decoded = []
    read = speaker_module.read_audio

    def noting(*arguments, **named):
        decoded.append(read(*arguments, **named))
        return decoded[-1]

    monkeypatch.setattr(speaker_module, "read_audio", noting)
    pieces = reference_pieces(tmp_path / "long.wav", DESCRIPTION, MEL)
    assert len(decoded[0][0]) <= speaker_module.READ_SECONDS * rate
    frames = speaker_module.USED_SECONDS * MEL.sample_rate / MEL.hop_length
    assert len(pieces) == pytest.approx(frames / DESCRIPTION.reference_frames, abs=1)


@pytest.mark.parametrize("name", ["missing.wav", "a" * 300 + ".wav", "a\0b.wav", "short.wav", "text.wav"])
def test_a_reference_is_refused_without_being_decoded(tmp_path, name, monkeypatch):
    write_recording(tmp_path / "short.wav", seconds=0.5)
    (tmp_path / "text.wav").write_text("hello")
    with pytest.raises(AudioError):
        check_reference(tmp_path / name)


def test_a_short_reference_is_named_by_its_length(tmp_path):
    write_recording(tmp_path / "short.wav", seconds=0.5)
    with pytest.raises(AudioError, match=r"is only 0\.50 s long; a reference needs at least 1 s of speech"):
        check_reference(tmp_path / "short.wav")


def test_a_stored_speaker_keeps_its_name_and_another_type_of_name_is_damage(tmp_path):
    path = tmp_path / "speaker.json"
    Speaker(np.zeros(3, np.float32), "voice", "Zoë", 7).save(path)
    loaded = Speaker.load(path)
    assert (loaded.name, loaded.created) == ("Zoë", 7)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"name": 5}))
    with pytest.raises(VoiceError, match="damaged"):
        Speaker.load(path)


def test_a_pipe_is_neither_a_reference_nor_a_saved_speaker(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(AudioError, match="it is a pipe, not a regular file"):
        check_reference(tmp_path / "pipe")
    with pytest.raises(VoiceError, match="it is a pipe, not a regular file"):
        Speaker.load(tmp_path / "pipe")


def test_an_enormous_file_is_no_saved_speaker(tmp_path):
    with (tmp_path / "s.json").open("wb") as file:
        file.truncate(1 << 40)  # sparse
    with pytest.raises(VoiceError, match="it is larger than 1 MiB"):
        Speaker.load(tmp_path / "s.json")
