"""The verdict of a report: the class and one line, from the findings or, without any, from the largest part of the run."""

from __future__ import annotations

from myxtts.diagnostics.observe.account import ONCE, TITLES, Part
from myxtts.diagnostics.observe.facts import Facts
from myxtts.diagnostics.observe.issues import Finding, Issue, duration, percent
from myxtts.diagnostics.observe.recording import Recording
from myxtts.diagnostics.observe.source_lines import UNKNOWN
from myxtts.diagnostics.observe.split_steps import FEWEST_STEPS

VERDICTS = {
    Issue.RETRACE_SHAPE: "retracing",
    Issue.RETRACE_DTYPE: "retracing",
    Issue.RETRACE_PYTHON_VALUE: "retracing",
    Issue.RETRACE_NEW_OBJECT: "retracing",
    Issue.FUNCTION_IN_LOOP: "retracing",
    Issue.XLA_RECOMPILE: "recompiling",
    Issue.EAGER_BY_MISTAKE: "eager",
    Issue.INPUT_BOUND: "input-bound",
    Issue.DEVICE_IDLE: "host-bound",
    Issue.PYTHON_IN_STEP: "host-bound",
    Issue.PREDICT_IN_LOOP: "host-bound",
    Issue.SLOW_CALLBACK: "host-bound",
    Issue.SLOW_CHECKPOINT: "host-bound",
    Issue.SLOW_EPOCH_START: "epoch-bound",
    Issue.DATASET_IN_LOOP: "epoch-bound",
    Issue.SLOW_VALIDATION: "validation-bound",
}
"""The class of the verdict that an issue decides if it has the most to gain."""
_LOADER_CAUSES = {
    Issue.NUMPY_FUNCTION, Issue.PY_FUNCTION, Issue.FROM_GENERATOR, Issue.MISSING_PREFETCH, Issue.MISSING_PARALLEL_MAP,
    Issue.MISSING_CACHE, Issue.SLOW_STAGE,
}  # fmt: skip
_LARGE_GAIN = 0.1
"""Gain of a cause in the loader from which the verdict no longer says that the loader has nothing to gain."""


def why_no_steps(recording: Recording) -> str:
    if recording.keras_backend not in (None, "tensorflow"):
        return f"this script runs Keras on {recording.keras_backend}; only TensorFlow trainings can be observed"
    if "torch" in recording.frameworks and not recording.functions and not recording.gradients:
        return "this is a PyTorch script; only TensorFlow and Keras trainings can be observed"
    others = ""
    if recording.child_seconds > 1:
        others = (
            f"; its child processes used {duration(recording.child_seconds)} of processor time: a training there is not "
            "observed, only one in the script's own process"
        )
    begun = max(len(recording.fit_steps), len(recording.train_on_batch), len(recording.gradients))
    if begun or recording.fit_locations:
        return f"the training ended after {begun} steps; at least {FEWEST_STEPS} are needed"
    return f"no training step was seen (no Model.fit, no repeated tf.function, no GradientTape){others}"


def decide_verdict(facts: Facts, findings: list[Finding]) -> tuple[str, str]:
    """The largest avoidable part of the training; if nothing is avoidable, its largest part."""
    gains: dict[str, float] = {}
    for finding in findings:
        kind = _class_of(finding)
        if kind is not None:
            together = kind == "retracing"
            gains[kind] = gains.get(kind, 0.0) + finding.gain_fraction if together else max(
                gains.get(kind, 0.0), finding.gain_fraction
            )  # fmt: skip
    if "eager" in gains:
        return "eager", f"eager: {_first_of(findings, 'eager').what}"
    if not gains:
        return _verdict_without_gain(facts, findings)
    kind = max(gains, key=gains.__getitem__)
    first, fraction = _first_of(findings, kind), percent(min(gains[kind], 1.0))
    if kind == "retracing":
        code = next(code for code in facts.codes if code.causes or code.repeated_moments)
        again = "" if code.is_user else ", because Keras models are built or compiled again"
        return (
            kind,
            f"retracing: {code.traces} traces of '{code.name}' in {code.calls} calls{again}, {fraction} of the time",
        )
    if kind == "recompiling":
        code = max(facts.codes, key=lambda code: code.recompiled_seconds)
        shapes = len(set(facts.steps.batch[facts.steps.batch >= 0].tolist()))
        what = f"{shapes} shapes" if shapes > 2 else f"{code.compilations} compilations of '{code.name}'"
        return kind, f"recompiling: {what}, {fraction} of the time in XLA again"
    if kind == "input-bound":
        slowest = facts.pipelines[0].slowest if facts.pipelines else None
        stage = f", slowest stage {slowest.name}" if slowest is not None else ""
        return kind, f"input-bound: {fraction} of the time waiting{stage}"
    if kind == "epoch-bound":
        return kind, f"epoch-bound: {fraction} of the time starting epochs, mostly at {first.location}"
    if kind == "validation-bound":
        return kind, f"validation-bound: {first.what}"
    if first.issue == Issue.DEVICE_IDLE:
        return kind, f"host-bound: {fraction} of the time in Python between the steps, mostly at {first.location}"
    return kind, f"host-bound: {first.what}"


def _first_of(findings: list[Finding], kind: str) -> Finding:
    return next(finding for finding in findings if _class_of(finding) == kind)


def _class_of(finding: Finding) -> str | None:
    """Where waiting itself is not clear, as on a busy machine, what costs a tenth of the time in the loader decides."""
    if finding.issue in _LOADER_CAUSES and finding.gain_fraction >= _LARGE_GAIN:
        return "input-bound"
    return VERDICTS.get(finding.issue)


def _verdict_without_gain(facts: Facts, findings: list[Finding]) -> tuple[str, str]:
    account = facts.account
    left_out = {Part.RETRACING}  # no rule calls it ongoing: a closed set of shapes, traced once each
    if facts.is_busy:  # no rule finds it clear enough: what waits for threads waits for the other processes as well
        left_out |= {Part.WAITING, Part.EPOCH_STARTS}
    total = max(account.training_seconds - sum(account.seconds(part) for part in left_out), 1e-9)
    useful = sum(account.seconds(part) for part in (Part.DEVICE, Part.VALIDATION, Part.OTHER_FUNCTIONS))
    repeated = max(account.training_seconds - account.seconds(Part.RETRACING), 1e-9)
    waiting, python = (percent(account.seconds(part) / repeated) for part in (Part.WAITING, Part.PYTHON))
    but = f"; but {findings[0].what}" if findings else ""
    parts = [line for line in account.lines if line.part not in ONCE | left_out]
    largest = max(parts, key=lambda line: line.seconds, default=None)
    if largest is None or useful >= 0.5 * total or largest.part in (Part.DEVICE, Part.VALIDATION, Part.OTHER_FUNCTIONS):
        busy = ", while other processes kept the cores busy" if facts.is_busy else ""
        what = (
            f"compute-bound: nothing to gain from the loader ({waiting} of the time waiting, {python} in Python{busy})"
        )
        return "compute-bound", what + but
    at = f" at {largest.location}" if largest.location != UNKNOWN else ""
    what = f"mixed: the largest part is '{TITLES[largest.part]}'{at}, {percent(largest.seconds / repeated)} of the training; "
    return (
        "mixed",
        f"{what}steps of {duration(facts.steady_mean(facts.steps.seconds))} have no single cause to name{but}",
    )
