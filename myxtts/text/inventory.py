"""The phonemes of English and Persian as one IPA inventory, and espeak-ng's symbols of both mapped to it.

Every symbol is one code point in Unicode NFD, so that a voice may mix sources and Piper and sherpa-onnx can read its symbols.
Affricates are two symbols (t ʃ), diphthongs two (a ɪ). Length is not written: it distinguishes nothing in either language here.
"""

from __future__ import annotations

import re

CONSONANTS = "pbtdkɡqʔfvθðszʃʒxhmnŋlrɹjw"
"""q is Persian ق and غ; r Persian, ɹ English."""
VOWELS = "iɪeɛæaɑɔoʊuʌəɚɝ"
STRESS = "ˈˌ"
INVENTORY = frozenset(CONSONANTS + VOWELS + STRESS)

_ESPEAK_COMMON = {"ː": "", "ˑ": "", "g": "ɡ", "̩": "", "̃": "", "ʲ": "", "ʰ": ""}
_ESPEAK_ENGLISH = {
    "l̩": "əl", "n̩": "ən", "m̩": "əm", "ɜː": "ɝ", "ɜ": "ɝ", "ɐ": "ə", "ᵻ": "ɪ", "ɾ": "t", "ʔ": "t", "ɬ": "l", "r": "ɹ",
    "x": "k", "ɒ": "ɑ", "y": "u", "ç": "h", "ɡʲ": "ɡ", "ɲ": "n", "ɣ": "ɡ", "β": "v", "ɹ̩": "ɚ", "ʍ": "w",
    "ɫ": "l",
}  # fmt: skip
_ESPEAK_PERSIAN = {
    "a": "æ", "ɒ": "ɑ", "ɾ": "r", "ɹ": "r", "ɣ": "q", "ɢ": "q", "¹": "", "²": "", "ə": "e", "ɛ": "e", "ɪ": "i", "ʊ": "u",
    "ɔ": "o", "w": "v", "ʌ": "æ", "ŋ": "n", "χ": "x", "θ": "s", "ð": "z", "ɐ": "æ", "y": "u", "ħ": "h", "ʕ": "ʔ",
    "c": "k", "ɟ": "ɡ", "β": "v", "ɚ": "er", "ɜ": "e", "ɲ": "n",
}  # fmt: skip
_FROM_ESPEAK = {"en": _ESPEAK_COMMON | _ESPEAK_ENGLISH, "fa": _ESPEAK_COMMON | _ESPEAK_PERSIAN}
_PATTERNS = {
    language: re.compile("|".join(map(re.escape, sorted(table, key=len, reverse=True))))
    for language, table in _FROM_ESPEAK.items()
}


def from_espeak(symbols: str, language: str) -> str:
    """espeak-ng's IPA of an English or Persian text in the symbols of the inventory; pauses and spaces stay."""
    table = _FROM_ESPEAK[language]
    return _PATTERNS[language].sub(lambda match: table[match[0]], symbols)
