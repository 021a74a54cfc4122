"""Labels for the English letter tagger and the homographs."""

from myxtts.training.g2p_english import (
    align_letters,
    ipa_of,
    is_held_out_word,
    read_cmudict,
    read_homograph_examples,
    read_homograph_readings,
)

DICTIONARY = """\
abuse AH0 B Y UW1 S
abuse(2) AH0 B Y UW1 Z
box B AA1 K S
fox F AA1 K S # comment
wax W AE1 K S
cab K AE1 B
"""


def test_cmudict_is_read_with_its_variants(tmp_path):
    (tmp_path / "cmudict.dict").write_text(DICTIONARY, encoding="utf-8")
    words = read_cmudict(tmp_path)
    assert [ipa_of(phones) for phones in words["abuse"]] == ["əbjˈus", "əbjˈuz"]
    assert ipa_of(words["fox"][0]) == "fˈɑks"


def test_letters_get_their_phonemes(tmp_path):
    (tmp_path / "cmudict.dict").write_text(DICTIONARY, encoding="utf-8")
    aligned = dict(align_letters(read_cmudict(tmp_path)))
    assert aligned["box"] == ["b", "ˈɑ", "ks"]
    assert aligned["wax"] == ["w", "ˈæ", "ks"]


def test_about_one_word_in_twenty_is_held_out():
    held = sum(is_held_out_word(f"word{index}") for index in range(10_000))
    assert 400 < held < 600


def test_homographs_take_the_nearest_variant_of_cmudict(tmp_path):
    (tmp_path / "cmudict.dict").write_text(DICTIONARY, encoding="utf-8")
    header = '"homograph"\t"wordid"\t"label"\t"pronunciation"\t"homograph_type"\t"fine_homograph_type"\n'
    rows = '"abuse"\t"abuse_nou"\t"noun"\t"ə\'bjuːs"\t""\t""\n"abuse"\t"abuse_vrb"\t"verb"\t"ə\'bjuːz"\t""\t""\n'
    (tmp_path / "wordids.tsv").write_text(header + rows, encoding="utf-8")
    readings = read_homograph_readings(tmp_path / "wordids.tsv", read_cmudict(tmp_path))
    assert {name: tuple(reading) for name, reading in readings["abuse"].items()} == {
        "abuse_nou": ("əbjˈus", "nou"),
        "abuse_vrb": ("əbjˈuz", "vrb"),
    }
    (tmp_path / "train").mkdir()
    sentence = (
        '"homograph"\t"wordid"\t"sentence"\t"start"\t"end"\n"abuse"\t"abuse_vrb"\t"“They abuse it”, he said."\t8\t13\n'
    )
    (tmp_path / "train" / "abuse.tsv").write_text(sentence, encoding="utf-8")
    (example,) = read_homograph_examples(tmp_path / "train", readings)
    assert example.words[example.index] == "abuse"
    assert example.words[: example.index] == ("They",)
    assert example.reading == 1
