"""Voice folders: what was written is read; contradictions, damage and newer versions are refused."""

import json
import os

import numpy as np
import pytest

from myxtts.errors import VoiceError
from myxtts.synthesis.bundled import bundled_voice
from myxtts.synthesis.voice_folder import read_description, read_weights
from tests.synthesis.tiny_voice import describe, random_weights, write_voice


@pytest.fixture
def voice(tmp_path):
    return write_voice(tmp_path / "voice")


def change_description(folder, **changes):
    path = folder / "voice.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_description_is_read_as_it_was_written(voice):
    assert read_description(voice) == describe()


@pytest.mark.parametrize("speakers", [("anna",), ("anna", "ben")])
def test_every_weight_is_read_back_exactly_as_it_is_stored(tmp_path, speakers):
    weights = random_weights(describe(speakers))
    description, found = read_weights(write_voice(tmp_path / "voice", speakers))
    assert description == describe(speakers)
    assert found.keys() == weights.keys()
    for name, array in weights.items():
        stored = array.astype(np.float16) if array.ndim > 1 else array
        np.testing.assert_array_equal(found[name], stored.astype(np.float32))


@pytest.mark.parametrize("kind", ["missing", "pipe", "device"])
def test_a_voice_without_a_regular_model_file_is_refused_without_waiting(voice, kind):
    (voice / "voice.onnx").unlink()
    if kind == "pipe":
        os.mkfifo(voice / "voice.onnx")
    elif kind == "device":
        (voice / "voice.onnx").symlink_to("/dev/zero")
    with pytest.raises(VoiceError, match=r"voice\.onnx is missing or cannot be read"):
        read_description(voice)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"name": "other"}'])
def test_a_description_that_is_no_voice_raises_one_line(voice, content):
    (voice / "voice.json").write_bytes(content)
    with pytest.raises(VoiceError, match=r"voice\.json is .*") as caught:
        read_description(voice)
    assert "\n" not in str(caught.value)


def test_a_voice_from_before_a_setting_existed_gets_its_default(voice):
    older = {name: value for name, value in describe().model.items() if name != "decoder_dropout"}
    change_description(voice, model=older)
    assert read_description(voice).model_spec() == describe().model_spec()


def test_the_bundled_voice_is_one_of_this_version():
    assert read_description(bundled_voice()).model_spec().n_mels == 80


def test_a_newer_format_asks_for_an_update(voice):
    change_description(voice, format_version=99, something_new=True)
    with pytest.raises(VoiceError, match=r"format 99.*git pull"):
        read_description(voice)


def test_a_missing_folder_and_a_folder_without_a_voice_raise(tmp_path):
    for path in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(VoiceError, match="is not a voice"):
            read_description(path)


def test_without_a_bundled_voice_the_error_says_how_to_train_one(tmp_path, monkeypatch):
    monkeypatch.setattr("myxtts.__file__", str(tmp_path / "__init__.py"))
    with pytest.raises(VoiceError, match=r"train_main\.py.*voice export"):
        bundled_voice()
