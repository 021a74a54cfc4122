"""Names of languages to codes: `Persian`, `farsi`, `fa-IR` and `per` are all `fa`.

Every --language flag and every language column of a corpus is resolved here. Names and codes come from CLDR and the IANA
registry through `langcodes`, which is imported at first use only.
"""

# ruff: noqa: SIM905 - lists of codes read best as words
from __future__ import annotations

import difflib
import functools
from collections.abc import Sequence

from myxtts.errors import TextError

_KEPT = frozenset(
    "en-gb en-029 en-shaw en-us-nyc en-gb-scotland en-gb-x-rp en-gb-x-gbcwmd en-gb-x-gbclan es-419 pt-br fr-be fr-ch ru-lv "
    "ru-cl ca-va ca-nw ca-ba vi-vn-x-south vi-vn-x-central fa-latn cmn-latn-pinyin chr-us-qaaa-x-west piqd qdb py".split()
)
"""Codes kept whole: espeak-ng pronounces these variants differently. Other regions are dropped (`en-US` is `en`)."""
_COMMON = (
    "af am ar az be bg bn bs ca cs cy da de el en eo es et eu fa fi fr ga gu he hi hr hu hy id is it ja ka kk kn ko ku la lt lv "
    "mk ml mr ms mt my nb ne nl pa pl ps pt ro ru si sk sl sq sr sv sw ta te th tr uk ur uz vi yue zh"
).split()
"""Languages that are proposed for a misspelled name."""
_OTHER_NAMES = {"farsi": "fa", "mandarin": "cmn", "castellano": "es", "flemish": "nl"}
"""Usual names that CLDR does not list."""
_LONGEST_CODE = 3
"""Letters of a language's code; what is longer is a name (`Urdu`, `Thai`)."""


@functools.lru_cache(maxsize=4096)
def resolve_language(name: str) -> str:
    """The code of a language given as a code (`fa`, `per`, `fa_IR`) or by its name in any language (`Persian`, `Deutsch`)."""
    tag = name.strip().lower().replace("_", "-")
    if tag in _KEPT:
        return tag
    is_code = tag.isascii() and len(tag.partition("-")[0]) <= _LONGEST_CODE
    code = _by_code(tag) if is_code else _by_name(name)
    if code is None:
        raise TextError(f"Unknown language {name!r:.60}. {_advice(tag)}")
    return code


def match_language(name: str, languages: Sequence[str]) -> str:
    """The one of `languages` that `name` means, or `name` itself if none of them is meant."""
    if name in languages:
        return name
    try:
        code = resolve_language(name)
    except TextError:
        return name
    return next((known for known in languages if known == code or _resolves_to(known, code)), name)


def language_name(code: str) -> str:
    """The English name of a language."""
    import langcodes

    return langcodes.Language.get(code, normalize=False).display_name()


def likely_script(code: str) -> str:
    """The four-letter ISO 15924 code of the script that a language is usually written in."""
    import langcodes
    from langcodes.tag_parser import LanguageTagError

    try:
        return langcodes.Language.get(code).maximize().script or ""
    except LanguageTagError:
        return ""


def _resolves_to(name: str, code: str) -> bool:
    try:
        return resolve_language(name) == code
    except TextError:
        return False


def _by_code(tag: str) -> str | None:
    import langcodes
    from langcodes.tag_parser import LanguageTagError

    try:
        language = langcodes.Language.get(tag)
    except LanguageTagError:
        return None
    return _shortened(language.to_tag()) if language.language and _is_valid(language.language) else None


def _by_name(name: str) -> str | None:
    import langcodes
    from language_data.name_data import CODE_TO_NAMES

    name = " ".join(name.split())
    if name.casefold() in _OTHER_NAMES:
        return _OTHER_NAMES[name.casefold()]
    try:
        tag = langcodes.find(name).to_tag()
    except (LookupError, ValueError):  # its table also fails on names with NUL characters
        return None
    # Its table is cut after the letters that tell names apart: `Persiam` would be Persian and `nosuchlanguage` Nuosu.
    names = {known.casefold() for known in CODE_TO_NAMES.get(tag, {}).values()}
    return _shortened(tag) if name.casefold() in names else None


def _is_valid(code: str) -> bool:
    import langcodes

    return langcodes.Language.get(code).is_valid() and code not in ("und", "mul", "mis", "zxx")


def _shortened(tag: str) -> str:
    tag = tag.lower()
    return tag if tag in _KEPT else tag.partition("-")[0]


def _advice(wanted: str) -> str:
    names = {language_name(code).lower(): code for code in _COMMON}
    near = difflib.get_close_matches(wanted[:60], names, n=3, cutoff=0.7)
    if near:
        return f"Did you mean {' or '.join(f'{names[each]} ({each.title()})' for each in near)}?"
    return "Expected a code such as en, fa or de, or a name such as English, Persian or German."
