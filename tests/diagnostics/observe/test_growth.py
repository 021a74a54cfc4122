"""Memory and graphs that grow with every step: what is kept, the line that keeps it, and what only fills."""

import sys
from collections import deque

import numpy as np
import pytest
import tensorflow as tf

from myxtts.diagnostics.observe.api import observe
from myxtts.diagnostics.observe.growth import LineFollower, bytes_of, largest_growth
from myxtts.diagnostics.observe.issues import Issue
from myxtts.diagnostics.observe.recording import KeptEntries
from myxtts.diagnostics.observe.report import build_report
from myxtts.diagnostics.observe.rules_host import growth_until_the_end
from myxtts.diagnostics.observe.script import run_script
from tests.diagnostics.observe.trainings import STEP_OF_A_SCRIPT, Trainable, finding, issues_in, line_of

MEGABYTE = 2**20
KEEPING = (
    "import time\nimport numpy as np\n"
    + STEP_OF_A_SCRIPT
    + """
kept = CONTAINER
for step in range(200):
    loss = train_step(tf.ones((8, 64)))
    batch = np.full((512, 1024), float(step), np.float32)
    KEEP
    tf.reduce_mean(batch[:64])
    time.sleep(0.01)
print(len(kept))
"""
)


@pytest.mark.parametrize(
    ("container", "keep"),
    [("[]", "kept.append((step, batch))"), ("{}", "kept[step] = batch"), ("[]", "kept += [batch]")],
)
def test_what_is_kept_of_every_step_is_named_at_its_line(tmp_path, container, keep):
    script = tmp_path / "train.py"
    script.write_text(KEEPING.replace("CONTAINER", container).replace("KEEP", keep))
    run = run_script(script, measure_ceiling=False)
    assert run.report is not None
    found = next(one for one in run.report["findings"] if one["disease"] == "growing-memory")
    assert found["source"] == keep
    assert found["effect"].startswith("memory: ")
    assert "kept" in found["fix"]
    assert run.exit_code == 1
    compile(found["fix"], "fix", "exec")


def test_growth_must_reach_the_end():
    growing = [(step, step * MEGABYTE) for step in range(100)]
    full_at_half = [(step, min(step, 50) * MEGABYTE) for step in range(100)]
    stable = [(step, 500 * MEGABYTE + step) for step in range(100)]
    assert growth_until_the_end(growing) == (99 * MEGABYTE, 99)
    assert growth_until_the_end(full_at_half) is None
    assert growth_until_the_end(stable) is None
    assert growth_until_the_end([]) is None


def test_container_that_explains_the_growth_is_found_among_others():
    arrays, numbers, bounded = (
        [np.zeros(MEGABYTE, np.uint8)] * 20,
        list(range(1000)),
        deque([b"x" * MEGABYTE] * 20, maxlen=50),
    )
    before = {id(arrays): 10, id(numbers): 10, id(bounded): 10}
    found = largest_growth([arrays, numbers, bounded], before, steps=10, grown_bytes=12 * MEGABYTE)
    assert found is not None
    assert found[0] is arrays
    assert found[1] == pytest.approx(10 * MEGABYTE)
    assert largest_growth([numbers], before, steps=10, grown_bytes=12 * MEGABYTE) is None


def test_size_counts_tensors_arrays_and_what_holds_them():
    assert bytes_of(tf.zeros((10, 10))) == 400
    assert bytes_of({"batch": (np.zeros(10), [tf.zeros(5)], "text")}) == 80 + 20 + 4


def test_follower_names_the_line_of_a_helper_and_of_its_caller():
    kept = [0]

    def helper():
        return 1

    def loop():
        follower.start(sys._getframe())
        kept.append(helper())
        follower.stop()

    follower = LineFollower(kept, step=0)
    previous = sys.gettrace()
    sys.settrace(None)
    try:
        loop()
    finally:
        sys.settrace(previous)
    assert follower.location.line == line_of(loop, "kept.append")


def test_memory_that_grows_without_a_container_that_explains_it_is_no_finding():
    training = Trainable()
    with observe() as observation:
        for batch in training.dataset():
            training.train_step(batch)
    recording = observation._recording
    recording.memory_samples = [(step, step * 100 * MEGABYTE) for step in range(30)]
    assert "growing-memory" not in issues_in(build_report(recording))
    recording.kept_entries = KeptEntries("list", 10, 10, 5.0 * MEGABYTE, 10 * MEGABYTE)
    assert finding(build_report(recording), Issue.GROWING_MEMORY).gain_seconds == 0.0


def test_watching_that_fails_is_a_note_and_no_error_of_the_script(monkeypatch):
    def broken():
        raise ValueError("no such file")

    monkeypatch.setattr("myxtts.diagnostics.observe.growth.resident_bytes", broken)
    training = Trainable()
    with observe() as observation:
        for batch in training.dataset():
            training.train_step(batch)
    assert "The memory was not watched (ValueError: no such file)." in observation.report.notes


def session_loop(adds_operations: bool) -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        weights = tf.compat.v1.get_variable("weights", (8, 8))
        value = tf.compat.v1.placeholder(tf.float32, (8, 8))
        update = weights.assign(value).op
        session.run(tf.compat.v1.global_variables_initializer())
        for _ in range(30):
            if adds_operations:
                session.run(weights + 1.0)
            session.run(update, feed_dict={value: np.ones((8, 8), np.float32)})


def test_operations_made_between_the_runs_of_a_session_are_named_at_their_line():
    with observe() as observation:
        session_loop(adds_operations=True)
    found = finding(observation.report, Issue.GROWING_GRAPH)
    assert found.location.line == line_of(session_loop, "session.run(weights + 1.0)")
    assert observation.report.exit_code == 1


def test_runs_of_a_session_with_a_finished_graph_are_steps():
    with observe() as observation:
        session_loop(adds_operations=False)
    assert "growing-graph" not in issues_in(observation.report)
    assert observation.report.split is not None
    assert observation.report.split.steps == 30
