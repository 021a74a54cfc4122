"""The `myxtts` command: one door, a subcommand for each thing that it does.

A command's module is imported only when that command is called, so that `myxtts --help` answers at once.
Each module in `myxtts.commands` defines `configure_<command>(parser)` and `run_<command>(arguments) -> exit code`.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

from myxtts import __version__
from myxtts.errors import MyXTTSError
from myxtts.runtime.atomic import is_full
from myxtts.runtime.console import printable

EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 128 + signal.SIGINT

TRAINING_PACKAGES = {
    "tensorflow": "TensorFlow",
    "keras": "Keras",
    "tensorboard": "TensorBoard",
    "matplotlib": "Matplotlib",
    "scipy": "SciPy",
}
"""Packages of the extra `train`: speaking needs none of them."""
TRAINING_INSTALL_LINE = "`pip install '.[train]'` in the project folder"

COMMANDS = {
    "corpus": ("data", "fetch or convert a corpus: Debian's telephone prompts, or a folder of audio + .txt"),
    "prepare": ("data", "decode, resample, mel and tokens once, into the cache"),
    "verify": ("data", "check the cache record by record; repair it with --fix"),
    "stats": ("data", "lengths, padding of each plan, recommended settings"),
    "train": ("train", "train a voice (train_main.py)"),
    "config": ("train", "print the configuration that a run would use"),
    "voice": ("voice", "export a checkpoint as a voice, show what is in one, or list voices"),
    "export": ("voice", "write a voice for Piper or sherpa-onnx"),
    "say": ("speak", "speak a text to a file"),
    "clone": ("speak", "speak a text in the voice of a recording"),
    "evaluate": ("evaluate", "measure how well a voice speaks"),
    "diagnose": ("diagnose", "why is my device idle? On this trainer, or on any TensorFlow script"),
    "monitor": ("diagnose", "watch the device and a running training (gpu_monitor.py)"),
    "benchmark": ("diagnose", "loading, shapes and XLA, before and after (benchmark_gpu_utilization.py)"),
}


def build_parser(command: str | None) -> argparse.ArgumentParser:
    """The parser of the whole command line; only `command`'s own arguments are filled in."""
    parser = argparse.ArgumentParser(
        prog="myxtts", description="Train a voice on a device that never waits, then let it speak."
    )
    parser.add_argument("--version", action="version", version=f"myxtts {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (module, help_line) in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=help_line, description=help_line)
        if name == command:
            getattr(importlib.import_module(f"myxtts.commands.{module}"), f"configure_{name}")(subparser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; a user's mistake is one message, never a traceback."""
    _escape_unprintable_characters()
    words = list(sys.argv[1:] if argv is None else argv)
    command = next((word for word in words if not word.startswith("-")), None)
    arguments = build_parser(command).parse_args(words)
    module = importlib.import_module(f"myxtts.commands.{COMMANDS[arguments.command][0]}")
    try:
        code = getattr(module, f"run_{arguments.command}")(arguments)
        _flush_output()
        return code
    except MyXTTSError as error:
        return _tell(arguments.command, str(error))
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in TRAINING_PACKAGES:
            raise
        return _tell(
            arguments.command,
            f"This needs {TRAINING_PACKAGES[error.name.split('.')[0]]}, which is not installed. Run {TRAINING_INSTALL_LINE}.",
        )
    except BrokenPipeError:
        return EXIT_USER_ERROR  # the reader of our output left (`myxtts stats | head`): nothing to tell it
    except OSError as error:
        if not is_full(error):  # that is never a defect of ours, wherever it happens
            raise
        return _tell(arguments.command, f"{error.filename or 'The output'} cannot be written: {error.strerror}.")
    except KeyboardInterrupt:
        sys.stderr.write(f"\nmyxtts {arguments.command}: interrupted.\n")
        return EXIT_INTERRUPTED
    finally:
        _settle_output()


def _escape_unprintable_characters() -> None:
    """Characters that the output's encoding lacks (`LANG=C`) are printed as `\\u…` instead of ending the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _tell(command: str, message: str) -> int:
    sys.stderr.write(f"myxtts {command}: {printable(message)}\n")
    return EXIT_USER_ERROR


def _flush_output() -> None:
    """What still waits to be written; a failure is told here and not by Python at its end, with a traceback."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise MyXTTSError(f"Standard output cannot be written: {error.strerror}.") from None


def _settle_output() -> None:
    """What cannot be written goes nowhere: Python would try again at its end, and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError), open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
