"""English names of currencies, magnitudes, units and fraction signs."""

from __future__ import annotations

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
"""After an amount of money."""


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
    "lbs": _unit("pound"), "oz": _unit("ounce"), "L": _unit("liter"), "l": _unit("liter"), "dl": _unit("deciliter"),
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
    "mA": _unit("milliamp"), "mAh": _unit("milliamp hour"), "Ω": _unit("ohm"), "dB": _unit("decibel"),
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
