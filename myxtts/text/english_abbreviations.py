"""English titles, abbreviations, initials and Roman numerals in words."""

# ruff: noqa: SIM905 - word lists read best as words
from __future__ import annotations

import re

from myxtts.text import english_numbers as say
from myxtts.text.rules import ROMAN_PATTERN, Rule, alternatives, roman_value, rule

TITLES = {
    "Mr": "Mister", "Mrs": "Missus", "Ms": "Miz", "Dr": "Doctor", "Prof": "Professor", "Gen": "General",
    "Col": "Colonel", "Capt": "Captain", "Lt": "Lieutenant", "Sgt": "Sergeant", "Maj": "Major", "Rev": "Reverend",
    "Hon": "Honorable", "Rt": "Right", "Gov": "Governor", "Sen": "Senator", "Rep": "Representative",
    "Pres": "President", "Mt": "Mount", "Ft": "Fort",
}  # fmt: skip
"""Titles before a name; the dot is optional."""
_DOTTED_TITLES = {
    "Fr": "Father", "Adm": "Admiral", "Cmdr": "Commander", "Cpl": "Corporal", "Pvt": "Private", "Brig": "Brigadier",
    "Supt": "Superintendent", "Det": "Detective", "Insp": "Inspector", "Amb": "Ambassador", "Messrs": "Messers",
    "Mme": "Madame", "Mlle": "Mademoiselle", "Msgr": "Monsignor", "Sec": "Secretary", "Atty": "Attorney",
}  # fmt: skip
"""Titles before a name, with a dot."""
_BEFORE_NUMBERS = {
    "p": "page", "pp": "pages", "Fig": "Figure", "fig": "figure", "Figs": "Figures", "figs": "figures",
    "Sec": "Section", "sec": "section", "Ch": "Chapter", "ch": "chapter", "Chap": "Chapter", "chap": "chapter",
    "Eq": "Equation", "eq": "equation", "Art": "Article", "art": "article", "Para": "Paragraph",
    "para": "paragraph", "Vol": "Volume", "vol": "volume", "Vols": "Volumes", "vols": "volumes", "Ex": "Example",
    "Nos": "Numbers", "nos": "numbers", "No": "Number", "c": "circa", "ca": "circa", "app": "appendix",
    "Pt": "Part", "pt": "part", "Tab": "Table", "tab": "table", "Apt": "Apartment", "Ste": "Suite", "Rm": "Room",
    "ext": "extension", "Ext": "Extension", "v": "version", "ver": "version", "l": "line", "ll": "lines",
    "Op": "Opus", "op": "opus",
}  # fmt: skip
_DAYS = {
    "Mon": "Monday", "Tue": "Tuesday", "Tues": "Tuesday", "Wed": "Wednesday", "Thu": "Thursday", "Thur": "Thursday",
    "Thurs": "Thursday", "Fri": "Friday", "Sat": "Saturday", "Sun": "Sunday",
}  # fmt: skip
_MONTHS = {
    "Jan": "January", "Feb": "February", "Mar": "March", "Apr": "April", "Jun": "June", "Jul": "July",
    "Aug": "August", "Sep": "September", "Sept": "September", "Oct": "October", "Nov": "November",
    "Dec": "December",
}  # fmt: skip
_GIVEN_NAMES = {
    "Wm": "William", "Jas": "James", "Chas": "Charles", "Geo": "George", "Thos": "Thomas", "Robt": "Robert",
    "Jos": "Joseph", "Benj": "Benjamin",
}  # fmt: skip
_STREETS = {
    "St": "Street", "Dr": "Drive", "Ave": "Avenue", "Blvd": "Boulevard", "Rd": "Road", "Ln": "Lane", "Hwy": "Highway",
    "Pkwy": "Parkway", "Sq": "Square", "Ct": "Court", "Pl": "Place",
}  # fmt: skip
ABBREVIATIONS = {
    "mr.": "Mister", "mrs.": "Missus", "ms.": "Miz", "dr.": "Doctor", "prof.": "Professor", "jr.": "Junior",
    "sr.": "Senior", "vs.": "versus", "vs": "versus", "etc.": "et cetera", "etc": "et cetera",
    "e.g.": "for example", "i.e.": "that is", "approx.": "approximately", "dept.": "department",
    "est.": "established", "inc.": "Incorporated", "ltd.": "Limited", "co.": "Company", "corp.": "Corporation",
    "vol.": "volume", "fig.": "figure", "ave.": "Avenue", "blvd.": "Boulevard", "rd.": "Road", "hwy.": "Highway",
    "ext.": "extension", "tel.": "telephone", "apt.": "apartment", "ph.d.": "P.H.D", "a.k.a.": "also known as",
    "w/o": "without", "w/": "with", "viz.": "namely", "cf.": "compare", "bros.": "Brothers", "univ.": "University",
    "govt.": "government", "gov't": "government", "intl.": "international", "assn.": "Association",
    "assoc.": "Association", "asst.": "Assistant", "avg.": "average", "max.": "maximum", "misc.": "miscellaneous",
    "incl.": "including", "excl.": "excluding", "esq.": "Esquire", "tbsp.": "tablespoon", "tsp.": "teaspoon",
    "ed.": "edition", "eds.": "editors", "et al.": "et al", "calif.": "California", "fla.": "Florida",
    "ariz.": "Arizona", "tenn.": "Tennessee", "minn.": "Minnesota", "conn.": "Connecticut",
}  # fmt: skip
_NEVER_LAST = frozenset(
    "mr. mrs. ms. dr. prof. vs. e.g. i.e. approx. a.k.a. viz. cf. tel. ext. apt. vol. fig. incl. excl. asst.".split()
)
"""Abbreviations whose dot never ends a sentence."""
_FIRST_WORDS = (
    "The|This|That|These|It|He|She|They|We|You|I|A|An|In|On|At|But|And|So|If|When|There|Then|However|What|How|Why|Who"
)
_NUMBERED = (
    "Chapter Part Act Scene Volume Vol. Section Phase Class Grade Level Stage Book Appendix Article Type Group "
    "Tier Category Mark Title Schedule Unit Canto Figure Table Annex War Bowl chapter part act scene volume vol. "
    "section phase class grade level stage book appendix article type group tier category table figure"
).split()
"""What Roman numerals number, even those of one letter."""
_RULERS = (
    "King Queen Pope Emperor Empress Tsar Czar Sultan Shah Prince Princess Kaiser Pharaoh Caliph Patriarch Duke"
).split()
_REGNAL_NAMES = (
    "Henry Elizabeth Louis George Edward Charles James William Richard Mary Pius Paul Benedict Gregory Leo "
    "Clement Innocent Francis Philip Felipe Ferdinand Napoleon Nicholas Alexander Peter Catherine Frederick "
    "Wilhelm Otto Carl Karl Gustav Christian Haakon Olav Harald Albert Leopold Carlos Alfonso Umberto Emmanuel "
    "Ramses Ramesses Thutmose Amenhotep Cleopatra Ptolemy Darius Xerxes Cyrus Artaxerxes Mithridates Antiochus "
    "Constantine Justinian Theodosius Basil Mehmed Murad Selim Suleiman Bayezid Ivan Vasily Boris Stephen "
    "Sigismund Casimir Matthias Rudolf Maximilian Joseph Urban Boniface Celestine Sixtus Julius Adrian Callixtus "
    "Eugene Martin Honorius David Robert Kenneth Baldwin Hussein Hassan Mohammed Muhammad Abdullah Rama Tiberius "
    "Claudius Shapur Khosrow Yazdegerd Abbas Ismail Tahmasp Margrethe Beatrix Victoria Isabella Joan Juan Pedro "
    "Manuel Afonso Sancho Michael Zeno Romulus"
).split()
_NO_NAMES = frozenset(
    "The A An This That These Those My Your His Her Its Our Their Each Every No Some Any And Or But In On At An Is".split()
)


def _read_abbreviation(match: re.Match[str]) -> str:
    """The words; a dot that also ends the sentence stays. `EST` is no abbreviation of `established`."""
    if match[1][:-1].isupper() and len(match[1]) > 3 and "." not in match[1][:-1]:
        return match[0]
    ends_sentence = match[2] is not None and match[1].endswith(".") and match[1].lower() not in _NEVER_LAST
    return ABBREVIATIONS[match[1].lower()] + ("." if ends_sentence else "") + (match[2] or "")


_LABEL = re.compile(
    r"(?i:\b(?:grade|plan|vitamin|section|exit|group|type|team|class|option|gate|hepatitis|one|two|three|four|five|six|seven"
    r"|eight|nine|ten|\w+teen|\w+ty)) $"
)
"""Before a letter that is no initial: grade A. Next …"""


def _read_initialism(match: re.Match[str]) -> str:
    """Letters joined by dots (`U.S.A`), which marks them as letters; a last dot only where the sentence ends."""
    return match[1][:-1] + ("." if match[2] is not None else "")


def _read_meridiem(match: re.Match[str]) -> str:
    following = match.string[match.end() : match.end() + 2].lstrip()
    return f"{match[1].lower()}.m{'.' if not following or following[0].isupper() else ''}"


def _read_street(match: re.Match[str]) -> str:
    return match[0] if match[1] in _NO_NAMES else f"{match[1]} {_STREETS[match[2]]}"


def _read_ruler(match: re.Match[str]) -> str:
    value = roman_value(match[2])
    return match[0] if value is None else f"{match[1]} the {say.ordinal(value)}"


def _read_numeral(match: re.Match[str]) -> str:
    value = roman_value(match[2].upper())
    return match[0] if value is None or match[1] in _NO_NAMES else f"{match[1]} {say.cardinal(value)}"


def _read_roman_ordinal(match: re.Match[str]) -> str:
    value = roman_value(match[1])
    return match[0] if value is None else say.ordinal(value)


ROMAN_RULES: tuple[Rule, ...] = (
    rule(
        "ruler",
        rf"\b((?:{'|'.join(_RULERS)}) [A-Z][a-z]+(?: [A-Z][a-z]+)?) ({ROMAN_PATTERN})(?![\w-])",
        _read_ruler,
        {"King George VI": "King George the sixth", "Pope John Paul II": "Pope John Paul the second"},
        "IVX",
    ),
    rule(
        "regnal name",
        rf"\b({'|'.join(_REGNAL_NAMES)}) ([IVXL]{{2,7}}|[VX]|I(?= (?:of|was|ruled|reigned|died|became)\b))(?![\w-])",
        _read_ruler,
        {
            "Henry VIII": "Henry the eighth",
            "Louis XIV ruled": "Louis the fourteenth ruled",
            "Charles I of England": "Charles the first of England",
        },
        "IVX",
    ),
    rule(
        "ordinal in Roman numerals",
        r"\b([IVXL]{1,7})(?:th|st|nd|rd)?(?= (?:[Cc]entur|Olympi|Corps\b|Legion\b|Congress\b))",
        _read_roman_ordinal,
        {"the XIX century": "the nineteenth century"},
        "IVX",
    ),
    rule(
        "numbered thing",
        rf"\b({alternatives(_NUMBERED)}) ([IVXLC]{{1,7}})(?![\w-]|'(?!s\b))(?! (?:am|was|have|had|will|would|think|know)\b)",
        _read_numeral,
        {"World War I": "World War one", "Chapter IV": "Chapter four", "type II diabetes": "type two diabetes"},
        "IVX",
    ),
    rule(
        "small Roman numeral",
        r"\b((?:Scene|scene|Act|act|page|Page|Chapter|chapter|Part|part|item|Item|section|Section)) ([ivxl]{1,7})(?![\w-])",
        _read_numeral,
        {"Scene iii": "Scene three", "page xiv": "page fourteen"},
        "ivx",
    ),
    rule(
        "Roman numeral after a name",
        r"\b([A-Z][a-z]+) ([IVXLCDM]{2,12})(?![\w-]|'(?!s\b))",
        _read_numeral,
        {"Rocky IV": "Rocky four", "Final Fantasy VII": "Final Fantasy seven"},
        "IVX",
    ),
)

NUMBERED_RULES: tuple[Rule, ...] = (
    rule(
        "abbreviation before a number",
        rf"(?<![\w.])({alternatives(_BEFORE_NUMBERS)})\. ?(?=\d)|(?<![\w.])([Aa]rt"
        r"|[Vv]ol|[Cc]h|[Ss]ec|[Pp]t|[Ff]ig)\. (?=[IVXLC]{1,7}\b)",
        lambda match: "number " if match[1] == "No" else f"{_BEFORE_NUMBERS[match[1] or match[2]]} ",
        {
            "p. 12": "page twelve",
            "See Fig. 3 and Sec. 2.": "See Figure three and Section two.",
            "c. 1850": "circa eighteen fifty",
            "Art. II": "Article two",
        },
        ".",
    ),
    rule(
        "range of days",
        rf"(?<![\w.])({alternatives(_DAYS)})\.? ?[-–] ?({alternatives(_DAYS)})\b\.?",
        lambda match: f"{_DAYS[match[1]]} to {_DAYS[match[2]]}",
        {"Mon-Fri": "Monday to Friday"},
        "-–",
    ),
    rule(
        "day of the week",
        rf"(?<![\w.])(?:({alternatives([day for day in _DAYS if day not in ('Sun', 'Sat')])})\."
        r"|(Sun|Sat)\.(?=,| (?:\d|[A-Z][a-z]{2}))|(Sun|Sat)\.\Z)",
        lambda match: (
            _DAYS[match[1] or match[2]] if not match[3] else (_DAYS[match[3]] if match.start() == 0 else match[0])
        ),
        {"on Wed., Oct. 2": "on Wednesday, October second", "Mon.": "Monday"},
        ".",
    ),
)

RULES: tuple[Rule, ...] = (
    rule("a.m. and p.m.", r"\b([ap])\.m\.", _read_meridiem, {"in the p.m. news": "in the p.m news"}, ".", re.I),
    rule(
        "street",
        r"\b([A-Z][\w']*|\d+(?:st|nd|rd|th)|[a-z]+(?:th|st|nd|rd)) "
        rf"({alternatives(_STREETS)})(?:\.(?=[,;)]| [a-z]| ?\Z)|(?=,| ?\Z| [NS][EW]?\b))",
        _read_street,
        {
            "21 Baker St. in London": "twenty-one Baker Street in London",
            "on Dr. King Dr. downtown": "on Doctor King Drive downtown",
        },
    ),
    rule(
        "title",
        rf"\b(?!Gen [XYZ]\b)(?:({alternatives(TITLES)})\.? |({alternatives(_DOTTED_TITLES)})\. )(?=[A-Z])",
        lambda match: f"{TITLES[match[1]] if match[1] else _DOTTED_TITLES[match[2]]} ",
        {"Dr. Smith": "Doctor Smith", "Lt. Col. Smith": "Lieutenant Colonel Smith", "Fr. Murphy": "Father Murphy"},
    ),
    rule(
        "given name",
        rf"(?<![\w.])({alternatives(_GIVEN_NAMES)})\. (?=[A-Z])",
        lambda match: f"{_GIVEN_NAMES[match[1]]} ",
        {"Wm. Clark": "William Clark"},
        ".",
    ),
    rule(
        "floor",
        r"\b([a-z]+(?:st|nd|rd|th)) fl\.",
        r"\1 floor",
        {"on the 2nd fl.": "on the second floor"},
        ".",
    ),
    rule("saint", r"\bSt\. ?(?=[A-Z])", "Saint ", {"St. John's": "Saint John's"}, "."),
    rule(
        "month",
        rf"(?<![\w.])({alternatives(_MONTHS)})\.(?= ?[a-z,;]| ?\Z)",
        lambda match: _MONTHS[match[1]],
        {"last Oct.": "last October"},
        ".",
    ),
    rule(
        "abbreviation",
        rf"(?<![\w.])({alternatives(ABBREVIATIONS)})(?![\w])( ?$| (?-i:(?=[A-Z\"])))?",
        _read_abbreviation,
        {"e.g. this, etc.": "for example this, et cetera.", "5 vs 6": "five versus six"},
        "",
        re.I,
    ),
    rule(
        "initialism",
        rf"(?<![\w.])((?:[A-Za-z]\.){{2,}})(?!\w)(?=( ?\"?$| (?:{_FIRST_WORDS})\b)?)",
        _read_initialism,
        {"The U.S. Army is in the U.S.A.": "The U.S Army is in the U.S.A."},
        ".",
    ),
    rule(
        "initial",
        r"(?<![\w.'])([A-Z])\. (?=[A-Z])",
        lambda match: match[0] if _LABEL.search(match.string[: match.start()][-20:]) else f"{match[1]} ",
        {"J. R. R. Tolkien": "J R R Tolkien"},
        ".",
    ),
)
