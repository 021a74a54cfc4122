"""The tables behind `myxtts.text.english`: months, currencies, units, titles and abbreviations with the words they stand for."""

# ruff: noqa: SIM905 - word lists read best as words
from __future__ import annotations

MONTHS = "January February March April May June July August September October November December".split()

CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"),
    "¥": ("yen", "yen", "", ""),
    "₹": ("rupee", "rupees", "paisa", "paise"),
    "₽": ("ruble", "rubles", "kopeck", "kopecks"),
    "₩": ("won", "won", "", ""),
    "﷼": ("rial", "rials", "", ""),
}
"""Sign → one, many, one hundredth, many hundredths."""

CURRENCY_CODES = {
    "USD": ("dollar", "dollars"),
    "EUR": ("euro", "euros"),
    "GBP": ("pound", "pounds"),
    "CHF": ("franc", "francs"),
    "JPY": ("yen", "yen"),
    "IRR": ("rial", "rials"),
}

MAGNITUDES = {
    "thousand": "thousand", "million": "million", "billion": "billion", "trillion": "trillion",
    "k": "thousand", "K": "thousand", "m": "million", "M": "million", "mn": "million", "bn": "billion", "B": "billion",
}  # fmt: skip


def _plain(*names: str) -> tuple[str, str]:
    one = names[0]
    return one, names[1] if len(names) > 1 else f"{one}s"


UNITS = {
    "km": _plain("kilometer"), "cm": _plain("centimeter"), "mm": _plain("millimeter"), "m": _plain("meter"),
    "µm": _plain("micrometer"), "nm": _plain("nanometer"), "mi": _plain("mile"), "ft": _plain("foot", "feet"),
    "yd": _plain("yard"), "km²": _plain("square kilometer"), "m²": _plain("square meter"), "m³": _plain("cubic meter"),
    "kg": _plain("kilogram"), "g": _plain("gram"), "mg": _plain("milligram"), "lb": _plain("pound"),
    "lbs": _plain("pound"), "oz": _plain("ounce"), "L": _plain("liter"), "l": _plain("liter"),
    "ml": _plain("milliliter"), "mL": _plain("milliliter"), "km/h": _plain("kilometer per hour", "kilometers per hour"),
    "kph": _plain("kilometer per hour", "kilometers per hour"), "mph": _plain("mile per hour", "miles per hour"),
    "m/s": _plain("meter per second", "meters per second"), "Hz": _plain("hertz", "hertz"),
    "kHz": _plain("kilohertz", "kilohertz"), "MHz": _plain("megahertz", "megahertz"),
    "GHz": _plain("gigahertz", "gigahertz"), "KB": _plain("kilobyte"), "kB": _plain("kilobyte"),
    "MB": _plain("megabyte"), "GB": _plain("gigabyte"), "TB": _plain("terabyte"), "kbps": _plain("kilobit per second",
    "kilobits per second"), "Mbps": _plain("megabit per second", "megabits per second"), "W": _plain("watt"),
    "kW": _plain("kilowatt"), "MW": _plain("megawatt"), "kWh": _plain("kilowatt hour"), "V": _plain("volt"),
    "mA": _plain("milliamp"), "dB": _plain("decibel"), "ms": _plain("millisecond"), "s": _plain("second"),
    "sec": _plain("second"), "min": _plain("minute"), "hr": _plain("hour"), "hrs": _plain("hour"),
    "°C": _plain("degree Celsius", "degrees Celsius"), "°F": _plain("degree Fahrenheit", "degrees Fahrenheit"),
    "°": _plain("degree"), "px": _plain("pixel"), "rpm": ("revolution per minute", "revolutions per minute"),
}  # fmt: skip
"""Sign after a number → one, many. Inches are left out: `5 in the morning`."""

TITLES = {
    "Mr": "Mister", "Mrs": "Missus", "Ms": "Miz", "Dr": "Doctor", "Prof": "Professor", "Gen": "General",
    "Col": "Colonel", "Capt": "Captain", "Lt": "Lieutenant", "Sgt": "Sergeant", "Maj": "Major", "Rev": "Reverend",
    "Hon": "Honorable", "Gov": "Governor", "Sen": "Senator", "Rep": "Representative", "Pres": "President", "Mt": "Mount",
    "Ft": "Fort",
}  # fmt: skip
"""Before a name; the dot is optional."""

ABBREVIATIONS = {
    "mr.": "Mister", "mrs.": "Missus", "ms.": "Miz", "dr.": "Doctor", "prof.": "Professor", "jr.": "Junior",
    "sr.": "Senior", "vs.": "versus", "vs": "versus", "etc.": "et cetera", "etc": "et cetera", "e.g.": "for example",
    "i.e.": "that is", "approx.": "approximately", "dept.": "department", "est.": "established", "inc.": "Incorporated",
    "ltd.": "Limited", "co.": "Company", "corp.": "Corporation", "vol.": "volume", "fig.": "figure", "ave.": "Avenue",
    "blvd.": "Boulevard", "rd.": "Road", "ext.": "extension", "tel.": "telephone", "apt.": "apartment",
    "ph.d.": "P.H.D", "a.k.a.": "also known as", "w/o": "without", "w/": "with", "jan.": "January",
    "feb.": "February", "aug.": "August", "sept.": "September", "oct.": "October", "nov.": "November",
    "dec.": "December",
}  # fmt: skip

VULGAR_FRACTIONS = {
    "½": "one half", "⅓": "one third", "⅔": "two thirds", "¼": "one quarter", "¾": "three quarters",
    "⅛": "one eighth", "⅜": "three eighths", "⅝": "five eighths", "⅞": "seven eighths",
}  # fmt: skip
