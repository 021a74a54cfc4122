"""The result of a diagnosis: a verdict, the account of the whole run, and findings in order of gain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

import numpy as np

from myxtts.diagnostics.observe.account import ONCE, TITLES, Account, account_for, evaluations_in_training
from myxtts.diagnostics.observe.ceiling import Ceiling
from myxtts.diagnostics.observe.facts import Facts
from myxtts.diagnostics.observe.issues import Finding, Issue, duration, percent
from myxtts.diagnostics.observe.recording import MOST_RECORDS, Recording
from myxtts.diagnostics.observe.render import report_to_text
from myxtts.diagnostics.observe.rules_compilation import describe_own_trainings, find_compilation_problems
from myxtts.diagnostics.observe.rules_host import (
    find_eager_steps,
    find_growing_graphs,
    find_growing_memory,
    find_host_syncs,
    find_idle_device,
    find_stalls,
)
from myxtts.diagnostics.observe.rules_input import find_hidden_waiting, find_input_problems
from myxtts.diagnostics.observe.rules_run import (
    LARGE_FRACTION,
    find_predict_in_loop,
    find_python_between_steps,
    find_python_in_step,
    find_slow_callbacks,
    find_slow_checkpoints,
    find_slow_epoch_starts,
    find_slow_validation,
    small_evaluations,
)
from myxtts.diagnostics.observe.sampler import MachineLoad
from myxtts.diagnostics.observe.source_lines import SourceLocation, source_text
from myxtts.diagnostics.observe.split_steps import StepTable, cut_steps, own_time
from myxtts.diagnostics.observe.traced_code import TracedCode, explain_traces
from myxtts.diagnostics.observe.verdict import decide_verdict, why_no_steps
from myxtts.runtime.timers import robust_spread

EXIT_FINE, EXIT_PROBLEM, EXIT_NOT_MEASURED = 0, 1, 2
SMALLEST_GAIN = 0.01
"""What could gain less is a note: it is no reason to change a script, nor for an exit code."""
RULES: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    find_compilation_problems,
    find_eager_steps,
    find_host_syncs,
    find_stalls,
    find_idle_device,
    find_input_problems,
    find_hidden_waiting,
    find_python_in_step,
    find_slow_epoch_starts,
    find_predict_in_loop,
    find_slow_validation,
    find_slow_callbacks,
    find_slow_checkpoints,
    find_python_between_steps,
    find_growing_memory,
    find_growing_graphs,
)
_NAMED_CAUSES = (Issue.PREDICT_IN_LOOP, Issue.SLOW_CALLBACK, Issue.SLOW_CHECKPOINT, Issue.SLOW_EPOCH_START)
_TIMELINE_POINTS = 2000
_T = TypeVar("_T")


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
class OwnCost:
    """What the observation took. No other time of the report contains the first two; they are a line of the account."""

    hooks_seconds: float
    samples_seconds: float
    """Time of the samples that were taken while the training thread ran Python."""
    sampler_processor_seconds: float
    """Processor time of all samples; an idle core takes them while the training runs on the others."""


@dataclass(frozen=True)
class Report:
    """Everything that a diagnosis found."""

    verdict_class: str
    """retracing | recompiling | eager | input-bound | host-bound | epoch-bound | validation-bound | compute-bound | mixed |
    not measured"""
    verdict: str
    """One line."""
    account: Account
    findings: tuple[Finding, ...] = ()
    minor_findings: tuple[Finding, ...] = ()
    """Findings that could gain less than 1 %: shown as notes."""
    split: TimeSplit | None = None
    functions: tuple[FunctionLine, ...] = ()
    stages: tuple[StageLine, ...] = ()
    batch_signatures: int = 0
    ceiling: Ceiling | None = None
    load: MachineLoad | None = None
    own_cost: OwnCost | None = None
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
        """Plain data with stable names: verdict, verdict_class, account, findings (disease, file, line ...), time ..."""
        return {
            "verdict": self.verdict,
            "verdict_class": self.verdict_class,
            "exit_code": self.exit_code,
            "run_seconds": self.account.total_seconds,
            "training_seconds": self.account.training_seconds,
            "unaccounted_share": self.account.unaccounted_seconds / max(self.account.total_seconds, 1e-9),
            "account": [
                {
                    "part": str(line.part),
                    "title": TITLES[line.part],
                    "seconds": line.seconds,
                    "share": line.fraction,
                    "once": line.part in ONCE,
                    **_location_to_json(line.location),
                }
                for line in self.account.lines
            ],
            "findings": [_finding_to_json(finding) for finding in self.findings],
            "minor_findings": [_finding_to_json(finding) for finding in self.minor_findings],
            "time": asdict(self.split) if self.split is not None else None,
            "functions": [_with_place(asdict(line)) for line in self.functions],
            "stages": [_with_place(asdict(line)) for line in self.stages],
            "batch_signatures": self.batch_signatures,
            "ceiling": asdict(self.ceiling) if self.ceiling is not None else None,
            "load": asdict(self.load) if self.load is not None else None,
            "own_cost": asdict(self.own_cost) if self.own_cost is not None else None,
            "notes": list(self.notes),
            "timeline": self.timeline,
            "machine": self.machine,
        }

    def to_text(self) -> str:
        """The report for a terminal."""
        return report_to_text(self.to_json())


def build_report(recording: Recording, ceiling: Ceiling | None = None) -> Report:
    """Make the report of a recording. A rule that fails costs its own findings only."""
    steps = cut_steps(recording)
    account = account_for(recording, steps)
    if steps is None:
        return Report(
            "not measured",
            f"could not measure: {why_no_steps(recording)}",
            account,
            functions=tuple(_function_lines(explain_traces(recording))),
            load=recording.machine_load,
            notes=_notes(recording, None),
        )
    facts = Facts(recording, steps, account, ceiling)
    own_cost = measure_own_cost(recording)
    findings, failures = collect_findings(facts)
    findings = sorted(without_repeats(findings), key=lambda finding: -finding.gain_seconds)
    major = [finding for finding in findings if finding.gain_fraction >= SMALLEST_GAIN or finding.effect]
    minor = [finding for finding in findings if finding not in major]
    no_verdict = ("mixed", f"no verdict; {len(major)} findings, and the account of the whole run")
    verdict_class, verdict = _guarded("verdict", lambda: decide_verdict(facts, major), no_verdict, failures)
    notes = _guarded("notes", lambda: _notes(recording, facts), (), failures)
    return Report(
        verdict_class,
        verdict,
        account,
        findings=tuple(major),
        minor_findings=tuple(minor),
        split=split_time(steps),
        functions=_guarded("traced functions", lambda: tuple(_function_lines(facts.codes)), (), failures),
        stages=_guarded("stages", lambda: tuple(_stage_lines(facts)), (), failures),
        batch_signatures=len(set(steps.batch[steps.batch >= 0].tolist())),
        ceiling=ceiling,
        load=recording.machine_load,
        own_cost=own_cost,
        timeline=_timeline(steps),
        machine=_machine(recording),
        notes=(*notes, *_own_cost_note(own_cost), *failures),
    )


def _guarded(name: str, make: Callable[[], _T], otherwise: _T, failures: list[str]) -> _T:
    """A part of the report; if it fails, one sentence more, and the others still hold."""
    try:
        return make()
    except Exception as error:
        failures.append(f"The part '{name}' failed ({type(error).__name__}: {error}).")
        return otherwise


def collect_findings(facts: Facts) -> tuple[list[Finding], list[str]]:
    """The findings of all rules, and one sentence for each rule that failed."""
    findings, failures = [], []
    for rule in RULES:
        try:
            findings += list(rule(facts))
        except Exception as error:  # whatever a rule met, the other rules and the account still hold
            name = rule.__name__.replace("_", " ")
            failures.append(f"The rule '{name}' failed ({type(error).__name__}: {error}); its findings are missing.")
    return findings, failures


def without_repeats(findings: list[Finding]) -> list[Finding]:
    """One finding per cause: a line with a named cause is not also reported as Python between the steps."""
    named = {finding.location for finding in findings if finding.issue in _NAMED_CAUSES}
    return [
        one for one in findings if one.issue not in (Issue.DEVICE_IDLE, Issue.CYCLIC_STALL) or one.location not in named
    ]


def measure_own_cost(recording: Recording) -> OwnCost:
    """What hooks and samples took of the training thread, and the sampler's thread of the processors."""
    hooks, both = (float(np.diff(own_time(recording, with_samples)).sum()) for with_samples in (False, True))
    return OwnCost(hooks, both - hooks, sum(end - start for start, end in recording.sampler_spans))


def _own_cost_note(cost: OwnCost) -> list[str]:
    taken = cost.hooks_seconds + cost.samples_seconds
    if taken <= 0:
        return []
    return [
        f"This diagnosis took {duration(taken)} of the training thread (hooks {duration(cost.hooks_seconds)}, samples "
        f"{duration(cost.samples_seconds)}), which is not part of the times above; its own thread used "
        f"{duration(cost.sampler_processor_seconds)} of processor time."
    ]


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
        host_seconds=float((steps.host + steps.graph_python)[~cold].sum()),
        device_seconds=float(steps.device[~cold].sum()),
        steady_mean_seconds=float(seconds.mean()),
        steady_std_seconds=float(seconds.std()),
        steady_median_seconds=float(np.median(seconds)),
        step_cv=robust_spread(seconds),
    )


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
    notes: list[str] = []
    load = recording.machine_load
    if load is not None and load.is_busy:
        stolen = f", {percent(load.steal)} taken by other virtual machines" if load.steal else ""
        notes.append(
            f"The machine was busy: other processes used {percent(load.others or 0.0)} of the processors{stolen}. "
            "Times may be longer than usual."
        )
    if recording.counters_missing:
        notes.append(
            f"{recording.counters_missing.rstrip('.')}. XLA compilations and waiting inside graphs were not seen."
        )
    if recording.no_gpu_reason:
        notes.append(f"{recording.no_gpu_reason} Busy is the time measured around the steps.")
    if recording.failed_hooks:
        names = ", ".join(recording.failed_hooks)
        notes.append(f"Not observed, because this version of TensorFlow or Keras does not have it: {names}.")
    notes += recording.failed_rules
    if recording.counters_missing and recording.fit_steps:
        notes.append("Waiting for data inside Keras' graph counts as device time here; see the ceiling.")
    if recording.steps_limit is not None:
        notes.append(f"Observed until step {recording.steps_limit}, as requested; the script continued unobserved.")
    if len(recording.calls) >= MOST_RECORDS or len(recording.fit_steps) >= MOST_RECORDS:
        notes.append(f"Only the first {MOST_RECORDS:,} steps were recorded.")
    if facts is None:
        return tuple(notes)
    once = small_evaluations(recording, ~evaluations_in_training(recording, facts.steps))
    spent = sum(event.end - event.start for event in once)
    if spent >= LARGE_FRACTION * facts.account.total_seconds:
        notes.append(
            f"Outside of the training Model.{once[0].label} is called {len(once)} times on one or two batches, at "
            f"{once[0].location}: {duration(spent)}, most of it the preparation of each call. One call on all of them, or "
            "the model itself (`model(inputs)`), takes less."
        )
    for code in facts.codes:
        for cause in code.causes.values():
            if not facts.is_ongoing(cause.moments, code.calls, cause.seconds):
                notes.append(
                    f"'{code.name}' was traced {len(cause.moments) + 1} times ({cause.kind}), then reused: a closed set, as "
                    f"with buckets or a last, smaller batch ({duration(cause.seconds)})."
                )
    notes += describe_own_trainings(facts)
    for pipeline in facts.pipelines:
        if pipeline.stages and not pipeline.has_model and any(stage.is_users for stage in pipeline.stages):
            notes.append(
                "TensorFlow kept no model of the pipeline (autotune off, or too few batches): stages are not timed."
            )
    return tuple(dict.fromkeys(notes))


def _timeline(steps: StepTable) -> dict[str, list[float]]:
    chosen = np.unique(np.linspace(0, len(steps) - 1, min(len(steps), _TIMELINE_POINTS)).astype(int))
    host, compiling = steps.host + steps.graph_python, steps.trace + steps.compile
    parts = {"wait": steps.wait, "host": host, "device": steps.device, "compile": compiling}
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


def _with_place(line: dict[str, Any]) -> dict[str, Any]:
    """The location of a table's line has the key `place` in JSON."""
    return {("place" if name == "location" else name): value for name, value in line.items()}


def _location_to_json(location: SourceLocation) -> dict[str, Any]:
    return {"file": location.file, "line": location.line}


def _finding_to_json(finding: Finding) -> dict[str, Any]:
    return {
        "disease": str(finding.issue),
        "what": finding.what,
        "evidence": finding.evidence,
        **_location_to_json(finding.location),
        "source": source_text(finding.location),
        "lines": [_location_to_json(location) for location in finding.locations],
        "also": [_location_to_json(location) for location in finding.also],
        "fix": finding.fix,
        "gain_seconds": finding.gain_seconds,
        "gain_share": finding.gain_fraction,
        "effect": finding.effect,
    }
