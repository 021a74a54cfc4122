"""With one fixed input signature, every step of a real training is traced and compiled once.

`python tests/test_retracing_simple.py` prints what was checked; pytest runs the same tests.
"""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as a script, Python searches the folder tests/ only

from tests.check_script import run_as_script, tensorflow_lines
from tests.training.small_runs import quiet_display, small_config

ROOT = Path(__file__).resolve().parents[1]

FIXED = {"pad_to_fixed_length": True, "plan": "fixed", "batch_size": 3}


def test_a_training_with_fixed_shapes_compiles_nothing_after_the_warm_up(tone_corpus, tmp_path, record_property):
    from myxtts.training.trainer import XTTSTrainer

    config = small_config(tone_corpus, tmp_path, FIXED, max_steps=8, validation_interval=4, on_retrace="fail")
    trainer = XTTSTrainer(config, display=quiet_display())
    summary = trainer.train()
    after = summary.counts_after_warmup
    record_property("steps", summary.step)
    record_property("traces after the warm-up", after.traces)
    record_property("XLA compilations after the warm-up", after.compilations)
    record_property("new batch signatures after the warm-up", after.signatures)
    assert (summary.step, after.traces, after.signatures) == (8, 0, 0)
    assert after.compilations in (0, None)  # None: this TensorFlow does not expose the counter
    assert trainer.check_retracing() == ()


@pytest.fixture(scope="module")
def trainer(tone_corpus):
    from myxtts.diagnostics.trainer_diagnosis import trial_trainer

    with trial_trainer(small_config(tone_corpus, tone_corpus, FIXED)) as trainer:
        yield trainer


def test_the_step_of_a_custom_loop_is_traced_once_for_all_batches_of_the_loader(trainer, record_property):
    from myxtts.data.ljspeech import LJSpeechDataset

    for text, mel, text_lengths, mel_lengths in LJSpeechDataset(config=trainer.config.data).create_tf_dataset(epochs=2):
        trainer.distributed_train_step(text, mel, text_lengths, mel_lengths)
    traces = {name: step.experimental_get_tracing_count() for name, step in trainer.task.steps.functions.items()}
    record_property("steps", trainer.step)
    record_property("traces", ", ".join(f"{count} of {name}" for name, count in traces.items()))
    assert trainer.step > 4
    assert set(traces.values()) == {1}
    assert trainer.check_retracing() == ()


def test_a_batch_of_another_length_is_reported_with_the_argument_that_changed(trainer, record_property):
    import tensorflow as tf

    from myxtts.data.ljspeech import LJSpeechDataset

    (text, mel, text_lengths, mel_lengths), *_ = LJSpeechDataset(config=trainer.config.data).create_tf_dataset()
    trainer.distributed_train_step(text, mel, text_lengths, mel_lengths)
    trainer.distributed_train_step(text, tf.pad(mel, [[0, 0], [0, 8], [0, 0]]), text_lengths, mel_lengths)
    (retrace,) = trainer.check_retracing()
    record_property("reported", str(retrace))
    assert f"tf.function RETRACING detected at step {trainer.step} (total retraces: 1)" in str(retrace)
    assert retrace.argument == "mel"


def test_the_diagnosis_of_the_same_configuration_ends_with_the_documented_lines(tone_corpus, tmp_path, record_property):
    from myxtts.config.load import config_to_dict

    config = config_to_dict(small_config(tone_corpus, tmp_path, FIXED))
    (tmp_path / "fixed.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    script = [sys.executable, str(ROOT / "utilities" / "diagnose_retracing.py")]
    done = subprocess.run(
        [*script, "--config", str(tmp_path / "fixed.yaml"), "--steps", "5"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    success, seconds = done.stdout.splitlines()[-2:]
    record_property("diagnose_retracing.py", f"{success}; {seconds}")
    assert success == "✅ No retracing detected after initial compilation"
    assert seconds.startswith("Average step time: ")
    assert tensorflow_lines(done.stderr) == []


if __name__ == "__main__":
    sys.exit(run_as_script(__file__, success="✅ SUCCESS: No retracing detected with fixed input signature!"))
