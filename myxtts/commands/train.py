"""`myxtts train` and `myxtts config`: flags over a configuration file, then the trainer."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from myxtts.commands.language import language_code, load_command_config
from myxtts.errors import ConfigError

if TYPE_CHECKING:
    from myxtts.config.config import DataConfig

FLAGS = {
    "--train-data": ("data.train_data", str, "folder of recordings with metadata.csv (default: the bundled corpus)"),
    "--val-data": ("data.val_data", str, "folder of validation recordings"),
    "--language": ("data.language", language_code, "language of clips whose metadata names none: fa, Persian, … (en)"),
    "--sample-rate": ("data.sample_rate", "auto or int", "Hz that recordings are resampled to, or auto"),
    "--cache-dir": ("data.cache_dir", str, "folder for prepared clips (default: next to the recordings)"),
    "--checkpoint-dir": ("training.checkpoint_dir", str, "folder of the run (default ./checkpointsmain)"),
    "--epochs": ("training.epochs", int, "passes over the clips"),
    "--max-steps": ("training.max_steps", int, "stop after this many steps"),
    "--max-minutes": ("training.max_minutes", float, "stop after this many minutes"),
    "--batch-size": ("data.batch_size", "auto or int", "clips a batch, or auto (measured with --auto-tune)"),
    "--grad-accum": ("training.gradient_accumulation_steps", int, "batches summed before an update"),
    "--num-workers": ("data.num_workers", "auto or int", "threads of the loader, processes of prepare"),
    "--prefetch-buffer-size": ("data.prefetch_buffer_size", "auto or int", "batches kept ready"),
    "--lr": ("training.learning_rate", float, "peak learning rate; wins over the optimisation level"),
    "--max-text-length": ("data.max_text_length", int, "symbols of the longest text (200)"),
    "--max-mel-frames": ("data.max_mel_frames", "auto or int", "frames of the longest clip (800), or auto"),
    "--evaluation-interval": ("training.evaluation_interval", int, "steps between two evaluations"),
    "--tensorboard-log-dir": ("training.tensorboard_log_dir", str, "folder of TensorBoard's files"),
    "--seed": ("training.seed", int, "order, initial weights and noise follow from it"),
    "--device": ("training.device", str, "auto, cpu, gpu or gpu:N"),
    "--init-from": (
        "training.init_from",
        str,
        "voice or checkpoint to start from; `bundled`: the voice that comes with MyXTTS",
    ),
}
CHOICES = {
    "--model-size": ("model.size", ("tiny", "small", "normal", "big")),
    "--optimization-level": ("training.optimization_level", ("basic", "enhanced", "experimental", "plateau_breaker")),
    "--preprocessing-mode": ("data.preprocessing_mode", ("auto", "precompute", "runtime")),
    "--plan": ("data.plan", ("auto", "fixed", "buckets", "packed", "dynamic")),
}
SWITCHES = {
    "--disable-tf-native-loading": ({"data.use_tf_native_loading": False}, "load by Python, clip by clip: slow"),
    "--disable-gpu-prefetch": ({"data.prefetch_to_gpu": False}, "batches are copied when the step asks"),
    "--disable-cpu-gpu-overlap": ({"data.optimize_cpu_gpu_overlap": False}, "no threads of its own for the loader"),
    "--enable-eager-debug": ({"training.enable_eager_debug": True}, "eager steps with numeric checks: slow"),
    "--enable-evaluation": ({"training.enable_evaluation": True}, "measure the voice while training"),
    "--deterministic": ({"training.deterministic": True}, "bit-identical losses on the same machine"),
    "--auto-tune": (
        {"data.auto_tune_performance": True},
        "measure loader settings, and with --batch-size auto the clips a batch, at the start",
    ),
}


def add_config_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that set configuration fields; what is not given is left to the file."""
    parser.add_argument("--config", metavar="FILE", help="YAML file such as configs/config.yaml; flags win over it")
    for flag, (_, kind, help_line) in FLAGS.items():
        parser.add_argument(flag, type=_auto_or_int if kind == "auto or int" else kind, help=help_line)
    for flag, (name, choices) in CHOICES.items():
        parser.add_argument(flag, choices=choices, help=f"sets {name}")
    for flag, (_, help_line) in SWITCHES.items():
        parser.add_argument(flag, action="store_true", help=help_line)
    shapes = parser.add_mutually_exclusive_group()
    shapes.add_argument(
        "--enable-static-shapes",
        "--pad-to-fixed-length",
        dest="fixed_shapes",
        action="store_true",
        help="one clip a row, exactly max-text-length and max-mel-frames (plan fixed)",
    )
    shapes.add_argument(
        "--disable-static-shapes",
        dest="dynamic_shapes",
        action="store_true",
        help="pad to the longest clip of each batch (plan dynamic)",
    )


def overrides_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The configuration fields that were given as flags, by dotted name."""
    overrides: dict[str, Any] = {}
    for flag, (name, *_) in (FLAGS | CHOICES).items():
        value = getattr(arguments, _attribute(flag))
        if value is not None:
            overrides[name] = value
    for flag, (fields, _) in SWITCHES.items():
        if getattr(arguments, _attribute(flag)):
            overrides |= fields
    return overrides | _plan_of(arguments)


def _plan_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The shape flags win over the file, and must not contradict each other."""
    asked = {"fixed": arguments.fixed_shapes, "dynamic": arguments.dynamic_shapes, arguments.plan: bool(arguments.plan)}
    plans = [plan for plan, is_asked in asked.items() if is_asked]
    if len(plans) > 1:
        raise ConfigError(
            f"The flags ask for two plans: {' and '.join(plans)}. --enable-static-shapes is --plan fixed, "
            "--disable-static-shapes is --plan dynamic. Give one of them."
        )
    return {"data.plan": plans[0], "data.pad_to_fixed_length": plans[0] == "fixed"} if plans else {}


def configure_train(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts train`."""
    add_config_flags(parser)
    parser.add_argument("--reset-training", action="store_true", help="ignore an earlier run in the checkpoint folder")


def run_train(arguments: argparse.Namespace) -> int:
    """Train, then print what was measured."""
    config = load_command_config(arguments.config, overrides_of(arguments))
    from myxtts.runtime.locks import RunLock
    from myxtts.training.initial_weights import settle_start
    from myxtts.training.preflight import check_network, make_run_folders

    config = settle_start(config, arguments.reset_training, _say)
    check_network(config)
    make_run_folders(config.training)
    with contextlib.ExitStack() as stack:
        if (
            "TF_CONFIG" not in os.environ
        ):  # in a cluster only the chief locks the folder, and the trainer finds out who that is
            stack.enter_context(RunLock(Path(config.training.checkpoint_dir)))
        from myxtts.runtime.startup import start_tensorflow

        start_tensorflow()
        from myxtts.training.trainer import XTTSTrainer

        evaluate = _evaluation(config.data) if config.training.enable_evaluation else None
        trainer = XTTSTrainer(config, evaluate=evaluate, starts_anew=arguments.reset_training)
        summary = trainer.train()
        trainer.display.table("What was measured", summary.rows())
    return 0


def _evaluation(data: DataConfig) -> Callable[[Path], dict[str, float]]:
    """What judges the voice while it trains: the recogniser on the held-out sentences of the corpus."""
    from myxtts.config.config import DEFAULT_LANGUAGE
    from myxtts.corpus.manifest import read_corpus
    from myxtts.corpus.recipes import bundled_corpus
    from myxtts.evaluation.evaluate import evaluation_callback
    from myxtts.evaluation.sentence_sets import sentences_of

    folder, language = data.train_data or bundled_corpus(), data.language or DEFAULT_LANGUAGE
    held_out = read_corpus(folder, language, "validation", data.validation_share, data.val_data)
    return evaluation_callback(sentences_of(held_out.utterances))


def configure_config(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts config`."""
    add_config_flags(parser)


def run_config(arguments: argparse.Namespace) -> int:
    """Print the configuration that these flags and this file give, as YAML."""
    import yaml

    from myxtts.config.load import config_to_dict

    config = load_command_config(arguments.config, overrides_of(arguments))
    sys.stdout.write(yaml.safe_dump(config_to_dict(config), sort_keys=False))
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _auto_or_int(text: str) -> int | str:
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number or auto, received {text!r}") from None


def _attribute(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")
