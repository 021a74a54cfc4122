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
    train.add_argument("--epochs", type=float, help="per stage; default: as the bundled model")
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
    from myxtts.text.g2p_files import save_model
    from myxtts.training import g2p_models

    train, settings = {
        "fa": (g2p_models.train_persian, g2p_models.PERSIAN_SETTINGS),
        "en": (g2p_models.train_english, g2p_models.ENGLISH_SETTINGS),
    }[arguments.language]
    if arguments.epochs is not None:
        settings = replace(settings, epochs=arguments.epochs)
    model = train(arguments.data, settings, _report)
    save_model(arguments.output, model)
    _report(f"Saved {arguments.output} ({arguments.output.stat().st_size / 1e6:.1f} MB).")
    return 0


def _report(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
