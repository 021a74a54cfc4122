"""The result of a diagnosis: a verdict, where the time went, and findings in order of gain, as text and as JSON data."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from myxtts.diagnostics.observe.ceiling import Ceiling
from myxtts.diagnostics.observe.facts import Facts
from myxtts.diagnostics.observe.issues import Finding, Issue, duration, percent
from myxtts.diagnostics.observe.recording import Recording
from myxtts.diagnostics.observe.rules_compilation import find_compilation_problems
from myxtts.diagnostics.observe.rules_host import find_host_problems
from myxtts.diagnostics.observe.rules_input import find_input_problems
from myxtts.diagnostics.observe.source_lines import SourceLocation, short_path
from myxtts.diagnostics.observe.split_steps import StepTable, cut_steps
from myxtts.diagnostics.observe.traces import TracedCode, explain_traces
from myxtts.runtime.timers import robust_spread

EXIT_FINE, EXIT_PROBLEM, EXIT_NOT_MEASURED = 0, 1, 2
_RETRACING = {
    Issue.RETRACE_SHAPE,
    Issue.RETRACE_DTYPE,
    Issue.RETRACE_PYTHON_VALUE,
    Issue.RETRACE_NEW_OBJECT,
    Issue.FUNCTION_IN_LOOP,
}
_TIMELINE_POINTS = 2000


@dataclass(frozen=True)
class TimeSplit:
    """Where the time of the steps went, in seconds."""

    steps: int
    cold_steps: int
    cold_seconds: float
    retrace_seconds: float
    """Tracing and compiling after the cold steps."""
    wait_seconds: float
    host_seconds: float
    device_seconds: float
    steady_mean_seconds: float
    steady_std_seconds: float
    steady_median_seconds: float
    step_cv: float

    @property
    def steady_seconds(self) -> float:
        """All of it but cold steps, tracing and compiling."""
        return self.wait_seconds + self.host_seconds + self.device_seconds


@dataclass(frozen=True)
class FunctionLine:
    """One row of the table of traced functions."""

    name: str
    location: str
    calls: int
    traces: int
    compilations: int
    seconds: float
    causes: tuple[str, ...]


@dataclass(frozen=True)
class StageLine:
    """One row of the table of pipeline stages."""

    name: str
    location: str
    seconds_per_batch: float
    is_parallel: bool
    python: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """Everything that a diagnosis has to say."""

    verdict_class: str
    """retracing | recompiling | eager | input-bound | host-bound | compute-bound | not measured"""
    verdict: str
    """One line."""
    findings: tuple[Finding, ...] = ()
    split: TimeSplit | None = None
    functions: tuple[FunctionLine, ...] = ()
    stages: tuple[StageLine, ...] = ()
    batch_signatures: int = 0
    ceiling: Ceiling | None = None
    notes: tuple[str, ...] = ()
    timeline: dict[str, list[float]] = field(default_factory=dict)
    """Seconds of each step by part, thinned to at most 2,000 steps, for the page."""
    machine: dict[str, list[float]] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """0 nothing found, 1 something found, 2 nothing could be measured."""
        if self.split is None:
            return EXIT_NOT_MEASURED
        return EXIT_PROBLEM if self.findings else EXIT_FINE

    def to_json(self) -> dict[str, Any]:
        """Plain data with stable names."""
        return report_to_json(self)

    def to_text(self) -> str:
        """The report for a terminal."""
        return report_to_text(self)


def build_report(recording: Recording, ceiling: Ceiling | None = None) -> Report:
    """Judge a recording."""
    steps = cut_steps(recording)
    if steps is None:
        return Report(
            "not measured",
            "could not measure: no training step was seen (no Model.fit, no repeated tf.function, no GradientTape)",
            functions=tuple(_function_lines(explain_traces(recording))),
            notes=_notes(recording, None),
        )
    facts = Facts(recording, steps)
    findings = [*find_compilation_problems(facts), *find_host_problems(facts), *find_input_problems(facts)]
    findings.sort(key=lambda finding: -finding.gain_seconds)
    split = split_time(steps)
    verdict_class, verdict = _verdict(facts, findings, split)
    return Report(
        verdict_class,
        verdict,
        findings=tuple(findings),
        split=split,
        functions=tuple(_function_lines(facts.codes)),
        stages=tuple(_stage_lines(facts)),
        batch_signatures=len(set(steps.batch[steps.batch >= 0].tolist())),
        ceiling=ceiling,
        notes=_notes(recording, facts),
        timeline=_timeline(steps),
        machine=_machine(recording),
    )


def split_time(steps: StepTable) -> TimeSplit:
    """Sums over the steps; mean and spread of the steady ones."""
    cold, steady = steps.is_cold, steps.is_steady
    seconds = steps.seconds[steady] if steady.any() else steps.seconds
    return TimeSplit(
        steps=len(steps),
        cold_steps=int(cold.sum()),
        cold_seconds=float(steps.seconds[cold].sum()),
        retrace_seconds=float((steps.trace + steps.compile)[~cold].sum()),
        wait_seconds=float(steps.wait[~cold].sum()),
        host_seconds=float(steps.host[~cold].sum()),
        device_seconds=float(steps.device[~cold].sum()),
        steady_mean_seconds=float(seconds.mean()),
        steady_std_seconds=float(seconds.std()),
        steady_median_seconds=float(np.median(seconds)),
        step_cv=robust_spread(seconds),
    )


def _verdict(facts: Facts, findings: list[Finding], split: TimeSplit) -> tuple[str, str]:
    diseases = {finding.issue: finding for finding in reversed(findings)}
    gains = {finding.issue: finding.gain_seconds for finding in findings}
    retracing = [finding for finding in findings if finding.issue in _RETRACING]
    total = max(facts.total_seconds, 1e-9)
    if Issue.EAGER_BY_MISTAKE in diseases:
        return "eager", f"eager: {diseases[Issue.EAGER_BY_MISTAKE].what}"
    retrace_gain = sum(finding.gain_seconds for finding in retracing)
    recompile_gain = gains.get(Issue.XLA_RECOMPILE, 0.0)
    wait = gains.get(Issue.INPUT_BOUND, 0.0)
    idle = split.host_seconds if Issue.DEVICE_IDLE in diseases else 0.0
    largest = max(retrace_gain, recompile_gain, wait, idle)
    if largest <= 0 and not retracing:
        return "compute-bound", _compute_bound(facts, findings, split)
    if retracing and largest == retrace_gain:
        code = next(code for code in facts.codes if code.causes or code.repeated_moments)
        return "retracing", (
            f"retracing: {code.traces} traces of '{code.name}' in {code.calls} calls, {percent(retrace_gain / total)} of the time"
        )
    if largest == recompile_gain:
        code = max(facts.codes, key=lambda code: code.recompiled_seconds)
        shapes = len(set(facts.steps.batch[facts.steps.batch >= 0].tolist()))
        what = f"{shapes} shapes" if shapes > 2 else f"{code.compilations} compilations of '{code.name}'"
        return "recompiling", f"recompiling: {what}, {percent(recompile_gain / total)} of the time in XLA again"
    if largest == wait:
        slowest = facts.pipelines[0].slowest if facts.pipelines else None
        stage = f", slowest stage {slowest.name}" if slowest is not None else ""
        fraction = wait / max(split.steady_seconds, 1e-9)
        return "input-bound", f"input-bound: {percent(fraction)} of the time waiting{stage}"
    fraction = facts.steady_fraction(facts.steps.host)
    location = diseases[Issue.DEVICE_IDLE].location
    return (
        "host-bound",
        f"host-bound: {percent(fraction)} of the time in Python between the steps, mostly at {location}",
    )


def _compute_bound(facts: Facts, findings: list[Finding], split: TimeSplit) -> str:
    text = f"compute-bound: nothing to gain from the loader ({percent(facts.wait_fraction)} of the time waiting, "
    text += f"{percent(facts.steady_fraction(facts.steps.host))} in Python)"
    return text + (f"; but {findings[0].what}" if findings else "")


def _function_lines(codes: list[TracedCode]) -> list[FunctionLine]:
    lines = []
    for code in codes[:20]:
        causes = [f"{cause.kind} of {', '.join(list(cause.arguments)[:3])}" if cause.arguments else "unseen"
                  for cause in code.causes.values()]  # fmt: skip
        if code.repeated_moments:
            causes.append(f"{code.traced_functions} functions made from it")
        if code.recompiled_moments:
            causes.append(f"XLA again {len(code.recompiled_moments)} times")
        location = code.definition if code.is_user else code.creation
        seconds = code.trace_seconds + code.compile_seconds
        lines.append(
            FunctionLine(code.name, str(location), code.calls, code.traces, code.compilations, seconds, tuple(causes))
        )
    return lines


def _stage_lines(facts: Facts) -> list[StageLine]:
    return [
        StageLine(time.name, str(time.stage.location), time.seconds_per_batch, time.runs_parallel, time.stage.python)
        for pipeline in facts.pipelines
        for time in pipeline.times
        if time.stage.is_users or time.stage.python
    ]


def _notes(recording: Recording, facts: Facts | None) -> tuple[str, ...]:
    notes = []
    if recording.counters_missing:
        notes.append(f"{recording.counters_missing} XLA compilations and waiting inside graphs were not seen.")
    if recording.no_gpu_reason:
        notes.append(f"{recording.no_gpu_reason} Busy is the time measured around the steps.")
    if facts is None:
        return tuple(notes)
    for code in facts.codes:
        for cause in code.causes.values():
            if not facts.is_ongoing(cause.moments, code.calls):
                notes.append(
                    f"'{code.name}' was traced {len(cause.moments) + 1} times ({cause.kind}), then reused: a closed set, as "
                    f"with buckets or a last, smaller batch ({duration(cause.seconds)})."
                )
    for pipeline in facts.pipelines:
        if pipeline.stages and not pipeline.has_model and any(stage.is_users for stage in pipeline.stages):
            notes.append(
                "TensorFlow kept no model of the pipeline (autotune off, or too few batches): stages are not timed."
            )
    return tuple(dict.fromkeys(notes))


def _timeline(steps: StepTable) -> dict[str, list[float]]:
    chosen = np.unique(np.linspace(0, len(steps) - 1, min(len(steps), _TIMELINE_POINTS)).astype(int))
    parts = {"wait": steps.wait, "host": steps.host, "device": steps.device, "compile": steps.trace + steps.compile}
    line = {name: [round(float(value), 6) for value in values[chosen]] for name, values in parts.items()}
    return {"step": [int(step) + 1 for step in chosen], "cold": [int(steps.is_cold[step]) for step in chosen], **line}


def _machine(recording: Recording) -> dict[str, list[float]]:
    samples = recording.machine_samples
    if not samples:
        return {}
    start = recording.started_at
    curves = {
        "seconds": [round(time - start, 2) for time, _ in samples],
        "cpu_percent": [sample.cpu_percent for _, sample in samples],
        "process_cpu_percent": [sample.process_cpu_percent for _, sample in samples],
        "rss_mb": [round(sample.process_rss_bytes / 2**20, 1) for _, sample in samples],
        "disk_read_mb_per_second": [round(sample.disk_read_bytes_per_second / 2**20, 2) for _, sample in samples],
    }
    for index in range(len(samples[0][1].gpus)):
        curves[f"gpu{index}_percent"] = [sample.gpus[index].utilization_percent or 0.0 for _, sample in samples]
        curves[f"gpu{index}_memory_mb"] = [sample.gpus[index].memory_used_bytes / 2**20 for _, sample in samples]
        curves[f"gpu{index}_watts"] = [sample.gpus[index].power_watts or 0.0 for _, sample in samples]
    return curves


def report_to_json(report: Report) -> dict[str, Any]:
    """Stable names: verdict, verdict_class, findings (disease, file, line ...), time, functions, stages, ceiling."""
    return {
        "verdict": report.verdict,
        "verdict_class": report.verdict_class,
        "exit_code": report.exit_code,
        "findings": [_finding_to_json(finding) for finding in report.findings],
        "time": asdict(report.split) if report.split is not None else None,
        "functions": [_with_place(asdict(line)) for line in report.functions],
        "stages": [_with_place(asdict(line)) for line in report.stages],
        "batch_signatures": report.batch_signatures,
        "ceiling": asdict(report.ceiling) if report.ceiling is not None else None,
        "notes": list(report.notes),
        "timeline": report.timeline,
        "machine": report.machine,
    }


def _with_place(line: dict[str, Any]) -> dict[str, Any]:
    """The location of a table's line has the key `place` in JSON."""
    return {("place" if name == "location" else name): value for name, value in line.items()}


def _finding_to_json(finding: Finding) -> dict[str, Any]:
    return {
        "disease": str(finding.issue),
        "what": finding.what,
        "evidence": finding.evidence,
        "file": finding.location.file,
        "line": finding.location.line,
        "also": [{"file": location.file, "line": location.line} for location in finding.also],
        "fix": finding.fix,
        "gain_seconds": finding.gain_seconds,
        "gain_share": finding.gain_fraction,
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
                f"{duration(function.seconds):>9}  {function.location}{causes}"
            )
    if report.stages:
        lines += ["", "Input pipeline (time for each batch, all threads together)"]
        for stage in report.stages:
            marks = ", ".join([*stage.python, *(["parallel"] if stage.is_parallel else [])])
            lines.append(
                f"  {stage.name:<28} {duration(stage.seconds_per_batch):>10}  {stage.location}  {marks}".rstrip()
            )
    if report.findings:
        lines += ["", f"{len(report.findings)} finding{'s' if len(report.findings) > 1 else ''}, most to gain first"]
        for index, finding in enumerate(report.findings, 1):
            lines += _finding_lines(index, finding)
    elif report.split is not None:
        lines += ["", "No finding."]
    lines += ["", *(f"Note: {note}" for note in report.notes)] if report.notes else []
    return "\n".join(lines) + "\n"


def _finding_lines(index: int, finding: Finding) -> list[str]:
    also = f"  (see also {', '.join(_short(location) for location in finding.also[:3])})" if finding.also else ""
    return [
        f"{index}. {finding.issue}: {finding.what}",
        f"     where     {_short(finding.location)}{also}",
        f"     evidence  {finding.evidence}",
        f"     fix       {finding.fix}",
        f"     gain      at most {percent(finding.gain_fraction)} of the time ({duration(finding.gain_seconds)})",
    ]


def _short(location: SourceLocation) -> str:
    return f"{short_path(location.file)}:{location.line}" if location.line else "(unknown line)"


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
