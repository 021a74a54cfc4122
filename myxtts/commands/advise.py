"""`myxtts advise`: what a folder of recordings is good for, before it is trained on."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from myxtts.runtime.console import exit_on_signals, printable


def configure_advise(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts advise`."""
    parser.add_argument("data", metavar="DATA", type=Path, help="folder of recordings with their texts")
    parser.add_argument("--language", default="en", help="language of clips whose metadata names none (default: en)")
    parser.add_argument(
        "--voice",
        metavar="NAME|DIR",
        help="voice whose network compares texts and recordings (default: the bundled voice for the language)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured as JSON")


def run_advise(arguments: argparse.Namespace) -> int:
    """Measure, print and write."""
    from myxtts.corpus.manifest import read_manifest
    from myxtts.evaluation.advise import advice_lines, advise
    from myxtts.evaluation.report import write_report
    from myxtts.runtime.progress import open_progress
    from myxtts.synthesis.bundled import find_voice

    voice = None if arguments.voice is None else find_voice(arguments.voice)
    with exit_on_signals(), open_progress() as progress:
        manifest = read_manifest(arguments.data, arguments.language, "all")
        advice = advise(arguments.data, manifest.utterances, manifest.rejected, voice, progress)
    for line in advice_lines(advice):
        sys.stdout.write(f"{printable(line, keeps_lines=False)}\n")
    if arguments.json is not None:
        write_report(arguments.json, json.dumps(advice.to_json(), ensure_ascii=False, indent=1, allow_nan=False) + "\n")
    return 0
