"""English numbers in words, and the names of currencies, magnitudes, units and fraction signs."""

# ruff: noqa: SIM905 - word lists read best as words
from __future__ import annotations

from myxtts.text.rules import LONGEST_NUMBER

_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()
_SCALES = ["", "thousand", "million", "billion", "trillion", "quadrillion"]
_IRREGULAR_ORDINALS = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth",
    "twelve": "twelfth",
}  # fmt: skip


def cardinal(number: int) -> str:
    """123 → one hundred twenty-three; below 10 to the 18th."""
    if number < 20:
        return _SMALL[number]
    if number < 100:
        return _TENS[number // 10] + (f"-{_SMALL[number % 10]}" if number % 10 else "")
    if number < 1000:
        return f"{_SMALL[number // 100]} hundred" + (f" {cardinal(number % 100)}" if number % 100 else "")
    parts, scale = [], 0
    while number:
        number, group = divmod(number, 1000)
        if group:
            parts.append(f"{cardinal(group)} {_SCALES[scale]}".strip())
        scale += 1
    return " ".join(reversed(parts))


def ordinal(number: int) -> str:
    """21 → twenty-first."""
    return _on_last_word(cardinal(number), _ordinal_word)


def digits(written: str) -> str:
    """One word for each digit: 007 → zero zero seven."""
    return " ".join(_SMALL[int(digit)] for digit in written if digit.isdigit())


def decimal(whole: str, fraction: str) -> str:
    """3, 14 → three point one four."""
    return f"{integer(whole)} point {digits(fraction)}"


def integer(written: str) -> str:
    """Digits as a number, or digit by digit where they are too many or begin with zero."""
    if len(written) > LONGEST_NUMBER or (len(written) > 1 and written[0] == "0"):
        return digits(written)
    return cardinal(int(written))


def year(number: int) -> str:
    """1984 → nineteen eighty-four; 2005 → two thousand five; 1900 → nineteen hundred; 122 → one hundred twenty-two."""
    century, rest = divmod(number, 100)
    if number < 1000 or 2000 <= number < 2010 or number % 1000 == 0:
        return cardinal(number)
    if rest == 0:
        return f"{cardinal(century)} hundred"
    return f"{cardinal(century)} {'oh ' if rest < 10 else ''}{cardinal(rest)}"


def decade(number: int) -> str:
    """1990 → nineteen nineties; 90 → nineties."""
    return plural(year(number) if number >= 1000 else cardinal(number))


def plural(words: str) -> str:
    """A number in words with a plural ending: forty-seven → forty-sevens."""
    return _on_last_word(words, _plural_word)


def clock(hour: int, minute: int, *, is_exact_hour_named: bool) -> str:
    """3, 5 → three oh five; 3, 0 → three o'clock (or three, where a.m. or p.m. follows)."""
    if minute == 0:
        if hour > 12 or hour == 0:
            return f"{cardinal(hour)} hundred" if hour else "midnight"
        return f"{cardinal(hour)} o'clock" if is_exact_hour_named else cardinal(hour)
    return f"{cardinal(hour)} {'oh ' if minute < 10 else ''}{cardinal(minute)}"


def fraction(numerator: int, denominator: int) -> str:
    """3, 4 → three quarters."""
    name = {2: "half", 4: "quarter"}.get(denominator) or ordinal(denominator)
    if numerator != 1:
        name = "halves" if denominator == 2 else f"{name}s"
    return f"{cardinal(numerator)} {name}"


def _on_last_word(words: str, change) -> str:
    cut = max(words.rfind(" "), words.rfind("-")) + 1
    return words[:cut] + change(words[cut:])


def _ordinal_word(word: str) -> str:
    if word in _IRREGULAR_ORDINALS:
        return _IRREGULAR_ORDINALS[word]
    return word[:-1] + "ieth" if word.endswith("y") else word + "th"


def _plural_word(word: str) -> str:
    if word.endswith("y"):
        return word[:-1] + "ies"
    return word + ("es" if word.endswith("x") else "s")


CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"),
    "¥": ("yen", "yen", "", ""),
    "₹": ("rupee", "rupees", "paisa", "paise"),
    "₽": ("ruble", "rubles", "kopeck", "kopecks"),
    "₩": ("won", "won", "", ""),
    "₿": ("bitcoin", "bitcoin", "", ""),
    "₺": ("lira", "lira", "", ""),
    "₪": ("shekel", "shekels", "", ""),
    "₫": ("dong", "dong", "", ""),
    "₴": ("hryvnia", "hryvnias", "", ""),
    "₦": ("naira", "naira", "", ""),
    "₱": ("peso", "pesos", "", ""),
    "฿": ("baht", "baht", "", ""),
}
"""Sign → one, many, one hundredth, many hundredths."""

DOLLARS = {
    "US": "US", "CA": "Canadian", "C": "Canadian", "AU": "Australian", "A": "Australian", "NZ": "New Zealand",
    "HK": "Hong Kong", "S": "Singapore",
}  # fmt: skip
"""Letters before `$` → adjective."""

CURRENCY_CODES = {
    "USD": ("dollar", "dollars"), "EUR": ("euro", "euros"), "GBP": ("pound", "pounds"), "CHF": ("franc", "francs"),
    "JPY": ("yen", "yen"), "IRR": ("rial", "rials"), "Rs": ("rupee", "rupees"), "INR": ("rupee", "rupees"),
    "CAD": ("Canadian dollar", "Canadian dollars"), "AUD": ("Australian dollar", "Australian dollars"),
    "CNY": ("yuan", "yuan"), "RMB": ("yuan", "yuan"), "RUB": ("ruble", "rubles"), "SEK": ("krona", "kronor"),
    "BTC": ("bitcoin", "bitcoin"), "AED": ("dirham", "dirhams"), "TRY": ("lira", "lira"),
}  # fmt: skip

MAGNITUDES = {
    "thousand": "thousand", "million": "million", "billion": "billion", "trillion": "trillion", "k": "thousand",
    "K": "thousand", "m": "million", "M": "million", "mn": "million", "mm": "million", "bn": "billion",
    "b": "billion", "B": "billion", "tn": "trillion", "T": "trillion",
}  # fmt: skip
"""Magnitudes after an amount of money."""


def _unit(one: str, many: str | None = None) -> tuple[str, str]:
    return one, many or f"{one}s"


def _rate(one: str, per: str) -> tuple[str, str]:
    return f"{one} per {per}", f"{one}s per {per}"


UNITS = {
    "km": _unit("kilometer"), "cm": _unit("centimeter"), "mm": _unit("millimeter"), "m": _unit("meter"),
    "µm": _unit("micrometer"), "μm": _unit("micrometer"), "nm": _unit("nanometer"), "mi": _unit("mile"),
    "ft": _unit("foot", "feet"), "yd": _unit("yard"), "yds": _unit("yard"), "km²": _unit("square kilometer"),
    "m²": _unit("square meter"), "cm²": _unit("square centimeter"), "km2": _unit("square kilometer"),
    "m2": _unit("square meter"), "ft²": _unit("square foot", "square feet"),
    "sq ft": _unit("square foot", "square feet"), "sq. ft": _unit("square foot", "square feet"),
    "sq km": _unit("square kilometer"), "sq m": _unit("square meter"), "sq mi": _unit("square mile"),
    "m³": _unit("cubic meter"), "m3": _unit("cubic meter"), "cm³": _unit("cubic centimeter"),
    "cm3": _unit("cubic centimeter"), "ha": _unit("hectare"), "kg": _unit("kilogram"), "g": _unit("gram"),
    "mg": _unit("milligram"), "µg": _unit("microgram"), "mcg": _unit("microgram"), "lb": _unit("pound"),
    "lbs": _unit("pound"), "oz": _unit("ounce"), "t": _unit("ton"), "kt": _unit("kiloton"), "Mt": _unit("megaton"),
    "L": _unit("liter"), "l": _unit("liter"), "dl": _unit("deciliter"),
    "cl": _unit("centiliter"), "ml": _unit("milliliter"), "mL": _unit("milliliter"), "gal": _unit("gallon"),
    "qt": _unit("quart"), "pt": _unit("pint"), "tsp": _unit("teaspoon"), "tbsp": _unit("tablespoon"),
    "fl oz": _unit("fluid ounce"), "km/h": _rate("kilometer", "hour"), "kph": _rate("kilometer", "hour"),
    "kmh": _rate("kilometer", "hour"), "mph": _rate("mile", "hour"), "m/s": _rate("meter", "second"),
    "m/s²": _rate("meter", "second squared"), "km/s": _rate("kilometer", "second"), "fps": _rate("frame", "second"),
    "Hz": _unit("hertz", "hertz"), "kHz": _unit("kilohertz", "kilohertz"), "MHz": _unit("megahertz", "megahertz"),
    "GHz": _unit("gigahertz", "gigahertz"), "KB": _unit("kilobyte"), "kB": _unit("kilobyte"),
    "MB": _unit("megabyte"), "GB": _unit("gigabyte"), "TB": _unit("terabyte"), "PB": _unit("petabyte"),
    "kbps": _rate("kilobit", "second"), "Mbps": _rate("megabit", "second"), "Gbps": _rate("gigabit", "second"),
    "Mb/s": _rate("megabit", "second"), "Gb/s": _rate("gigabit", "second"), "MB/s": _rate("megabyte", "second"),
    "GB/s": _rate("gigabyte", "second"), "W": _unit("watt"), "kW": _unit("kilowatt"), "MW": _unit("megawatt"),
    "GW": _unit("gigawatt"), "kWh": _unit("kilowatt hour"), "MWh": _unit("megawatt hour"),
    "GWh": _unit("gigawatt hour"), "V": _unit("volt"), "kV": _unit("kilovolt"), "mV": _unit("millivolt"),
    "mA": _unit("milliamp"), "mAh": _unit("milliamp hour"), "Ω": _unit("ohm"),
    "kΩ": _unit("kilohm"), "MΩ": _unit("megohm"), "dB": _unit("decibel"),
    "Pa": _unit("pascal"), "kPa": _unit("kilopascal"), "hPa": _unit("hectopascal"), "MPa": _unit("megapascal"),
    "mmHg": ("millimeter of mercury", "millimeters of mercury"), "psi": ("P S I", "P S I"), "J": _unit("joule"),
    "kJ": _unit("kilojoule"), "cal": _unit("calorie", "calories"), "kcal": _unit("kilocalorie"),
    "hp": _unit("horsepower", "horsepower"), "mol": _unit("mole"), "ppm": ("part per million", "parts per million"),
    "bpm": _rate("beat", "minute"), "rpm": _rate("revolution", "minute"), "ns": _unit("nanosecond"),
    "ms": _unit("millisecond"), "s": _unit("second"), "sec": _unit("second"), "secs": _unit("second"),
    "min": _unit("minute"), "mins": _unit("minute"), "h": _unit("hour"), "hr": _unit("hour"), "hrs": _unit("hour"),
    "yr": _unit("year"), "yrs": _unit("year"), "wk": _unit("week"), "wks": _unit("week"),
    "°C": ("degree Celsius", "degrees Celsius"), "℃": ("degree Celsius", "degrees Celsius"),
    "° C": ("degree Celsius", "degrees Celsius"), "°F": ("degree Fahrenheit", "degrees Fahrenheit"),
    "℉": ("degree Fahrenheit", "degrees Fahrenheit"), "° F": ("degree Fahrenheit", "degrees Fahrenheit"),
    "°": _unit("degree"), "px": _unit("pixel"), "dpi": ("dot per inch", "dots per inch"),
    "g/cm³": ("gram per cubic centimeter", "grams per cubic centimeter"),
    "kg/m³": ("kilogram per cubic meter", "kilograms per cubic meter"),
}  # fmt: skip
"""Sign after a number → one, many. Inches are left out: `5 in the morning`."""

PER_UNITS = {
    "hour": "hour", "hr": "hour", "h": "hour", "day": "day", "week": "week", "wk": "week", "month": "month",
    "mo": "month", "year": "year", "yr": "year", "night": "night", "person": "person", "kg": "kilogram",
    "lb": "pound", "gallon": "gallon", "gal": "gallon", "liter": "liter", "litre": "litre", "L": "liter",
    "l": "liter", "dl": "deciliter", "dL": "deciliter", "mile": "mile", "unit": "unit", "piece": "piece",
    "share": "share", "barrel": "barrel", "minute": "minute", "min": "minute", "second": "second", "sec": "second",
    "s": "second", "ton": "ton", "tonne": "tonne", "m²": "square meter", "m³": "cubic meter",
    "cm²": "square centimeter", "km": "kilometer", "km²": "square kilometer", "user": "user", "student": "student",
    "game": "game", "child": "child",
}  # fmt: skip
"""After a slash → the word after `per`."""

VULGAR_FRACTIONS = {
    "½": "one half", "⅓": "one third", "⅔": "two thirds", "¼": "one quarter", "¾": "three quarters",
    "⅛": "one eighth", "⅜": "three eighths", "⅝": "five eighths", "⅞": "seven eighths", "⅕": "one fifth",
    "⅖": "two fifths", "⅗": "three fifths", "⅘": "four fifths", "⅙": "one sixth", "⅚": "five sixths",
}  # fmt: skip
