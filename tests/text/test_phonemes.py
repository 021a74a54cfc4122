"""espeak-ng through the wheels: what is said, and that nothing can stop it."""

import concurrent.futures
import errno
import functools
import multiprocessing
import os
import sys
import types
import unicodedata

import pytest

from myxtts.errors import TextError
from myxtts.synthesis.options import check_front_end
from myxtts.text import phonemes
from myxtts.text.lexicon import Lexicon, load_lexicon
from myxtts.text.pauses import is_speakable
from myxtts.text.tokenizer import FrontEnd
from tests.espeak import needs_espeak

SPOKEN = [
    ("en", "Hello, world!", "həlˈoʊ, wˈɜːld!"),
    ("en", "A cat (really) said: \"hi\"...", "ɐ kˈæt, ɹˈiəli, sˈɛd: hˈaɪ…"),
    ("en", "What?! No -- yes", "wˌʌt? nˈoʊ— jˈɛs"),
    ("en", "three a.m and U.S.A.", "θɹˈiː ˌeɪˈɛm ænd jˌuːˌɛsˈeɪ."),
    ("en", "well-known", "wˈɛlnˈoʊn"),
    ("en-gb", "tomato", "təmˈɑːtəʊ"),
    ("fa", "سلام دنیا، می\u200cخواهم بروم؟", "salˈɑm dˈonjɑ, mixˈɑham berˈavam?"),
    ("fr", "J'aime le football", "ʒˈɛm lə fˈʊtbɔːl"),
    ("de", "Ich weiß", "ɪç vˈaɪs"),
    ("es", "¿Qué tal?", "kˈe tˈal?"),
    ("el", "Τι κάνεις; Καλά.", "tˈi kˈanis? kalˈa."),
    ("ru", "мир", "mʲˈir"),
    ("zh", "你好，世界。", "ni²χˈɑu², s\u0323ˈi\u0323⁵ tɕˈiɛ⁵."),
]  # fmt: skip


@needs_espeak
@pytest.mark.parametrize(("language", "text", "spoken"), SPOKEN)
def test_texts_are_spoken_with_stress_and_pauses(language, text, spoken):
    assert phonemes.phonemize_with_espeak([text], language) == [spoken]


@needs_espeak
@pytest.mark.parametrize(
    ("text", "spoken"), [("", ""), ("...", ""), ("?!", ""), ("😀", "😀"), ("hi 😀!", "hˈaɪ😀!"), ("世 hi", "世hˈaɪ")]
)
def test_what_cannot_be_spoken_is_left_for_the_tokenizer_to_count(text, spoken):
    assert phonemes.phonemize_with_espeak([text], "en") == [spoken]


@needs_espeak
@pytest.mark.parametrize("language", ["fa", "fr", "ja", "zh", "ru", "ko", "de"])
def test_no_language_switch_flag_is_left(language):
    (spoken,) = phonemes.phonemize_with_espeak(["hello football week-end computer"], language)
    assert spoken
    assert not set("()_") & set(spoken)


@needs_espeak
def test_every_language_speaks_and_gives_symbols_of_speech_only():
    assert len(phonemes.available_languages()) > 100
    for language in phonemes.available_languages():
        (spoken,) = phonemes.phonemize_with_espeak(["la mama, no tu."], language)
        assert any(unicodedata.category(character)[0] == "L" for character in spoken), language
        assert all(is_speakable(character) for character in spoken), language


@needs_espeak
@pytest.mark.parametrize(
    ("written", "code"), [("en", "en-us"), ("EN_gb", "en-gb"), ("fa-IR", "fa"), ("zh-TW", "cmn"), ("no", "nb")]
)
def test_usual_codes_are_understood(written, code):
    assert phonemes.espeak_language(written) == code


@needs_espeak
def test_an_unknown_language_is_an_error_with_the_nearest_names():
    with pytest.raises(TextError, match=r"'persan'.*fa \(Persian\)"):
        phonemes.phonemize_with_espeak(["hi"], "persan")


@needs_espeak
@pytest.mark.parametrize(
    ("language", "text"),
    [("en", "a." * 5000), ("vi", "/-i"), ("hi", "क" * 2000), ("en", "x" * 5000), ("zh", "字" * 3000)],
)
def test_texts_that_would_end_espeak_are_spoken(language, text):
    assert len(phonemes.phonemize_with_espeak([text], language)[0]) >= len(text) // 4


@needs_espeak
def test_the_lexicon_wins_and_leaves_its_neighbors_alone():
    lexicon = Lexicon({"GIF": "dʒ ˈɪf", "Tomato": "təmˈɑːtoʊ"})
    text = "the gif is of the Tomato, and the apple"
    without, with_lexicon = (phonemes.phonemize_with_espeak([text], "en", used)[0] for used in (None, lexicon))
    assert with_lexicon == without.replace("ɡˈɪf", "dʒˈɪf").replace("təmˈeɪɾoʊ", "təmˈɑːtoʊ")
    assert phonemes.phonemize_with_espeak(["gifts"], "en", lexicon) == phonemes.phonemize_with_espeak(["gifts"], "en")


@needs_espeak
def test_the_lexicon_knows_letter_variants():
    assert phonemes.phonemize_with_espeak(["كتاب من"], "fa", Lexicon({"کتاب": "ketɒb"}))[0].startswith("ketɒb ")


@needs_espeak
def test_threads_get_what_one_thread_gets():
    texts = [f"sentence {word} is here" for word in "one two three four five six seven eight".split()]  # noqa: SIM905
    expected = {language: phonemes.phonemize_with_espeak(texts, language) for language in ("en", "fr")}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        jobs = [
            (language, pool.submit(phonemes.phonemize_with_espeak, texts, language)) for language in ("en", "fr") * 10
        ]
        assert all(job.result() == expected[language] for language, job in jobs)


@needs_espeak
@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_worker_processes_get_what_this_process_gets(method):
    expected = phonemes.phonemize_with_espeak(["Hello, world!"], "en")
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        assert (
            pool.submit(functools.partial(phonemes.phonemize_with_espeak, ["Hello, world!"], "en")).result(timeout=120)
            == expected
        )


def test_a_missing_extra_is_an_error_with_the_pip_line(monkeypatch):
    monkeypatch.setattr(phonemes, "is_installed", lambda: False)
    with pytest.raises(TextError, match=r"pip install '\.\[phonemes\]'"):
        phonemes._new_library()


@needs_espeak
def test_a_full_temporary_folder_is_named_instead_of_the_pip_line(monkeypatch, tmp_path):
    def fail(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("phonemizer.backend.espeak.api.shutil.copy", fail)
    with pytest.raises(TextError, match="No space left") as caught:
        phonemes._new_library()
    assert str(tmp_path) in str(caught.value)
    assert "TMPDIR" in str(caught.value)
    assert "pip install" not in str(caught.value)


@needs_espeak
@pytest.mark.parametrize(
    "failure", [ImportError("no libespeak"), RuntimeError("failed to load"), OSError("invalid ELF header")]
)
def test_an_espeak_that_cannot_be_loaded_is_one_clear_line(monkeypatch, failure):
    def fail():
        raise failure

    monkeypatch.setattr(phonemes, "is_installed", lambda: True)
    monkeypatch.setitem(sys.modules, "espeakng_loader", types.SimpleNamespace(get_library_path=fail))
    with pytest.raises(TextError, match=r"installed but cannot be loaded \(.*--force-reinstall") as caught:
        phonemes._new_library()
    assert str(failure) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_espeak_that_cannot_be_loaded_can_be_avoided_for_a_corpus_but_not_for_a_voice(monkeypatch):
    monkeypatch.setattr(phonemes, "is_installed", lambda: True)
    monkeypatch.setitem(sys.modules, "espeakng_loader", None)
    phonemes.espeak_version.cache_clear()
    front_end = FrontEnd("phonemes")
    with pytest.raises(TextError, match=r"--force-reinstall\. Or set data\.text_symbols: graphemes"):
        front_end.fingerprint()
    with pytest.raises(TextError, match=r"--force-reinstall\.$"):
        check_front_end(front_end)


def test_an_espeak_package_that_cannot_be_imported_is_one_clear_line(monkeypatch):
    monkeypatch.setattr(phonemes, "is_installed", lambda: True)
    monkeypatch.setitem(sys.modules, "espeakng_loader", None)
    with pytest.raises(TextError, match="installed but cannot be loaded"):
        phonemes._new_library()


def test_a_lexicon_file_is_read(tmp_path):
    path = tmp_path / "lexicon.tsv"
    path.write_text("\ufeff# names\n\nGIF\tdʒ ˈɪ f\r\nسلام\tsalɒm\n", encoding="utf-8")
    lexicon = load_lexicon(path)
    assert lexicon.phonemes_of("Gif") == "dʒˈɪf"
    assert lexicon.phonemes_of("سلام") == "salɒm"
    assert lexicon.phonemes_of("other") is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\tb\nno tab here\n", "line 2: .*no tab"),
        (b"word\t\n", "line 1: expected a word and its phonemes"),
        (b"two words\tb\n", "line 1: expected one word"),
        (b"a\tb\nA\tc\n", "line 2: 'A' has different phonemes"),
        (b"a\tb7\n", "line 1: expected phonemes in IPA"),
        (b"a\tb\n\xff\tb\n", r"not UTF-8 text \(line 2\)"),
    ],
)
def test_a_line_that_cannot_be_used_is_named_by_its_number(tmp_path, content, message):
    path = tmp_path / "lexicon.tsv"
    path.write_bytes(content)
    with pytest.raises(TextError, match=message):
        load_lexicon(path)


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "NUL"])
def test_a_lexicon_that_is_no_regular_file_is_an_error_at_once(tmp_path, kind):
    os.mkfifo(tmp_path / "pipe")
    path = {"pipe": tmp_path / "pipe", "device": "/dev/zero", "folder": tmp_path, "NUL": "a\0b"}[kind]
    with pytest.raises(TextError, match=f"cannot be read.*{kind}"):
        load_lexicon(path)


def test_a_lexicon_larger_than_the_limit_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("myxtts.text.lexicon.LARGEST_BYTES", 3)
    (tmp_path / "lexicon.tsv").write_text("a\tb\n")
    with pytest.raises(TextError, match="larger than"):
        load_lexicon(tmp_path / "lexicon.tsv")


def test_a_missing_lexicon_is_an_error(tmp_path):
    with pytest.raises(TextError, match="cannot be read"):
        load_lexicon(tmp_path / "none.tsv")
