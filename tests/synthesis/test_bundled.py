"""Bundled voices by name and by language; copies of MyXTTS with some of them."""

import shutil
import sys

import numpy as np
import pytest

import myxtts
from myxtts.cli import main
from myxtts.config.config import DataConfig, TrainingConfig, XTTSConfig
from myxtts.errors import TextError, VoiceError
from myxtts.synthesis.bundled import (
    bundled_voice,
    bundled_voice_for,
    bundled_voices,
    find_voice,
    first_voice_with,
    voice_for_text,
)
from myxtts.synthesis.options import check_front_end
from myxtts.synthesis.voice import Voice
from myxtts.text import phonemes
from myxtts.text.tokenizer import FrontEnd
from tests.commands.command_line import failure_of, names_in
from tests.synthesis.bundle import use_bundle
from tests.synthesis.tiny_voice import write_recording, write_voice

SPOKEN = {"kathleen": ["en"], "base": ["en", "fa", "de"]}


@pytest.fixture
def bundle(tmp_path, monkeypatch):
    return use_bundle(tmp_path / "package", monkeypatch)


@pytest.mark.parametrize(
    ("text", "language", "name"),
    [
        ("Hello", None, "kathleen"),
        ("Hello", "en", "kathleen"),
        ("Hello", "English", "kathleen"),
        ("Hello", "de", "base"),
        ("سلام", None, "base"),
        ("سلام", "fa", "base"),
        ("123", None, "kathleen"),
        ("Привет", "ru", "base"),
    ],
)
def test_english_is_spoken_by_kathleen_and_the_rest_by_base(text, language, name):
    assert voice_for_text(text, language, SPOKEN) == name


def test_the_table_of_all_languages_is_not_needed_for_the_bundled_voices(monkeypatch):
    monkeypatch.setitem(sys.modules, "langcodes", None)
    assert voice_for_text("Hello", None, SPOKEN) == "kathleen"
    assert voice_for_text("سلام", None, SPOKEN) == "base"


def test_several_languages_need_a_voice_that_has_all_of_them():
    assert first_voice_with(["en", "de"], SPOKEN) == "base"
    assert first_voice_with([], SPOKEN) == "kathleen"


def test_names_stand_for_bundled_voices_and_paths_for_folders(bundle, tmp_path, monkeypatch):
    voices = bundle / "assets" / "voices"
    assert find_voice("base") == voices / "base"
    assert find_voice("bundled") == find_voice(None) == voices / "kathleen"
    assert find_voice("bundled", "fa") == voices / "base"
    monkeypatch.chdir(tmp_path)
    own = write_voice(tmp_path / "default")  # this copy has no voice of that name
    assert find_voice("default").resolve() == own
    shutil.rmtree(own)
    with pytest.raises(VoiceError, match=r"'default' is not in this copy of MyXTTS\. It has: kathleen, base"):
        find_voice("default")


def test_python_loads_voices_by_name(bundle):
    assert myxtts.load_voice().speakers == ("kathleen",)
    assert myxtts.load_voice("base").languages == ("en", "fa", "de")


def test_a_copy_with_only_some_voices_uses_them(bundle):
    shutil.rmtree(bundle / "assets" / "voices" / "kathleen")
    assert list(bundled_voices()) == ["base"]
    assert bundled_voice_for("Hello", None).name == "base"
    (bundle / "assets" / "voices" / "base").rename(bundle / "assets" / "voices" / "kathleen")
    assert bundled_voice("fa").name == "kathleen"


def test_say_chooses_the_voice_by_language_script_and_speaker(bundle, here, capsys):
    for words, languages in ((["hello"], "en"), (["سلام"], "fa"), (["hello", "--speaker", "ben"], "en")):
        assert main(["say", *words, "-o", "out.wav", "--timings", "out.json", "--steps", "1"]) == 0, languages
    assert "skipped" not in capsys.readouterr().out
    assert "no language 'ru'" in failure_of(capsys, "say", "hello", "--language", "ru")
    assert "no speaker 'nobody'" in failure_of(capsys, "say", "hello", "--speaker", "nobody")
    assert "no speaker 'ben'" in failure_of(capsys, "say", "hello", "--speaker", "ben", "--voice", "kathleen")


def test_clone_uses_the_bundled_voice_that_can(bundle, here, capsys):
    write_recording(here / "me.wav")
    words = ["clone", "me.wav", "hello", "-o", "out.wav", "--save-speaker", "me.json", "--steps", "1"]
    assert main(words) == 0
    assert main(["say", "hello", "--speaker", "me.json", "-o", "again.wav", "--steps", "1"]) == 0
    assert (here / "out.wav").read_bytes() == (here / "again.wav").read_bytes()


def test_voice_list_names_the_bundled_voices(bundle, here, capsys):
    assert main(["voice", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["kathleen", "base"]
    assert "en, fa, de  anna, ben" in lines[1]


def test_a_bundled_voice_leaves_the_package_with_the_vocoder(bundle, here):
    assert main(["voice", "export", "base", "mine", "--no-samples"]) == 0
    assert names_in(here / "mine") == ["speaker.onnx", "universal.onnx", "voice.json", "voice.onnx"]
    said = Voice.load("base").synthesize("hello").samples
    shutil.rmtree(bundle)
    np.testing.assert_array_equal(Voice.load(here / "mine").synthesize("hello").samples, said)


def test_a_voice_can_be_exported_with_another_vocoder_and_back(bundle, here, capsys):
    shutil.copy(bundle / "assets" / "vocoder" / "universal.onnx", here / "own.onnx")
    assert main(["voice", "export", "kathleen", "mine", "--vocoder", "own.onnx", "--no-samples"]) == 0
    assert names_in(here / "mine") == ["own.onnx", "voice.json", "voice.onnx"]
    assert "vocoder own" in capsys.readouterr().out
    assert main(["voice", "export", "mine", "plain", "--vocoder", "griffin-lim", "--no-samples"]) == 0
    assert names_in(here / "plain") == ["voice.json", "voice.onnx"]
    assert (
        main(["voice", "export", "plain", "shared", "--vocoder", "universal", "--shared-assets", "--no-samples"]) == 0
    )
    assert names_in(here / "shared") == ["voice.json", "voice.onnx"]
    said = [Voice.load(name).synthesize("hello").samples for name in ("shared", "kathleen")]
    np.testing.assert_array_equal(*said)
    shutil.copy(here / "own.onnx", here / "voice.onnx")
    capsys.readouterr()
    assert "cannot be named 'voice'" in failure_of(capsys, "voice", "export", "mine", "x", "--vocoder", "voice.onnx")
    words = ["voice", "export", "kathleen", "y", "--vocoder", "own.onnx", "--shared-assets"]
    assert "Leave out --shared-assets" in failure_of(capsys, *words)


def test_a_training_starts_from_the_bundled_voice_with_most_speakers(bundle, tmp_path):
    from myxtts.training.starting_config import resolve_starting_config

    def start(init_from, language):
        training = TrainingConfig(init_from=init_from, checkpoint_dir=str(tmp_path / "run"))
        config = XTTSConfig(data=DataConfig(language=language, text_symbols="graphemes"), training=training)
        return resolve_starting_config(config).training.init_from

    assert start("bundled", None) == "base"
    assert start("bundled", "fa") == "base"
    assert start("kathleen", "en") == "kathleen"


def test_german_without_espeak_is_one_clear_line_and_english_needs_none(monkeypatch):
    monkeypatch.setattr(phonemes, "is_installed", lambda: False)
    front_end = FrontEnd("phonemes", phonemizer="myxtts")
    for language in ("en", "fa", None):
        check_front_end(front_end, language)
    with pytest.raises(TextError, match=r"in German \(de\) .*espeak-ng.*not installed\. Run .*phonemes") as caught:
        check_front_end(front_end, "de")
    assert "\n" not in str(caught.value)


def test_a_server_without_voices_of_its_own_loads_all_bundled_ones_and_chooses_by_the_text(bundle):
    from myxtts.serving.voices import open_voices

    pool, problems = open_voices([], threads=1)
    assert problems == []
    assert list(pool.loaded) == ["kathleen", "base"]
    assert pool.choose(None, "Hello").voice.speakers == ("kathleen",)
    assert pool.choose(None, "سلام").voice.speakers == ("anna", "ben")
    assert pool.choose(None, "Hallo", "de").voice.speakers == ("anna", "ben")
    assert pool.choose("alloy", "Hello").voice.speakers == ("kathleen",)
    assert pool.choose("alloy", "سلام").voice.speakers == ("anna", "ben")
    assert pool.choose("fable", "Hello") == (pool.loaded["base"], "ben")


def test_the_voices_of_this_package_load_and_the_vocoder_is_stored_once():
    for folder in bundled_voices().values():
        assert Voice.load(folder, threads=1).languages
        assert {path.name for path in folder.glob("*.onnx")} <= {"voice.onnx", "speaker.onnx"}
