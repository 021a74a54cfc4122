"""`myxtts train`, `train-vocoder` and `config`: train a voice or a vocoder, or print the configuration of a run."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from myxtts.commands.config_flags import add_reset_flag, add_training_flags, add_vocoder_flags, config_of
from myxtts.errors import ConfigError

if TYPE_CHECKING:
    from myxtts.config.config import XTTSConfig
    from myxtts.evaluation.evaluation_worker import WorkerEvaluation


def configure_train(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts train`."""
    add_training_flags(parser)
    add_reset_flag(parser)


def run_train(arguments: argparse.Namespace) -> int:
    """Train, then print a summary of the run."""
    config = config_of(arguments)
    if config.training.evaluation_recognizer is not None and not config.training.enable_evaluation:
        raise ConfigError(
            "training.evaluation_recognizer needs --enable-evaluation. Add it, or leave the recognizer out."
        )
    from myxtts.runtime.locks import RunLock
    from myxtts.training.starting_config import make_run_folders, resolve_starting_config

    # What the configuration forbids is refused before TensorFlow is imported; the trainer resolves it again, and prints about it.
    resolved = resolve_starting_config(config, arguments.reset_training)
    make_run_folders(resolved.training)
    with contextlib.ExitStack() as stack:
        if "TF_CONFIG" not in os.environ:  # in a cluster only the chief locks the folder; the trainer does it there
            stack.enter_context(RunLock(Path(resolved.training.checkpoint_dir)))
        from myxtts.runtime.startup import start_tensorflow

        start_tensorflow()
        from myxtts.training.trainer import XTTSTrainer

        evaluate = stack.enter_context(_evaluation(resolved)) if resolved.training.enable_evaluation else None
        trainer = XTTSTrainer(config, evaluate=evaluate, reset_training=arguments.reset_training)
        summary = trainer.train()
        trainer.display.table("What was measured", summary.rows())
    return 0


def configure_train_vocoder(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts train-vocoder`."""
    add_vocoder_flags(parser)
    add_reset_flag(parser)


def run_train_vocoder(arguments: argparse.Namespace) -> int:
    """Train a vocoder, then print its losses and the files to listen to."""
    config = config_of(arguments)
    from myxtts.evaluation.clip_metrics import measure_pesq
    from myxtts.evaluation.metrics import has_package
    from myxtts.runtime.startup import start_tensorflow
    from myxtts.training.starting_config import make_writable

    make_writable("vocoder.checkpoint_dir", "--checkpoint-dir", config.vocoder.checkpoint_dir)
    start_tensorflow()
    from myxtts.training.display import Display
    from myxtts.training.vocoder_trainer import train_vocoder

    display = Display()
    rate = measure_pesq if has_package("pesq") else None
    summary = train_vocoder(config, display, reset_training=arguments.reset_training, rate=rate)
    display.table("What was measured", summary.rows())
    return 0


def _evaluation(config: XTTSConfig) -> WorkerEvaluation:
    """What evaluates the voice during training, on the held-out sentences of the corpus, in a process of its own."""
    from myxtts.cache.joint import part_configs
    from myxtts.config.config import DEFAULT_LANGUAGE
    from myxtts.corpus.corpus import bundled_corpus, read_manifest
    from myxtts.evaluation.evaluation_worker import open_evaluation
    from myxtts.evaluation.sentence_sets import sentences_of

    data = config.data
    held_out = [
        utterance
        for part in part_configs(data).values()
        for utterance in read_manifest(
            part.train_data or bundled_corpus(),
            part.language or DEFAULT_LANGUAGE,
            "validation",
            part.validation_share,
            part.val_data,
        ).utterances
        if utterance.speaker not in data.held_out_speakers
    ]
    return open_evaluation(sentences_of(held_out), config.training.evaluation_recognizer)


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
