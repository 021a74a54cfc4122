"""The report: a rule that fails costs one note, little gains are notes, and long tables are cut."""

import json

import numpy as np
import pytest

from myxtts.diagnostics.observe import report as reports
from myxtts.diagnostics.observe import verdict as verdicts
from myxtts.diagnostics.observe.account import Account, AccountLine, Part
from myxtts.diagnostics.observe.api import observe
from myxtts.diagnostics.observe.ceiling import measure_ceiling
from myxtts.diagnostics.observe.facts import Facts
from myxtts.diagnostics.observe.hooks import Instrumentation
from myxtts.diagnostics.observe.issues import Issue, percent
from myxtts.diagnostics.observe.recording import Recording
from myxtts.diagnostics.observe.render import MOST_STAGES, report_to_markdown, report_to_text
from myxtts.diagnostics.observe.report import build_report
from myxtts.diagnostics.observe.sampler import MachineLoad
from myxtts.diagnostics.observe.source_lines import SourceLocation
from myxtts.diagnostics.observe.split_steps import cut_steps
from tests.diagnostics.observe.trainings import Trainable, finding, recorded_loop


@pytest.fixture(scope="module")
def recording() -> Recording:
    """A healthy training of 30 steps, with a value fetched in each."""
    training = Trainable()
    watcher = Instrumentation()
    watcher.install()
    for batch in training.dataset():
        float(training.train_step(batch))
    watcher.remove()
    watcher.recording.last_step = None
    return watcher.recording


def test_rule_that_fails_is_one_note_and_the_rest_is_reported(recording, monkeypatch):
    def find_nothing(facts):
        raise OverflowError("int too large to convert to float")
        yield

    monkeypatch.setattr(reports, "RULES", (find_nothing, *reports.RULES))
    report = build_report(recording)
    assert report.split.steps == 30
    assert [note for note in report.notes if "The rule 'find nothing' failed (OverflowError" in note]


def test_finding_that_gains_less_than_one_percent_is_a_note_and_no_exit_code(recording):
    report = build_report(recording)
    small = [one for one in [*report.findings, *report.minor_findings] if one.gain_fraction < 0.01]
    assert small == list(report.minor_findings)
    assert all(one.gain_fraction >= 0.01 for one in report.findings)
    only_notes = reports.Report("compute-bound", "", report.account, minor_findings=report.findings, split=report.split)
    assert only_notes.exit_code == 0


def test_ceiling_that_fails_is_one_line(recording):
    def broken(*args):
        raise RuntimeError("Called a function referencing variables which have been deleted.")

    broken.experimental_get_tracing_count = lambda: 1
    broken._list_all_concrete_functions = list
    recording.last_step = (broken, (), {}, ())
    ceiling = measure_ceiling(recording)
    assert ceiling.step_alone_seconds is None
    assert "RuntimeError: Called a function" in ceiling.step_reason


def test_json_holds_the_account_and_is_what_text_and_markdown_are_made_of(recording):
    content = json.loads(json.dumps(build_report(recording).to_json()))
    assert sum(line["share"] for line in content["account"]) == pytest.approx(1.0)
    text, markdown = report_to_text(content), report_to_markdown(content, "Diagnosis of train.py")
    for line in content["account"]:
        assert line["title"] in text
        assert f"| {line['title']} |" in markdown
    assert markdown.startswith("### Diagnosis of train.py")


def test_at_most_ten_stages_are_printed(recording):
    content = build_report(recording).to_json()
    stage = {"name": "map(f)", "place": "train.py:1", "seconds_per_batch": 0.1, "is_parallel": False, "python": []}
    content["stages"] = [stage] * 25
    text = report_to_text(content)
    assert text.count("map(f)") == MOST_STAGES
    assert "... and 15 more" in text


def test_busy_machine_is_noted(recording):
    recording.machine_load = MachineLoad(others=0.8, steal=0.1, load_average=4.0)
    assert any("The machine was busy: other processes used 80 %" in note for note in build_report(recording).notes)
    recording.machine_load = MachineLoad(others=0.05, steal=0.0, load_average=1.0)
    assert not any("busy" in note.split(".")[0] for note in build_report(recording).notes)


@pytest.mark.parametrize(("others", "verdict"), [(0.8, "compute-bound"), (0.0, "mixed")])
def test_threads_that_start_late_decide_no_verdict_on_a_busy_machine(others, verdict):
    seconds = {Part.DEVICE: 2.0, Part.PYTHON: 0.5, Part.EPOCH_STARTS: 2.5, Part.IMPORTS: 5.0}
    account = Account(tuple(AccountLine(part, spent, spent / 10) for part, spent in seconds.items()), 10.0, 0.0)
    recording = Recording(machine_load=MachineLoad(others=others, steal=0.0, load_average=4.0))
    moments = np.arange(4.0)
    steps = cut_steps(Recording(marked_steps=list(zip(moments, moments + 0.5, strict=True))))
    assert verdicts._verdict_without_gain(Facts(recording, steps, account), [])[0] == verdict


def test_on_a_busy_machine_the_faster_steps_say_how_long_a_part_takes():
    moments = np.arange(10.0)
    steps = cut_steps(Recording(marked_steps=[(start, start + 0.1) for start in moments]))
    seconds = np.array([9.0, 2, 2, 9, 9, 9, 9, 9, 9, 9])
    for others, typical in ((0.8, 2.0), (0.0, 9.0)):
        recording = Recording(machine_load=MachineLoad(others=others, steal=0.0, load_average=4.0))
        assert Facts(recording, steps).typical(seconds) == typical


@pytest.mark.parametrize("others", [0.0, 0.9])
@pytest.mark.parametrize(
    ("issue", "parts"), [(Issue.DEVICE_IDLE, {"python": 0.01}), (Issue.INPUT_BOUND, {"wait": 0.01})]
)
def test_verdict_and_finding_state_the_same_fraction(issue, parts, others):
    seconds = [parts.get("python", 0.0) * (1 + step % 3 + 5 * (step % 11 == 0)) for step in range(60)]
    report = build_report(recorded_loop(seconds, wait=parts.get("wait", 0.0), others=others))
    found = finding(report, issue)
    fraction = percent(found.gain_fraction)
    assert report.verdict_class == verdicts.VERDICTS[issue]
    assert f"{fraction} of the time" in report.verdict
    assert f"{fraction} of the time" in found.what


def test_python_between_the_steps_gains_no_more_than_the_account_has():
    seconds = [0.001] * 20 + [0.004] * 40
    report = build_report(recorded_loop(seconds, device=0.002, others=0.9))
    found = finding(report, Issue.DEVICE_IDLE)
    assert found.gain_seconds <= report.account.seconds(Part.PYTHON)
    faster = build_report(recorded_loop([0.001] * 60, device=0.002, others=0.9))
    assert found.gain_fraction >= finding(faster, Issue.DEVICE_IDLE).gain_fraction


def test_failed_hook_does_not_break_the_observation():
    from myxtts.diagnostics.observe.hooks import PatchSet

    recording = Recording()
    PatchSet(recording).replace(json, "not_there", lambda original: original)
    assert recording.failed_hooks == ["json.not_there"]
    with observe() as observation:
        pass
    assert observation.report.exit_code == 2


@pytest.mark.parametrize("part", ["decide_verdict", "_notes", "_function_lines", "_stage_lines"])
def test_part_that_fails_is_one_note_and_the_rest_is_reported(recording, monkeypatch, part):
    def broken(*_):
        raise KeyError("no such function")

    monkeypatch.setattr(reports, part, broken)
    report = build_report(recording)
    assert report.split.steps == 30
    assert [note for note in report.notes if "failed (KeyError: 'no such function')" in note]


def test_line_is_named_once_however_it_was_found(recording):
    facts = Facts(recording, cut_steps(recording))
    named, other = SourceLocation("a.py", 3, "f"), SourceLocation("a.py", 4)
    also = (SourceLocation("a.py", 3, "<module>"), other, SourceLocation("a.py", 4, "g"), SourceLocation("", 0))
    assert len(facts.finding(Issue.HOST_SYNC, "", "", named, "", 1.0, also=also).also) == 1


@pytest.mark.parametrize(("fraction", "verdict"), [(0.12, "input-bound"), (0.02, "compute-bound")])
def test_verdict_does_not_deny_what_a_finding_says_of_the_loader(recording, fraction, verdict):
    facts = Facts(recording, cut_steps(recording))
    place, seconds = SourceLocation("a.py", 3), fraction * facts.training_seconds
    found = facts.finding(Issue.FROM_GENERATOR, "a generator", "", place, "", seconds)
    assert verdicts.decide_verdict(facts, [found])[0] == verdict
