"""Persian as it is read aloud: one form of each letter; numbers, dates, signs and abbreviations of a cleaned text in words.

The marks ، ؛ ؟ stay, because they become pauses. A zero-width non-joiner inside a word also stays. Words that the rules write,
and words before a number that names something, have their ezafe marked.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from myxtts.text import persian_dates, persian_quantities, persian_signs, persian_words
from myxtts.text.persian_numbers import ZWNJ
from myxtts.text.rules import Rule, apply_rules

RULES: tuple[Rule, ...] = (
    *persian_signs.WEB_RULES,
    *persian_words.JOINT_RULES,
    *persian_words.RULES,
    *persian_dates.RULES,
    *persian_signs.EARLY_RULES,
    *persian_signs.CODE_RULES,
    *persian_quantities.RULES,
    *persian_signs.MATH_RULES,
    *persian_quantities.PLAIN_NUMBERS,
    *persian_signs.SIGN_RULES,
)
"""From the most specific to the plainest; digits are words after `PLAIN_NUMBERS`."""

_LETTERS = str.maketrans(
    {
        "ي": "ی", "ى": "ی", "ې": "ی", "ے": "ی", "ۍ": "ی", "ك": "ک", "ڪ": "ک", "ڬ": "ک", "ګ": "گ",
        "ہ": "ه", "ھ": "ه", "ە": "ه", "ۂ": "هٔ", "ة": "ه", "ۀ": "هٔ", "ٱ": "ا", "إ": "ا",
        "ۇ": "و", "ۆ": "و", "ۋ": "و", "ڤ": "و", "ـ": None, "ٰ": None, "¬": ZWNJ,
    }
)  # fmt: skip
_TA_MARBUTA_AS_T = re.compile(r"وة(?![^\W\d_])")
"""As in زكوة and صلوة, which are زکات and صلات today."""
_SIGNS = str.maketrans(
    dict(zip("۰۱۲۳۴۵۶۷۸۹٠١٢٣٤٥٦٧٨٩", "0123456789" * 2, strict=True))
    | {"٫": ".", "٬": ",", "٪": "%", "−": "-", "–": "-"}
)
_ZWNJ_RUN = re.compile(f"{ZWNJ}{{2,}}")
_SPACES = re.compile(" {2,}")
_SPACE_BEFORE_MARK = re.compile(r" +(?=[،؛؟.,;:!)»](?: |$|[)»]))")


def unify_letters(text: str) -> str:
    """Arabic and Persian variants of a letter as one letter."""
    return text.translate(_LETTERS).replace("یٔ", "ئ")


def normalize_persian(text: str, report: Callable[[Rule, str], None] | None = None) -> str:
    """The words of a cleaned text. `report` receives each rule that changed it."""
    text = unify_letters(_TA_MARBUTA_AS_T.sub("ات", text)).replace("للّه", "لله").translate(_SIGNS)
    text = apply_rules(_ZWNJ_RUN.sub(ZWNJ, text).strip(ZWNJ), RULES, report)
    return _SPACE_BEFORE_MARK.sub("", _SPACES.sub(" ", text)).strip()
