"""`myxtts train` and `myxtts config`: train a voice, or print the configuration that a training would use."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from myxtts.commands.config_flags import add_training_flags, config_of
from myxtts.runtime.console import print_line

if TYPE_CHECKING:
    from myxtts.config.config import DataConfig


def configure_train(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts train`."""
    add_training_flags(parser)
    parser.add_argument(
        "--reset-training",
        action="store_true",
        help="start from scratch; an earlier run is moved to a subfolder of the checkpoint folder",
    )


def run_train(arguments: argparse.Namespace) -> int:
    """Train, then print a summary of the run."""
    config = config_of(arguments)
    from myxtts.runtime.locks import RunLock
    from myxtts.training.starting_config import check_network, make_run_folders, resolve_starting_config

    config = resolve_starting_config(config, arguments.reset_training, print_line)
    check_network(config)
    make_run_folders(config.training)
    with contextlib.ExitStack() as stack:
        if "TF_CONFIG" not in os.environ:  # in a cluster only the chief locks the folder; the trainer does it there
            stack.enter_context(RunLock(Path(config.training.checkpoint_dir)))
        from myxtts.runtime.startup import start_tensorflow

        start_tensorflow()
        from myxtts.training.trainer import XTTSTrainer

        evaluate = _evaluation(config.data) if config.training.enable_evaluation else None
        trainer = XTTSTrainer(config, evaluate=evaluate, reset_training=arguments.reset_training)
        summary = trainer.train()
        trainer.display.table("What was measured", summary.rows())
    return 0


def _evaluation(data: DataConfig) -> Callable[[Path], dict[str, float]]:
    """The function that evaluates the voice during training, on the held-out sentences of the corpus."""
    from myxtts.config.config import DEFAULT_LANGUAGE
    from myxtts.corpus.manifest import read_manifest
    from myxtts.corpus.recipes import bundled_corpus
    from myxtts.evaluation.evaluate import evaluation_callback
    from myxtts.evaluation.sentence_sets import sentences_of

    folder, language = data.train_data or bundled_corpus(), data.language or DEFAULT_LANGUAGE
    held_out = read_manifest(folder, language, "validation", data.validation_share, data.val_data)
    return evaluation_callback(sentences_of(held_out.utterances))


def configure_config(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts config`."""
    add_training_flags(parser)


def run_config(arguments: argparse.Namespace) -> int:
    """Print the configuration that the flags and the file give, as YAML."""
    import yaml

    from myxtts.config.load import config_to_dict

    config = config_of(arguments)
    sys.stdout.write(yaml.safe_dump(config_to_dict(config), sort_keys=False))
    return 0
