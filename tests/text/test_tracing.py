"""Spoken words find the written words that they come from, whatever the normalizer makes of them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from myxtts.synthesis.timings import Timed, TimedWord, time_words
from myxtts.text.normalize import ENGLISH_RULES, PERSIAN_RULES, normalize_text
from myxtts.text.pauses import PAUSE_SYMBOLS, WORD_BOUNDARY
from myxtts.text.tokenizer import FrontEnd
from myxtts.text.tracing import SpokenWord, Trace, TracedText, align_words
from tests.espeak import needs_espeak

ENGLISH = {
    "On 4 May 2021 it rained.": (
        "On = ɑn | May = mˈeɪ | 4 = fˈɔɹθ | 2021 = twˈɛnti twˈɛnti wˈʌn | it = ɪt | rained. = ɹˈeɪnd"
    ),
    "May 4, 2021 was dry.": "May = mˈeɪ | 4, = fˈɔɹθ | 2021 = twˈɛnti twˈɛnti wˈʌn | was = wɑz | dry. = dɹˈaɪ",
    "the 5th of November 1605": "the = ðə | 5th = fˈɪfθ | of = əv | November = noʊvˈɛmbɚ | 1605 = sɪkstˈin ˈoʊ fˈaɪv",
    "1 Farvardin 1403": "Farvardin = fˈɑɹvɑɹdɪn | 1 = fˈɝst | 1403 = fˈɔɹtˈin ˈoʊ θɹˈi",
    "3 - 5 June 2020": "3 = θˈɝd | - = tu | 5 = fˈɪfθ əv | June = dʒˈun | 2020 = twˈɛnti twˈɛnti",
    "June 3–5 only": "June = dʒˈun | 3–5 = θˈɝd tu fˈɪfθ | only = ˈoʊnli",
    "12/25/1999 and 2024-05-17": (
        "12/25/1999 = dɪsˈɛmbɚ twˈɛnti fˈɪfθ, nˈaɪntˈin nˈaɪnti nˈaɪn | and = ənd | "
        "2024-05-17 = mˈeɪ sˈɛvəntˈinθ, twˈɛnti twˈɛnti fˈɔɹ"
    ),
    "It costs $5.50 or £3m.": (
        "It = ɪt | costs = kˈɑsts | $5.50 = fˈaɪv dˈɑlɚz ənd fˈɪfti sˈɛnts | or = ɔɹ | £3m. = θɹˈi mˈɪljən pˈaʊndz"
    ),
    "He paid $5 million today.": "He = hi | paid = pˈeɪd | $5 million = fˈaɪv mˈɪljən dˈɑlɚz | today. = tədˈeɪ",
    "€ 20 or 20 €": "20 = twˈɛnti | € = jˈuɹˌoʊz | or = ɔɹ | 20 = twˈɛnti | € = jˈuɹˌoʊz",
    "between $5–10 million and €7m–€9m": (
        "between = bɪtwˈin | $5–10 million = fˈaɪv tu tˈɛn mˈɪljən dˈɑlɚz | and = ənd | "
        "€7m–€9m = sˈɛvən mˈɪljən tu nˈaɪn mˈɪljən jˈuɹˌoʊz"
    ),
    "20 USD and Rs. 500": "20 = twˈɛnti | USD = dˈɑlɚz | and = ənd | 500 = fˈaɪv hˈʌndɹəd | Rs. = ɹupˈiz",
    "Henry VIII and Louis XIV ruled.": (
        "Henry = hˈɛnɹi | VIII = ði ˈeɪtθ | and = ənd | Louis = lˈuɪs | XIV = ðə fˈɔɹtˈinθ | ruled. = ɹˈuld"
    ),
    "World War II began in 1939.": (
        "World = wˈɝld | War = wˈɔɹ | II = tˈu | began = bɪɡˈæn | in = ɪn | 1939. = nˈaɪntˈin θˈɝti nˈaɪn"
    ),
    "Call +1 555 123 4567 now.": (
        "Call = kˈɔl | +1 = plˈʌs wˈʌn | 555 = fˈaɪv fˈaɪv fˈaɪv | 123 = wˈʌn tˈu θɹˈi | "
        "4567 = fˈɔɹ fˈaɪv sˈɪks sˈɛvən | now. = nˈaʊ"
    ),
    "Dial (555) 123-4567.": (
        "Dial = dˈaɪəl | (555) = fˈaɪv fˈaɪv fˈaɪv | 123-4567. = wˈʌn tˈu θɹˈi, fˈɔɹ fˈaɪv sˈɪks sˈɛvən"
    ),
    "1 000 000 people, 12 500 workers": (
        "1 000 000 = wˈʌn mˈɪljən | people, = pˈipəl | 12 500 = twˈɛlv θˈaʊzənd fˈaɪv hˈʌndɹəd | workers = wˈɝkɚz"
    ),
    "Open 9 am - 5:30 pm on Mon-Fri.": (
        "Open = ˈoʊpən | 9 = nˈaɪn | am = ˈeɪ ˈɛm | - = tu | 5:30 = fˈaɪv θˈɝti | pm = pˈi ˈɛm | on = ɑn | "
        "Mon-Fri. = mˈʌndˌeɪ tu fɹˈaɪdˌeɪ"
    ),
    "5 km/h at -5 °C": "5 = fˈaɪv | km/h = kəlˈɑmətɚz pˈɝ ˈaʊɚ | at = æt | -5 = mˈaɪnəs fˈaɪv | °C = dɪɡɹˈiz sˈɛlsiəs",
    "3 1/2 cups of 2½": "3 1/2 = θɹˈi ənd ə hˈæf | cups = kˈʌps | of = əv | 2½ = tˈu ənd wˈʌn hˈæf",
    "10-20 people, 10 – 20 cars": (
        "10-20 = tˈɛn tu twˈɛnti | people, = pˈipəl | 10 = tˈɛn | – = tu | 20 = twˈɛnti | cars = kˈɑɹz"
    ),
    "John 3:16 and Psalm 23:1-4": (
        "John = dʒˈɑn | 3:16 = θɹˈi sɪkstˈin | and = ənd | Psalm = sˈɑlm | 23:1-4 = twˈɛnti θɹˈi wˈʌn tu fˈɔɹ"
    ),
    "a 10-km run with 50% off": (
        "a = ə | 10-km = tˈɛn kəlˈɑmətɚ | run = ɹˈʌn | with = wɪð | 50% = fˈɪfti pɚsˈɛnt | off = ˈɔf"
    ),
    "Dr. Smith lives at 21 Baker St. in London.": (
        "Dr. = dˈɑktɚ | Smith = smˈɪθ | lives = lˈɪvz | at = æt | 21 = twˈɛnti wˈʌn | Baker = bˈeɪkɚ | "
        "St. = stɹˈit | in = ɪn | London. = lˈʌndən"
    ),
    "e.g. 5 > 3, i.e. more": (
        "e.g. = fɔɹ ɪɡzˈæmpəl | 5 = fˈaɪv | > = ɪz ɡɹˈeɪtɚ ðæn | 3, = θɹˈi | i.e. = ðæt ɪz | more = mˈɔɹ"
    ),
    "Visit www.example.com or mail a@b.com!": (
        "Visit = vˈɪzɪt | www.example.com = dˈʌbəlju dˈʌbəlju dˈʌbəlju dˈɑt ɪɡzˈæmpəl dˈɑt kˈɑm | or = ɔɹ | "
        "mail = mˈeɪl | a@b.com! = ə æt bˈi dˈɑt kˈɑm"
    ),
    "№ 5 & #1 — @nasa": "№ = nˈʌmbɚ | 5 = fˈaɪv | & = ənd | #1 = nˈʌmbɚ wˈʌn | @nasa = æt nˈæsə",
    "8 / 2 = 4 🙂 ok": "8 = ˈeɪt | / = dɪvˈaɪdɪd baɪ | 2 = tˈu | = = ˈikwəlz | 4 = fˈɔɹ🙂 | ok = ˈoʊkˈeɪ",
}
PERSIAN = {
    "در ۴ خرداد ۱۴۰۰ آمد.": "در = dær | ۴ = tʃæhɑrˈome | خرداد = xordˈɑde | ۱۴۰۰ = hezˈɑr o tʃæhɑrsˈæd | آمد. = ɑmˈæd",
    "۱۰ دی ماه ۱۴۰۱ بود": "۱۰ = dæhˈome | دی ماه = dejmˈɑhe | ۱۴۰۱ = hezˈɑr o tʃæhɑrsˈæd o jˈek | بود = bˈud",
    "۱ تا ۱۳ فروردین": "۱ = jekˈom | تا = tɑ | ۱۳ = sizdæhˈome | فروردین = færværdˈin",
    "مرداد ۱۳۳۲ گذشت": "مرداد = mordˈɑde | ۱۳۳۲ = hezˈɑr o sisˈæd o sˈi o dˈo | گذشت = ɡozˈæʃt",
    "۱۴۰۴/۰۸/۲۵ یا ۲۵/۸/۱۴۰۴": (
        "۱۴۰۴/۰۸/۲۵ = bˈist o pændʒˈome ɑbˈɑne hezˈɑr o tʃæhɑrsˈæd o tʃæhˈɑr | یا = jɑ | "
        "۲۵/۸/۱۴۰۴ = bˈist o pændʒˈome ɑbˈɑne hezˈɑr o tʃæhɑrsˈæd o tʃæhˈɑr"
    ),
    "ساعت ۱۰:۳۰ می روم": "ساعت = sɑʔˈæte | ۱۰:۳۰ = dˈæh o sˈi dæqiqˈe | می روم = mˈirævæm",
    "$ ۵۰۰ هزار دادم": "۵۰۰ = pɑnsˈæd | هزار = hezˈɑr | $ = dolˈɑr | دادم = dɑdˈæm",
    "€۲۵٫۵۰ شد": "€۲۵٫۵۰ = bˈist o pˈændʒ jurˈo væ pændʒˈɑh sˈent | شد = ʃˈod",
    "۱۲۰.۰۰۰ تومان و ۲۵۰ هزار ت": (
        "۱۲۰.۰۰۰ = sˈæd o bˈist hezˈɑr | تومان = tumˈɑn | و = væ | ۲۵۰ = devˈist o pændʒˈɑh | "
        "هزار = hezˈɑr | ت = tumˈɑn"
    ),
    "USD 500 یا 500 USD": "500 = pɑnsˈæd | USD = dolˈɑr | یا = jɑ | 500 = pɑnsˈæd | USD = dolˈɑr",
    "٪ ۲۰ از کتاب ها": "۲۰ = bˈist | ٪ = dærsˈæd | از = æz | کتاب ها = ketɑbhˈɑ",
    "قرن ۲۱ و سدهٔ ۷ و ۸ هجری": (
        "قرن = qˈærne | ۲۱ = bˈist o jekˈom | و = væ | سدهٔ = sædˈeje | ۷ = hæftˈom | و = væ | "
        "۸ = hæʃtˈome | هجری = hedʒrˈi"
    ),
    "لویی XIV در فصل II": "لویی = loˈije | XIV = tʃæhɑrdæhˈom | در = dær | فصل = fˈæsle | II = dˈo",
    "۰۹۱۲ ۳۴۵ ۶۷۸۹ زنگ بزن": (
        ""
        "۰۹۱۲ ۳۴۵ ۶۷۸۹ = sˈefr nohsˈæd o dævɑzdˈæh, sisˈæd o tʃehˈel o pˈændʒ, ʃˈæst o hˈæft, hæʃtˈɑd o nˈoh | "
        "زنگ = zˈænɡ | بزن = bezˈæn"
    ),
    "بازی ۳-۲ شد، ۱۰ - ۵ نه": (
        "بازی = bɑzˈi | ۳-۲ = sˈe bær dˈo | شد، = ʃˈod | ۱۰ = dˈæh | - = bær | ۵ = pˈændʒ | نه = nˈæ"
    ),
    "دما به ۱۹- درجه رسید": "دما = dæmˈɑ | به = be | ۱۹- = mænfˈi nuzdˈæh | درجه = dærædʒˈe | رسید = resˈid",
    "۱۲ ۰۰۰ ۰۰۰ نفر": "۱۲ ۰۰۰ ۰۰۰ = dævɑzdˈæh miljˈun | نفر = næfˈær",
    "امام علی (ع) آمد": "امام = emˈɑme | علی = ælˈi | (ع) = ælejhessælˈɑm | آمد = ɑmˈæd",
    "۹۰ km/h با iPhone ۱۵": "۹۰ = nævˈæd | km/h = kilumˈetr bær sɑʔˈæt | با = bɑ | iPhone = ɑjfˈon | ۱۵ = pɑnzdˈæh",
    "ر.ک. فصل ۳، ص ۱۲": "ر.ک. = rodʒˈuʔ konˈid be | فصل = fˈæsle | ۳، = sˈe | ص = sæfhˈeje | ۱۲ = dævɑzdˈæh",
    "سوره بقره: ۲۵۵ را خواند": (
        "سوره = surˈeje | بقره: = bæqærˈe | ۲۵۵ = ɑjˈeje devˈist o pændʒˈɑh o pˈændʒ | را = rɑ | خواند = xˈɑnd"
    ),
    "کتاب­ها و رفته ام": "کتاب­ها = ketɑbhˈɑ | و = væ | رفته ام = ræftˈeæm",
}
"""Written text → its words in the order in which they are spoken, with their phonemes."""


def read(text: str, language: str, front_end: FrontEnd) -> tuple[TracedText, list[TimedWord]]:
    reading = front_end.trace(text, language)
    symbols = [Timed(symbol, float(index), index + 1.0) for index, symbol in enumerate(reading.symbols)]
    return reading, time_words(symbols, reading)


OWN = FrontEnd("phonemes", phonemizer="myxtts")
LETTERS = FrontEnd("graphemes")


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [(code, *each) for code, texts in (("en", ENGLISH), ("fa", PERSIAN)) for each in texts.items()],
)
def test_phonemes_are_under_the_words_that_they_are_spoken_for(language, text, expected):
    _, words = read(text, language, OWN)
    assert [f"{word.text} = {word.phonemes}" for word in words] == expected.split(" | ")


def check(text: str, language: str, front_end: FrontEnd) -> None:
    reading, words = read(text, language, front_end)
    assert reading.symbols == front_end.symbols_of([text], language)[0]
    assert all(before.end <= after.start for before, after in pairwise(words))
    positions = [index for word in words for index in range(word.index, word.index + len(word.text.split(" ")))]
    assert len(positions) == len(set(positions)), "a written word is timed twice"
    written = text.split()
    assert all(" ".join(written[word.index :][: word.text.count(" ") + 1]) == word.text for word in words)
    covered = {index for word in words for index in range(int(word.start), int(word.end))}
    is_between = [symbol == WORD_BOUNDARY or symbol in PAUSE_SYMBOLS for symbol in reading.symbols]
    assert {index for index, between in enumerate(is_between) if not between} <= covered, "sounds belong to no word"


_EXAMPLES = {
    code: [text for rule in rules for text in rule.examples]
    for code, rules in (("en", ENGLISH_RULES), ("fa", PERSIAN_RULES))
}
_SIGNS = [

    "$",
    "€",
    "%",
    "٪",
    "°",
    "&",
    "@",
    "#",
    "+",
    "-",
    "–",
    "—",
    "=",
    "/",
    "<",
    ">",
    "(",
    ")",
    "«",
    "»",
    ",",
    ".",
    "!",
    "?",
    "،",
    "؛",
    "؟",
    "’",
    "🙂",
    "﷼",
    "ﷺ",
    "№",
    "½",
    "\u200c",
    "\u200f",
    "<b>",
    "</b>",
    "&amp;",
    "x",
    "5",
    "۵",
    "Ⅷ",
    "ﬁ",
    "é",

]  # fmt: skip


@pytest.mark.parametrize("front_end", [OWN, LETTERS], ids=["phonemes", "letters"])
@pytest.mark.parametrize("language", ["en", "fa"])
def test_every_example_of_a_rule_keeps_its_words(language, front_end):
    for text in _EXAMPLES[language]:
        check(text, language, front_end)


@given(st.data())
@pytest.mark.parametrize("language", ["en", "fa"])
def test_each_written_word_has_one_span_and_no_sound_is_lost(language, data):
    own = st.sampled_from(_EXAMPLES[language])
    parts = st.lists(st.one_of(own, own, st.sampled_from(_SIGNS), st.text(max_size=4)), min_size=1, max_size=5)
    text = data.draw(st.sampled_from([" ", "", "  ", "\n"])).join(data.draw(parts))
    check(text, language, LETTERS)
    check(text, language, OWN)


@given(st.text(max_size=30))
def test_other_languages_are_also_traced(text):
    for language in ("de", "fr", "ar"):
        trace = Trace(text)
        assert normalize_text(text, language, trace=trace).split() == [word for word, _ in trace.words_and_origins()]
        check(text, language, LETTERS)


def test_german_numbers_keep_their_words():
    _, words = read("Am 24. Mai 5 % mehr", "de", LETTERS)
    assert [(word.text, word.spoken) for word in words] == [
        ("Am", "Am"),
        ("24.", "vierundzwanzig."),
        ("Mai", "Mai"),
        ("5", "fünf"),
        ("%", "Prozent"),
        ("mehr", "mehr"),
    ]


def test_what_a_word_is_read_as_is_known_for_its_correction():
    _, words = read("4 May 2021", "en", OWN)
    assert [(word.text, word.spoken, word.index) for word in words] == [
        ("May", "May", 1),
        ("4", "fourth,", 0),
        ("2021", "twenty twenty-one", 2),
    ]


def test_markup_across_words_does_not_move_them():
    _, words = read('one <a href="x y">two</a> three', "en", OWN)
    assert [word.spoken for word in words] == ["one", "two", "three"]
    assert (words[0].text, words[-1].text) == ("one", "three")


def test_ranges_that_are_spoken_around_each_other_are_one_entry():
    spoken = [SpokenWord(text, origin) for text, origin in (("a", (0, 0)), ("b", (2, 2)), ("c", (0, 0)), ("d", (3, 3)))]
    reading = TracedText(("w0", "w1", "w2", "w3"), spoken, list("abcd"), [0, 1, 2, 3])
    words = time_words([Timed(symbol, float(at), at + 1.0) for at, symbol in enumerate("abcd")], reading)
    assert [(word.text, word.start, word.end) for word in words] == [("w0 w1 w2", 0, 3), ("w3", 3, 4)]


def test_a_word_that_begins_in_another_piece_is_not_timed_again():
    reading = OWN.trace("one two three", "en")
    symbols = [Timed(symbol, float(at), at + 1.0) for at, symbol in enumerate(reading.symbols)]
    cut = reading.symbols.index(WORD_BOUNDARY) + 2  # within the second word
    assert [word.text for word in time_words(symbols[:cut], reading)] == ["one", "two"]
    assert [word.text for word in time_words(symbols[cut:], reading, start=-cut)] == ["three"]


def test_words_that_are_spoken_as_one_are_found_by_their_sounds():
    alone = [["ðə"], ["ˈɛnd"], ["ʌv"], ["ðə"], ["dˈeɪ"]]
    assert align_words(["ðə", "ɛnd", "əvðə", "dˈeɪ"], alone) == [[0], [1], [2, 3], [4]]


@needs_espeak
def test_espeak_joins_words_and_they_stay_together():
    text = "It is one of the 4 May days."
    check(text, "en", FrontEnd("phonemes"))
    _, words = read(text, "en", FrontEnd("phonemes"))
    assert [word.text for word in words if "of" in word.text] == ["of the"]
    assert [word.text for word in words][-3:] == ["May", "4", "days."]
