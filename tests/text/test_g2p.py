"""Our own G2P with the bundled models."""

import io
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.errors import TextError
from myxtts.text import g2p
from myxtts.text.g2p import INVENTORY
from myxtts.text.g2p_english import one_primary_stress, with_plural
from myxtts.text.g2p_model import load_model, save_model
from myxtts.text.lexicon import Lexicon
from myxtts.text.normalize import normalize_text
from myxtts.text.persian_letters import read_line

PAUSES = set(",.?!;:—… ")


def read(text: str, language: str, lexicon: Lexicon | None = None) -> str:
    return g2p.phonemize([text], language, lexicon)[0]


def plain(ipa: str) -> str:
    return ipa.replace("ˈ", "").replace("ˌ", "")


def test_english_words_come_from_the_lexicon():
    assert read("Hello, world!", "en") == "həlˈoʊ, wˈɝld!"
    assert read("the apple of the tree", "en") == "ði ˈæpəl əv ðə tɹˈi"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Pipes made of lead.", "lˈɛd"),
        ("They will lead us.", "lˈid"),
        ("I live in a house.", "lˈɪv"),
        ("It is of 'use", "jˈus"),
    ],
)
def test_english_homographs_follow_their_context(text, word):
    assert word in read(text, "en").rstrip(".").split()


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("She will read it.", "ɹˈid"),
        ("They want to record the song.", "ɹəkˈɔɹd"),
        ("They may never desert us.", "dəzˈɚt"),
        ("I read it yesterday.", "ɹˈɛd"),
        ("It must record levels.", "ɹəkˈɔɹd"),
    ],
)
def test_after_a_modal_a_homograph_is_a_verb(text, word):
    assert word in read(text, "en").rstrip(".").split()


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("The US and the UN", "ðə jˌuˈɛs ənd ðə jˌuˈɛn"),
        ("According to the WHO", "əkˈɔɹdɪŋ tu ðə dˌʌbəljuˌeɪtʃˈoʊ"),
        ("WHO IS IT", "hˈu ɪz ɪt"),
        ("Vitamin A is good.", "vˈaɪtəmən ˈeɪ ɪz ɡˈʊd."),
        ("Once Upon A Time", "wˈʌns əpˈɑn ə tˈaɪm"),
        ("the project", "ðə pɹˈɑdʒɛkt"),
    ],
)
def test_capitals_and_articles_decide_how_english_words_are_read(text, spoken):
    assert read(text, "en") == spoken


def test_unknown_english_words_are_read_by_their_letters():
    sound = read("blorfing", "en")
    assert sound.count("ˈ") == 1
    assert plain(sound).startswith("bl")
    assert plain(sound).endswith("ɪŋ")


def test_initialisms_are_letters():
    assert plain(read("U.S.A", "en")) == "ju ɛs eɪ"
    assert plain(read("BBC", "en")) == "bibisi"
    assert plain(read("GPU", "en")) == "dʒipiju"
    assert plain(read("UAE", "en")) == "jueɪi"


def test_persian_ezafe_is_spoken():
    assert plain(read("کتاب من", "fa")) == "ketɑbe mæn"
    assert plain(read("کتابِ من", "fa")) == "ketɑbe mæn"
    assert plain(read("خانهٔ ما", "fa")) == "xɑneje mɑ"


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("۳۰م", "siom"),  # siæm is "I am thirty"
        ("۲۵م آبان", "bist o pændʒome ɑbɑn"),
        ("۱۳۰۰", "hezɑr o sisæd"),
        ("۱۰ m² و ۵ g", "dæh metre moræbbæʔ væ pændʒ ɡeræm"),
        ("€۲۵٫۵۰", "bist o pændʒ juro væ pændʒɑh sent"),
        ("۵ صفر", "pændʒome sæfær"),
        ("امام خمینی (ره)", "emɑme xomejni ræhmætollɑheælejh"),
        ("۱۴۴۶ ه.ق.", "hezɑr o tʃæhɑrsæd o tʃehel o ʃeʃe hedʒrije qæmæri"),
        ("ساعت ۷ صبح", "sɑʔæte hæfte sobh"),
        ("½ لیوان", "nim livɑn"),
        ("۱۰ - ۵", "dæh menhɑje pændʒ"),
        ("AT&T", "ej ti end ti"),
        ("نه دیدم نه شنیدم", "næ didæm næ ʃenidæm"),  # noh is nine
        ("بیست و نه نفر", "bist o noh næfær"),
        ("چهل و هفتمین", "tʃehel o hæftomin"),
        ("حمله‌ی هوایی", "hæmleje hævɑji"),
        ("سازمان س.م.م. گفت", "sɑzemɑne sin mim mim ɡoft"),
        ("IT و WHO و RAM", "ɑjti væ dɑbeljuejtʃo væ ræm"),
        ("Python و COVID-19", "pɑjton væ kovid nuzdæh"),
        ("۲۰۲۴-۰۵-۱۷", "hefdæhome meje do hezɑr o bist o tʃæhɑr"),
        ("دوشنبه ۱۴۰۴/۰۹/۱۷", "doʃænbe hefdæhome ɑzære hezɑr o tʃæhɑrsæd o tʃæhɑr"),
        ("ساعت ۷:۴۵", "sɑʔæte hæft o tʃehel o pændʒ dæqiqe"),
        ("www.example.ir", "dɑbelju dɑbelju dɑbelju dɑt iɡzæmpel dɑt ɑj ɑr"),
    ],
)
def test_words_that_the_persian_normalizer_writes_are_read_right(written, spoken):
    assert plain(read(normalize_text(written, "fa"), "fa")) == spoken


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("سه کتاب", "se ketɑb"),
        ("دو شب ماند", "do ʃæb mɑnd"),
        ("علی علیه\u200cالسلام", "æli ælejhessælɑm"),
        ("منفی پنج", "mænfi pændʒ"),
    ],
)
def test_persian_words_that_count_or_bless_join_without_ezafe(text, expected):
    assert plain(read(text, "fa")) == expected


def test_persian_diacritics_choose_a_reading_of_the_lexicon():
    assert plain(read("سه گرَم", "fa")) == "se ɡeræm"
    assert plain(read("کتابِ بزرگِ ما", "fa")) == "ketɑbe bozorɡe mɑ"
    assert plain(read("پنجمِ مهر", "fa")) == "pændʒome mehr"


@pytest.mark.parametrize("code", g2p.LANGUAGES)
def test_reviewed_readings_are_words_and_phonemes(code):
    rows = [row for row in g2p.reviewed_path(code).read_text(encoding="utf-8").splitlines() if row[:1] != "#"]
    reviewed = g2p.reviewed_readings(code)
    assert len(reviewed) == len(rows)  # no word twice
    assert all(len(row.split("\t")) == 3 for row in rows)
    assert set("".join(reviewed.values())) <= INVENTORY | set("ʧʤ")
    if code == "fa":
        lines = {word: read_line(word) for word in reviewed if not word.isascii()}
        assert [word for word, line in lines.items() if line.written_form(line.words[0]) != word] == []
    assert [word for word in reviewed if word != word.lower()] == []


@pytest.mark.parametrize("code", g2p.LANGUAGES)
def test_reviewed_readings_win_over_the_model_of_a_voice(tmp_path, code):
    word, phonemes = next(iter(g2p.reviewed_readings(code).items()))
    model = load_model(g2p.model_path(code))
    path = tmp_path / "own.npz"
    save_model(path, model._replace(lexicon={**model.lexicon, word: "k"}))
    own = g2p.english_model(path) if code == "en" else g2p.persian_model(path)
    assert own.lexicon[word] == phonemes


def test_persian_punctuation_ends_a_phrase():
    assert plain(read("کتاب، من!", "fa")) == "ketɑb, mæn!"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("بیست و سه", "bist o se"),
        ("صد و بیست و پنجم", "sæd o bist o pænʤom"),
        ("دو و نیم", "do o nim"),
        ("دو و سه", "do væ se"),
        ("من و تو", "mæn væ to"),
        ("بیست، و سه", "bist, væ se"),
    ],
)
def test_persian_and_inside_a_number_is_o(text, expected):
    assert plain(read(text, "fa")).replace("dʒ", "ʤ") == expected


def test_persian_stress_is_before_the_ezafe_and_on_the_prefix_of_verbs():
    assert read("کتاب من", "fa").startswith("ketˈɑbe")
    assert read("می\u200cروم", "fa").startswith("mˈi")


def test_words_of_the_other_script_are_read_in_the_sounds_of_the_language():
    persian = read("سلام Google", "fa")
    assert set(plain(persian)) <= set("ptbdkɡqʔfvszʃʒxhmnlrjæɑeoiu ")
    assert len(persian.split()) == 2
    english = read("the word سلام here", "en")
    assert len(english.split()) == 4
    assert not set("qxʔr") & set(english)


def test_the_lexicon_of_the_user_wins():
    assert read("the GIF", "en", Lexicon({"gif": "dʒˈɪf"})) == "ðə dʒˈɪf"
    assert read("کتاب", "fa", Lexicon({"کتاب": "kˈɑ"})) == "kˈɑ"


def test_what_cannot_be_spoken_stays_visible():
    assert "😀" in read("hi 😀", "en")
    assert "5" in read("hi 5", "en")


@settings(max_examples=60, deadline=None)
@given(st.text(st.sampled_from("abcXYZ'-.,!? کتابهیمنو\u200c\u0650\u0654éß"), max_size=40))
@pytest.mark.parametrize("language", ["en", "fa"])
def test_any_text_gives_symbols_of_the_inventory(language, text):
    assert set(read(text, language)) <= INVENTORY | PAUSES


def test_other_varieties_and_languages_are_not_covered():
    assert g2p.covers("en")
    assert g2p.covers("fa")
    assert not g2p.covers("en-gb")
    assert not g2p.covers("de")


@pytest.mark.parametrize("code", g2p.LANGUAGES)
def test_models_are_small(code):
    assert g2p.model_path(code).stat().st_size < 5e6


def test_a_model_survives_its_file(tmp_path):
    model = load_model(g2p.model_path("fa"))
    save_model(tmp_path / "fa.npz", model)
    again = load_model(tmp_path / "fa.npz")
    assert again.lexicon == model.lexicon
    assert again.homographs.readings == model.homographs.readings
    assert again.ezafe is not None
    assert model.ezafe is not None
    assert again.ezafe.classes == model.ezafe.classes
    for name, weight in model.tagger.weights.items():
        np.testing.assert_allclose(again.tagger.weights[name], weight, atol=1e-6)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x93NUMPY"])
def test_a_file_that_is_no_model_is_refused(tmp_path, content):
    (tmp_path / "en.npz").write_bytes(content)
    with pytest.raises(TextError, match="not a pronunciation model"):
        load_model(tmp_path / "en.npz")


def test_reading_needs_neither_tensorflow_nor_espeak():
    code = (
        "import sys; from myxtts.text import g2p; g2p.phonemize(['hi'], 'en'); g2p.phonemize(['سلام'], 'fa');"
        "sys.exit(any(name in sys.modules for name in ('tensorflow', 'phonemizer', 'espeakng_loader')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_exactly_one_vowel_has_the_primary_stress():
    tags = ["", "ˈa", "a", "b"]
    scores = np.array([[0.0, 5, 4, -9], [-9, -9, -9, 1], [0, 3, 2, -9]])
    assert one_primary_stress(scores, tags) == ["ˈa", "b", "a"]
    scores[:, 1] = [-2, -9, -1]
    assert one_primary_stress(scores, tags) == ["a", "b", "ˈa"]


@pytest.mark.parametrize(("noun", "plural"), [("kˈæt", "kˈæts"), ("dˈɔɡ", "dˈɔɡz"), ("hˈɔɹs", "hˈɔɹsɪz")])
def test_the_ending_s_follows_the_last_sound(noun, plural):
    assert with_plural(noun) == plural


def huge_shape(archive):
    with archive.open("lexicon.npy", "w") as file:
        header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999,), }"
        file.write(b"\x93NUMPY\x01\x00" + (len(header) + 1).to_bytes(2, "little") + header + b"\n")


def many_bytes(archive):
    with archive.open("lexicon.npy", "w", force_zip64=True) as file:
        for _ in range(300):
            file.write(bytes(1 << 20))


def python_object(archive):
    content = io.BytesIO()
    np.lib.format.write_array(content, np.array([{}], object), allow_pickle=True)
    archive.writestr("lexicon.npy", content.getvalue())


@pytest.mark.parametrize("write", [huge_shape, many_bytes, python_object, lambda archive: None])
def test_a_hostile_model_is_refused_before_its_arrays_are_read(tmp_path, write):
    with zipfile.ZipFile(tmp_path / "en.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        write(archive)
    with pytest.raises(TextError, match="not a pronunciation model"):
        load_model(tmp_path / "en.npz")


def test_the_licenses_of_the_lexicons_are_distributed():
    notice = (g2p.MODEL_FOLDER / "NOTICE.md").read_text(encoding="utf-8")
    assert "Carnegie Mellon University" in notice
    assert "dohliam" in notice
