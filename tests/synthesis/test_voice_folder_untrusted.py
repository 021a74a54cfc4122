"""Untrusted descriptions: whatever is in voice.json, the answer is one line."""

import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.errors import MyXTTSError, VoiceError
from myxtts.export.voice_writer import save_voice
from myxtts.synthesis.voice_folder import read_description
from tests.synthesis.tiny_voice import describe, random_weights

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


IMPOSSIBLE = [
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
    model(text_channels=10**9),
    model(decoder_layers=10**6),
    model(n_mels=-1),
    model(n_mels="20"),
    model(hook="os.system"),
    model(decoder_dilations=[]),
    mel(hop_length=0),
    mel(n_fft=10**9),
    mel(sample_rate=0),
    {"mel": {}},
    {"defaults": {"steps": 0}},
    {"defaults": {"steps": 10**9}},
    {"format_version": "1"},
    {"vocoder": {"name": "neural"}},
    {"vocoder": {"name": "griffin-lim", "sha256": "0" * 64}},
    {"vocoder": {"name": "../neural", "sha256": "0" * 64}},
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
]
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def test_an_impossible_description_is_refused_with_one_printable_line(change):
    for changes in IMPOSSIBLE:
        with pytest.raises(MyXTTSError) as caught:
            read_description(change(**changes))
        assert str(caught.value).isprintable(), changes
        assert len(str(caught.value)) < 800, changes


def test_any_value_in_any_field_is_read_or_refused_with_one_printable_line(change, folder):
    content = json.loads((folder / "voice.json").read_text())
    fields = [(name, None) for name in content]
    fields += [(name, inner) for name, value in content.items() if isinstance(value, dict) for inner in value]

    @settings(max_examples=150, deadline=None)
    @given(field=st.sampled_from(fields), value=ANY_JSON)
    def is_one_line(field, value):
        name, inner = field
        message = ""
        try:
            read_description(change(**{name: value if inner is None else content[name] | {inner: value}}))
        except MyXTTSError as error:
            message = str(error)
        assert message.isprintable()
        assert len(message) < 800

    is_one_line()


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
