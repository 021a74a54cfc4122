"""Voice folders: what was written is read; what a stranger, a cut-off copy or a newer version wrote is refused."""

import json
import zipfile

import numpy as np
import pytest

from myxtts.errors import MyXTTSError, VoiceError
from myxtts.synthesis import voice_folder
from myxtts.synthesis.voice_folder import bundled_voice, fewest_weights, read_description, save_voice
from myxtts.synthesis.weights_file import read_weights, write_weights
from tests.synthesis.tiny_voice import describe, random_weights, write_voice

SHAPES = {"kernel": (3, 4), "bias": (4,)}


@pytest.fixture
def voice(tmp_path):
    return write_voice(tmp_path / "voice")


def change_description(folder, **changes):
    path = folder / "voice.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_description_is_read_as_it_was_written(voice):
    assert read_description(voice) == describe()


def test_weights_are_read_as_they_were_written_to_half_precision(tmp_path):
    weights = {"kernel": np.linspace(-3, 3, 12).reshape(3, 4), "bias": np.linspace(0, 1e-3, 4, dtype=np.float32)}
    write_weights(tmp_path / "w.npz", weights)
    found = read_weights(tmp_path / "w.npz", SHAPES)
    np.testing.assert_allclose(found["kernel"], weights["kernel"], rtol=1e-3)
    np.testing.assert_array_equal(found["bias"], weights["bias"])


def test_weights_too_large_for_half_precision_keep_their_value(tmp_path):
    write_weights(tmp_path / "w.npz", {"kernel": np.full((3, 4), 1e6), "bias": np.zeros(4)})
    assert read_weights(tmp_path / "w.npz", SHAPES)["kernel"].max() == 1e6


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"kernel": np.zeros((3, 4))}, "missing"),
        ({"kernel": np.zeros((3, 4)), "bias": np.zeros(4), "more": np.zeros(1)}, "not its own"),
        ({"kernel": np.zeros((4, 3)), "bias": np.zeros(4)}, "does not fit"),
    ],
)
def test_weights_of_another_network_are_refused(tmp_path, arrays, message):
    write_weights(tmp_path / "w.npz", arrays)
    with pytest.raises(VoiceError, match=message):
        read_weights(tmp_path / "w.npz", SHAPES)


def test_pickled_weights_are_refused_without_being_unpickled(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "exploded"), "w"))

    bomb = np.empty(4, object)
    bomb[:] = [Bomb()] * 4
    with open(tmp_path / "w.npz", "wb") as file:
        np.savez(file, kernel=np.zeros((3, 4), np.float32), bias=bomb)
    with pytest.raises(VoiceError, match=r"does not fit|not an array"):
        read_weights(tmp_path / "w.npz", SHAPES)
    assert not (tmp_path / "exploded").exists()


def test_compressed_weights_are_refused_because_they_may_unpack_to_anything(tmp_path):
    with open(tmp_path / "w.npz", "wb") as file:
        np.savez_compressed(file, kernel=np.zeros((3, 4), np.float32), bias=np.zeros(4, np.float32))
    with pytest.raises(VoiceError, match="compressed"):
        read_weights(tmp_path / "w.npz", SHAPES)


def test_weights_that_are_not_finite_are_neither_written_nor_read(tmp_path):
    with pytest.raises(VoiceError, match="not finite"):
        write_weights(tmp_path / "w.npz", {"kernel": np.full((3, 4), np.nan)})
    with open(tmp_path / "w.npz", "wb") as file:
        np.savez(file, kernel=np.full((3, 4), np.nan, np.float32), bias=np.zeros(4, np.float32))
    with pytest.raises(VoiceError, match="not finite"):
        read_weights(tmp_path / "w.npz", SHAPES)


@pytest.mark.parametrize("kept_share", [0.1, 0.5, 0.99])
def test_a_cut_off_weights_file_is_told(tmp_path, kept_share):
    write_weights(tmp_path / "w.npz", {"kernel": np.zeros((3, 4)), "bias": np.zeros(4)})
    content = (tmp_path / "w.npz").read_bytes()
    (tmp_path / "w.npz").write_bytes(content[: int(len(content) * kept_share)])
    with pytest.raises(VoiceError, match="cut off"):
        read_weights(tmp_path / "w.npz", SHAPES)


def test_a_flipped_byte_in_the_weights_is_told(tmp_path):
    write_weights(tmp_path / "w.npz", {"kernel": np.full((3, 4), 0.5), "bias": np.zeros(4)})
    with zipfile.ZipFile(tmp_path / "w.npz") as archive:
        entry = archive.getinfo("kernel.npy")
    content = bytearray((tmp_path / "w.npz").read_bytes())
    content[entry.header_offset + 30 + len("kernel.npy") + entry.file_size] ^= 0x10
    (tmp_path / "w.npz").write_bytes(content)
    with pytest.raises(VoiceError, match="damaged"):
        read_weights(tmp_path / "w.npz", SHAPES)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"name": "other"}'])
def test_a_description_that_is_no_voice_is_told_in_one_line(voice, content):
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


@pytest.mark.parametrize(
    "changes",
    [
        {"unknown_key": 1},
        {"languages": []},
        {"languages": ["en", "en"]},
        {"languages": ["en", "fr"]},
        {"symbols": ["<pad>", "<blank>", "a"]},
        {"symbols": ["<pad>", "<blank>", "import os"]},
        {"speakers": ["a", "b"]},
        {"reference_frames": 64},
        {"front_end": {"kind": "python", "lexicon": {}}},
        {"model": {}},
        {"model": describe().model | {"text_channels": 10**9}},
        {"model": describe().model | {"decoder_layers": 10**6}},
        {"model": describe().model | {"n_mels": -1}},
        {"model": describe().model | {"n_mels": "20"}},
        {"model": describe().model | {"hook": "os.system"}},
        {"model": describe().model | {"decoder_dilations": []}},
        {"mel": describe().mel | {"hop_length": 0}},
        {"mel": describe().mel | {"n_fft": 10**9}},
        {"mel": describe().mel | {"sample_rate": 0}},
        {"mel": {}},
        {"defaults": {"steps": 0}},
        {"defaults": {"steps": 10**9}},
        {"format_version": "1"},
    ],
)
def test_a_description_that_contradicts_itself_is_refused_before_a_network_is_built(voice, changes):
    change_description(voice, **changes)
    with pytest.raises(MyXTTSError) as caught:
        read_description(voice)
    assert "\n" not in str(caught.value)


def test_a_large_network_with_a_small_weights_file_is_refused_before_it_is_built(voice):
    change_description(voice, model=describe().model | {"text_channels": 8192, "decoder_channels": 8192})
    with pytest.raises(VoiceError, match="too small"):
        read_description(voice)


def test_the_fewest_weights_are_fewer_than_a_network_has():
    description = describe(("a", "b"))
    weights = random_weights(description)
    total = sum(array.size for array in weights.values())
    assert 0.15 * total < fewest_weights(description.model_spec()) < total


def test_a_missing_folder_and_a_folder_without_a_voice_are_told(tmp_path):
    for path in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(VoiceError, match="is not a voice"):
            read_description(path)


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
    def fail(path, arrays):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(voice_folder, "write_weights", fail)
    with pytest.raises(VoiceError, match="disk is full"):
        save_voice(voice, describe(licence="MIT"), {})
    assert read_description(voice).licence == "CC0"
    assert [path.name for path in tmp_path.iterdir()] == ["voice"]


def test_without_a_bundled_voice_the_error_says_how_to_train_one(tmp_path, monkeypatch):
    monkeypatch.setattr("myxtts.__file__", str(tmp_path / "__init__.py"))
    with pytest.raises(VoiceError, match=r"train_main\.py.*voice export"):
        bundled_voice()
