"""The pool itself: pipes, numbers of workers, failures to start."""

import errno

import pytest

from myxtts.cache.worker import worker_setup
from myxtts.errors import MyXTTSError
from myxtts.runtime import workers as worker_pool
from myxtts.runtime.workers import WorkerPool
from myxtts.text.tokenizer import build_front_end
from tests.cache.sabotage import sabotage_workers
from tests.corpus.tiny_corpus import make_corpus, tiny_config


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    make_corpus(folder, 12)
    return sorted(str(path) for path in folder.glob("wavs/*.wav"))


def pool_of(workers):
    return WorkerPool(worker_setup(tiny_config(), build_front_end("graphemes")), workers)


def numbers_done(pool, paths, chunk=2):
    return sorted(number for number, head, _ in pool.run("audio", [[path, 16000, None] for path in paths], chunk))


def test_pipes_that_may_not_grow_keep_their_size(paths, monkeypatch):
    """An unprivileged user may own 64 pipes of 1 MiB; asking for one more is refused."""
    usual = worker_pool.fcntl.fcntl

    def refuse(descriptor, command, *value):
        if command == worker_pool.fcntl.F_SETPIPE_SZ:
            raise PermissionError(errno.EPERM, "Operation not permitted")
        return usual(descriptor, command, *value)

    monkeypatch.setattr(worker_pool.fcntl, "fcntl", refuse)
    with pool_of(2) as pool:
        assert numbers_done(pool, paths) == list(range(12))


def test_requests_that_a_small_pipe_cannot_hold_do_not_block(paths, monkeypatch):
    """Linux gives a user who owns many pipes new ones of two pages: asking while answers are due would block both sides."""
    usual = worker_pool._enlarge_pipe
    monkeypatch.setattr(worker_pool, "PIPE_BYTES", 4096)
    monkeypatch.setattr(worker_pool, "_pipe_bytes", lambda descriptor: usual(descriptor) or 4096)
    padded = ["/" * 2000 + path for path in paths]  # repeated slashes name the same file
    with pool_of(1) as pool:
        assert numbers_done(pool, padded, chunk=4) == list(range(12))


def test_no_more_workers_are_started_than_there_are_requests(paths):
    with pool_of(2) as pool:
        numbers_done(pool, paths[:2], chunk=2)
        assert len(pool._workers) == 1
        numbers_done(pool, paths, chunk=2)
        assert len(pool._workers) == 2


def test_a_worker_that_cannot_start_says_why(paths, monkeypatch, tmp_path):
    sabotage_workers(
        monkeypatch, tmp_path / "sabotage", "import os, sys\nprint('no such thing', file=sys.stderr)\nos._exit(3)\n"
    )
    with pool_of(1) as pool, pytest.raises(MyXTTSError, match="no such thing"):
        numbers_done(pool, paths)


@pytest.mark.parametrize(
    ("place", "advice"), [("tempfile.TemporaryFile", "TMPDIR=FOLDER"), ("subprocess.Popen", "--num-workers")]
)
def test_a_machine_without_room_for_a_worker_is_told_in_one_line(paths, monkeypatch, place, advice):
    def refuse(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(f"myxtts.runtime.workers.{place}", refuse)
    with pool_of(1) as pool, pytest.raises(MyXTTSError, match=advice):
        numbers_done(pool, paths)
