"""`myxtts g2p train fa|en --data DIR` trains a pronunciation model; `myxtts g2p read fa TEXT` prints how it reads a text."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from myxtts.errors import TextError


def configure_g2p(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts g2p`."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    train = actions.add_parser("train", help="train a model from the public sources that docs/text.md lists")
    train.add_argument("language", choices=("en", "fa"))
    train.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder with the sources")
    train.add_argument("--output", type=Path, required=True, metavar="FILE", help="the model's file (.npz)")
    train.add_argument("--epochs", type=float, help="default: 12 (fa), 10 (en)")
    train.add_argument(
        "--init-from", type=Path, metavar="FILE", help="train the tagger of an earlier Persian model further"
    )
    read = actions.add_parser("read", help="print the phonemes of a text")
    read.add_argument("language", choices=("en", "fa"))
    read.add_argument("text")


def run_g2p(arguments: argparse.Namespace) -> int:
    """Train or read."""
    if arguments.action == "read":
        from myxtts.text.g2p import phonemize
        from myxtts.text.normalize import normalize_text

        normalized = normalize_text(arguments.text, arguments.language)
        sys.stdout.write(phonemize([normalized], arguments.language)[0] + "\n")
        return 0
    if not arguments.data.is_dir():
        raise TextError(f"--data must be a folder with the sources. Got {arguments.data}.")
    from myxtts.text.g2p_files import load_model, save_model
    from myxtts.training import g2p_english, g2p_persian

    is_persian = arguments.language == "fa"
    settings = g2p_persian.PERSIAN_SETTINGS if is_persian else g2p_english.ENGLISH_SETTINGS
    settings = replace(settings, epochs=arguments.epochs or settings.epochs)
    if is_persian:
        start = load_model(arguments.init_from).tagger if arguments.init_from else None
        model = g2p_persian.train_persian(arguments.data, settings, _report, start)
    elif arguments.init_from:
        raise TextError("--init-from is for Persian. The English model is trained from the beginning in minutes.")
    else:
        model = g2p_english.train_english(arguments.data, settings, _report)
    save_model(arguments.output, model)
    _report(f"Saved {arguments.output} ({arguments.output.stat().st_size / 1e6:.1f} MB).")
    return 0


def _report(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
