"""Untrusted voices: whatever is in them, the answer is one line, before anything large is built."""

import io
import json
import os
import struct
import zipfile

import numpy as np
import pytest

from myxtts.errors import MyXTTSError, VoiceError
from myxtts.synthesis.voice_folder import LICENCE_NAME, licence_file, read_description, save_voice
from myxtts.synthesis.weights_file import read_weights, write_weights
from tests.synthesis.tiny_voice import describe, random_weights

SHAPES = {"kernel": (3, 4), "bias": (4,)}
ESCAPE = "\x1b[31mred"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_voice(tmp_path_factory.mktemp("voices") / "voice", describe(), random_weights(describe()))


@pytest.fixture
def change(folder):
    """Replaces parts of voice.json; afterwards it is as before."""
    path = folder / "voice.json"
    before = path.read_text()

    def replace(**changes):
        path.write_text(json.dumps(json.loads(before) | changes))
        return folder

    yield replace
    path.write_text(before)


def model(**changes):
    return {"model": describe().model | changes}


def mel(**changes):
    return {"mel": describe().mel | changes}


@pytest.mark.parametrize(
    "changes",
    [
        model(text_heads=5),
        model(text_heads=16),
        model(text_heads=8192),
        model(decoder_dilations=[1] * 1_000_000),
        model(dropout=float("nan")),
        model(dropout=1.5),
        model(decoder_dropout=float("nan")),
        model(condition_dropout=-0.1),
        model(**{ESCAPE: 1}),
        mel(sample_rate=384_000, f_max=100_000.0),
        mel(hop_length=1),
        mel(hop_length=3),
        mel(log_floor=float("nan")),
        mel(**{ESCAPE: 1}),
        {"format_version": 0},
        {"format_version": True},
        {"trim_silence_db": -1e308},
        {"trim_silence_db": float("nan")},
        {"loudness_db": 1e308},
        {"defaults": {"temperature": float("nan")}},
        {"defaults": {"duration_scale": float("nan")}},
        {"about": {"nested": {"a": 1}}},
        {ESCAPE: 1},
        {"front_end": {"kind": ESCAPE, "lexicon": {}}},
    ],
    ids=lambda changes: ascii(changes)[:60],
)
def test_an_impossible_description_is_one_printable_line(change, changes):
    with pytest.raises(MyXTTSError) as caught:
        read_description(change(**changes))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 800


def test_a_number_too_long_to_be_one_is_refused(folder, change):
    change()
    path = folder / "voice.json"
    path.write_text(path.read_text().replace('"max_characters": 180', '"max_characters": 1' + "0" * 5000))
    with pytest.raises(VoiceError, match="damaged"):
        read_description(folder)


@pytest.mark.parametrize("name", ["a" * 300, "a\0b", "a" * 300 + "/b"])
def test_a_name_that_no_folder_can_have_is_no_voice(tmp_path, name):
    with pytest.raises(VoiceError, match="is not a voice") as caught:
        read_description(tmp_path / name)
    assert str(caught.value).isprintable()


def test_a_voice_is_saved_under_a_name_as_long_as_a_name_can_be_and_no_longer(tmp_path):
    weights = random_weights(describe())
    for _ in range(2):  # new, and replaced
        save_voice(tmp_path / ("a" * 255), describe(), weights)
    with pytest.raises(VoiceError, match="could not be written"):
        save_voice(tmp_path / ("a" * 256), describe(), weights)
    assert [len(path.name) for path in tmp_path.iterdir()] == [255]


def directory_entry(content: bytes, name: bytes) -> int:
    """Where the entry of a file begins in the directory of a zip."""
    return content.rindex(name) - 46


def damage_flag(content: bytearray) -> None:
    """Mark an entry as encrypted."""
    content[directory_entry(content, b"kernel.npy") + 8] |= 1


def damage_name(content: bytearray) -> None:
    """Mark a name as UTF-8 that is none."""
    entry = directory_entry(content, b"kernel.npy")
    content[entry + 8 : entry + 10] = struct.pack("<H", 0x800)
    content[entry + 46] = 0xFF


@pytest.mark.parametrize("damage", [damage_flag, damage_name])
def test_damage_in_the_directory_of_the_weights_is_told(tmp_path, damage):
    write_weights(tmp_path / "w.npz", {"kernel": np.zeros((3, 4)), "bias": np.zeros(4)})
    content = bytearray((tmp_path / "w.npz").read_bytes())
    damage(content)
    (tmp_path / "w.npz").write_bytes(content)
    with pytest.raises(VoiceError, match="damaged"):
        read_weights(tmp_path / "w.npz", SHAPES)


def test_any_flipped_byte_in_the_weights_is_told_or_harmless(tmp_path):
    path = tmp_path / "w.npz"
    write_weights(path, {"kernel": np.full((3, 4), 0.5), "bias": np.zeros(4)})
    original = path.read_bytes()
    told = 0
    for position in range(len(original)):
        content = bytearray(original)
        content[position] ^= 0xFF
        path.write_bytes(content)
        try:
            found = read_weights(path, SHAPES)
        except VoiceError:
            told += 1
        else:
            np.testing.assert_array_equal(found["kernel"], 0.5)
    assert told > len(original) / 2


def test_the_full_text_of_a_licence_is_kept_beside_the_voice(tmp_path):
    saved = save_voice(tmp_path / "voice", describe(), random_weights(describe()), licence_text="All of it.\n")
    assert licence_file(saved).read_text() == "All of it.\n"
    (saved / LICENCE_NAME).unlink()
    assert licence_file(saved) is None
    assert read_description(saved).licence == "CC0"


def test_a_licence_without_end_is_refused(folder, tmp_path):
    with pytest.raises(VoiceError, match="licence has"):
        save_voice(tmp_path / "voice", describe(), {}, licence_text="a" * (1 << 21))
    (tmp_path / LICENCE_NAME).write_bytes(b"a" * (1 << 21))
    with pytest.raises(VoiceError, match="too large"):
        licence_file(tmp_path)


def write_archive(path, arrays: dict[str, bytes]):
    """A weights file whose arrays are whatever bytes are given."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in arrays.items():
            archive.writestr(f"{name}.npy", content)
    return path


def npy(header: str, numbers: int = 12, version: bytes = b"\x01\x00") -> bytes:
    """An npy file with a header of ours."""
    text = header.encode("latin-1")
    length = struct.pack("<H" if version == b"\x01\x00" else "<I", len(text))
    return b"\x93NUMPY" + version + length + text + bytes(4 * numbers)


USUAL = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }"


@pytest.mark.parametrize(
    "header",
    [
        "(" * 900,
        "(" * 60_000,
        "[" * 200 + "1" + "]" * 200 + "\n",
        "-" * 900 + "1\n",
        "'''",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)",
        "{'descr': 'O', 'fortran_order': False, 'shape': (3, 4), }\n",
        "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4), }\n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, -4), }\n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "9" * 150 + "), }\n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), 'shape': (3, 4), }\n",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3, 4), }\n",
        "{'descr': '\x1b[31m', 'fortran_order': False, 'shape': (3, 4), }\n",
        "\0" * 100,
        "",
    ],
    ids=lambda header: ascii(header)[:40],
)
def test_a_hostile_array_header_is_one_printable_line(tmp_path, header):
    path = write_archive(tmp_path / "w.npz", {"kernel": npy(header), "bias": npy(USUAL + "\n")})
    shapes = {"kernel": (3, 4), "bias": (3, 4)}
    with pytest.raises(VoiceError, match=r"The weight 'kernel'|does not hold the weights") as caught:
        read_weights(path, shapes)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


def test_only_the_format_version_that_is_written_is_read(tmp_path):
    good, other = npy(USUAL + "\n"), npy(USUAL + "\n", version=b"\x02\x00")
    assert read_weights(write_archive(tmp_path / "w.npz", {"kernel": good}), {"kernel": (3, 4)})["kernel"].sum() == 0
    with pytest.raises(VoiceError, match="not an array that MyXTTS wrote"):
        read_weights(write_archive(tmp_path / "w.npz", {"kernel": other}), {"kernel": (3, 4)})


@pytest.mark.parametrize("shape", [(), (4,), (3, 4), (1, 2, 3, 4), (0, 5)])
@pytest.mark.parametrize("number_type", ["<f2", "<f4"])
def test_every_header_that_numpy_writes_for_floats_is_read(tmp_path, shape, number_type):
    stream = io.BytesIO()
    np.save(stream, np.ones(shape, number_type))
    path = write_archive(tmp_path / "w.npz", {"kernel": stream.getvalue()})
    np.testing.assert_array_equal(read_weights(path, {"kernel": shape})["kernel"], np.ones(shape))


def test_a_weights_file_far_larger_than_the_network_is_not_read(tmp_path):
    path = tmp_path / "w.npz"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # sparse
    with pytest.raises(VoiceError, match=r"it has 1,099,511,627,776 bytes"):
        read_weights(path, SHAPES)


def test_a_pipe_or_device_in_the_place_of_a_description_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "voice.json")
    with pytest.raises(VoiceError, match=r"voice\.json: it is a pipe, not a regular file"):
        read_description(tmp_path)
    (tmp_path / "voice.json").unlink()
    (tmp_path / "voice.json").symlink_to("/dev/zero")
    with pytest.raises(VoiceError, match=r"voice\.json: it is a device, not a regular file"):
        read_description(tmp_path)


def test_an_enormous_description_is_not_read(tmp_path):
    with (tmp_path / "voice.json").open("wb") as file:
        file.truncate(1 << 40)  # sparse
    with pytest.raises(VoiceError, match="it is larger than 64 MiB"):
        read_description(tmp_path)


@pytest.mark.parametrize("weights", ["pipe", "device"])
def test_a_pipe_or_device_in_the_place_of_the_weights_is_refused_without_waiting(tmp_path, weights):
    saved = save_voice(tmp_path / "voice", describe(), random_weights(describe()))
    (saved / "weights.npz").unlink()
    if weights == "pipe":
        os.mkfifo(saved / "weights.npz")
    else:
        (saved / "weights.npz").symlink_to("/dev/zero")
    with pytest.raises(VoiceError, match=r"weights\.npz"):
        read_description(saved)
