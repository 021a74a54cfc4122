"""Several devices and several processes: the losses of one device, and lost workers that are named."""

import json
import os
import signal
import socket
import threading

import pytest
import tensorflow as tf

from myxtts.errors import TrainingError
from myxtts.training.checkpoint import load_checkpoint
from myxtts.training.distributed import Cluster, Rendezvous, connect, lost_worker, named_workers, read_cluster
from tests.corpus.tiny_corpus import make_corpus
from tests.training.child_run import PATIENCE_SECONDS, finish, losses_of, start, wait_for_step

STEPS = 20
DATA = {"batch_size": 12}


def free_addresses(count=2):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    return addresses


def cluster_variable(addresses, number):
    content = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": number}}
    return {"TF_CONFIG": json.dumps(content)}


def start_workers(folder, run, corpus, **training):
    addresses = free_addresses()
    workers = [
        start(
            cluster_variable(addresses, number),
            corpus=str(corpus),
            run=str(run),
            losses=str(folder / f"losses-{number}"),
            data=DATA,
            training=training,
        )
        for number in range(2)
    ]
    return addresses, workers


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    make_corpus(folder, 24)
    return folder


@pytest.fixture(scope="module")
def one_device(corpus, tmp_path_factory):
    """Losses of the run that all others must equal; also fills the cache."""
    folder = tmp_path_factory.mktemp("one")
    run = {"corpus": str(corpus), "run": str(folder / "run"), "losses": str(folder / "losses"), "data": DATA}
    finish(start(**run, training={"max_steps": STEPS, "schedule_steps": STEPS}))
    return losses_of(folder / "losses")


def assert_equal_losses(found, expected):
    assert list(found) == list(expected) == list(range(1, STEPS + 1))
    assert list(found.values()) == pytest.approx(list(expected.values()), rel=1e-4)


def test_two_devices_give_the_losses_of_one(corpus, one_device, tmp_path):
    run = {"corpus": str(corpus), "run": str(tmp_path / "run"), "losses": str(tmp_path / "losses"), "data": DATA}
    text = finish(start(**run, cpus=2, training={"max_steps": STEPS, "validation_interval": 10}))
    assert "2 replicas" in text
    assert "Step 20: validation loss" in text
    assert "RETRACING" not in text
    assert_equal_losses(losses_of(tmp_path / "losses"), one_device)


@pytest.mark.slow
def test_buckets_resume_on_another_number_of_devices_at_the_next_epoch(corpus, tmp_path):
    run = {
        "corpus": str(corpus),
        "run": str(tmp_path / "run"),
        "losses": str(tmp_path / "losses"),
        "data": {"plan": "buckets", "num_buckets": 2, "batch_size": 3},
    }
    finish(start(**run, training={"max_steps": 2}))
    saved = load_checkpoint(tmp_path / "run" / "step-00000002")
    text = finish(start(**run, cpus=2, training={"max_steps": 4}))
    assert "The batch order changed, so training continues from the start of the next epoch." in text
    assert saved.position[1] > 0
    assert load_checkpoint(tmp_path / "run" / "step-00000004").position > (saved.position[0] + 1, 0)
    assert list(losses_of(tmp_path / "losses")) == [1, 2, 3, 4]


def test_two_processes_give_the_losses_of_one_and_only_the_chief_writes(corpus, one_device, tmp_path):
    run = tmp_path / "run"
    _, workers = start_workers(tmp_path, run, corpus, max_steps=STEPS, validation_interval=10)
    texts = [finish(worker) for worker in workers]
    for number, text in enumerate(texts):
        assert "RETRACING" not in text
        assert_equal_losses(losses_of(tmp_path / f"losses-{number}"), one_device)
    assert "written by the chief" in texts[1]
    assert f"step-000000{STEPS}" in {path.name for path in run.iterdir()}
    assert not list((run / "worker-1").glob("*/state.json"))
    steps = [json.loads(line)["step"] for line in (run / "log.jsonl").read_text().splitlines() if '"train"' in line]
    assert steps == list(range(1, STEPS + 1))


@pytest.mark.slow
def test_a_killed_worker_is_named_and_one_device_resumes_from_the_checkpoint(corpus, one_device, tmp_path):
    run = tmp_path / "run"
    more = {"max_steps": STEPS, "schedule_steps": STEPS, "checkpoint_interval": 5}
    addresses, workers = start_workers(tmp_path, run, corpus, **more)
    wait_for_step(tmp_path / "losses-0", 7)
    workers[1].kill()
    text = finish(workers[0], expected_code=2)
    workers[1].communicate()
    assert f"TrainingError: Lost worker 1 at {addresses[1]} after step" in text
    again = {"corpus": str(corpus), "run": str(run), "losses": str(tmp_path / "losses-again"), "data": DATA}
    assert "Resuming at step" in finish(start(**again, training=more))
    assert_equal_losses(losses_of(tmp_path / "losses-0") | losses_of(tmp_path / "losses-again"), one_device)


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_frozen_worker_is_named(corpus, one_device, tmp_path, victim):
    addresses, workers = start_workers(tmp_path, tmp_path / "run", corpus, max_steps=100_000)
    wait_for_step(tmp_path / "losses-0", 3)
    os.kill(workers[victim].pid, signal.SIGSTOP)
    try:
        assert f"at {addresses[victim]} after step" in finish(workers[1 - victim], expected_code=2)
    finally:
        workers[victim].kill()
        workers[victim].communicate()


@pytest.mark.slow
@pytest.mark.parametrize("asked", [0, 1])
def test_a_signal_to_one_worker_ends_all_of_them_at_the_same_step(corpus, one_device, tmp_path, asked):
    run = tmp_path / "run"
    _, workers = start_workers(tmp_path, run, corpus, max_steps=100_000)
    wait_for_step(tmp_path / "losses-0", 3)
    workers[asked].send_signal(signal.SIGTERM)
    for worker in workers:
        assert "interrupted; run the same command again" in finish(worker)
    last = [max(losses_of(tmp_path / f"losses-{number}")) for number in range(2)]
    assert last[0] == last[1]
    assert [path.name for path in run.glob("step-*")] == [f"step-{last[0]:08d}"]


def meet_in_threads(addresses, numbers, seconds):
    missing = {}

    def one(number):
        missing[number] = Rendezvous(addresses, number).missing_after(seconds)

    threads = [threading.Thread(target=one, args=(number,)) for number in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    return missing


def test_workers_that_all_come_meet():
    assert meet_in_threads(free_addresses(3), range(3), PATIENCE_SECONDS) == {0: [], 1: [], 2: []}


def test_a_worker_that_never_comes_is_missed_by_all_others():
    assert meet_in_threads(free_addresses(3), [0, 2], 1.0) == {0: [1], 2: [1]}


def test_another_program_on_the_port_is_no_worker():
    addresses = free_addresses()
    with socket.create_server(("127.0.0.1", int(addresses[1].rpartition(":")[2]))):
        assert meet_in_threads(addresses, [0], 1.0) == {0: [1]}


def test_a_missing_worker_is_named_with_what_to_do():
    addresses = free_addresses()
    with pytest.raises(
        TrainingError,
        match=rf"Timed out after .* s waiting for worker 1 at {addresses[1]} .*Start the same command there",
    ):
        connect(Cluster(tuple(addresses), 0), timeout_seconds=0.5)


def test_a_port_that_is_taken_is_a_clear_error():
    addresses = free_addresses()
    with (
        socket.create_server(("", int(addresses[0].rpartition(":")[2]))),
        pytest.raises(TrainingError, match=rf"The port of worker 0 \(the chief\) at {addresses[0]} cannot be used"),
    ):
        connect(Cluster(tuple(addresses), 0), timeout_seconds=0.5)


TASK = '"task": {"type": "worker", "index": 0}}'


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"cluster": {"worker": ["a:1", "b:2"]}}',
        '{"cluster": {"worker": ["a"]}, ' + TASK,
        '{"cluster": {"worker": []}, ' + TASK,
        '{"cluster": {"worker": ["a:1"], "ps": ["b:2"]}, ' + TASK,
    ],
)
def test_a_wrong_cluster_is_refused_with_an_example(content):
    with pytest.raises(TrainingError, match=r"TF_CONFIG does not describe a cluster.*Expected: \{\"cluster\""):
        read_cluster({"TF_CONFIG": content})


def test_the_chief_is_the_first_address():
    jobs = {"chief": ["a:1"], "worker": ["b:2", "c:3"]}
    found = read_cluster({"TF_CONFIG": json.dumps({"cluster": jobs, "task": {"type": "worker", "index": 1}})})
    assert (found.addresses, found.index, found.is_chief) == (("a:1", "b:2", "c:3"), 2, False)
    assert found.index_of_task("worker", 0) == 1
    assert (
        read_cluster(
            {"TF_CONFIG": json.dumps({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}})}
        )
        is None
    )
    assert read_cluster({}) is None


def test_workers_in_a_message_are_found_without_oneself():
    cluster = Cluster(("a:1", "b:2", "c:3"), 0)
    text = "from /job:worker/replica:0/task:2: /job:worker/task:0 lost /job:worker/replica:0/task:2, /job:worker/task:1"
    assert named_workers(cluster, text) == [2, 1]
    assert named_workers(
        Cluster(("a:1", "b:2"), 1), "Deadline Exceeded RPC: /tensorflow.CoordinationService/Heartbeat"
    ) == [0]


def test_an_error_that_concerns_no_worker_is_not_explained_away():
    with socket.create_server(("127.0.0.1", 0)) as other:
        cluster = Cluster(("127.0.0.1:1", f"127.0.0.1:{other.getsockname()[1]}"), 0)
        assert lost_worker(cluster, tf.errors.InternalError(None, None, "cuDNN is unhappy"), 3) is None
