"""The commands that need no trainer: observe a script, compare two reports."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from myxtts.errors import DiagnosisError, MyXTTSError
from myxtts.runtime.safe_files import cause_of, write_atomically


def main(arguments: list[str] | None = None) -> int:
    """The command of the separate distribution; errors are one line without a traceback."""
    parser = argparse.ArgumentParser(description="Where does the time of a TensorFlow or Keras training go, and why?")
    configure_observation(parser.add_subparsers(dest="action", metavar="WHAT", required=True))
    parsed = parser.parse_args(arguments)
    try:
        return OBSERVATIONS[parsed.action](parsed)
    except MyXTTSError as error:
        sys.stderr.write(f"{error}\n")
        return 2


def configure_observation(actions: Any) -> None:
    """Add `run` and `compare` to subparsers."""
    run = _add_action(actions, "run", "run an unmodified TensorFlow or Keras training script under observation")
    run.add_argument("--json", metavar="FILE", help="write the report as JSON; - for standard output")
    run.add_argument("--html", metavar="FILE", help="write the report as one self-contained page")
    run.add_argument("--markdown", metavar="FILE", help="write a summary for a pull request; - for standard output")
    run.add_argument("--steps", type=int, metavar="N", help="observe N steps, then let the script continue unobserved")
    run.add_argument("--no-ceiling", action="store_true", help="do not measure step and loader alone after the run")
    run.add_argument(
        "--no-counters", action="store_true", help="do not read TensorFlow's internal counters (experimental)"
    )
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
    compare = _add_action(actions, "compare", "compare two reports: what a change gained")
    compare.add_argument("before", metavar="A.json", help="report before the change, written by `diagnose run --json`")
    compare.add_argument("after", metavar="B.json", help="report after the change")
    compare.add_argument("--html", metavar="FILE", help="write the comparison as one self-contained page")
    compare.add_argument("--markdown", metavar="FILE", help="write the comparison as Markdown; - for standard output")


def _add_action(actions: Any, name: str, help_line: str) -> argparse.ArgumentParser:
    return actions.add_parser(name, help=help_line, description=f"{help_line[0].upper()}{help_line[1:]}.")


def run_observation(arguments: argparse.Namespace) -> int:
    """Run a script, print its report, write the files that were asked for."""
    from myxtts.diagnostics.observe.page import report_to_html
    from myxtts.diagnostics.observe.render import report_to_markdown
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
        use_counters=not arguments.no_counters,
    )
    out = sys.stderr if "-" in (arguments.json, arguments.markdown) else sys.stdout
    if run.explanation:
        out.write(f"\n{run.explanation.rstrip('.')}. Its exit code: {run.script_exit_code}.\n")
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
        write_report(arguments.json, json.dumps(content, indent=None if arguments.json == "-" else 1) + "\n")
    if arguments.html and run.report is not None:
        write_report(arguments.html, report_to_html(run.report, title))
    if arguments.markdown and run.report is not None:
        write_report(arguments.markdown, report_to_markdown(run.report, title))
    return run.script_exit_code if arguments.exit_code == "script" else run.exit_code


def run_comparison(arguments: argparse.Namespace) -> int:
    """Print what changed between two reports, write the files that were asked for."""
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
        write_report(arguments.markdown, comparison_to_markdown(comparison))
    if arguments.html:
        write_report(arguments.html, comparison_to_html(comparison))
    return 0


OBSERVATIONS = {"run": run_observation, "compare": run_comparison}


def write_report(path: str, text: str) -> None:
    """Write a file as a whole; `-` is standard output."""
    if path == "-":
        sys.stdout.write(text)
        return
    try:
        write_atomically(path, text)
    except OSError as error:
        raise DiagnosisError(f"The report cannot be written: {path} ({cause_of(error)}). Name another file.") from None


if __name__ == "__main__":
    sys.exit(main())
