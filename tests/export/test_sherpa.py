"""Voices for sherpa-onnx: Matcha type with a lexicon for phonemes, characters for letters."""

import numpy as np
import onnx
import pytest

from myxtts.cli import main
from myxtts.export.piper import symbol_ids
from myxtts.export.sherpa import export_sherpa
from myxtts.export.whole_voice import frequent_words
from myxtts.synthesis.engine import Session
from myxtts.synthesis.voice import Voice
from myxtts.text import g2p
from tests.export.test_piper import expected
from tests.export.test_voice_writer import phoneme_voice
from tests.synthesis.tiny_voice import describe, write_voice


def metadata_of(path):
    return {each.key: each.value for each in onnx.load(path).metadata_props}


def test_a_voice_of_letters_asks_sherpa_for_characters(tmp_path):
    voice = write_voice(tmp_path / "letters")
    folder = export_sherpa(voice, tmp_path / "voice")
    assert sorted(path.name for path in folder.iterdir()) == ["model.onnx", "tokens.txt"]
    metadata = metadata_of(folder / "model.onnx")
    assert metadata["frontend"] == "characters"
    assert metadata["comment"] == "piper"
    assert metadata["sample_rate"] == "8000"
    lines = (folder / "tokens.txt").read_text().splitlines()
    assert [line for line in lines if " " not in line] == ["2"]  # the space itself
    assert len(lines) == len(symbol_ids(describe()))


@pytest.fixture
def phonemes(tmp_path):
    return phoneme_voice(tmp_path / "phonemes")


def test_a_voice_of_phonemes_is_a_matcha_model_with_its_vocoder_inside(phonemes, tmp_path):
    folder = export_sherpa(phonemes, tmp_path / "out", words=["Hello", "hello", "", "oh hello", "oh"])
    model = onnx.load(folder / "model.onnx")
    assert [each.name for each in model.graph.input] == ["x", "x_length", "noise_scale", "length_scale"]
    assert [each.name for each in model.graph.output] == ["audio_output"]
    metadata = metadata_of(folder / "model.onnx")
    assert {name: metadata[name] for name in ("use_eos_bos", "pad_id", "n_speakers", "has_espeak")} == {
        "use_eos_bos": "0", "pad_id": "1", "n_speakers": "1", "has_espeak": "1"
    }  # fmt: skip
    lexicon = (folder / "lexicon.txt").read_text()
    assert lexicon == "hello xx h ɪ\noh xx ˈ o ʊ\n"
    tokens = dict(
        line.rsplit(" ", 1) if " " in line else (" ", line) for line in (folder / "tokens.txt").read_text().splitlines()
    )
    assert {"^", "$", " ", "h"} <= tokens.keys()
    assert tokens.pop("xx") == tokens["_"]
    assert len(set(tokens.values())) == len(tokens)


def test_matcha_says_what_our_engine_says_with_a_boundary_after_each_pause(phonemes, tmp_path):
    folder = export_sherpa(phonemes, tmp_path / "out", words=["oh"])
    voice = Voice.load(phonemes)
    ids = voice.tokenizer.encode("oh, hello.", "en").ids
    comma, boundary = (voice.tokenizer.symbols.id_of[symbol] for symbol in ", ")
    sent = [each for place, each in enumerate(ids) if not (each == boundary and ids[place - 1] == comma)]
    assert len(sent) == len(ids) - 1
    with_blanks = [1, *(each for symbol in sent for each in (symbol, 1))]
    inputs = {
        "x": np.array([with_blanks]),
        "x_length": np.array([len(with_blanks)]),
        "noise_scale": np.zeros(1, np.float32),
        "length_scale": np.ones(1, np.float32),
    }
    (found,) = Session(onnx.load(folder / "model.onnx")).run(("audio_output",), inputs)
    samples, _ = expected(voice, ids)
    assert found.shape == (1, len(samples))
    assert np.sqrt(np.mean((found[0] - np.clip(samples, -1, 1)) ** 2)) < 1e-3


def test_the_words_are_by_default_those_of_our_model(phonemes, tmp_path, capsys, monkeypatch):
    known = "myxtts.export.whole_voice.frequent_words"
    monkeypatch.setattr(known, lambda language: {"en": {"hello": "hello"}}.get(language, {}))
    words = ["export", str(phonemes), str(tmp_path / "out"), "--format", "sherpa"]
    assert main(words) == 0
    assert (tmp_path / "out" / "lexicon.txt").read_text() == "hello xx h ɪ\n"
    assert main(words) == 2
    assert "exists, so it was not replaced" in capsys.readouterr().err
    monkeypatch.setattr(known, lambda language: {})
    words[2] = str(tmp_path / "other")
    assert main(words) == 2
    assert "--words FILE" in capsys.readouterr().err


def test_the_english_lexicon_has_the_100_000_most_frequent_words():
    words = frequent_words("en")
    first, second, _ = g2p.frequent_english_words()
    assert (len(first), len({word.lower() for word in (*first, *second)})) == (30_000, 100_000)
    assert not [word for word in (*first, *second) if word.lower() not in words]
    assert frequent_words("de") == {}


def test_english_has_words_that_the_dictionary_lacks_with_what_is_read_for_them():
    words = frequent_words("en")
    read = {
        "hello": "hello",
        "jewellery": "jewellery",
        "nhs": "NHS",
        "ft": "FT",
        "tv": "tv",
        "gpu": "GPU",
        "uae": "UAE",
    }
    read |= {"iii": "three", "xiv": "fourteen", "dont": "don't", "were": "were", "dr": "doctor", "uefa": "UEFA"}
    read |= {"don't": "don't", "we'll": "we'll", "merkel's": "Merkel's", "government's": "government's"}
    assert {word: words.get(word) for word in read} == read


def test_a_word_is_found_with_both_apostrophes(phonemes, tmp_path):
    folder = export_sherpa(phonemes, tmp_path / "out", words=["oh’s", "Oh's"])
    assert (folder / "lexicon.txt").read_text() == "oh's xx ˈ o ʊ\noh’s xx ˈ o ʊ\n"


def test_words_that_are_not_utf8_or_none_and_words_for_letters_are_refused(tmp_path, phonemes, capsys):
    (tmp_path / "words.txt").write_bytes(b"caf\xe9\n")
    given = ["--format", "sherpa", "--words", str(tmp_path / "words.txt")]
    assert main(["export", str(phonemes), str(tmp_path / "out"), *given]) == 2
    assert "not UTF-8 text (byte 3)" in capsys.readouterr().err
    (tmp_path / "words.txt").write_bytes(b"\n \n")
    assert main(["export", str(phonemes), str(tmp_path / "out"), *given]) == 2
    assert "has no words" in capsys.readouterr().err
    (tmp_path / "words.txt").write_bytes(b"hello\n")
    assert main(["export", str(write_voice(tmp_path / "letters")), str(tmp_path / "out"), *given]) == 2
    assert "needs no word list" in capsys.readouterr().err
