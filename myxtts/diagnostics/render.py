"""A report as text for the terminal and as plain data for JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from myxtts.diagnostics.findings import Finding, duration, percent
from myxtts.diagnostics.places import Place, short_path

if TYPE_CHECKING:
    from myxtts.diagnostics.report import Report, TimeSplit


def report_to_json(report: Report) -> dict[str, Any]:
    """Stable names: verdict, verdict_class, findings (disease, file, line ...), time, functions, stages, ceiling."""
    return {
        "verdict": report.verdict,
        "verdict_class": report.verdict_class,
        "exit_code": report.exit_code,
        "findings": [_finding_to_json(finding) for finding in report.findings],
        "time": asdict(report.split) if report.split is not None else None,
        "functions": [asdict(line) for line in report.functions],
        "stages": [asdict(line) for line in report.stages],
        "batch_signatures": report.batch_signatures,
        "ceiling": asdict(report.ceiling) if report.ceiling is not None else None,
        "notes": list(report.notes),
        "timeline": report.timeline,
        "machine": report.machine,
    }


def _finding_to_json(finding: Finding) -> dict[str, Any]:
    return {
        "disease": str(finding.disease),
        "what": finding.what,
        "evidence": finding.evidence,
        "file": finding.place.file,
        "line": finding.place.line,
        "also": [{"file": place.file, "line": place.line} for place in finding.also],
        "fix": finding.fix,
        "gain_seconds": finding.gain_seconds,
        "gain_share": finding.gain_share,
    }


def report_to_text(report: Report) -> str:
    """Verdict, table, findings."""
    lines = [report.verdict]
    if report.split is not None:
        lines += ["", *_time_table(report.split)]
        if report.batch_signatures:
            lines.append(f"  batch signatures seen: {report.batch_signatures}")
    if report.ceiling is not None:
        lines += ["", "Ceiling (measured after the run)", *(f"  {line}" for line in report.ceiling.lines())]
    if report.functions:
        lines += ["", "Traced functions"]
        for function in report.functions:
            causes = f"  [{'; '.join(function.causes)}]" if function.causes else ""
            lines.append(
                f"  {function.name:<28} {function.traces:>4} traces {function.compilations:>4} XLA {function.calls:>7} calls "
                f"{duration(function.seconds):>9}  {function.place}{causes}"
            )
    if report.stages:
        lines += ["", "Input pipeline (time for each batch, all threads together)"]
        for stage in report.stages:
            marks = ", ".join([*stage.python, *(["parallel"] if stage.is_parallel else [])])
            lines.append(f"  {stage.name:<28} {duration(stage.seconds_per_batch):>10}  {stage.place}  {marks}".rstrip())
    if report.findings:
        lines += ["", f"{len(report.findings)} finding{'s' if len(report.findings) > 1 else ''}, most to gain first"]
        for number, finding in enumerate(report.findings, 1):
            lines += _finding_lines(number, finding)
    elif report.split is not None:
        lines += ["", "No finding."]
    lines += ["", *(f"Note: {note}" for note in report.notes)] if report.notes else []
    return "\n".join(lines) + "\n"


def _finding_lines(number: int, finding: Finding) -> list[str]:
    also = f"  (see also {', '.join(_short(place) for place in finding.also[:3])})" if finding.also else ""
    return [
        f"{number}. {finding.disease}: {finding.what}",
        f"     where     {_short(finding.place)}{also}",
        f"     evidence  {finding.evidence}",
        f"     fix       {finding.fix}",
        f"     gain      at most {percent(finding.gain_share)} of the time ({duration(finding.gain_seconds)})",
    ]


def _short(place: Place) -> str:
    return f"{short_path(place.file)}:{place.line}" if place.line else "(unknown line)"


def _time_table(split: TimeSplit) -> list[str]:
    rest = max(split.steady_seconds + split.retrace_seconds, 1e-9)
    rows = [
        ("waiting for data", split.wait_seconds),
        ("host (Python)", split.host_seconds),
        ("device (the step)", split.device_seconds),
        ("tracing and compiling again", split.retrace_seconds),
    ]
    lines = [
        f"{split.steps} steps, {split.cold_steps} of them cold ({duration(split.cold_seconds)}); "
        f"steady: {duration(split.steady_mean_seconds)} ± {duration(split.steady_std_seconds)} a step, spread "
        f"{percent(split.step_cv)}"
    ]
    return lines + [f"  {name:<28} {duration(seconds):>10} {percent(seconds / rest):>7}" for name, seconds in rows]
