"""Runs of `prepare` that do not end well, and the runs after them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from myxtts.cache.clip_table import open_cache
from myxtts.cache.prepare import prepare_cache
from myxtts.cache.verify import verify_and_fix_cache
from myxtts.cache.writer import JOURNAL_NAME
from myxtts.errors import CacheError
from tests.cache.full_disk import largest_file
from tests.corpus.tiny_corpus import make_corpus, tiny_config, write_metadata, write_tone

ROOT = str(Path(__file__).parents[2])
KILLED = """
import json, os, signal, sys
import psutil
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.corpus.tiny_corpus import tiny_config
from myxtts.cache.prepare import prepare_cache

def kill_at_five(stage, done, total):
    if stage == "preparing clips" and done == 5:
        Path({note!r}).write_text(json.dumps([child.pid for child in psutil.Process().children()]))
        os.kill(os.getpid(), signal.{signal})

prepare_cache(tiny_config(), {folder!r}, progress=kill_at_five, workers=2)
"""


def prepare_and_be_killed(folder, note, signal_name):
    code = KILLED.format(root=ROOT, note=str(note), folder=str(folder), signal=signal_name)
    return subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, timeout=120)


def all_frames(cache):
    return {clip_id: np.array(cache.clip_frames(clip)) for clip, clip_id in enumerate(cache.ids)}


def test_after_kill_9_the_next_run_continues_and_the_result_is_the_same(tmp_path):
    make_corpus(tmp_path / "killed", 12)
    make_corpus(tmp_path / "whole", 12)
    outcome = prepare_and_be_killed(tmp_path / "killed", tmp_path / "workers.json", "SIGKILL")
    assert outcome.returncode == -signal.SIGKILL, outcome.stderr
    assert not list((tmp_path / "killed").glob(".myxtts/cache/*/cache.json"))
    cache = prepare_cache(tiny_config(), tmp_path / "killed")
    assert cache.report.outcome.recovered >= 4
    assert cache.num_clips == 12
    whole = prepare_cache(tiny_config(), tmp_path / "whole")
    continued, at_once = all_frames(cache), all_frames(whole)
    assert list(continued) == list(at_once)
    for clip_id, frames in continued.items():
        np.testing.assert_array_equal(frames, at_once[clip_id])
    assert cache.symbols == whole.symbols


LONG_CORPUS = 60
TORN_WRITE = """
import os, signal, sys
sys.path.insert(0, {root!r})
from tests.corpus.tiny_corpus import tiny_config
from myxtts.cache.prepare import prepare_cache

write, records = os.write, 0

def torn(descriptor, data):
    global records
    if os.readlink(f"/proc/self/fd/{{descriptor}}").endswith({name!r}):
        records += 1
        if records == {record}:
            write(descriptor, data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
    return write(descriptor, data)

os.write = torn
prepare_cache(tiny_config(), {folder!r}, workers=2)
"""


@pytest.fixture(scope="module")
def long_corpus(tmp_path_factory):
    """A corpus, and its frames after a run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("long") / "corpus"
    make_corpus(folder, LONG_CORPUS)
    frames = all_frames(prepare_cache(tiny_config(), folder, workers=2))
    shutil.rmtree(folder / ".myxtts")
    return folder, frames


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("frames-1.f32", marks=pytest.mark.slow),
        pytest.param("tokens-1.i32", marks=pytest.mark.slow),
        JOURNAL_NAME,
    ],
)
def test_kill_9_in_the_middle_of_a_record_loses_that_record_alone(tmp_path, long_corpus, name):
    folder = shutil.copytree(long_corpus[0], tmp_path / "corpus")
    record = LONG_CORPUS // 2
    code = TORN_WRITE.format(root=ROOT, folder=str(folder), name=name, record=record)
    killed = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, timeout=300)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    cache = prepare_cache(tiny_config(), folder, workers=2)
    # the first write to the frames and to the tokens is the row of zeros
    assert cache.report.outcome.recovered == (record - 1 if name == JOURNAL_NAME else record - 2)
    assert cache.num_clips == LONG_CORPUS
    continued = all_frames(cache)
    assert list(continued) == list(long_corpus[1])
    for clip_id, frames in continued.items():
        np.testing.assert_array_equal(frames, long_corpus[1][clip_id])
    assert verify_and_fix_cache(cache.folder).is_clean
    assert not (cache.folder / JOURNAL_NAME).exists()


def test_workers_end_when_their_parent_is_killed(tmp_path):
    make_corpus(tmp_path / "corpus", 12)
    prepare_and_be_killed(tmp_path / "corpus", tmp_path / "workers.json", "SIGKILL")
    workers = json.loads((tmp_path / "workers.json").read_text())
    assert len(workers) == 2
    deadline = time.monotonic() + 60
    while any(map(psutil.pid_exists, workers)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(psutil.pid_exists, workers))


def test_an_interrupt_stops_cleanly_and_the_next_run_continues(tmp_path):
    make_corpus(tmp_path / "corpus", 12)
    outcome = prepare_and_be_killed(tmp_path / "corpus", tmp_path / "workers.json", "SIGINT")
    assert outcome.returncode == -signal.SIGINT, outcome.stderr
    workers = json.loads((tmp_path / "workers.json").read_text())
    assert not any(map(psutil.pid_exists, workers))
    assert prepare_cache(tiny_config(), tmp_path / "corpus").report.outcome.recovered >= 4


def test_a_first_run_that_was_killed_continues_without_clips_that_were_removed_since(tmp_path):
    folder = tmp_path / "corpus"
    lines = make_corpus(folder, 12)
    prepare_and_be_killed(folder, tmp_path / "workers.json", "SIGKILL")
    # of the 5 finished clips one worker made 4 at most, and the other one begins with the first clip
    write_metadata(folder, dict(list(lines.items())[:1]))
    cache = prepare_cache(tiny_config(), folder)
    assert (cache.num_clips, cache.report.outcome.recovered) == (1, 1)
    assert cache.num_rows == 1 + int(cache.frame_counts.sum())
    assert verify_and_fix_cache(cache.folder).is_clean


def test_the_published_cache_stays_usable_while_an_incremental_run_is_killed(tmp_path):
    folder = tmp_path / "corpus"
    first = make_corpus(folder, 3)
    before = prepare_cache(tiny_config(), folder)
    frames_before = all_frames(before)
    make_corpus(folder, 12, first=3)
    write_metadata(folder, first | {f"clip{number:03d}": "one two" for number in range(3, 15)})
    prepare_and_be_killed(folder, tmp_path / "workers.json", "SIGKILL")
    assert (before.folder / JOURNAL_NAME).exists()
    assert open_cache(before.folder).num_clips == 3
    for clip_id, frames in all_frames(before).items():
        np.testing.assert_array_equal(frames, frames_before[clip_id])
    cache = prepare_cache(tiny_config(), folder)
    assert cache.num_clips == 15
    assert cache.report.outcome.recovered >= 4
    assert cache.report.outcome.added == 12
    assert not (cache.folder / JOURNAL_NAME).exists()


def test_a_full_disk_is_reported_and_the_old_cache_stays_and_the_next_run_continues(tmp_path):
    first = make_corpus(tmp_path, 2)
    before = prepare_cache(tiny_config(), tmp_path)
    make_corpus(tmp_path, 10, first=2)
    write_metadata(tmp_path, first | {f"clip{number:03d}": "one two" for number in range(2, 12)})
    with largest_file(100_000), pytest.raises(CacheError, match="disk is full"):
        prepare_cache(tiny_config(), tmp_path)
    assert open_cache(before.folder).num_clips == 2
    cache = prepare_cache(tiny_config(), tmp_path)
    assert (cache.num_clips, cache.report.outcome.kept) == (12, 2)
    assert cache.report.outcome.recovered > 0


def test_a_file_that_crashes_its_decoder_is_rejected(tmp_path, monkeypatch):
    """A worker that dies on one clip is replaced, and the other clips of its request are done."""
    lines = make_corpus(tmp_path, 6)
    write_tone(tmp_path / "wavs" / "killer.wav")
    write_metadata(tmp_path, {"clip000": lines.pop("clip000"), "killer": "one"} | lines)
    (tmp_path / "deadly").mkdir()
    (tmp_path / "deadly" / "sitecustomize.py").write_text(
        "import os, soundfile\n"
        "opened = soundfile.SoundFile.read\n"
        "def read(self, *args, **kwargs):\n"
        "    if 'killer' in str(self.name):\n"
        "        os.abort()\n"
        "    return opened(self, *args, **kwargs)\n"
        "soundfile.SoundFile.read = read\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "deadly"))
    cache = prepare_cache(tiny_config(), tmp_path)
    assert {rejection.id: rejection.reason for rejection in cache.report.rejections} == {"killer": "decoder crashed"}
    assert cache.num_clips == 6


def test_a_text_that_crashes_the_front_end_is_rejected_alone(tmp_path, monkeypatch):
    lines = make_corpus(tmp_path, 4)
    write_metadata(tmp_path, lines | {"clip002": "deadly"})
    (tmp_path / "deadly").mkdir()
    (tmp_path / "deadly" / "sitecustomize.py").write_text(
        "import os\n"
        "from myxtts.text.tokenizer import FrontEnd\n"
        "usual = FrontEnd.symbols_of\n"
        "def symbols_of(self, texts, language):\n"
        "    if 'deadly' in texts:\n"
        "        os.abort()\n"
        "    return usual(self, texts, language)\n"
        "FrontEnd.symbols_of = symbols_of\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "deadly"))
    cache = prepare_cache(tiny_config(), tmp_path)
    assert [rejection.id for rejection in cache.report.rejections] == ["clip002"]
    assert cache.num_clips == 3


ONE_OF_SEVERAL = """
import sys
sys.path.insert(0, {root!r})
from tests.corpus.tiny_corpus import tiny_config
from myxtts.cache.prepare import prepare_cache
cache = prepare_cache(tiny_config(), {folder!r})
print(cache.num_clips, cache.report.outcome.added)
"""


def test_first_runs_that_start_together_wait_for_each_other(tmp_path):
    make_corpus(tmp_path, 8)
    code = ONE_OF_SEVERAL.format(root=ROOT, folder=str(tmp_path))
    runs = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)
    ]
    outputs = [run.communicate(timeout=300) for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0], outputs
    assert sorted(out.split() for out, _ in outputs) == [[b"8", b"0"], [b"8", b"0"], [b"8", b"8"]]


def test_workers_load_neither_tensorflow_nor_matplotlib():
    code = (
        "import sys, myxtts.cache.worker; "
        "sys.exit(any(name in sys.modules for name in ('tensorflow', 'keras', 'matplotlib')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, env=dict(os.environ)).returncode == 0
