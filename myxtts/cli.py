"""The `myxtts` command and its subcommands.

The module of a subcommand is imported only when that subcommand is called, so that `myxtts --help` answers at once.
Each module in `myxtts.commands` defines `configure_<command>(parser)` and `run_<command>(arguments) -> exit code`.
"""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
from collections.abc import Sequence

from myxtts import __version__
from myxtts.errors import MyXTTSError, install_line
from myxtts.runtime.console import (
    CommandParser,
    add_action,
    discard_unwritable_output,
    escape_unencodable_characters,
    flush_output,
    open_closed_streams,
    printable,
)
from myxtts.runtime.safe_files import is_full

EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 128 + signal.SIGINT

TRAINING_PACKAGES = {
    "tensorflow": "TensorFlow",
    "keras": "Keras",
    "tensorboard": "TensorBoard",
    "matplotlib": "Matplotlib",
    "scipy": "SciPy",
    "safetensors": "safetensors",
    "pyworld": "pyworld",
}
"""Packages of the extra `train`: speaking needs none of them."""
SERVING_PACKAGES = {
    "fastapi": "FastAPI",
    "starlette": "FastAPI",
    "uvicorn": "uvicorn",
    "prometheus_client": "prometheus-client",
    "multipart": "python-multipart",
    "python_multipart": "python-multipart",
}
"""Packages of the extra `serve`."""
INSTALL_LINES = {
    **dict.fromkeys(TRAINING_PACKAGES, install_line("train")),
    **dict.fromkeys(SERVING_PACKAGES, install_line("serve")),
}

COMMANDS = {
    "corpus": (
        "data",
        "create a corpus from Debian's telephone prompts, a public dataset or a folder with .txt files",
    ),
    "prepare": (
        "data",
        "decode and resample the recordings, compute mels and symbols once, and store them in the cache",
    ),
    "verify": ("data", "check every record of the cache; repair damage with --fix"),
    "stats": ("data", "show clip lengths, the padding of each batch plan, and recommended settings"),
    "advise": (
        "data",
        "check recordings before training: amount, missing sounds, noise, wrong texts, what to record next",
    ),
    "train": ("train", "train a voice (train_main.py)"),
    "train-vocoder": ("train", "train a vocoder (it turns mels into sound), or adapt one to a voice"),
    "config": ("train", "print the configuration that a run would use"),
    "voice": ("voice", "export a checkpoint as a voice folder; convert, show or list voices"),
    "say": ("speak", "speak a text with a voice and write it to a file"),
    "export": ("voice", "export a voice for Piper, sherpa-onnx or your own program (ONNX)"),
    "clone": ("speak", "speak a text in the voice of a recording"),
    "serve": ("serve", "serve voices over HTTP (OpenAI's and Piper's APIs) and Wyoming (Home Assistant)"),
    "studio": ("serve", "open the studio in the browser: speak, clone, record, train and measure"),
    "text": ("text", "show how a text is read: normalized words, phonemes, symbols, and skipped characters"),
    "g2p": ("text", "train the pronunciation model of a language, or show how it reads a text"),
    "evaluate": ("evaluate", "measure the quality of a voice"),
    "diagnose": ("diagnose", "find out why the device is idle, for this trainer or any TensorFlow script"),
    "monitor": ("diagnose", "watch the GPU, CPU and a running training (gpu_monitor.py)"),
    "benchmark": ("diagnose", "compare loading, batch shapes and XLA before and after (benchmark_gpu_utilization.py)"),
}
"""Command → module in `myxtts.commands`, line in the help."""


def function_name(command: str) -> str:
    """A command as part of the name of a function."""
    return command.replace("-", "_")


def build_parser(command: str | None) -> argparse.ArgumentParser:
    """The parser of the command line; only the arguments of `command` are filled in."""
    parser = argparse.ArgumentParser(
        prog="myxtts", description="Text-to-speech: train a voice on your recordings, then let it speak."
    )
    parser.add_argument("--version", action="version", version=f"myxtts {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=CommandParser)
    for name, (module, help_line) in COMMANDS.items():
        subparser = add_action(subparsers, name, help_line)
        if name == command:
            getattr(importlib.import_module(f"myxtts.commands.{module}"), f"configure_{function_name(name)}")(subparser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; a user's mistake is one message on standard error, not a traceback."""
    open_closed_streams()
    escape_unencodable_characters()
    words = list(sys.argv[1:] if argv is None else argv)
    command = next((word for word in words if not word.startswith("-")), None)
    arguments = build_parser(command).parse_args(words)
    module = importlib.import_module(f"myxtts.commands.{COMMANDS[arguments.command][0]}")
    try:
        code = getattr(module, f"run_{function_name(arguments.command)}")(arguments)
        flush_output()
        return code
    except MyXTTSError as error:
        return _report(arguments.command, str(error))
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if package not in INSTALL_LINES:
            raise
        name = (TRAINING_PACKAGES | SERVING_PACKAGES)[package]
        return _report(arguments.command, f"This needs {name}, which is not installed. Run {INSTALL_LINES[package]}.")
    except BrokenPipeError:
        return EXIT_USER_ERROR  # the reader of our output has exited (`myxtts stats | head`): nothing can be printed
    except OSError as error:
        if not is_full(error):  # a full disk is never a bug, wherever it happens
            raise
        return _report(arguments.command, f"{error.filename or 'The output'} cannot be written: {error.strerror}.")
    except KeyboardInterrupt:
        sys.stderr.write(f"\nmyxtts {arguments.command}: interrupted.\n")
        return EXIT_INTERRUPTED
    finally:
        discard_unwritable_output()


def _report(command: str, message: str) -> int:
    sys.stderr.write(f"myxtts {command}: {printable(message)}\n")
    return EXIT_USER_ERROR


if __name__ == "__main__":
    sys.exit(main())
