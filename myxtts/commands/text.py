"""`myxtts text TEXT --language fa` shows how a text is read: cleaned, normalized, as phonemes, and as symbols.

`myxtts g2p train fa|en --data DIR` trains a pronunciation model; `myxtts g2p read fa TEXT` prints how it reads a text.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

from myxtts.errors import TextError
from myxtts.runtime.console import add_action, printable

GUESSED_LANGUAGES = ("en", "fa")
"""Languages with a pronunciation model of ours; the first is taken for a script that neither is written in."""


def configure_text(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts text`."""
    parser.add_argument("text", metavar="TEXT", help="text to read")
    parser.add_argument(
        "--language",
        metavar="LANGUAGE",
        help="language of the text, by code or name (default: by the script of the text)",
    )
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
        return phonemes.phonemize_with_espeak([normalized], language)[0], "espeak-ng"
    return "".join(FrontEnd("graphemes").symbols_of([normalized], language)[0]), "letters"


def _print(stage: str, content: str) -> None:
    sys.stdout.write(f"{stage + ':':<12}{printable(content)}\n")


def configure_g2p(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts g2p`."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    train = add_action(actions, "train", "train a model from the public sources that docs/text.md lists")
    train.add_argument("language", choices=("en", "fa"), help="language of the model")
    train.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder with the sources")
    train.add_argument("--output", type=Path, required=True, metavar="FILE", help="file of the model (.npz) to write")
    train.add_argument(
        "--epochs",
        type=float,
        help="epochs of the tagger; 0 keeps the tagger of --init-from (default: as for the bundled model)",
    )
    train.add_argument(
        "--checkpoint-dir",
        type=Path,
        metavar="DIR",
        help="folder of the run, which is resumed if it exists (default: OUTPUT with the suffix .run)",
    )
    train.add_argument(
        "--reset-training", action="store_true", help="start again; an earlier run is moved to a subfolder"
    )
    train.add_argument(
        "--init-from", type=Path, metavar="FILE", help="train the tagger of an earlier Persian model further"
    )
    read = add_action(actions, "read", "print the phonemes of a text")
    read.add_argument("language", choices=("en", "fa"), help="language of the text")
    read.add_argument("text", metavar="TEXT", help="text to read")


def run_g2p(arguments: argparse.Namespace) -> int:
    """Train or read."""
    if arguments.action == "read":
        from myxtts.text.g2p import phonemize
        from myxtts.text.normalize import normalize_text

        normalized = normalize_text(arguments.text, arguments.language)
        sys.stdout.write(phonemize([normalized], arguments.language)[0] + "\n")
        return 0
    return _train(arguments)


def _train(arguments: argparse.Namespace) -> int:
    if not arguments.data.is_dir():
        raise TextError(f"--data must be the folder with the sources (docs/text.md). Received: {arguments.data}.")
    is_persian = arguments.language == "fa"
    if arguments.init_from and not is_persian:
        raise TextError(
            "--init-from is for Persian only. Leave it out: the English model trains from scratch in minutes."
        )
    if arguments.epochs == 0 and not arguments.init_from:
        raise TextError("--epochs 0 trains no tagger. Give --init-from with the model whose tagger is kept.")
    from myxtts.runtime.startup import start_tensorflow

    start_tensorflow()
    from myxtts.text.g2p_model import load_model, save_model
    from myxtts.training.display import Display
    from myxtts.training.g2p_english import ENGLISH_SETTINGS, train_english
    from myxtts.training.g2p_persian import PERSIAN_SETTINGS, train_persian
    from myxtts.training.g2p_task import TaggerRun

    settings = PERSIAN_SETTINGS if is_persian else ENGLISH_SETTINGS
    if arguments.epochs is not None:
        settings = replace(settings, epochs=arguments.epochs)
    folder = arguments.checkpoint_dir or arguments.output.with_suffix(".run")
    run = TaggerRun(folder, settings, Display(), arguments.reset_training)
    if is_persian:
        start = load_model(arguments.init_from).tagger if arguments.init_from else None
        model = train_persian(arguments.data, run, start)
    else:
        model = train_english(arguments.data, run)
    save_model(arguments.output, model)
    run.display.line(f"Saved {arguments.output} ({arguments.output.stat().st_size / 1e6:.1f} MB).")
    return 0
