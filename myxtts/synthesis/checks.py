"""What can be refused before a network is built and TensorFlow imported: texts, names, and what a voice needs and can do."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from myxtts.errors import TextError, VoiceError
from myxtts.models.spec import ModelSpec
from myxtts.runtime.printable import printable
from myxtts.text import phonemes
from myxtts.text.languages import match_language
from myxtts.text.tokenizer import FrontEnd

LONGEST_TEXT = 200_000
"""Characters spoken at once: about four hours of speech."""
SHOWN_NAMES = 20


def check_text_length(text: str) -> None:
    """Raise a `TextError` for a text that is too long to be spoken at once."""
    if len(text) > LONGEST_TEXT:
        raise TextError(
            f"The text has {len(text):,} characters; at most {LONGEST_TEXT:,} are spoken at once. Split it into parts."
        )


def check_name(what: str, name: str, names: Sequence[str]) -> None:
    """Raise a `VoiceError` if a voice has no language or speaker (`what`) of this name; the message lists what it has."""
    if name in names:
        return
    near = difflib.get_close_matches(name[:200], names, n=1)
    advice = f" Did you mean {near[0]!r}?" if near else ""
    listed = ", ".join(printable(each, keeps_lines=False) for each in names[:SHOWN_NAMES]) or "none"
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    raise VoiceError(f"This voice has no {what} {name!r:.60}. It has: {listed}{more}.{advice}")


def check_can_clone(model: ModelSpec) -> None:
    """Raise a `VoiceError` for a voice that takes no reference."""
    if not model.has_speakers:
        raise VoiceError("This voice was trained on one speaker and cannot clone. Train on several speakers for that.")


def check_language(language: str | None, languages: Sequence[str]) -> str:
    """The voice's own code of a language given by code or name (`fa`, `Persian`), its first if None; else a `VoiceError`."""
    if language is None:
        return languages[0]
    found = match_language(language, languages)
    check_name("language", found, languages)
    return found


def check_front_end(front_end: FrontEnd) -> None:
    """Raise a `TextError` if a voice needs phonemes and espeak-ng is not installed or cannot be loaded."""
    if front_end.kind != "phonemes":
        return
    if not phonemes.is_installed():
        raise TextError(
            "This voice speaks from phonemes, which need espeak-ng, and it is not installed. "
            f"Run {phonemes.INSTALL_LINE} (GPL)."
        )
    phonemes.espeak_version()  # loads the library
