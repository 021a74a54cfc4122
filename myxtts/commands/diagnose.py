"""`myxtts diagnose`, `monitor` and `benchmark`: find out why the device is idle, for this trainer or any TensorFlow script."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from myxtts.commands.config_flags import ONLY_WHOLE_RUNS, add_training_flags, config_of
from myxtts.config.config import XTTSConfig
from myxtts.diagnostics.observe.cli import OBSERVATIONS, configure_observation, write_report
from myxtts.runtime.console import add_action

if TYPE_CHECKING:
    from myxtts.diagnostics.observe.split_steps import Stalls
    from myxtts.runtime.timers import StepSummary

DEFAULT_LOG = "gpu_monitor.csv"


def configure_diagnose(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts diagnose`."""
    actions = parser.add_subparsers(dest="action", metavar="WHAT", required=True)
    configure_observation(actions)
    retracing = add_action(
        actions, "retracing", "check that every step of this trainer is compiled only once (diagnose_retracing.py)"
    )
    _add_trainer_arguments(retracing)
    retracing.add_argument("--steps", type=int, default=10, help="training steps to run (default: %(default)s)")
    bottleneck = add_action(actions, "bottleneck", "measure where a step spends its time (diagnose_gpu_bottleneck.py)")
    _add_trainer_arguments(bottleneck)
    bottleneck.add_argument("--num-batches", type=int, default=50, help="batches to time (default: %(default)s)")


def _add_trainer_arguments(parser: argparse.ArgumentParser) -> None:
    add_training_flags(parser, leaving_out=ONLY_WHOLE_RUNS)
    parser.add_argument("--json", metavar="FILE", help="write the metrics as JSON")


def run_diagnose(arguments: argparse.Namespace) -> int:
    """Run the chosen diagnosis; returns its exit code."""
    actions = {**OBSERVATIONS, "retracing": _run_retracing, "bottleneck": _run_bottleneck}
    return actions[arguments.action](arguments)


def _run_retracing(arguments: argparse.Namespace) -> int:
    config = _load_config_then_tensorflow(arguments)
    from myxtts.diagnostics.trainer_diagnosis import diagnose_retracing

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
            **_summary_to_json(diagnosis.trial.summary),
        }
        write_report(arguments.json, json.dumps(metrics, indent=1))
    return diagnosis.exit_code


def _run_bottleneck(arguments: argparse.Namespace) -> int:
    config = _load_config_then_tensorflow(arguments)
    from myxtts.diagnostics.trainer_diagnosis import diagnose_bottleneck

    diagnosis = diagnose_bottleneck(config, arguments.num_batches, _announce)
    sys.stdout.write("\n".join(diagnosis.lines()) + "\n")
    if arguments.json:
        metrics = {
            "python_functions": list(diagnosis.python_functions),
            "stages": dict(diagnosis.stage_seconds),
            "loader_seconds": diagnosis.loader_seconds,
            "step_seconds": diagnosis.step_seconds,
            "stalls": _stalls_to_json(diagnosis.stalls),
            "problems": diagnosis.problems,
            "hardware": diagnosis.trial.hardware,
            **_summary_to_json(diagnosis.trial.summary),
        }
        write_report(arguments.json, json.dumps(metrics, indent=1))
    return diagnosis.exit_code


def _summary_to_json(summary: StepSummary) -> dict[str, Any]:
    """The fractions of the time have keys such as `wait_share`."""
    return {name.replace("_fraction", "_share"): value for name, value in asdict(summary).items()}


def _stalls_to_json(stalls: Stalls | None) -> dict[str, Any] | None:
    """The fraction of the time has the key `share`."""
    if stalls is None:
        return None
    content = asdict(stalls)
    content["share"] = content.pop("fraction")
    return content


def configure_monitor(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts monitor`."""
    parser.add_argument(
        "--log-file", nargs="?", const=DEFAULT_LOG, metavar="F", help=f"write a CSV log (default name: {DEFAULT_LOG})"
    )
    parser.add_argument(
        "--duration", type=float, metavar="S", help="stop after this many seconds (default: run until Ctrl-C)"
    )
    parser.add_argument(
        "--interval", type=float, default=1.0, metavar="S", help="seconds between samples (default: %(default)s)"
    )
    parser.add_argument(
        "--run", metavar="DIR", help="checkpoint folder of a running training, whose busy fraction is also shown"
    )


def run_monitor(arguments: argparse.Namespace) -> int:
    """Print samples of the device and the run, and log them."""
    from myxtts.diagnostics.monitor import open_csv_log, reading_line, readings, why_no_gpu

    log = open_csv_log(arguments.log_file) if arguments.log_file else None
    reason = why_no_gpu()
    if reason:
        sys.stdout.write(f"{reason} Only CPU, memory and the trainer's own clock are shown.\n")
    is_live, width = sys.stdout.isatty(), 0
    try:
        for reading in readings(arguments.duration, arguments.interval, arguments.run):
            line = reading_line(reading)
            sys.stdout.write(f"\r{line:<{width}}" if is_live else f"{line}\n")
            sys.stdout.flush()
            width = max(width, len(line))
            if log is not None:
                log.add(reading)
    except KeyboardInterrupt:  # the usual way to stop it
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
    parser.add_argument("--steps", type=int, default=20, help="training steps of each kind (default: %(default)s)")
    parser.add_argument(
        "--only", choices=("loading", "steps"), help="measure only the loading or only the training steps"
    )


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
        write_report(arguments.json, json.dumps([asdict(row) for row in rows], indent=1))
    return 0


def _load_config_then_tensorflow(arguments: argparse.Namespace) -> XTTSConfig:
    """The configuration from file and flags. TensorFlow is imported afterwards, so that mistakes are reported at once."""
    from myxtts.runtime.startup import start_tensorflow

    config = config_of(arguments)
    start_tensorflow()
    return config


def _announce(line: str) -> None:
    sys.stderr.write(f"{line}\n")
