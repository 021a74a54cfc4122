"""Tables of written and spoken forms, language by language."""

import random
import unicodedata

import pytest

from myxtts.text.normalize import normalize_text

ENGLISH = {
    "Take exit 27A. Then turn.": "Take exit twenty-seven A. Then turn.",
    "Symphony in D minor, Op. 125": "Symphony in D minor, Opus one hundred twenty-five",
    "The $1.2 trillion bill costs $3.": "The one point two trillion dollar bill costs three dollars.",
    "The $5 was lost.": "The five dollars was lost.",
    # numbers
    "I have 2.": "I have two.",
    "99 of 1,234,567": "ninety-nine of one million two hundred thirty-four thousand five hundred sixty-seven",
    "3.14159": "three point one four one five nine",
    ".5": "point five",
    "-5 degrees": "minus five degrees",
    "007": "zero zero seven",
    "the 21st, 2nd, 12th and 103rd": "the twenty-first, second, twelfth and one hundred third",
    "12345678901234567890": "one two three four five six seven eight nine zero " * 2,
    "1/2 cup, 3 1/2, 2/3 and 22/7": "one half cup, three and a half, two thirds and twenty-two over seven",
    "2½": "two and one half",
    "10-20 people": "ten to twenty people",
    "version 1.2.3": "version one point two point three",
    "#1 and No. 5": "number one and number five",
    "COVID-19, MP3, B2B": "COVID nineteen, MP three, B two B",
    "x=3+4": "x equals three plus four",
    "24/7": "twenty-four seven",
    "٣٤": "thirty-four",
    # years and dates
    "in 1984": "in nineteen eighty-four",
    "in 1905": "in nineteen oh five",
    "1900, 2000, 2005, 2024": "nineteen hundred, two thousand, two thousand five, twenty twenty-four",
    "1914–1918": "nineteen fourteen to nineteen eighteen",
    "the 1990s and '80s": "the nineteen nineties and eighties",
    "2024-05-17": "May seventeenth, twenty twenty-four",
    "12/25/1999 or 25/12/1999": "December twenty-fifth, nineteen ninety-nine or December twenty-fifth, nineteen ninety-nine",
    "May 17, 1984": "May seventeenth, nineteen eighty-four",
    "17 May 2024": "May seventeenth, twenty twenty-four",
    "the 5th of November": "the fifth of November",
    "Jan. 5": "January fifth",
    # times
    "at 3:45 pm.": "at three forty-five p.m.",
    "at 3:00": "at three o'clock",
    "at 3:05 a.m. on Monday": "at three oh five a.m on Monday",
    "at 3 p.m. Then": "at three p.m. Then",
    "15:30": "fifteen thirty",
    # money
    "$3.50, £1, €1.01": "three dollars and fifty cents, one pound, one euro and one cent",
    "$2.5 million; -$5": "two point five million dollars; minus five dollars",
    "$1,000.50 and $0.99": "one thousand dollars and fifty cents and ninety-nine cents",
    "$5k or 20 USD": "five thousand dollars or twenty dollars",
    # percent and units
    "99% or 3.5 %": "ninety-nine percent or three point five percent",
    "5 km, 10kg, 20°C, 60mph": "five kilometers, ten kilograms, twenty degrees Celsius, sixty miles per hour",
    "1 km and 16GB": "one kilometer and sixteen gigabytes",
    "5 in the morning": "five in the morning",
    # telephone numbers
    "555-1234": "five five five, one two three four",
    "(555) 123-4567": "five five five, one two three, four five six seven",
    "1-800-555-0199": "one, eight zero zero, five five five, zero one nine nine",
    "+1 555 123 4567": "plus one, five five five, one two three, four five six seven",
    # abbreviations
    "Dr. Smith paid 3.5 dollars.": "Doctor Smith paid three point five dollars.",
    "Mr. Jones lives at 21 Baker St. in London.": "Mister Jones lives at twenty-one Baker Street in London.",
    "12 Main Dr.": "twelve Main Drive",
    "St. John's": "Saint John's",
    "e.g. this, i.e. that, etc.": "for example this, that is that, et cetera.",
    "The U.S. Army is in the U.S.A.": "The U.S Army is in the U.S.A.",
    "J. R. R. Tolkien": "J R R Tolkien",
    "No. No.": "No. No.",
    "A & B": "A and B",
    "me@example.com": "me at example dot com",
}

PERSIAN = {
    "كتاب علي": "کتاب علی",
    "مسألة": "مسأله",
    "کتـــاب": "کتاب",
    "مي\u200cخواهم": "می\u200cخواهم",
    "می\u200c\u200cخواهم": "می\u200cخواهم",
    "\u200cسلام\u200c دنیا\u200c": "سلام دنیا",
    "\u202bسلام\u202c\u200f": "سلام",
    "سلام، خوبی؟ بله؛ خوب.": "سلام، خوبی؟ بله؛ خوب.",
    "ﺳﻼﻡ": "سلام",
    "۰ ۵ ۱۱ ۲۰": "صفر پنج یازده بیست",
    "٣٤": "سی و چهار",
    "۱۲۳۴": "هزار و دویست و سی و چهار",
    "۱۰۰۰ و ۱۰۰۱": "هزار و هزار و یک",
    "۱٬۲۳۴٬۵۶۷": "یک میلیون و دویست و سی و چهار هزار و پانصد و شصت و هفت",
    "۳٫۵ درصد": "سه ممیز پنج درصد",
    "۳.۰۵": "سه ممیز صفر پنج",
    "۵۰٪ یا ٪۵۰": "پنجاه درصد یا پنجاه درصد",
    "-۵ درجه": "منفی پنج درجه",
    "۱۰-۲۰": "ده تا بیست",
    "۲۳م و ۳۰ام و ۳مین": "بیست و سوم و سی\u200cاُم و سومین",
    "سال ۱۳۵۷": "سالِ هزار و سیصد و پنجاه و هفت",
    "۱۴۰۲/۰۵/۱۷": "هفدهمِ مردادِ هزار و چهارصد و دو",
    "2024/05/17": "هفدهمِ مهِ دو هزار و بیست و چهار",
    "ساعت ۱۰:۳۰": "ساعتِ ده و سی دقیقه",
    "ساعت ۱۰:۰۰": "ساعتِ ده",
    "$۵۰": "پنجاه دلار",
    "۵kg": "پنج کیلوگرم",
    "۵متر": "پنج متر",
    "۰۹۱۲۱۲۳۴۵۶۷": "صفر نهصد و دوازده، صد و بیست و سه، چهل و پنج، شصت و هفت",
    "۱۲۳۴۵۶۷۸۹۰۱۲۳۴۵۶": "یک دو سه چهار پنج شش هفت هشت نُه صفر یک دو سه چهار پنج شش",
}

OTHERS = [
    ("fr", "Il y a 21 chats, 3,5 et 1.000 euros.", "Il y a vingt et un chats, trois virgule cinq et mille euros."),
    ("fr-be", "70", "septante"),
    ("de", "Er hat 1.000 Euro und 12 Katzen: 5 %", "Er hat eintausend Euro und zwölf Katzen: fünf Prozent"),
    ("es", "100% de 16", "cien por ciento de dieciséis"),
    ("it", "12 gatti", "dodici gatti"),
    ("ru", "У меня 5 яблок", "У меня пять яблок"),
    ("pt-br", "16 gatos", "dezesseis gatos"),
    ("ar", "٥ كتب", "خمسة كتب"),
    ("ja", "１２", "じゅうに"),
    ("tr", "007", "sıfır sıfır yedi"),
    ("ta", "5 பேர்", "5 பேர்"),
    ("am", "1234567", "1234567"),
]


@pytest.mark.parametrize(("written", "spoken"), ENGLISH.items())
def test_english_is_written_as_it_is_read(written, spoken):
    assert normalize_text(written, "en") == spoken.strip()


@pytest.mark.parametrize(("written", "spoken"), PERSIAN.items())
def test_persian_is_written_as_it_is_read(written, spoken):
    assert normalize_text(written, "fa") == spoken


@pytest.mark.parametrize(("language", "written", "spoken"), OTHERS)
def test_numbers_of_other_languages_are_read_where_num2words_knows_them(language, written, spoken):
    assert normalize_text(written, language) == spoken


@pytest.mark.parametrize("language", ["ta", "am"])
def test_numbers_that_no_converter_reads_stay_digits(language):
    assert normalize_text("12", language) == "12"


@pytest.mark.parametrize(
    ("written", "clean"),
    [
        ("", ""),
        (" \t\r\n\u00a0\u2003 ", ""),
        ("a\x00b\x07c", "a bc"),
        ("a\u202eb\u200f\ufeffc", "abc"),
        ("so\u00adft", "soft"),
        ("e\u0301", "é"),
        ("a \n\n  b", "a b"),
        ("\ud800", ""),
        ("😀", "😀"),
        ("ﬁn", "fin"),
    ],
)
def test_invisible_characters_and_spaces_are_folded_in_every_language(written, clean):
    assert {normalize_text(written, language) for language in ("en", "fa", "fr", "xx")} == {clean}


def test_joiners_stay_only_where_the_writing_needs_them():
    assert normalize_text("क्\u200dष", "hi") == "क्\u200dष"
    assert normalize_text("a\u200cb", "en") == "ab"


@pytest.mark.parametrize("language", ["en", "fa", "de", "ja", "xx"])
def test_any_text_gives_clean_text_and_never_an_error(language):
    draw = random.Random(7)
    alphabets = [
        range(0x20, 0x7F),
        range(0x30, 0x3B),
        range(0x600, 0x700),
        range(0x2000, 0x2070),
        range(0x1F600, 0x1F640),
        range(0x110000),
    ]
    for _ in range(150):
        codes = draw.choices(draw.choice(alphabets), k=draw.choice([1, 5, 50, 400]))
        result = normalize_text("".join(map(chr, codes)), language)
        assert unicodedata.is_normalized("NFC", result)
        assert "  " not in result
        assert result == result.strip()
        assert not any(unicodedata.category(character) in ("Cc", "Cs") for character in result)


@pytest.mark.parametrize("language", ["en", "fa", "de"])
def test_a_megabyte_of_text_is_normalized(language):
    text = "Hello, world; it was fun. سلام دنیا، " * 28_000
    assert len(text) > 1_000_000
    assert len(normalize_text(text, language)) > 900_000


@pytest.mark.parametrize(
    "unit", ["1", "1,", "1/", "-", "a.", "A. ", "\u200c", "$", "1 ", "1-", "<1 ", "a@", "/a", "می "]
)
@pytest.mark.parametrize("language", ["en", "fa", "de"])
def test_repetitions_do_not_make_a_rule_quadratic(unit, language):
    assert normalize_text(unit * 20_000, language) is not None
