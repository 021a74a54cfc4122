"""`myxtts text TEXT --language fa` shows how a text is read: cleaned, normalized, as phonemes, and as symbols."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from myxtts.errors import TextError
from myxtts.runtime.console import printable

GUESSED_LANGUAGES = ("en", "fa")
"""Languages with a pronunciation model of ours; the first is taken for a script that neither is written in."""


def configure_text(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts text`."""
    parser.add_argument("text", metavar="TEXT", help="text to read")
    parser.add_argument("--language", metavar="LANGUAGE", help="code or name (default: by the script of the text)")
    parser.add_argument("--rules", action="store_true", help="also print each rule that changed the text")


def run_text(arguments: argparse.Namespace) -> int:
    """Print one line per stage."""
    from myxtts.synthesis.bundled import guess_language
    from myxtts.text.cleanup import clean_text
    from myxtts.text.languages import resolve_language
    from myxtts.text.normalize import normalize_text
    from myxtts.text.pauses import is_speakable

    if not arguments.text.strip():
        raise TextError("The text is empty. Expected text to read.")
    guessed = guess_language(arguments.text, GUESSED_LANGUAGES) if arguments.language is None else None
    language = resolve_language(
        arguments.language if arguments.language is not None else guessed or GUESSED_LANGUAGES[0]
    )
    applied: list[tuple[str, str]] = []
    normalized = normalize_text(arguments.text, language, lambda rule, text: applied.append((rule.name, text)))
    spoken, source = _read_aloud(normalized, language)
    unknown = Counter(symbol for symbol in spoken if not is_speakable(symbol))
    _print("cleaned", clean_text(arguments.text, language))
    for name, text in applied if arguments.rules else []:
        _print("rule", f"{name}: {text}")
    _print("normalized", normalized)
    _print("phonemes" if source != "letters" else "letters", f"{spoken}  ({source})")
    _print("symbols", f"{' '.join(symbol if symbol != ' ' else '␣' for symbol in spoken)}  ({len(spoken)})")
    _print("unknown", ", ".join(f"{symbol} ×{count}" for symbol, count in unknown.items()) or "none")
    return 0


def _read_aloud(normalized: str, language: str) -> tuple[str, str]:
    """The symbols of a normalized text, and what gave them."""
    from myxtts.text import g2p, phonemes
    from myxtts.text.tokenizer import FrontEnd

    if g2p.covers(language):
        return g2p.phonemize([normalized], language)[0], f"model {g2p.model_path(language).name}"
    if phonemes.is_installed():
        return phonemes.phonemize([normalized], language)[0], "espeak-ng"
    return "".join(FrontEnd("graphemes").symbols_of([normalized], language)[0]), "letters"


def _print(stage: str, content: str) -> None:
    sys.stdout.write(f"{stage + ':':<12}{printable(content)}\n")
