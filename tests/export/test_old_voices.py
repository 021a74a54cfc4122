"""Voices of earlier formats: converted without loss, and read safely whatever is in weights.npz."""

import io
import json
import os
import struct
import zipfile
import zlib

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from myxtts.cli import main
from myxtts.errors import VoiceError
from myxtts.export import old_voices
from myxtts.export.old_voices import convert_voice
from myxtts.synthesis.voice import Voice
from myxtts.synthesis.voice_folder import license_file, read_description, read_weights
from tests.synthesis.tiny_voice import SPEAKER_CHANNELS, describe, random_weights, write_voice


def write_old_voice(folder, speakers=("anna",)):
    """A voice as MyXTTS 0.1 wrote it."""
    folder.mkdir()
    arrays = random_weights(describe(speakers))
    if len(speakers) > 1:
        arrays["speaker_vectors"] = np.random.default_rng(4).normal(size=(len(speakers), SPEAKER_CHANNELS))
    stored = {name: array.astype("<f2" if array.ndim > 1 else "<f4") for name, array in arrays.items()}
    np.savez(folder / "weights.npz", **stored)
    content = json.loads((write_voice(folder.parent / "new", speakers) / "voice.json").read_text())
    content = {name: value for name, value in content.items() if name not in ("vocoder", "identity")}
    (folder / "voice.json").write_text(json.dumps(content | {"format_version": 2}))
    (folder / "LICENSE").write_text("All of it.\n")
    return folder, stored


@pytest.mark.parametrize("speakers", [("anna",), ("anna", "ben")])
def test_an_old_voice_is_converted_without_loss(tmp_path, speakers):
    old, stored = write_old_voice(tmp_path / "old", speakers)
    with pytest.raises(VoiceError, match=r"earlier version of MyXTTS \(format 2\).*myxtts voice convert"):
        Voice.load(old)
    assert main(["voice", "convert", str(old), str(tmp_path / "converted")]) == 0
    description, weights = read_weights(tmp_path / "converted")
    vectors = stored.pop("speaker_vectors", None)
    assert weights.keys() == stored.keys()
    for name, array in stored.items():
        np.testing.assert_array_equal(weights[name], array.astype(np.float32))
    voice = Voice.load(tmp_path / "converted")
    if vectors is not None:
        np.testing.assert_array_equal(voice.speaker_vector("ben"), vectors[1].astype(np.float32))
    assert voice.synthesize("Hello", steps=1).seconds > 0
    assert license_file(tmp_path / "converted").read_text() == "All of it.\n"
    # Saved speakers of the old voice still belong to it.
    assert description.identity == voice.identity == f"{zlib.crc32((old / 'weights.npz').read_bytes()):08x}"


def test_a_voice_may_replace_itself_and_is_not_converted_twice(tmp_path):
    old, _ = write_old_voice(tmp_path / "old")
    convert_voice(old, old)
    assert sorted(path.name for path in old.iterdir()) == ["LICENSE", "voice.json", "voice.onnx"]
    assert read_description(old).format_version == 3
    with pytest.raises(VoiceError, match="already"):
        convert_voice(old, tmp_path / "again")


@pytest.mark.parametrize("change", ["missing", "extra", "flat"])
def test_weights_of_another_network_are_not_converted(tmp_path, change):
    old, stored = write_old_voice(tmp_path / "old")
    kernel = "decoder/block_0/widen/kernel"
    changes = {
        "missing": {},
        "extra": {kernel: stored[kernel], "x": np.zeros(1, "<f4")},
        "flat": {kernel: np.zeros(4, "<f4")},
    }
    np.savez(old / "weights.npz", **{name: each for name, each in stored.items() if name != kernel} | changes[change])
    with pytest.raises(VoiceError):
        convert_voice(old, tmp_path / "converted")
    assert not (tmp_path / "converted").exists()


# --- weights.npz from an untrusted source -----------------------------------------------------------------------------

GOOD = {"kernel": np.full((3, 4), 0.5, "<f4"), "bias": np.zeros(4, "<f4")}


def write_npz(path, arrays=None):
    with path.open("wb") as file:
        np.savez(file, **GOOD if arrays is None else arrays)
    return path


def write_archive(path, arrays: dict[str, bytes]):
    """A weights file whose arrays are whatever bytes are given."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in arrays.items():
            archive.writestr(f"{name}.npy", content)
    return path


def npy(header: str, numbers: int = 12, version: bytes = b"\x01\x00") -> bytes:
    """An npy file with this header."""
    text = header.encode("latin-1")
    length = struct.pack("<H" if version == b"\x01\x00" else "<I", len(text))
    return b"\x93NUMPY" + version + length + text + bytes(4 * numbers)


USUAL = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }\n"


@pytest.mark.parametrize(
    "header",
    [
        "(" * 900,
        "(" * 60_000,
        "[" * 200 + "1" + "]" * 200 + "\n",
        "'''",
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
    path = write_archive(tmp_path / "w.npz", {"kernel": npy(header), "bias": npy(USUAL)})
    with pytest.raises(VoiceError, match="The weight 'kernel'") as caught:
        old_voices.read_old_weights(path)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


def test_only_the_npy_version_that_was_written_is_read(tmp_path):
    path = write_archive(tmp_path / "w.npz", {"kernel": npy(USUAL, version=b"\x02\x00")})
    with pytest.raises(VoiceError, match="not an array that MyXTTS wrote"):
        old_voices.read_old_weights(path)


@settings(max_examples=30, deadline=None)
@given(shape=st.lists(st.integers(0, 5), max_size=4).map(tuple), number_type=st.sampled_from(["<f2", "<f4"]))
@example(shape=(), number_type="<f2")
@example(shape=(0, 5), number_type="<f4")
def test_every_header_that_numpy_writes_for_floats_is_read(tmp_path_factory, shape, number_type):
    stream = io.BytesIO()
    np.save(stream, np.ones(shape, number_type))
    path = write_archive(tmp_path_factory.mktemp("voice") / "w.npz", {"kernel": stream.getvalue()})
    np.testing.assert_array_equal(old_voices.read_old_weights(path)["kernel"], np.ones(shape))


def test_pickled_weights_are_refused_without_being_unpickled(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "exploded"), "w"))

    bomb = np.empty(4, object)
    bomb[:] = [Bomb()] * 4
    with pytest.raises(VoiceError, match="not an array"):
        old_voices.read_old_weights(write_npz(tmp_path / "w.npz", {"bias": bomb}))
    assert not (tmp_path / "exploded").exists()


def test_compressed_weights_are_refused_because_they_may_expand_to_anything(tmp_path):
    with open(tmp_path / "w.npz", "wb") as file:
        np.savez_compressed(file, **GOOD)
    with pytest.raises(VoiceError, match="compressed"):
        old_voices.read_old_weights(tmp_path / "w.npz")


def test_weights_that_are_not_finite_are_not_read(tmp_path):
    with pytest.raises(VoiceError, match="not finite"):
        old_voices.read_old_weights(write_npz(tmp_path / "w.npz", {"bias": np.full(4, np.nan, "<f4")}))


@pytest.mark.parametrize("kept_fraction", [0.1, 0.5, 0.99])
def test_a_cut_off_weights_file_raises(tmp_path, kept_fraction):
    content = write_npz(tmp_path / "w.npz").read_bytes()
    (tmp_path / "w.npz").write_bytes(content[: int(len(content) * kept_fraction)])
    with pytest.raises(VoiceError, match="cut off"):
        old_voices.read_old_weights(tmp_path / "w.npz")


def test_any_flipped_byte_in_the_weights_raises_or_is_harmless(tmp_path):
    path = write_npz(tmp_path / "w.npz")
    original, num_raised = path.read_bytes(), 0
    for position in range(len(original)):
        content = bytearray(original)
        content[position] ^= 0xFF
        path.write_bytes(content)
        try:
            found = old_voices.read_old_weights(path)
        except VoiceError:
            num_raised += 1
        else:
            assert all((array == GOOD[name]).all() for name, array in found.items() if name in GOOD)
    assert num_raised > len(original) / 2


def test_a_pipe_and_an_enormous_file_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(VoiceError, match="it is a pipe"):
        old_voices.read_old_weights(tmp_path / "pipe")
    with (tmp_path / "w.npz").open("wb") as file:
        file.truncate(1 << 40)  # sparse
    with pytest.raises(VoiceError, match=r"has 1,099,511,627,776 bytes"):
        old_voices.read_old_weights(tmp_path / "w.npz")
