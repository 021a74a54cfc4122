"""Labels for the Persian letter tagger."""

import csv

import pytest

from myxtts.errors import TextError
from myxtts.text.persian_letters import read_line
from myxtts.training.g2p_persian import build_lexicon
from myxtts.training.g2p_persian_labels import (
    UNKNOWN,
    WordReader,
    align_gold,
    certain_ezafe,
    readings_of,
    without_spelled_ezafe,
)
from myxtts.training.g2p_persian_sources import read_gold, read_homographs, read_ipa_dict


@pytest.fixture
def farsdat(tmp_path):
    path = tmp_path / "FarsDat.csv"
    rows = [
        ("كتاب من", "ket/be1 man"),
        ("كتاب خانه", "ket/be1 x/ne"),
        ("خانه من", "x/neye1 man"),
        ("من كتاب", "man ket/b"),
    ]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["", "Grapheme", "Phoneme"])
        writer.writerows((index, *row) for index, row in enumerate(rows * 3))
    return path


def test_gold_sentences_have_words_and_ezafe(farsdat):
    sentence = read_gold(farsdat)[0]
    assert sentence.words == ("ketɑbe", "mæn")
    assert sentence.ezafe == {0}
    assert sentence.homographs == frozenset()


def test_test_sets_have_another_alphabet_and_homograph_marks(tmp_path):
    path = tmp_path / "Homograph_test.csv"
    path.write_text("Grapheme,Phoneme\nبدو,b/dve12 ca$\n", encoding="utf-8")
    (sentence,) = read_gold(path)
    assert sentence.words == ("bædve", "ʧɑʃ")
    assert sentence.ezafe == sentence.homographs == {0}


def test_a_missing_set_is_a_user_error(tmp_path):
    with pytest.raises(TextError, match="cannot be read"):
        read_gold(tmp_path / "FarsDat.csv")


def test_letters_get_consonant_and_vowel_and_words_their_ezafe(farsdat):
    examples, _ = align_gold(read_gold(farsdat))
    assert examples[0].chunks == ("ke", "t", "ɑ", "b", "", "mæ", "n")
    assert examples[0].ezafe == (1, 0)
    assert examples[2].chunks == ("x", "ɑ", "n", "e", "", "mæ", "n")  # the glide belongs to the ezafe
    assert examples[2].ezafe == (1, 0)
    assert readings_of(examples)["کتاب"] == {("ke", "t", "ɑ", "b"): 9}


def test_ezafe_is_certain_where_the_spelling_shows_it():
    line = read_line("کتاب‌های خوب و خانه‌ی ما، گلِ سرخ بزرگ را")
    assert certain_ezafe(line) == [1, 0, UNKNOWN, 1, 0, 1, UNKNOWN, 0, 0]


@pytest.mark.parametrize(
    ("text", "rewritten", "labels"),
    [
        ("کتاب‌های من", "کتاب من", {0: 1}),
        ("این کتاب‌ها را", "این کتاب را", {1: 0}),
        ("در خانه‌ی ما", "در خانه ما", {1: 1}),
        ("خانهٔ ما", "خانه ما", {0: 1}),
    ],
)
def test_sentences_are_rewritten_without_the_spelled_ezafe(text, rewritten, labels):
    assert without_spelled_ezafe(text) == (rewritten, labels)


def test_a_sentence_without_spelled_ezafe_is_not_rewritten():
    assert without_spelled_ezafe("کتاب من") is None


def test_word_lists_are_read_in_our_symbols(tmp_path):
    listed = tmp_path / "fa.txt"
    listed.write_text("سیاه\t/siɒːh/\nچاق\t/t͡ʃɒːɢ/\nدو کلمه\t/do kæleme/\n", encoding="utf-8")
    assert read_ipa_dict(listed) == {"سیاه": {"sijɑh"}, "چاق": {"ʧɑq"}}
    homographs = tmp_path / "homographs.json"
    homographs.write_text('{"شش": {"SeS": ["شش تا"], "SoS": ["شش او"]}}', encoding="utf-8")
    assert read_homographs(homographs) == {"شش": {"ʃeʃ": ["شش تا"], "ʃoʃ": ["شش او"]}}


def test_reviewed_readings_win_over_the_other_sources(farsdat):
    gold, aligner = align_gold(read_gold(farsdat))
    reader = WordReader(readings_of(gold), {"کاملا": {"kɑmlɑ"}, "کیف": {"kif"}}, [], aligner, {})
    lexicon = build_lexicon(reader)
    assert lexicon["کاملا"] == "kɑmelæn"
    assert lexicon["کیف"] == "kif"
    assert lexicon["کتاب"] == "ketɑb"
