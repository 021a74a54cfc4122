"""Patterns of e-mail addresses, web addresses and file paths, which are read aloud sign by sign."""

# ruff: noqa: SIM905 - word lists read best as words
from __future__ import annotations

import re
from collections.abc import Mapping

from myxtts.text.rules import alternatives

_DOMAINS = (
    "com org net edu gov mil int info biz io ir uk de fr ai dev app eu tv co us ca au jp cn ru ch nl se me xyz "
    "online site shop"
).split()
_FILE_TYPES = (
    "pdf txt py exe jpg jpeg png gif svg doc docx xls xlsx ppt zip tar gz mp3 mp4 wav html htm csv json xml yaml md"
).split()
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,62}[A-Za-z0-9])?"
_TAIL = r"(?:/(?:[\w./?=&%#~+-]*[\w/])?|(?=[^\w/@-]|\Z))"

EMAIL = rf"(?<![\w.+-])[A-Za-z0-9_](?:[\w.+-]{{0,63}}\w)?@(?:{_HOST}\.){{1,5}}[A-Za-z]{{2,12}}(?![\w@])"
URL = (
    rf"(?<![\w@./-])(?:(?:https?|ftp)://(?:{_HOST}\.){{1,6}}[A-Za-z]{{2,12}}|www\.(?:{_HOST}\.){{1,6}}[A-Za-z]{{2,12}}"
    rf"|(?:{_HOST}\.){{1,6}}(?:{alternatives(_DOMAINS)})(?![\w-]|\.\w)){_TAIL}"
)
FILE_NAME = rf"(?<![\w./-])[A-Za-z_][\w-]{{0,60}}\.(?:{alternatives(_FILE_TYPES)})(?![\w])"
UNIX_PATH = r"(?<![\w/.<~])~?(?:/[A-Za-z_.][\w.-]{0,60}){2,12}/?(?![\w/])"
WINDOWS_PATH = r"(?<![\w\\])[A-Za-z]:(?:\\[\w.-]{1,60}){1,12}"
_SCHEME = re.compile(r"(https?|ftp)://")


def read_address(address: str, names: Mapping[str, str], *, is_scheme_read: bool) -> str:
    """Each sign of an address as its name, words and digits apart.

    Args:
        names: sign → word; the key `://` is read after the scheme.
    """
    scheme = _SCHEME.match(address)
    prefix = ""
    if scheme:
        address = address[scheme.end() :]
        prefix = f"{scheme[1]} {names['://']} " if is_scheme_read else ""
    spoken = "".join(f" {names[sign]} " if sign in names else sign for sign in address.rstrip("/"))
    return f" {prefix}{spoken} "
