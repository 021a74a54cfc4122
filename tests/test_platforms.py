"""Other platforms by construction: the commands work in processes from which the calls that a platform lacks are removed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import soundfile
import yaml

from tests.corpus.tiny_corpus import make_corpus
from tests.training.small_runs import SMALL_NETWORK

ROOT = Path(__file__).resolve().parents[1]
# Python runs a module of this name at its start, in the workers too.
START_MODULE = "sitecustomize.py"
NOT_ON_MACOS = """
import fcntl
import os

for name in ("sched_getaffinity", "sched_setaffinity", "memfd_create", "posix_fadvise", "posix_fallocate", "splice", "sendfile"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("F_SETPIPE_SZ", "F_GETPIPE_SZ"):
    if hasattr(fcntl, name):
        delattr(fcntl, name)
"""
NOT_ON_WINDOWS = f"""{NOT_ON_MACOS}
import signal
import sys

sys.modules.update(fcntl=None, termios=None, grp=None)
del signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2
del os.killpg, os.setsid, os.getpgid, os.getpgrp
"""


@pytest.fixture
def run_without(tmp_path):
    """Run `myxtts` in a process that lacks what a platform lacks."""

    def run(missing: str, *words: str) -> str:
        start = tmp_path / "start"
        start.mkdir(exist_ok=True)
        (start / START_MODULE).write_text(missing, encoding="utf-8")
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(start), str(ROOT)])}
        command = [sys.executable, "-m", "myxtts.cli", *words]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=500)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_preparing_and_training_use_no_call_that_macos_lacks(run_without, tmp_path):
    corpus = tmp_path / "corpus"
    make_corpus(corpus, 8)
    config = {
        "data": {"text_symbols": "graphemes", "num_workers": "auto", "batch_size": 4, "validation_share": 0.2},
        "model": SMALL_NETWORK,
        "training": {"max_steps": 2, "enable_graph_mode": False, "checkpoint_dir": str(tmp_path / "run")},
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    for command in ("prepare", "verify", "stats"):
        run_without(NOT_ON_MACOS, command, str(corpus), "--config", str(tmp_path / "config.yaml"))
    words = ["--config", str(tmp_path / "config.yaml"), "--train-data", str(corpus)]
    run_without(NOT_ON_MACOS, "train", *words)
    assert (tmp_path / "run" / "voice" / "voice.json").is_file()


def test_speaking_uses_no_call_that_windows_lacks(run_without, tmp_path):
    run_without(NOT_ON_WINDOWS, "say", "Good morning.", "-o", str(tmp_path / "morning.wav"))
    assert soundfile.info(str(tmp_path / "morning.wav")).duration > 0.3
