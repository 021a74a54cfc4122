"""Worker processes and their pool: every item has one result, whatever happens to pipes and processes."""

import errno
import os
import shutil
import site
import subprocess
import sys
import sysconfig
import time
import venv
from pathlib import Path

import psutil
import pytest

from myxtts.errors import MyXTTSError
from myxtts.runtime import worker_process
from myxtts.runtime.worker_process import child_environment, module_command
from myxtts.runtime.workers import WorkerPool

ROOT = Path(__file__).parents[2]
WORKER = "tests.runtime.text_worker"
TEXTS = [str(index) * (index + 1) for index in range(12)]


def pool_of(workers, module=WORKER, **options):
    return WorkerPool({"scale": 3}, workers, module=module, **options)


def done_indices(pool, texts=TEXTS, chunk=2):
    return sorted(index for index, _, _ in pool.run("length", texts, chunk))


def test_every_item_has_its_result_with_head_and_payload():
    with pool_of(2) as pool:
        results = {index: (head, payload) for index, head, payload in pool.run("length", TEXTS, chunk=2)}
    assert results == {i: ({"length": len(text), "scale": 3}, text.encode()) for i, text in enumerate(TEXTS)}


def test_progress_counts_the_finished_items():
    calls = []
    with pool_of(1) as pool:
        list(pool.run("length", TEXTS[:3], stage="measuring", progress=lambda *call: calls.append(call)))
    assert calls == [("measuring", done, 3) for done in range(4)]


def test_a_job_that_kills_its_worker_is_retried_and_the_others_are_done(tmp_path):
    (tmp_path / "healthy").touch()
    paths = [str(tmp_path / name) for name in ("healthy", "once", "healthy", "healthy")]
    with pool_of(1) as pool:
        results = list(pool.run("die_once", paths, chunk=4))
    assert sorted(index for index, _, _ in results) == [0, 1, 2, 3]
    assert all(head == {"survived": True} for _, head, _ in results)


def test_a_transient_failure_is_retried_once(tmp_path):
    with pool_of(2) as pool:
        (result,) = pool.run("fail_once", [str(tmp_path / "file")])
    assert result == (0, {"transient": False}, b"")


def test_a_job_that_always_raises_is_a_crash_with_its_last_line():
    with pool_of(1, crash_result={"failed": True, "transient": True}) as pool:
        results = {index: head for index, head, _ in pool.run("divide", [2, 0])}
    assert results[0] == {"result": 0.5}
    assert results[1] == {
        "failed": True,
        "transient": True,
        "exit_code": 1,
        "stderr": "ZeroDivisionError: division by zero",
    }


def test_closing_in_the_middle_of_a_run_kills_the_workers():
    others = psutil.Process().children()
    with pool_of(2) as pool:
        results = pool.run("nap", [0.0, 0.0, 60.0, 60.0], chunk=1)
        next(results)
        processes = [process for process in psutil.Process().children() if process not in others]
        assert len(processes) == 2
        results.close()
    assert not any(process.is_running() for process in processes)


def test_workers_end_when_their_caller_is_killed():
    code = (
        "import os, time; from myxtts.runtime.workers import WorkerPool\n"
        f"pool = WorkerPool({{'scale': 1}}, 1, module={WORKER!r}); pool.start(1)\n"
        "import psutil; print(psutil.Process().children()[0].pid, flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=child_environment(), capture_output=True, text=True)
    worker = int(done.stdout)
    deadline = time.monotonic() + 30
    while psutil.pid_exists(worker) and psutil.Process(worker).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "the worker outlives its caller"
        time.sleep(0.05)


@pytest.mark.skipif(not hasattr(worker_process.fcntl, "F_SETPIPE_SZ"), reason="pipes have a fixed size here")
def test_pipes_that_cannot_be_enlarged_keep_their_size(monkeypatch):
    """An unprivileged user may own 64 pipes of 1 MiB; the request for one more is refused."""
    default = worker_process.fcntl.fcntl

    def refuse(descriptor, command, *value):
        if command == worker_process.fcntl.F_SETPIPE_SZ:
            raise PermissionError(errno.EPERM, "Operation not permitted")
        return default(descriptor, command, *value)

    monkeypatch.setattr(worker_process.fcntl, "fcntl", refuse)
    with pool_of(2) as pool:
        assert done_indices(pool) == list(range(12))


def test_requests_larger_than_a_small_pipe_do_not_block(monkeypatch):
    """Linux gives a user who owns many pipes new ones of two pages: sending while results are due would block both sides."""
    default = worker_process._enlarge_pipe
    monkeypatch.setattr(worker_process, "PIPE_BYTES", 4096)
    monkeypatch.setattr(worker_process, "_pipe_bytes", lambda descriptor: default(descriptor) or 4096)
    with pool_of(1) as pool:
        assert done_indices(pool, [text * 2000 for text in TEXTS], chunk=4) == list(range(12))


def test_no_more_workers_are_started_than_there_are_requests():
    with pool_of(2) as pool:
        done_indices(pool, TEXTS[:2], chunk=2)
        assert len(pool._workers) == 1
        done_indices(pool, TEXTS, chunk=2)
        assert len(pool._workers) == 2


def test_a_worker_that_cannot_start_is_reported_with_its_last_line():
    with (
        pool_of(1, "tests.runtime.no_such_module") as pool,
        pytest.raises(MyXTTSError, match=r"could not start: .*no_such_module"),
    ):
        done_indices(pool)


@pytest.mark.parametrize(
    ("call", "advice"), [("tempfile.TemporaryFile", "TMPDIR=FOLDER"), ("subprocess.Popen", "--num-workers")]
)
def test_a_machine_without_room_for_a_worker_is_one_line_with_advice(monkeypatch, call, advice):
    def refuse(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(f"myxtts.runtime.worker_process.{call}", refuse)
    with pool_of(1) as pool, pytest.raises(MyXTTSError, match=advice):
        done_indices(pool)


def test_a_module_runs_from_any_folder_with_this_package(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["/elsewhere", str(ROOT)]))
    environment = child_environment()
    assert environment["PYTHONPATH"].split(os.pathsep) == [str(ROOT), "/elsewhere"]
    (tmp_path / "json.py").write_text("raise SystemExit('a file of the user was imported')")
    command = module_command("myxtts.cli", "--version")
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout[:7]) == (0, "myxtts ")


def test_workers_start_where_site_packages_has_a_module_named_as_one_of_the_standard_library(tmp_path):
    """As resemblyzer's obsolete typing.py, in a normal installation: there the package is in site-packages itself."""
    venv.create(tmp_path / "venv", symlinks=True)
    base = {"base": str(tmp_path / "venv")}
    python = Path(sysconfig.get_path("scripts", "venv", base)) / "python"
    installed = Path(sysconfig.get_path("purelib", "venv", base))
    shutil.copytree(ROOT / "myxtts", installed / "myxtts", ignore=shutil.ignore_patterns("assets", "__pycache__"))
    (installed / "dependencies.pth").write_text("\n".join(site.getsitepackages()))
    (installed / "typing.py").write_text("raise SystemExit('typing.py of site-packages was imported')")
    shutil.copy(ROOT / "tests" / "runtime" / "text_worker.py", tmp_path / "text_worker.py")
    code = (
        "import myxtts; from myxtts.runtime.workers import WorkerPool\n"
        "with WorkerPool({'scale': 1}, 1, module='text_worker') as pool: print(myxtts.__file__, *pool.run('length', ['a']))"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run([python, "-P", "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split(maxsplit=1)[0] == str(installed / "myxtts" / "__init__.py")


@pytest.mark.parametrize("is_of_the_user", [False, True])
def test_a_package_in_site_packages_leaves_the_users_path_as_it_is(tmp_path, monkeypatch, is_of_the_user):
    monkeypatch.setattr(site, "getsitepackages", lambda: [str(tmp_path if is_of_the_user else ROOT)])
    monkeypatch.setattr(site, "getusersitepackages", lambda: str(ROOT))
    monkeypatch.setattr(site, "ENABLE_USER_SITE", is_of_the_user)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["/elsewhere", "/more"]))
    assert child_environment()["PYTHONPATH"].split(os.pathsep) == ["/elsewhere", "/more"]
    monkeypatch.delenv("PYTHONPATH")
    assert "PYTHONPATH" not in child_environment()


def test_another_copy_that_this_process_did_not_import_is_not_imported_by_a_child(tmp_path, monkeypatch):
    (tmp_path / "myxtts").mkdir()
    (tmp_path / "myxtts" / "__init__.py").touch()
    monkeypatch.setattr(site, "getsitepackages", lambda: [str(ROOT)])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), "/elsewhere"]))
    assert child_environment()["PYTHONPATH"] == "/elsewhere"
