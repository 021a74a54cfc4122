"""Whether a Persian word has an ezafe: rules in order, each with its examples, and a model of the words around it.

The rules are for the places that models misjudge most. An ezafe joins a word to the one that describes it, so none stands
before a verb or before the noun that makes a compound verb with it, after a word that ends its own phrase, or between a number,
its unit and what is counted. `tests/text/test_persian_ezafe.py` reads every example.

The model is log-linear with hashed features, like that of `homographs.py`. It complements the end scores of the letter tagger: it
is certain about frequent words, the tagger about their context.
"""

# ruff: noqa: SIM905 - tables read best as words
from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from myxtts.text.cleanup import ZWNJ
from myxtts.text.persian_letters import PAUSE, VERB_PREFIX, Line
from myxtts.text.persian_numbers import is_cardinal

DAY_PARTS = frozenset("صبح شب ظهر عصر بامداد بعدازظهر غروب".split())
_MONTHS = frozenset(
    "فروردین اردیبهشت خرداد تیر مرداد شهریور مهر آبان آذر دی بهمن اسفند ژانویه فوریه مارس آوریل مه ژوئن ژوئیه اوت سپتامبر اکتبر "
    "نوامبر دسامبر".split()
)
_NAMES_OF_SIGNS = frozenset(f"دات اسلش بک{ZWNJ}اسلش آندرلاین دونقطه خط{ZWNJ}تیره ات{ZWNJ}ساین ممیز".split())
_HONORIFICS = (
    "منهای", "علیه‌", "علیها‌", "علیهم‌", "علیهاالسلام", "صلی‌الله", "سلام‌الله", "عجل‌الله", "رحمت‌الله", "رحمه‌الله", "رضی‌الله",
)  # fmt: skip
"""How words begin that no ezafe joins to the word before them, most of them honorifics."""
_ALONE = frozenset(
    "کمی همیشه هنوز باید نباید شاید آیا اگر ولی اما که تا را هم نیز فقط امروزه سپس چرا چون زیرا یا هر این همین همان چه "
    "کدام هیچ چند خیلی بسیار بلکه البته گاهی همواره هرگز اکنون اینکه آنکه همچنین اینجا آنجا است بود شد کرد دارد نیست "
    "هست شود کند باشد بودند شدند کردند دارند هستند کنند شوند باشند".split()
)
"""Adverbs, conjunctions, demonstratives and verbs."""
_PAST = (
    "کرد داد داشت شد گرفت یافت زد خورد گفت آمد آورد برد رفت ماند رسید کشید افتاد گذاشت بست ساخت نمود گردید ورزید بخشید"
)
_PRESENT = "کن ده دار شو گیر یاب زن خور گوی آی آور بر رو مان رس کش افت گذار بند ساز نمای گرد ورز بخش"
_FINITE = re.compile(
    rf"(?:ن|ن?می{ZWNJ})?(?:{_PAST.replace(' ', '|')})(?:م|ی|یم|ید|ند|ه{ZWNJ}?(?:ام|ای|است|ایم|اید|اند))?"
    rf"|(?:ن?می{ZWNJ}|ب|ن)?(?:{_PRESENT.replace(' ', '|')})(?:م|ی|د|یم|ید|ند)"
    "|ن?خواه(?:م|ی|د|یم|ید|ند)|ن?کن|بکن|بده|نده|بزن|نزن|بگیر|نگیر"
)
_PARTICIPLE = re.compile(f"ن?(?:{_PAST.replace(' ', '|')})ه")
_COPULAS = frozenset("است نیست بود نبود هستند نیستند بودند باشد باشند".split())
_PREDICATES = frozenset("بلد لازم ممکن ضروری آماده موفق قادر مجبور نگران خوشحال ناراحت موظف مشغول".split())
_OF_COMPOUND_VERBS = frozenset(
    "ابراز اهدا توصیه اضافه تقدیم بلد فارغ‌التحصیل تکمیل گرم سرد مهار عذرخواهی توضیح تعریف تماس آشنا مشغول سرگرم "
    "ناپدید کنترل متحول آگاه مطلع باخبر تسلیت تبریک تشکر قدردانی تجلیل تقسیم تکرار تنظیم توجه جمع جدا خسته خوب "
    "خراب درمان درست دوست رعایت سرزنش سفارش شنا صبر ضرر طراحی طلاق ظاهر عادت عبور عوض غلبه فاش فرض فرق فراموش قانع "
    "قربانی قهر کشف کنار گرفتار گم محروم مرتکب مسلط معاینه مقاومت ملاقات نابود نازل نزدیک نصب نقل نمره "
    "واگذار وصل هدایت همکاری یادآوری علاقه سخن کاهش افزایش یاد لازم شکایت پایان ادامه آغاز شروع اعلام اجرا انجام "
    "قرار دست نشان اعتقاد ادعا اشاره تأکید تاکید استفاده کمک تلاش سعی کوشش حرکت صحبت حرف گزارش خبر تصمیم تشکیل تبدیل "
    "تغییر پیدا پدید وجود حضور شرکت نقش تعلق اختصاص دریافت پرداخت ارائه ارایه صورت تحقق برگزار منتشر مطرح ایجاد "
    "احداث تأسیس تاسیس تولید تهیه آماده موفق مجبور قادر متوجه روبه‌رو روبرو مواجه دچار باعث موجب سبب منجر تصویب "
    "تأیید تایید رد حل بیرون پایین جلو عقب پیش فرا باز طغیان سقوط رشد توسعه گسترش ترک پذیرایی دعوت استقبال حمایت "
    "دفاع حمله شلیک سفر دیدار گفت‌وگو مذاکره توافق امضا لغو متوقف تعطیل پخش نمایش منصوب انتخاب تعیین معرفی محسوب "
    "تلقی متهم محکوم دستگیر بازداشت کشته زخمی مصدوم مجروح غرق ویران تخریب بازسازی ترمیم اصلاح ثبت ضبط حفظ نگه عمل "
    "اقدام خودداری جلوگیری پرهیز شکست ازدواج زندگی سکونت اقامت خواهش درخواست تقاضا مصرف هزینه خرج فراهم مهیا میسر "
    "ممکن واقع تشویق تهدید خاموش روشن جبران احساس درک فکر تصور گمان باور شک تردید اطمینان اعتماد تکیه ارسال وارد "
    "خارج صادر جا قبول قطع حاضر آزاد رها سوار پیاده عازم خوشحال ناراحت نگران عصبانی مبتلا موظف ملزم برخوردار "
    "توپ‌بازی بازی گریه خنده ورزش نگاه گوش پرواز".split()
)
_PARTICLES = frozenset(
    "باید نباید هنوز همیشه نیز هم را که اما ولی اگر یا و تا از در با شاید هرگز چون زیرا بلکه فقط تاکنون همچنین البته آیا سپس "
    "مگر حتی".split()
)
_PASSIVE = re.compile(
    rf"(?:ن|ن?می{ZWNJ})?شد(?:م|ی|یم|ید|ند|ه{ZWNJ}?(?:است|اند))?|(?:ن?می{ZWNJ}|ن)?شو(?:م|ی|د|یم|ید|ند)|ن?خواه(?:د|ند)"
)
_WITH_A_COMPLEMENT = frozenset("ابراز اظهار اعلام احساس درخواست کسب".split())
_TAKE_A_COMPLEMENT = frozenset(
    "مورد قابل عدم حق اجازه قصد وعده قول دستور فرصت امکان توان قدرت خبر ضمن غیر خلاف محل هدف زیر تحت حال روز احساس "
    "اعلام ابراز اظهار درخواست آرزو کسب طلب تقاضا ادعا".split()
)
"""Words that a noun before a verb describes: ابرازِ علاقه کرد، موردِ استفاده قرار گرفت."""
_FINAL_VERBS = frozenset(
    "بازگشت برگشت گذشت نشست شکست پرداخت برد خورد ماند گریخت پیوست درگذشت برخاست ساخت ریخت سوخت شناخت انداخت آموخت "
    "فروخت کاشت برداشت یافت خواست".split()
)
"""Nouns too, but verbs where a clause ends."""
_UNITS = frozenset(
    "عدد نفر تن فنجان لیوان کیلو کیلوگرم گرم متر کیلومتر سانتی‌متر میلی‌متر ساعت دقیقه ثانیه روز هفته ماه سال واحد "
    "گیگابایت مگابایت ترابایت دستگاه قطعه فقره رأس اصله دانه تکه هکتار لیتر تومان ریال دلار یورو بار مرتبه نوع قاشق "
    "پیمانه بسته بشکه".split()
)
_AFTER_UNITS = frozenset(
    "گذشته آینده اخیر اول آخر بعد پیش قبل دوم کاری متوالی پیاپی کامل نخست دیگر تمام پایانی ابتدایی باقی‌مانده تحصیلی".split()
)
"""Describe a time: دو سالِ گذشته."""
_CHANGES = frozenset("کاهش افزایش رشد سود تخفیف کمتر بیشتر بالاتر پایین‌تر".split())
_WEEKDAY = re.compile(f"(?:یک|دو|سه|چهار|پنج)?{ZWNJ}?شنبه|جمعه")
_ORDINAL = re.compile("(?:یکم|اول|دوم|سوم|چهارم|پنجم|ششم|هفتم|هشتم|نهم|.*دهم|بیستم|سی‌ام)")
_OF_A_MONTH = frozenset("سال امسال پارسال ماه گذشته جاری آینده همان این همین".split())
_RESULTS = frozenset("نتیجه شکست پیروزی برد باخت مساوی تساوی بازی".split())
_TITLES = frozenset("دکتر سید شیخ حاج سرهنگ سرلشکر پروفسور".split())
_QUESTIONS = frozenset("چطور چطوره چیست کجاست چگونه چقدر چرا چیه کجا".split())
_JOINED = frozenset("ته وسط تحت طی طبق".split())
_PERSONS = frozenset("مرد زن جوان پسر دختر کودک نوجوان پیرمرد پیرزن".split())
_CLITIC = re.compile(f"(?:(?:م|ت|ش)|{ZWNJ}(?:ام|ات|اش|مان|تان|شان))$")


class Place(NamedTuple):
    """A word, the words around it without diacritics (empty at a pause or an end) and what is known of it."""

    word: str
    before: str
    after: str
    second: str
    third: str
    names_something: bool
    """Whether a number follows a word with ezafe (مادهٔ پنج); otherwise it counts something (سه کتاب)."""
    classes: Mapping[str, str]
    """Parts of speech: `n` noun, `a` adjective, `v` verb."""


class EzafeRule(NamedTuple):
    """A place without ezafe; the examples are texts and how they are read, without stress."""

    name: str
    forbids: Callable[[Place], bool]
    examples: tuple[tuple[str, str], ...]


def _is_compound_verb(place: Place) -> bool:
    is_verb = bool(_FINITE.fullmatch(place.second))
    is_verb |= bool(_PARTICIPLE.fullmatch(place.second)) and (place.third in _COPULAS or place.third == "و")
    if place.after in _WITH_A_COMPLEMENT and _FINITE.fullmatch(place.third):
        return True
    return is_verb and place.after in _OF_COMPOUND_VERBS and place.word not in _TAKE_A_COMPLEMENT


def _is_passive(place: Place) -> bool:
    is_verb = bool(_PASSIVE.fullmatch(place.second)) or (place.second in ("شده", "نشده") and place.third in _COPULAS)
    return is_verb and place.after.endswith(("ته", "ده"))


def _counts_a_unit(place: Place) -> bool:
    is_counted = is_cardinal(place.before) or place.before in ("هر", "چند", "نیم")
    is_counted &= not place.names_something or place.after in ("سن", "سابقه", "تجربه")
    return place.word in _UNITS and is_counted and place.after not in _AFTER_UNITS


def _has_possessive(place: Place) -> bool:
    stem = _CLITIC.sub("", place.word)
    return stem != place.word and place.word not in place.classes and set(place.classes.get(stem, "?")) <= set("na")


RULES = (
    EzafeRule(
        "a number that counts",
        lambda place: (
            is_cardinal(place.word)
            and not (place.names_something or place.after in DAY_PARTS or place.after in _MONTHS)
        ),
        (("سه کتاب", "se ketɑb"), ("دو شب ماند", "do ʃæb mɑnd")),
    ),
    EzafeRule(
        "signs of numbers and their names",
        lambda place: (
            place.word in _NAMES_OF_SIGNS or (place.word in ("منفی", "مثبت") and is_cardinal(place.after))
        ),
        (("منفی پنج", "mænfi pændʒ"),),
    ),
    EzafeRule(
        "before honorifics",
        lambda place: place.after.startswith(_HONORIFICS),
        ((f"علی علیه{ZWNJ}السلام", "æli ælejhessælɑm"),),
    ),
    EzafeRule(
        "adverbs, conjunctions and verbs",
        lambda place: place.word in _ALONE or bool(VERB_PREFIX.match(place.word)),
        (("همیشه آخر هفته", "hæmiʃe ɑxære hæfte"),),
    ),
    EzafeRule(
        "before a verb or a question",
        lambda place: (
            bool(VERB_PREFIX.match(place.after))
            or place.after in _QUESTIONS
            or place.after in _COPULAS
            or place.classes.get(place.after) == "v"
            or (place.after in _FINAL_VERBS and not place.second)
            or (place.after == "درآمد" and place.before == "به" and not place.second)
        ),
        (("به صدر جدول بازگشت.", "be sædre dʒædvæl bɑzɡæʃt."), ("حالت چطوره", "hɑlæt tʃetore")),
    ),
    EzafeRule(
        "before a compound verb",
        _is_compound_verb,
        (
            ("از خانه بیرون زدم", "æz xɑne birun zædæm"),
            ("به موسیقی علاقه داشت", "be musiqi ælɑqe dɑʃt"),
            ("با مشکل روبه‌رو کرده است", "bɑ moʃkel ruberu kærde æst"),
            ("از انتخابات ابراز نارضایتی کرد", "æz entexɑbɑt ebrɑze nɑrezɑjæti kærd"),
        ),
    ),
    EzafeRule(
        "before a participle of a passive",
        _is_passive,
        (("به مشکلات معدن پرداخته شده است", "be moʃkelɑte mæʔdæn pærdɑxte ʃode æst"),),
    ),
    EzafeRule(
        "before conjunctions, prepositions and adverbs",
        lambda place: place.after in _PARTICLES,
        (("کتاب را خواندم", "ketɑb rɑ xɑndæm"), ("ماشین باید برود", "mɑʃin bɑjæd berævæd")),
    ),
    EzafeRule(
        "indefinite plural",
        lambda place: place.word.endswith("هایی") and place.word != "نهایی",
        (("کتاب‌هایی خوب", "ketɑbhɑʔi xub"),),
    ),
    EzafeRule(
        "before an adjective that a copula follows",
        lambda place: (
            (place.classes.get(place.after) == "a" or place.after in _PREDICATES) and place.second in _COPULAS
        ),
        (("ترافیک به شرق سنگین است", "terɑfik be ʃærq sænɡin æst"),),
    ),
    EzafeRule(
        "a unit between a number and what is counted",
        _counts_a_unit,
        (("سه عدد پیاز", "se ædæd pijɑz"), ("دو ساعت تأخیر", "do sɑʔæt tæʔxir"), ("دو سال گذشته", "do sɑle ɡozæʃte")),
    ),
    EzafeRule(
        "percent of change",
        lambda place: place.word == "درصد" and place.after in _CHANGES,
        (("پنج درصد کاهش", "pændʒ dærsæd kɑheʃ"),),
    ),
    EzafeRule(
        "a weekday before a date",
        lambda place: bool(_WEEKDAY.fullmatch(place.word)) and bool(is_cardinal(place.after) or _ORDINAL.fullmatch(place.after)),
        (("دوشنبه هفدهمِ آذر", "doʃænbe hefdæhome ɑzær"), ("جمعه بیست و سومِ مهر", "dʒomʔe bist o sevvome mehr")),
    ),
    EzafeRule(
        "the month of a date before another phrase",
        lambda place: (
            place.word in _MONTHS
            and bool(is_cardinal(place.before) or _ORDINAL.fullmatch(place.before))
            and not (is_cardinal(place.after) or place.after in _OF_A_MONTH)
        ),
        (("بیست و پنجمِ آذر مدارس تعطیل است", "bist o pændʒome ɑzær mædɑres tæʔtil æst"),),
    ),
    EzafeRule(
        "a team before the score",
        lambda place: is_cardinal(place.after) and place.second == "بر" and place.word not in _RESULTS,
        (("پرسپولیس دو بر یک استقلال را برد", "perspolis do bær jek esteqlɑl rɑ bord"),),
    ),
    EzafeRule(
        "a title before a name",
        lambda place: place.word in _TITLES,
        (("دکتر احمدی", "doktor æhmædi"),),
    ),
    EzafeRule(
        "a word with a possessive ending",
        _has_possessive,
        (("خواهر کوچکم امسال آمد", "xɑhære kutʃækæm emsɑl ɑmæd"),),
    ),
)  # fmt: skip


def must_have_ezafe(place: Place) -> bool:
    """Whether a word is a preposition that was a noun (ته کوچه، طی سال) or a person before the age (مرد بیست ساله)."""
    is_joined = place.word in _JOINED or (place.word in _PERSONS and is_cardinal(place.after))
    return is_joined and bool(place.after) and may_have_ezafe(place)


def may_have_ezafe(place: Place) -> bool:
    """Whether no rule forbids an ezafe that is not written."""
    return not any(rule.forbids(place) for rule in RULES)


EZAFE_TABLE_SIZE = 1 << 18
_EDGE = "|"
_STEM_ENDINGS = ("های", "ها", "ی", f"{ZWNJ}ای", f"{ZWNJ}اش", "ش", "م", "ت", "ان", f"{ZWNJ}ام", "تر", "ترین")


@dataclass(frozen=True)
class EzafeModel:
    """Hashed weights, (EZAFE_TABLE_SIZE,) int8 times `scale`, and the class (part of speech) of the words that have one."""

    table: np.ndarray
    scale: float
    classes: Mapping[str, str]

    def scores(self, line: Line) -> np.ndarray:
        """Log odds of an ezafe after each word, (words,)."""
        slots = np.array([ezafe_slots(line, index, self.classes) for index in range(len(line.words))])
        return self.table[slots].astype(np.int32).sum(axis=1) * self.scale


def class_of(word: str, classes: Mapping[str, str]) -> str:
    """The class of a word, or of its stem with the ending; `?` if neither is known."""
    if word in classes:
        return classes[word]
    for ending in _STEM_ENDINGS:
        stem = word.removesuffix(ending)
        if stem != word and stem.strip(ZWNJ) in classes:
            return f"{classes[stem.strip(ZWNJ)]}-{ending}"
    return "?"


def ezafe_slots(line: Line, index: int, classes: Mapping[str, str]) -> list[int]:
    """Places of the table whose weights are summed for a word."""

    def at(place: int) -> str:
        return line.text_of(line.words[place]) if 0 <= place < len(line.words) else _EDGE

    word, after, second, before, earlier = at(index), at(index + 1), at(index + 2), at(index - 1), at(index - 2)
    place = line.words[index]
    if place.end < len(line.letters) and line.letters[place.end] == PAUSE:
        after, second = PAUSE, after
    if place.start and line.letters[place.start - 1] == PAUSE:
        before = PAUSE
    features = [
        "", f"w{word}", f"n{after}", f"p{before}", f"m{second}", f"q{earlier}", f"wn{word}_{after}", f"pw{before}_{word}",
        f"nn{after}_{second}", f"pn{before}_{after}", f"s2{word[-2:]}_{after[-2:]}", f"s3{word[-3:]}_{after[-3:]}",
        f"sw{word[-2:]}_{after}", f"sn{after[-2:]}_{second[-2:]}", f"sp{before[-2:]}_{word[-2:]}_{after[-2:]}",
        f"l{min(6, len(word))}",
    ]  # fmt: skip
    for size in (1, 2, 3, 4):
        features += [
            f"ws{size}{word[-size:]}", f"wp{size}{word[:size]}", f"ns{size}{after[-size:]}", f"np{size}{after[:size]}",
            f"ps{size}{before[-size:]}",
        ]  # fmt: skip
    if classes:
        own, next_class, second_class = (class_of(each, classes) for each in (word, after, second))
        previous = class_of(before, classes)
        features += [
            f"A{own}", f"B{next_class}", f"AB{own}_{next_class}", f"ABC{own}_{next_class}_{second_class}", f"D{previous}",
            f"DAB{previous}_{own}_{next_class}", f"wB{word}_{next_class}", f"An{own}_{after}", f"BC{next_class}_{second_class}",
            f"AsB{word[-2:]}_{own}_{next_class}",
        ]  # fmt: skip
    return [zlib.crc32(feature.encode()) % EZAFE_TABLE_SIZE for feature in features]
