"""`myxtts diagnose`, `myxtts monitor`, `myxtts benchmark`: why is my device idle? On this trainer, or on any script."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from myxtts.errors import DiagnosisError
from myxtts.runtime.atomic import cause_of, write_atomically

if TYPE_CHECKING:
    from myxtts.config.config import XTTSConfig

DEFAULT_LOG = "gpu_monitor.csv"


def configure_diagnose(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts diagnose ...`."""
    actions = parser.add_subparsers(dest="action", metavar="WHAT", required=True)
    run = actions.add_parser("run", help="run an unmodified TensorFlow or Keras training script under observation")
    run.add_argument("--json", metavar="FILE", help="write the report as JSON; - for standard output")
    run.add_argument("--html", metavar="FILE", help="write the report as one self-contained page")
    run.add_argument("--markdown", metavar="FILE", help="write a summary for a pull request; - for standard output")
    run.add_argument("--steps", type=int, metavar="N", help="observe N steps, then let the script run on unobserved")
    run.add_argument("--no-ceiling", action="store_true", help="do not measure step and loader alone after the run")
    run.add_argument(
        "--exit-code",
        choices=("diagnosis", "script"),
        default="diagnosis",
        help="diagnosis: 0 fine, 1 problem found, 2 not measured or the script failed; script: the script's own",
    )
    run.add_argument(
        "-m",
        dest="module",
        nargs=argparse.REMAINDER,
        metavar="MODULE",
        help="run a module, as in `python -m MODULE ...`",
    )
    run.add_argument("script", nargs="?", metavar="SCRIPT.py", help="a Python file or a notebook (.ipynb)")
    run.add_argument("script_arguments", nargs=argparse.REMAINDER, metavar="...", help="arguments of the script")
    compare = actions.add_parser("compare", help="compare two reports: what a change gained")
    compare.add_argument("before", metavar="A.json", help="written by `diagnose run --json`")
    compare.add_argument("after", metavar="B.json")
    compare.add_argument("--html", metavar="FILE", help="write the comparison as one self-contained page")
    compare.add_argument("--markdown", metavar="FILE", help="write the comparison as Markdown; - for standard output")
    retracing = actions.add_parser(
        "retracing", help="is every step of this trainer compiled once? (diagnose_retracing.py)"
    )
    _add_trainer_arguments(retracing)
    retracing.add_argument("--steps", type=int, default=10, help="training steps to run (10)")
    bottleneck = actions.add_parser("bottleneck", help="where does a step spend its time? (diagnose_gpu_bottleneck.py)")
    _add_trainer_arguments(bottleneck)
    bottleneck.add_argument("--num-batches", type=int, default=50, help="batches to time (50)")


def _add_trainer_arguments(parser: argparse.ArgumentParser) -> None:
    from myxtts.commands.train import add_config_flags

    add_config_flags(parser)
    parser.add_argument("--json", metavar="FILE", help="write the metrics as JSON")


def run_diagnose(arguments: argparse.Namespace) -> int:
    """Dispatch to the chosen diagnosis."""
    actions = {
        "run": _run_script,
        "compare": _run_compare,
        "retracing": _run_retracing,
        "bottleneck": _run_bottleneck,
    }
    return actions[arguments.action](arguments)


def _run_script(arguments: argparse.Namespace) -> int:
    from myxtts.diagnostics.observe.html import report_to_html
    from myxtts.diagnostics.observe.report_text import report_to_markdown
    from myxtts.diagnostics.observe.script import run_script

    script, script_arguments = arguments.script, arguments.script_arguments
    if arguments.module:
        script, *script_arguments = arguments.module
    elif script is None:
        raise DiagnosisError(
            "Nothing to run. Expected: a script or a module, as in `myxtts diagnose run train.py` or "
            "`myxtts diagnose run -m package.train`."
        )
    run = run_script(
        script,
        script_arguments,
        measure_ceiling=not arguments.no_ceiling,
        steps=arguments.steps,
        is_module=bool(arguments.module),
    )
    out = sys.stderr if "-" in (arguments.json, arguments.markdown) else sys.stdout
    if run.explanation:
        out.write(f"\n{run.explanation} Its exit code: {run.script_exit_code}.\n")
    if run.text:
        out.write(f"\n{run.text}")
    content = {
        "script": script,
        "outcome": run.outcome,
        "script_exit_code": run.script_exit_code,
        "explanation": run.explanation,
        "report": run.report,
    }
    title = f"Diagnosis of {Path(script).name}"
    if arguments.json:
        _write(arguments.json, json.dumps(content, indent=None if arguments.json == "-" else 1) + "\n")
    if arguments.html and run.report is not None:
        _write(arguments.html, report_to_html(run.report, title))
    if arguments.markdown and run.report is not None:
        _write(arguments.markdown, report_to_markdown(run.report, title))
    return run.script_exit_code if arguments.exit_code == "script" else run.exit_code


def _run_compare(arguments: argparse.Namespace) -> int:
    from myxtts.diagnostics.observe.compare import (
        compare_reports,
        comparison_to_html,
        comparison_to_markdown,
        comparison_to_text,
        read_report,
    )

    comparison = compare_reports(read_report(arguments.before), read_report(arguments.after))
    (sys.stderr if arguments.markdown == "-" else sys.stdout).write(comparison_to_text(comparison))
    if arguments.markdown:
        _write(arguments.markdown, comparison_to_markdown(comparison))
    if arguments.html:
        _write(arguments.html, comparison_to_html(comparison))
    return 0


def _run_retracing(arguments: argparse.Namespace) -> int:
    config = _load_config_then_tensorflow(arguments)
    from myxtts.diagnostics.retracing import diagnose_retracing

    diagnosis = diagnose_retracing(config, arguments.steps, _announce)
    sys.stdout.write("\n".join(diagnosis.lines()) + "\n")
    if arguments.json:
        metrics = {
            "plan": diagnosis.plan,
            "shapes": list(diagnosis.shapes),
            "are_shapes_closed": diagnosis.are_shapes_closed,
            "traces_after_warmup": diagnosis.trial.since_warmup.traces,
            "compilations_after_warmup": diagnosis.trial.since_warmup.compilations,
            "signatures_after_warmup": diagnosis.trial.since_warmup.signatures,
            "retraces": [str(retrace) for retrace in diagnosis.trial.retraces],
            "hardware": diagnosis.trial.hardware,
            **asdict(diagnosis.trial.summary),
        }
        _write(arguments.json, json.dumps(metrics, indent=1))
    return diagnosis.exit_code


def _run_bottleneck(arguments: argparse.Namespace) -> int:
    config = _load_config_then_tensorflow(arguments)
    from myxtts.diagnostics.bottleneck import diagnose_bottleneck

    diagnosis = diagnose_bottleneck(config, arguments.num_batches, _announce)
    sys.stdout.write("\n".join(diagnosis.lines()) + "\n")
    if arguments.json:
        metrics = {
            "python_functions": list(diagnosis.python_functions),
            "stages": dict(diagnosis.stage_seconds),
            "loader_seconds": diagnosis.loader_seconds,
            "step_seconds": diagnosis.step_seconds,
            "stalls": asdict(diagnosis.stalls) if diagnosis.stalls is not None else None,
            "problems": diagnosis.problems,
            "hardware": diagnosis.trial.hardware,
            **asdict(diagnosis.trial.summary),
        }
        _write(arguments.json, json.dumps(metrics, indent=1))
    return diagnosis.exit_code


def configure_monitor(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts monitor`."""
    parser.add_argument(
        "--log-file", nargs="?", const=DEFAULT_LOG, metavar="F", help=f"log as CSV (default name {DEFAULT_LOG})"
    )
    parser.add_argument("--duration", type=float, metavar="S", help="seconds; without it, until Ctrl-C")
    parser.add_argument("--interval", type=float, default=1.0, metavar="S", help="seconds between two samples (1)")
    parser.add_argument("--run", metavar="DIR", help="checkpoint folder of a running training: its own busy fraction")


def run_monitor(arguments: argparse.Namespace) -> int:
    """Live view and log."""
    from myxtts.diagnostics.monitor import CsvLog, describe, readings, why_no_gpu

    reason = why_no_gpu()
    if reason:
        sys.stdout.write(f"{reason} CPU, memory and the trainer's own clock are shown.\n")
    log = CsvLog(arguments.log_file) if arguments.log_file else None
    is_live, width = sys.stdout.isatty(), 0
    try:
        for reading in readings(arguments.duration, arguments.interval, arguments.run):
            line = describe(reading)
            sys.stdout.write(f"\r{line:<{width}}" if is_live else f"{line}\n")
            sys.stdout.flush()
            width = max(width, len(line))
            if log is not None:
                log.add(reading)
    except KeyboardInterrupt:  # the usual way to end it
        pass
    finally:
        if log is not None:
            log.close()
    sys.stdout.write("\n" if is_live else "")
    if log is not None:
        sys.stdout.write(f"Logged to {arguments.log_file}\n")
    return 0


def configure_benchmark(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts benchmark`."""
    _add_trainer_arguments(parser)
    parser.add_argument("--steps", type=int, default=20, help="training steps of each kind (20)")
    parser.add_argument("--only", choices=("loading", "steps"), help="one half of the table")


def run_benchmark(arguments: argparse.Namespace) -> int:
    """Print the before/after table."""
    config = _load_config_then_tensorflow(arguments)
    from rich.console import Console
    from rich.table import Table

    from myxtts.diagnostics.comparison import compare_loading, compare_steps

    rows = [] if arguments.only == "steps" else compare_loading(config, _announce)
    rows += [] if arguments.only == "loading" else compare_steps(config, arguments.steps, _announce)
    table = Table("what", "how", "speed", "ratio", title="Before and after, measured in this run", title_justify="left")
    for row in rows:
        table.add_row(row.group, row.name, f"{row.value:,.0f} {row.unit}", f"{row.ratio:.2f}x")
    Console().print(table)
    if arguments.json:
        _write(arguments.json, json.dumps([asdict(row) for row in rows], indent=1))
    return 0


def _load_config_then_tensorflow(arguments: argparse.Namespace) -> XTTSConfig:
    """The configuration from file and flags; TensorFlow is imported after it, so that a mistake is reported at once."""
    from myxtts.commands.language import load_command_config
    from myxtts.commands.train import overrides_of
    from myxtts.runtime.startup import start_tensorflow

    config = load_command_config(arguments.config, overrides_of(arguments))
    start_tensorflow()
    return config


def _announce(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _write(path: str, text: str) -> None:
    """Write a file as a whole; `-` is standard output."""
    if path == "-":
        sys.stdout.write(text)
        return
    try:
        write_atomically(path, text)
    except OSError as error:
        raise DiagnosisError(f"The report cannot be written: {path} ({cause_of(error)}). Name another file.") from None
