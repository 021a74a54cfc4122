"""Persian honorifics, abbreviations, word joints and Roman numerals in words."""

# ruff: noqa: SIM905 - word lists read best as words
from __future__ import annotations

import re

from myxtts.text.cleanup import ZWNJ
from myxtts.text.persian_numbers import number_in_words, ordinal_in_words
from myxtts.text.rules import DIGITS, Rule, alternatives, roman_value, rule, spoken

_HONORIFICS = {
    "ع": "علیه‌السلام", "ص": "صلی‌الله‌علیه‌و‌آله", "س": "سلام‌الله‌علیها", "عج": "عجل‌الله‌تعالی‌فرجه‌الشریف",
    "ره": "رحمت‌الله‌علیه", "رض": "رضی‌الله‌عنه", "رح": "رحمت‌الله‌علیه", "صلوات": "صلی‌الله‌علیه‌و‌آله",
    "سلام": "علیه‌السلام",
}  # fmt: skip
"""One word each, which `fa_reviewed.tsv` reads: Arabic words have other endings inside a phrase."""
_IN_WORDS = [
    *dict.fromkeys(_HONORIFICS.values()), "علیها‌السلام", "علیهم‌السلام", "رضی‌الله‌عنها", "سلام‌الله‌علیه",
    "صلی‌الله‌علیه‌و‌آله‌و‌سلم", "رحمه‌الله‌علیه",
]  # fmt: skip
_SEVERAL = re.compile(
    "(?:اهل.?بیت|امامان|ائمه|ائمهٔ|معصومین|معصومان|اطهار|انبیا|انبیاء|پیامبران|حسنین)[^\\W_ ]*(?: [^\\W_ ]+)? ?\\Z"
)
_ERAS = {
    "ه.ش": "هجری شمسی", "ه.ق": "هجری قَمَری", "ه.خ": "هجری خورشیدی", "ق.م": "پیش از میلاد", "پ.م": "پیش از میلاد",
    "ب.م": "بعد از میلاد", "ق.ظ": "قبل از ظهر", "ب.ظ": "بعد از ظهر", "ق.ه": "قبل از هجرت", "ه.ل": "هجری قَمَری",
}  # fmt: skip
_DOTTED = {
    "ج.ا.ا": "جمهوری اسلامی ایران", "ج.ا": "جمهوری اسلامی", "ق.ا": "قانون اساسی", "ق.م.ا": "قانون مجازات اسلامی",
    "ق.آ.د.م": "قانون آیین دادرسی مدنی", "ص.پ": "صندوق پستی", "ر.ک": "رجوع کنید به",
    "ن.ک": "نگاه کنید به", "رک": "رجوع کنید به", "نک": "نگاه کنید به",
}  # fmt: skip
_BEFORE_NUMBERS = {
    "ص": "صفحهٔ", "صص": "صفحاتِ", "ج": "جلدِ", "ش": "شمارهٔ", "چ": "چاپِ", "س": "سالِ", "پ": "پلاکِ", "ط": "طبقهٔ",
    "ک": "کوچهٔ", "ف": "فصلِ", "ب": "بندِ", "م": "مادهٔ",
}  # fmt: skip
_STREETS = {"خ": "خیابانِ", "ک": "کوچهٔ"}
_ADDRESS = re.compile(r"(?<!\w)(?:خ\..{0,40}[،,] ?ک\.|[پط]\. ?\d|(?:پلاک|کوچه|خیابان|طبقه|واحد|میدان|بلوار)(?!\w))")
"""What shows that a text is an address; elsewhere «خ.» and «ک.» are initials."""
_NEAR = 60
"""Characters around an abbreviation that are searched."""
_YEAR_SIGNS = {"م": "میلادی", "ق": "قَمَری", "ش": "شمسی", "ه": "هجری"}
_ORDINAL_BEFORE = (
    "جهانی لویی پل هنری جورج الیزابت ویلیام چارلز ادوارد پیوس بندیکت گرگوری لئو کلمنت اینوسنت فرانسیس فیلیپ "
    "فردیناند ناپلئون نیکلای الکساندر پتر پتروس کاترین فردریک ویلهلم کارل گوستاو آلبرت لئوپولد کارلوس آلفونسو "
    "رامسس توت بطلمیوس داریوش خشایارشا کورش اردشیر کنستانتین ژوستینین سلیم مراد محمد سلیمان ایوان ژوزف شاپور خسرو "
    "یزدگرد عباس طهماسب اسماعیل المپیک کنگره لوئی لوئیس لوییس هانری شارل جیمز ریچارد رابرت ویکتور ماکسیمیلیان "
    "آنتیوخوس مهرداد فرهاد بهرام هرمز قباد"
).split()
_NUMBERED = "جهانی فصل بخش جلد باب پرده نوع فاز مرحله گروه درجه".split()
_CENTURIES = ("قرن", "سده", "سدهٔ", "قرنِ")
"""Read with the dates."""
_LETTER = r"[^\W\d_]"
_NO_LETTER_BEFORE, _NO_LETTER = rf"(?<!{_LETTER})(?<!{ZWNJ})", rf"(?!{_LETTER}|{ZWNJ})"
_SPACE = f"[ {ZWNJ}]?"


def _dotted(abbreviations: dict[str, str]) -> str:
    """A pattern of abbreviations with dots, with or without spaces after them."""
    return "|".join(each.replace(".", r"\. ?") for each in sorted(abbreviations, key=len, reverse=True))


def _plain(match: re.Match[str]) -> str:
    return re.sub(r"\. ", ".", match[1])


def _read_honorific(match: re.Match[str]) -> str:
    before = match.string[max(0, match.start() - 24) : match.start()]
    if before.rstrip().endswith("حرف"):
        return match[0]
    is_several = match[1] == "ع" and _SEVERAL.search(before)
    return f" {f'علیهم{ZWNJ}السلام' if is_several else _HONORIFICS[match[1]]} "


def _read_street(match: re.Match[str]) -> str:
    around = match.string[max(0, match.start() - _NEAR) : match.end() + _NEAR]
    return f"{_STREETS[match[1]]} " if _ADDRESS.search(around) else match[0]


def _read_roman(match: re.Match[str]) -> str:
    before, written = match[1] or "", match[2]
    value = roman_value(written)
    if value is None or before.strip() in _CENTURIES or (len(written) == 1 and before.strip() not in _NUMBERED):
        return match[0]
    is_ordinal = before.strip() in _ORDINAL_BEFORE
    return before + (ordinal_in_words(value) if is_ordinal else number_in_words(value))


RULES: tuple[Rule, ...] = (
    rule(
        "honorific in words",
        rf"{_NO_LETTER_BEFORE}(?:{alternatives(_IN_WORDS).replace(ZWNJ, f'[ {ZWNJ}]')}){_NO_LETTER}",
        lambda match: match[0].replace(" ", ZWNJ),
        {
            "علی علیه السلام": "علی علیه‌السلام",
            "پیامبر صلی الله علیه و آله و سلم": "پیامبر صلی‌الله‌علیه‌و‌آله‌و‌سلم",
            "رحمة الله علیه": "رحمه‌الله‌علیه",
        },
        "ا",
    ),
    rule(
        "honorific",
        rf" ?\(({alternatives(_HONORIFICS)})\) ?",
        _read_honorific,
        {"امام علی (ع) آمد": "امام علی علیه‌السلام آمد", "اهل بیت (ع)": "اهل بیت علیهم‌السلام"},
        "(",
    ),
    rule(
        "era or half of the day",
        rf"{_NO_LETTER_BEFORE}({_dotted(_ERAS)}){_NO_LETTER}(?!\.{_LETTER}(?:\.|{_NO_LETTER}))\.?",
        lambda match: _ERAS[_plain(match)],
        {"۱۳۵۷ ه.ش.": "هزار و سیصد و پنجاه و هفت هجری شمسی", "۴۸۰ ق.م.": "چهارصد و هشتاد پیش از میلاد"},
        ".",
    ),
    rule(
        "abbreviation with dots",
        rf"{_NO_LETTER_BEFORE}({_dotted(_DOTTED)})(?:\.|(?=:)|(?= ?\d)(?<=\..)){_NO_LETTER}:?(?: به{_NO_LETTER})?",
        lambda match: _DOTTED[_plain(match)],
        {"ر.ک. فصل ۳": "رجوع کنید به فصلِ سه", "ج.ا.ا.": "جمهوری اسلامی ایران"},
        ".",
    ),
    rule(
        "calendar of a year",
        r"(?<=\d) ?(?:([مقشه])\.(?=[ )،؛]|\Z)|([قش])(?=[)،؛]))|(?:(?<=\d\d\d\d) "
        rf"|(?<=[( ]1\d\d\d)(?=[مقش])|(?<=[( ]20\d\d)(?=م))([قشم]){_NO_LETTER}",
        lambda match: f" {_YEAR_SIGNS[match[1] or match[2] or match[3]]}",
        {
            "۱۹۷۹ م.": "هزار و نهصد و هفتاد و نُه میلادی",
            "(۶۵۶ ق)": "(ششصد و پنجاه و شش قَمَری)",
            "سال ۱۴۴۵ق": "سالِ هزار و چهارصد و چهل و پنج قَمَری",
        },
        DIGITS,
    ),
    rule(
        "volumes",
        rf"(?<=\d) ?ج\.{_NO_LETTER}",
        " جلد",
        {"۳ ج.": "سه جلد"},
        "ج",
    ),
    rule(
        "abbreviation before a number",
        rf"{_NO_LETTER_BEFORE}(?<!\d )(?<!\d)(?<!آقای )(?<!خانم )(?<!متهم )(?:(صص"
        rf"|[صجشچسپطفبم])\. ?|(صص|[صج]) ?)(?=\d)(?!\d+ ?[-+×=])|{_NO_LETTER_BEFORE}(صص)\.? ?(?=\d)",
        lambda match: f"{_BEFORE_NUMBERS[match[1] or match[2] or match[3]]} ",
        {"ص. ۱۲": "صفحهٔ دوازده", "ج ۴، ص ۲۱۰": "جلدِ چهار، صفحهٔ دویست و ده", "صص ۱۲-۱۵": "صفحاتِ دوازده تا پانزده"},
        DIGITS,
    ),
    rule(
        "street and lane of an address",
        rf"{_NO_LETTER_BEFORE}([خک])\. ?(?={_LETTER}{{2}})",
        _read_street,
        {"خ. آزادی، ک. بهار": "خیابانِ آزادی، کوچهٔ بهار"},
        ".",
    ),
    rule(
        "letters with dots",
        rf"{_NO_LETTER_BEFORE}(?:{_LETTER}\.[ {ZWNJ}]?){{2,6}}(?= ?{_LETTER})",
        lambda match: f"{' '.join(re.findall(_LETTER, match[0]))} " if not match[0].isascii() else match[0],
        {"سازمان س.م.م. گفت": "سازمان س م م گفت", "ه. ا. سایه": "ه ا سایه"},
        ".",
    ),
    rule(
        "initial",
        rf"{_NO_LETTER_BEFORE}([آ-ی])\. (?={_LETTER})",
        r"\1 ",
        {"م. آزاد شاعر بود": "م آزاد شاعر بود"},
        ".",
    ),
    rule(
        "Roman numeral",
        rf"((?:(?<!{_LETTER}){_LETTER}+ )?)(?<![A-Za-z0-9&.'-])([IVXLC]{{1,7}})(?![A-Za-z0-9&.'-])",
        _read_roman,
        {"فصل II": "فصل دو", "لویی XIV": "لویی چهاردهم", "IX": "نُه"},
        "IVX",
    ),
)

JOINT_RULES: tuple[Rule, ...] = (
    rule(
        "prefix of a verb",
        f"{_NO_LETTER_BEFORE}(?<!از )(?<!جام )(می) (?=(?!و |را ){_LETTER}{{2,12}}(?:[مدی]"
        f"|ست|{ZWNJ}ام|{ZWNJ}اند)(?!{_LETTER}))|{_NO_LETTER_BEFORE}(نمی) (?={_LETTER}{{2}})",
        lambda match: f"{match[1] or match[2]}{ZWNJ}",
        {"می روم": "می‌روم", "نمی دانم": "نمی‌دانم"},
        "م",
    ),
    rule(
        "plural ending",
        rf"(?<={_LETTER}) (ها(?:ی(?:ی|م|ت|ش|مان|تان|شان)?)?|هایی){_NO_LETTER}",
        rf"{ZWNJ}\1",
        {"کتاب ها": "کتاب‌ها", "خانه های ما": "خانه‌های ما"},
        "ه",
    ),
    rule(
        "ending of a perfect",
        rf"(?<=[^\W\d_]ه) (ام|ای|ایم|اید|اند){_NO_LETTER}",
        rf"{ZWNJ}\1",
        {"رفته ام": "رفته‌ام"},
        "ه",
    ),
    rule(
        "ezafe after a silent h",
        rf"(?<={_LETTER}ه){_SPACE}ی{_NO_LETTER}(?<!هی)",
        "\u0654",
        {"خانه‌ی ما": "خانهٔ ما", "حمله ی هوایی": "حملهٔ هوایی"},
        "ه",
    ),
    rule("superlative", rf"(?<={_LETTER}) (ترین){_NO_LETTER}", rf"{ZWNJ}\1", {"بزرگ ترین": "بزرگ‌ترین"}, "ت"),
    rule(
        "written thirtieth",
        rf"{_NO_LETTER_BEFORE}(سی){_SPACE}ام(ین)?{_NO_LETTER}",
        lambda match: f"سی{ZWNJ}اُم{match[2] or ''}",
        {"سی‌ام": "سی‌اُم"},
        "س",
    ),
    rule(
        "nine that counts",
        rf"{_NO_LETTER_BEFORE}(?<!و )نه(?= (?:نفر|سال|ماه|روز|هفته|ساعت|دقیقه|ثانیه|هزار|میلیون|میلیارد|درصد|کیلومتر|متر|گرم|تن"
        rf"|عدد|قرن|دهه|تومان|ریال|دلار|ساله|ماهه|روزه|نفره){_NO_LETTER})(?!.{{1,40}}{_NO_LETTER_BEFORE}نه{_NO_LETTER})",
        "نُه",
        {"نه سال گذشت": "نُه سال گذشت", "نه روز و نه شب؛ نه نفر آمدند": "نه روز و نه شب؛ نُه نفر آمدند"},
        "ن",
    ),
    rule(
        "written nine o'clock",
        rf"{_NO_LETTER_BEFORE}(ساعت) (نه){_NO_LETTER}",
        lambda match: spoken(("ساعتِ", match.span(1)), " ", ("نُه", match.span(2))),
        {"ساعت نه صبح": "ساعتِ نُه صبح"},
        "ن",
    ),
    rule(
        "written nine",
        rf"((?:بیست|سی|چهل|پنجاه|شصت|هفتاد|هشتاد|نود|[^\W\d_]*صد|دویست|هزار|میلیون|میلیارد) و |ساعتِ )نه{_NO_LETTER}",
        r"\1نُه",
        {"نود و نه درصد": "نود و نُه درصد"},
        "ن",
    ),
)
