"""Loading is no bottleneck: no Python in the graph of the real loader, and the diagnosis finds it there when it is.

`python tests/test_gpu_bottleneck_fix.py` prints what was checked; pytest runs the same tests.
"""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as a script, Python searches the folder tests/ only

from tests.check_script import run_as_script, tensorflow_lines
from tests.training.small_runs import small_config

ROOT = Path(__file__).resolve().parents[1]
FOUND = "tf.numpy_function found in data pipeline!"


def python_in(dataset):
    from myxtts.diagnostics.observe.pipeline import describe_dataset

    return sorted({kind for stage in describe_dataset(dataset, {}, {}) for kind in stage.python})


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"preprocessing_mode": "precompute"}, []),
        ({"preprocessing_mode": "runtime"}, []),
        ({"use_tf_native_loading": False}, ["numpy_function"]),
    ],
    ids=["from the cache", "decoded while training", "by Python"],
)
def test_python_is_in_the_graph_of_the_python_loader_only(tone_corpus, settings, expected, record_property):
    from myxtts.data.ljspeech import LJSpeechDataset

    data = small_config(tone_corpus, tone_corpus, {"plan": "fixed"} | settings).data
    found = python_in(LJSpeechDataset(config=data).create_tf_dataset())
    record_property("found in the graph", str(found or "no Python"))
    assert found == expected


def test_native_batches_call_no_python_for_a_clip(tone_corpus, monkeypatch, record_property):
    from myxtts.batches import on_the_fly
    from myxtts.data.ljspeech import LJSpeechDataset

    calls, load_clip = [], on_the_fly.load_clip
    monkeypatch.setattr(on_the_fly, "load_clip", lambda path, *rest: calls.append(path) or load_clip(path, *rest))
    counts = {}
    for is_native in (True, False):
        calls.clear()
        data = small_config(tone_corpus, tone_corpus, {"plan": "fixed", "use_tf_native_loading": is_native}).data
        clips = sum(
            int((lengths.numpy() > 0).sum()) for *_, lengths in LJSpeechDataset(config=data).create_tf_dataset(epochs=3)
        )
        counts[is_native] = len(calls)
    record_property(
        "clips decoded by Python in 3 epochs", f"{counts[True]} native, {counts[False]} by the Python loader"
    )
    assert counts == {True: 0, False: clips}


def test_the_graph_decides_and_not_the_source_text(record_property):
    import tensorflow as tf

    def mentions_numpy_function(value):
        return value + tf.constant(len("tf.numpy_function"), tf.int64)

    def calls_python(value):
        return tf.py_function(lambda number: number + 1, [value], tf.int64)

    numbers = tf.data.Dataset.range(3)
    assert python_in(numbers.map(mentions_numpy_function)) == []
    assert python_in(numbers.interleave(lambda value: tf.data.Dataset.from_tensors(value).map(calls_python))) == [
        "py_function"
    ]


def test_the_diagnosis_names_the_python_loader_and_the_fix(tone_corpus, record_property):
    from myxtts.diagnostics.trainer_diagnosis import diagnose_bottleneck

    data = {"plan": "fixed", "use_tf_native_loading": False}
    diagnosis = diagnose_bottleneck(small_config(tone_corpus, tone_corpus, data), 6)
    (line,) = (line for line in diagnosis.lines() if FOUND in line)
    record_property("reported", line)
    assert "Fix: data.use_tf_native_loading: true" in line
    assert diagnosis.exit_code == 1


def test_the_diagnosis_of_native_loading_times_it_and_finds_no_python(tone_corpus, tmp_path, record_property):
    from myxtts.config.load import config_to_dict

    config = config_to_dict(small_config(tone_corpus, tmp_path))
    (tmp_path / "native.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    command = [sys.executable, str(ROOT / "utilities" / "diagnose_gpu_bottleneck.py")]
    command += ["--config", str(tmp_path / "native.yaml"), "--batch-size", "3", "--num-batches", "6"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 1), done.stderr  # 1: on a busy machine such small steps may wait for their data
    (loader,) = (line for line in done.stdout.splitlines() if line.startswith("Loader alone: "))
    record_property("diagnose_gpu_bottleneck.py", loader)
    assert "numpy_function" not in done.stdout
    assert tensorflow_lines(done.stderr) == []


if __name__ == "__main__":
    sys.exit(run_as_script(__file__))
