"""Writing voice folders: whole or not at all, and never over anything else."""

from pathlib import Path

import pytest

from myxtts.errors import VoiceError
from myxtts.export.voice_writer import save_voice
from myxtts.synthesis.voice_folder import LICENSE_NAME, license_file, read_description
from tests.synthesis.tiny_voice import describe, random_weights, write_voice


@pytest.fixture
def voice(tmp_path):
    return write_voice(tmp_path / "voice")


def test_a_voice_replaces_a_voice_but_never_anything_else(voice, tmp_path):
    weights = random_weights(describe())
    save_voice(voice, describe(licence="MIT"), weights)
    assert read_description(voice).licence == "MIT"
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "chapter.txt").write_text("important")
    with pytest.raises(VoiceError, match="not a voice, so it is not replaced"):
        save_voice(other, describe(), weights)
    assert (other / "chapter.txt").read_text() == "important"


def test_a_failed_save_keeps_the_old_voice_and_leaves_nothing_behind(voice, tmp_path, monkeypatch):
    def fail(path, content):
        raise OSError(28, "No space left on device")

    weights = random_weights(describe())
    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(VoiceError, match="disk is full"):
        save_voice(voice, describe(licence="MIT"), weights)
    assert read_description(voice).licence == "CC0"
    assert [path.name for path in tmp_path.iterdir()] == ["voice"]


def test_a_voice_is_saved_under_a_name_as_long_as_a_name_can_be_and_no_longer(tmp_path):
    weights = random_weights(describe())
    for _ in range(2):  # new, and replaced
        save_voice(tmp_path / ("a" * 255), describe(), weights)
    with pytest.raises(VoiceError, match="could not be written"):
        save_voice(tmp_path / ("a" * 256), describe(), weights)
    assert [len(path.name) for path in tmp_path.iterdir()] == [255]


def test_the_full_text_of_a_license_is_kept_next_to_the_voice(tmp_path):
    saved = save_voice(tmp_path / "voice", describe(), random_weights(describe()), license_text="All of it.\n")
    assert license_file(saved).read_text() == "All of it.\n"
    (saved / LICENSE_NAME).unlink()
    assert license_file(saved) is None
    assert read_description(saved).licence == "CC0"


def test_a_license_without_end_is_refused(tmp_path):
    with pytest.raises(VoiceError, match="license has"):
        save_voice(tmp_path / "voice", describe(), {}, license_text="a" * (1 << 21))
    (tmp_path / LICENSE_NAME).write_bytes(b"a" * (1 << 21))
    with pytest.raises(VoiceError, match="too large"):
        license_file(tmp_path)


def test_a_weight_that_the_graph_does_not_use_is_an_error_and_not_lost(tmp_path):
    weights = random_weights(describe())
    with pytest.raises(VoiceError, match="1 weights have no place in a voice, such as 'new/kernel'"):
        save_voice(tmp_path / "voice", describe(), weights | {"new/kernel": weights["mel_mean"]})


def test_a_voice_of_several_speakers_needs_their_vectors(tmp_path):
    description = describe(("anna", "ben"))
    with pytest.raises(VoiceError, match="2 speakers need as many speaker vectors"):
        save_voice(tmp_path / "voice", description, random_weights(description))
