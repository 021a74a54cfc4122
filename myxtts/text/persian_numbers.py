"""Persian numbers in words, the ezafe of words before them, and the names of currencies, units and fraction signs."""

# ruff: noqa: SIM905 - word lists read best as words
from __future__ import annotations

from myxtts.text.cleanup import ZWNJ
from myxtts.text.rules import LONGEST_NUMBER

KASRA, HAMZA_ABOVE = "\u0650", "\u0654"

_UNITS = "صفر یک دو سه چهار پنج شش هفت هشت نُه ده یازده دوازده سیزده چهارده پانزده شانزده هفده هجده نوزده".split()
"""With a damma, because نه without it is read as "no"."""
_TENS = "_ _ بیست سی چهل پنجاه شصت هفتاد هشتاد نود".split()
_HUNDREDS = "_ صد دویست سیصد چهارصد پانصد ششصد هفتصد هشتصد نهصد".split()
_SCALES = ["", "هزار", "میلیون", "میلیارد", "تریلیون"]
_AND = " و "
_ROUND_WORDS = frozenset([*_TENS, *_HUNDREDS, *_SCALES]) - {"", "_"}
_UNIT_WORDS = frozenset(unit.replace("\u064f", "") for unit in _UNITS)
_CARDINALS = _UNIT_WORDS | _ROUND_WORDS | {"نیم"}
_ORDINALS = {f"{word}م" for word in _UNIT_WORDS | _ROUND_WORDS} | {"سوم", f"سی{ZWNJ}ام"}
_ORDINAL_WORDS = frozenset(_ORDINALS | {f"{word}ین" for word in _ORDINALS})


def number_in_words(number: int) -> str:
    """A number below 10 to the 15th: 1402 → هزار و چهارصد و دو."""
    if number < 20:
        return _UNITS[number]
    if number < 100:
        return _TENS[number // 10] + (_AND + _UNITS[number % 10] if number % 10 else "")
    if number < 1000:
        return _HUNDREDS[number // 100] + (_AND + number_in_words(number % 100) if number % 100 else "")
    parts, scale = [], 0
    while number:
        number, group = divmod(number, 1000)
        if group:
            is_plain_thousand = group == 1 and scale == 1
            parts.append(_SCALES[scale] if is_plain_thousand else f"{number_in_words(group)} {_SCALES[scale]}".strip())
        scale += 1
    return _AND.join(reversed(parts))


def is_cardinal(word: str) -> bool:
    """Whether a word without diacritics is a number."""
    return word in _CARDINALS


_TENS_OF_MINUTES = ("بیست", "سی", "چهل", "پنجاه")


def is_inside_number(before: str, after: str, second: str) -> bool:
    """Whether «و» joins the parts of one number and is read o: بیست و سه، دو و نیم، ده و سی دقیقه، ده و سی و پنج دقیقه.

    Args:
        before, after, second: the word before «و» and the two words after it, without diacritics.
    """
    if before not in _UNIT_WORDS | _ROUND_WORDS:
        return False
    if after in ("نیم", "ربع"):
        return True
    if second in ("دقیقه", "ثانیه") or (second == "و" and after in _TENS_OF_MINUTES):
        return after in _UNIT_WORDS | _ROUND_WORDS
    return before in _ROUND_WORDS and after in _UNIT_WORDS | _ROUND_WORDS | _ORDINAL_WORDS


def ordinal_in_words(number: int) -> str:
    """23 → بیست و سوم."""
    words = number_in_words(number)
    if words.endswith("سه"):
        return words[: -len("سه")] + "سوم"
    if words.endswith("سی"):
        return f"{words}{ZWNJ}اُم"
    return words.removesuffix("نُه") + "نهم" if words.endswith("نُه") else words + "م"


def digits_in_words(digits: str) -> str:
    """One word for each digit."""
    return " ".join(_UNITS[int(digit)] for digit in digits)


def group_in_words(digits: str) -> str:
    """A group of a telephone number: leading zeros one by one, the rest as a number. 0912 → صفر نهصد و دوازده."""
    rest = digits.lstrip("0")
    zeros = ["صفر"] * (len(digits) - len(rest))
    return " ".join([*zeros, number_in_words(int(rest))] if rest else zeros)


def written_in_words(written: str) -> str:
    """Digits with thousands separators (,) and a decimal point: 3.05 → سه ممیز صفر پنج."""
    whole, point, fraction = written.replace(",", "").partition(".")
    if len(whole) > LONGEST_NUMBER:
        return digits_in_words(whole + fraction)
    words = number_in_words(int(whole))
    if not point or not fraction.strip("0"):
        return words
    if len(fraction) > 4:
        return f"{words} ممیز {digits_in_words(fraction)}"
    return f"{words} ممیز {group_in_words(fraction)}"


def fraction_in_words(numerator: int, denominator: int) -> str:
    """3, 4 → سه‌چهارم."""
    return f"{number_in_words(numerator)}{ZWNJ}{ordinal_in_words(denominator)}"


def with_ezafe(word: str) -> str:
    """A word with its ezafe written: سال → سالِ, شماره → شمارهٔ."""
    if word.endswith((KASRA, HAMZA_ABOVE)) or word.endswith(f"{ZWNJ}ی"):
        return word
    is_silent_h = word.endswith("ه") and not word.endswith(("اه", "مه", "وه", "نُه"))
    if is_silent_h:
        return word + HAMZA_ABOVE
    return f"{word}یِ" if word.endswith(("ا", "و")) else word + KASRA


CURRENCIES = {
    "$": ("دلار", "سنْت"), "€": ("یورو", "سنْت"), "£": ("پوند", "پنی"), "¥": ("ین", ""), "₺": ("لیر", ""),
    "₹": ("روپیه", ""), "₽": ("روبل", ""), "₿": ("بیت‌کوین", ""), "₩": ("وون", ""), "₪": ("شِکِل", ""),
    "؋": ("افغانی", ""),
}  # fmt: skip
"""Sign → name, name of one hundredth."""

CURRENCY_CODES = {
    "USD": "دلار", "EUR": "یورو", "GBP": "پوند", "IRR": "ریال", "IRT": "تومان", "AED": "درهم", "CAD": "دلارِ کانادا",
    "BTC": "بیت‌کوین", "CHF": "فرانک", "CNY": "یوان",
}  # fmt: skip

UNITS = {
    "km": "کیلومتر", "cm": "سانتی‌متر", "mm": "میلی‌متر", "m": "متر", "µm": "میکرومتر", "nm": "نانومتر",
    "ft": "فوت", "mi": "مایْل", "kg": "کیلوگرم", "mg": "میلی‌گرم", "g": "گرَم", "µg": "میکروگرم", "lb": "پوند",
    "oz": "اونس", "ha": "هکتار", "m²": "مترِ مربع", "m2": "مترِ مربع", "km²": "کیلومترِ مربع", "km2": "کیلومترِ مربع",
    "cm²": "سانتی‌مترِ مربع", "cm2": "سانتی‌مترِ مربع", "mm²": "میلی‌مترِ مربع", "m³": "مترِ مکعب", "m3": "مترِ مکعب",
    "cm³": "سانتی‌مترِ مکعب", "cm3": "سانتی‌مترِ مکعب", "cc": "سی‌سی", "km/h": "کیلومتر بر ساعت",
    "km/s": "کیلومتر بر ثانیه", "m/s": "متر بر ثانیه", "m/s²": "متر بر مجذور ثانیه",
    "g/cm³": "گرَم بر سانتی‌مترِ مکعب", "kg/m³": "کیلوگرم بر مترِ مکعب", "kg/m²": "کیلوگرم بر مترِ مربع",
    "mg/dl": "میلی‌گرم بر دسی‌لیتر", "mg/dL": "میلی‌گرم بر دسی‌لیتر", "mg/l": "میلی‌گرم بر لیتر",
    "mg/L": "میلی‌گرم بر لیتر", "µg/m³": "میکروگرم بر مترِ مکعب", "g/l": "گرَم بر لیتر", "mph": "مایْل بر ساعت",
    "ml": "میلی‌لیتر", "mL": "میلی‌لیتر", "l": "لیتر", "L": "لیتر", "lit": "لیتر", "KB": "کیلوبایت",
    "kB": "کیلوبایت", "MB": "مگابایت", "GB": "گیگابایت", "TB": "ترابایت", "Mb/s": "مگابیت بر ثانیه",
    "Mbps": "مگابیت بر ثانیه", "Gbps": "گیگابیت بر ثانیه", "Gb/s": "گیگابیت بر ثانیه", "Kbps": "کیلوبیت بر ثانیه",
    "kbps": "کیلوبیت بر ثانیه", "MB/s": "مگابایت بر ثانیه", "GB/s": "گیگابایت بر ثانیه", "MP": "مگاپیکسل",
    "Hz": "هرتز", "kHz": "کیلوهرتز", "KHz": "کیلوهرتز", "MHz": "مگاهرتز", "GHz": "گیگاهرتز", "V": "ولت",
    "kV": "کیلوولت", "mV": "میلی‌ولت", "W": "وات", "kW": "کیلووات", "KW": "کیلووات", "MW": "مگاوات",
    "GW": "گیگاوات", "kWh": "کیلووات‌ساعت", "MWh": "مگاوات‌ساعت", "mA": "میلی‌آمپر", "mAh": "میلی‌آمپر ساعت",
    "Ω": "اهم", "J": "ژول", "kJ": "کیلوژول", "cal": "کالری", "kcal": "کیلوکالری", "Pa": "پاسکال",
    "kPa": "کیلوپاسکال", "hPa": "هکتوپاسکال",
    "MPa": "مگاپاسکال", "bar": "بار", "psi": "پی‌اس‌آی", "hp": "اسب بخار", "dB": "دسی‌بل", "rpm": "دور در دقیقه",
    "bpm": "ضربه در دقیقه", "ppm": "پی‌پی‌ام", "min": "دقیقه", "ms": "میلی‌ثانیه", "s": "ثانیه", "h": "ساعت",
    "px": "پیکسل", "inch": "اینچ", "″": "اینچ", "°C": "درجهٔ سانتی‌گراد", "℃": "درجهٔ سانتی‌گراد",
    "° C": "درجهٔ سانتی‌گراد", "°F": "درجهٔ فارنهایت", "℉": "درجهٔ فارنهایت", "°K": "درجهٔ کلوین", "°": "درجه",
}  # fmt: skip
"""Sign after a number → name. Diacritics mark a name among words of the same letters; `fa_reviewed.tsv` has its reading."""

MARKED_UNITS = {"گرم": "گرَم", "مایل": "مایْل", "سنت": "سنْت"}
"""Units in words that are another word elsewhere (warm, willing, tradition)."""

FRACTION_SIGNS = {
    "½": "نیم", "⅓": "یک‌سوم", "⅔": "دو‌سوم", "¼": "یک‌چهارم", "¾": "سه‌چهارم", "⅕": "یک‌پنجم", "⅖": "دو‌پنجم",
    "⅗": "سه‌پنجم", "⅘": "چهار‌پنجم", "⅙": "یک‌ششم", "⅛": "یک‌هشتم", "⅜": "سه‌هشتم", "⅝": "پنج‌هشتم",
    "⅞": "هفت‌هشتم",
}  # fmt: skip
