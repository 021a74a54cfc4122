"""Writing voice folders: whole or not at all, never over anything else, and with all that they need."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from myxtts.cli import main
from myxtts.errors import TextError, VoiceError
from myxtts.export.voice_writer import save_voice
from myxtts.synthesis import vocoder
from myxtts.synthesis.voice import Voice
from myxtts.synthesis.voice_folder import LICENSE_NAME, license_file, read_description
from myxtts.text import g2p
from myxtts.text.g2p_model import load_model, save_model
from myxtts.text.lexicon import Lexicon
from myxtts.text.tokenizer import FrontEnd, SymbolTable
from tests.synthesis.test_vocoder import write_vocoder
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
    with pytest.raises(VoiceError, match="not a voice, so it was not replaced"):
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
    with pytest.raises(VoiceError, match="1 weights do not belong to a voice, such as 'new/kernel'"):
        save_voice(tmp_path / "voice", describe(), weights | {"new/kernel": weights["mel_mean"]})


def test_a_voice_of_several_speakers_needs_their_vectors(tmp_path):
    description = describe(("anna", "ben"))
    with pytest.raises(VoiceError, match="2 speakers need one speaker vector each"):
        save_voice(tmp_path / "voice", description, random_weights(description))


# --- complete folders ---------------------------------------------------------------------------------------------------


@pytest.fixture
def own_g2p(monkeypatch, tmp_path):
    """The English model of the package, in a folder that a test may change."""
    shutil.copytree(g2p.MODEL_FOLDER, tmp_path / "g2p")
    monkeypatch.setattr(g2p, "MODEL_FOLDER", tmp_path / "g2p")
    g2p.model_sha256.cache_clear()
    yield tmp_path / "g2p" / "en.npz"
    g2p.model_sha256.cache_clear()
    g2p.english_model.cache_clear()


def phoneme_voice(folder, **options):
    symbols = SymbolTable().extended_with("hɛəloʊˈɪˌð")
    front_end = FrontEnd("phonemes", Lexicon({"hello": "hɪ"}), "myxtts")
    spec = replace(describe().model_spec(), num_symbols=len(symbols))
    description = describe(model=spec.to_dict(), symbols=symbols.to_list(), front_end=front_end.to_dict())
    return save_voice(folder, description, random_weights(description), **options)


def change_package(own_g2p):
    model = load_model(own_g2p)
    save_model(own_g2p, model._replace(lexicon={**model.lexicon, "oh": "ˈɪ"}))
    g2p.model_sha256.cache_clear()
    g2p.english_model.cache_clear()


def test_a_voice_keeps_its_own_pronunciation_when_the_package_changes(tmp_path, own_g2p):
    folder = phoneme_voice(tmp_path / "voice")
    assert (folder / "g2p-en.npz").read_bytes() == own_g2p.read_bytes()
    before = Voice.load(folder).tokenizer.encode("oh", "en").ids
    change_package(own_g2p)
    assert Voice.load(folder).tokenizer.encode("oh", "en").ids == before
    assert read_description(folder).tokenizer().encode("oh", "en").ids != before


def test_a_voice_without_its_pronunciation_model_or_with_another_is_refused(tmp_path, own_g2p):
    folder = phoneme_voice(tmp_path / "voice", copies_assets=False)
    assert not (folder / "g2p-en.npz").exists()
    assert Voice.load(folder).synthesize("oh", steps=1).seconds > 0
    change_package(own_g2p)
    with pytest.raises(VoiceError, match="another pronunciation model for 'en'"):
        Voice.load(folder)
    shutil.copy(own_g2p, folder / "g2p-en.npz")
    with pytest.raises(VoiceError, match="its hash differs"):
        Voice.load(folder)


def test_the_lexicon_is_a_file_that_may_be_edited(tmp_path):
    folder = phoneme_voice(tmp_path / "voice")
    assert (folder / "lexicon.txt").read_text() == "hello\thɪ\n"
    assert json.loads((folder / "voice.json").read_text())["front_end"]["lexicon"] == {}
    (folder / "lexicon.txt").write_text("hello\thoʊ\n")
    tokenizer = Voice.load(folder).tokenizer
    assert [tokenizer.symbols.symbols[each] for each in tokenizer.encode("hello", "en").ids] == ["h", "o", "ʊ"]
    (folder / "lexicon.txt").write_text("no tab\n")
    with pytest.raises(TextError, match="expected `word<TAB>phonemes`"):
        Voice.load(folder)


def test_a_copy_has_the_vocoder_the_scores_and_samples(tmp_path, monkeypatch):
    source = write_voice(tmp_path / "voice", ("anna", "ben"))
    shared = tmp_path / "assets" / "vocoder"
    shared.mkdir(parents=True)
    sha256 = write_vocoder(shared / "tiny-1.onnx")
    monkeypatch.setattr(vocoder.myxtts, "__file__", str(tmp_path / "__init__.py"))
    content = json.loads((source / "voice.json").read_text()) | {"vocoder": {"name": "tiny-1", "sha256": sha256}}
    (source / "voice.json").write_text(json.dumps(content))
    (source / "scores.json").write_text("{}")
    out = tmp_path / "copy"
    assert main(["voice", "export", str(source), str(out)]) == 0
    names = ["sample-1.wav", "sample-2.wav", "scores.json", "speaker.onnx", "tiny-1.onnx", "voice.json", "voice.onnx"]
    assert sorted(path.name for path in out.iterdir()) == names
    shutil.rmtree(shared)
    said = [Voice.load(out).synthesize("hello", speaker="ben").samples for _ in range(2)]
    np.testing.assert_array_equal(*said)
    with pytest.raises(VoiceError, match="needs the vocoder"):
        Voice.load(source)


def test_the_license_of_a_voice_is_not_changed_by_a_copy(tmp_path, capsys):
    source = write_voice(tmp_path / "voice")
    assert main(["voice", "export", str(source), str(tmp_path / "copy"), "--license", "MIT"]) == 2
    assert "a copy keeps its license" in capsys.readouterr().err
    assert not (tmp_path / "copy").exists()
