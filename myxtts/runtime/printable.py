"""A stranger's text as a terminal may show it: control characters, which move the cursor or hide text, are spelled out."""

from __future__ import annotations

_JOINERS = "\u200c\u200d"
"""Not printable by themselves, but parts of Persian and other words."""


def printable(text: str, *, keeps_lines: bool = True) -> str:
    """The text with everything that cannot be printed written as an escape; line ends stay if `keeps_lines`."""
    kept = _JOINERS + "\n" if keeps_lines else _JOINERS
    return "".join(
        character if character.isprintable() or character in kept else ascii(character)[1:-1] for character in text
    )
