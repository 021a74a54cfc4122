"""A tiny vocoder, trained, stopped and resumed, exported and adapted; eagerly, so that nothing is traced."""

import dataclasses
import importlib.util

import numpy as np
import pytest
from rich.console import Console

from myxtts.cache.prepare import prepare_cache
from myxtts.config.config import TrainingConfig, VocoderConfig, XTTSConfig
from myxtts.config.load import config_to_dict, parse_config
from myxtts.errors import CheckpointError, ConfigError, VoiceError
from myxtts.synthesis.onnx_file import read_model
from myxtts.synthesis.vocoder import VOCODER_TENSORS, open_vocoder_file, vocoder_spec
from myxtts.training.checkpoint import load_checkpoint, newest_checkpoint
from myxtts.training.display import Display
from myxtts.training.trainer import XTTSTrainer
from myxtts.training.vocoder_steps import Schedule
from myxtts.training.vocoder_trainer import read_vocoder, train_vocoder
from tests.corpus.tiny_corpus import make_corpus, tiny_config, write_tone
from tests.training.small_runs import SMALL_NETWORK

pytestmark = pytest.mark.skipif(importlib.util.find_spec("pyworld") is None, reason="pyworld is not installed")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    make_corpus(folder, 4)
    for number in range(4):
        write_tone(folder / "wavs" / f"clip{number:03d}.wav", seconds=1.2, pitch=150.0 + 40 * number, seed=number)
    return folder


def config_of(corpus, run, **changes):
    settings = {"channels": 8, "blocks": 1, "crop_frames": 40, "batch_size": 2, "max_steps": 4, "adversarial_start": 2}
    return XTTSConfig(
        data=tiny_config(train_data=str(corpus)),
        training=TrainingConfig(
            enable_graph_mode=False, validation_interval=100, checkpoint_interval=100, device="cpu"
        ),
        vocoder=VocoderConfig(**(settings | {"checkpoint_dir": str(run)} | changes)),
    )


def open_cache(config):
    return prepare_cache(config.data, with_sound=True)


def train(config, **named):
    return train_vocoder(config, Display(Console(quiet=True)), **named)


def test_a_resumed_run_ends_with_the_weights_of_an_uninterrupted_one(corpus, tmp_path):
    train(config_of(corpus, tmp_path / "whole", warmup_steps=0))
    stopped = config_of(corpus, tmp_path / "parts", warmup_steps=0)
    # The schedule of four steps, left after the third: in the adversarial phase.
    from myxtts.training import vocoder_trainer

    class StopsEarly(vocoder_trainer.VocoderTask):
        def confirm_stop(self, is_wanted, finished):
            return self.step == 3

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vocoder_trainer, "VocoderTask", StopsEarly)
        assert train(stopped).step == 3
    summary = train(stopped)
    assert summary.step == 4
    whole, parts = (load_checkpoint(newest_checkpoint(tmp_path / name)) for name in ("whole", "parts"))
    assert whole.step == parts.step == 4
    assert set(whole.arrays) == set(parts.arrays)
    for name, values in whole.arrays.items():
        np.testing.assert_array_equal(values, parts.arrays[name], err_msg=name)


def test_a_run_leaves_a_vocoder_that_speaks_and_can_be_adapted(corpus, tmp_path):
    rated = []
    summary = train(config_of(corpus, tmp_path / "run"), rate=lambda copy, recording, rate: rated.append(rate) or 2.0)
    assert rated
    assert "2.00" in summary.rows()["PESQ-WB of the reconstructed clips"]
    assert all(path.is_file() for path in summary.samples)
    cache, path = open_cache(config_of(corpus, tmp_path / "run")), tmp_path / "run" / "vocoder.onnx"
    assert summary.vocoder == path
    mel = cache.clip_frames(0)
    samples = open_vocoder_file(path, cache.mel)(mel)
    assert samples.shape == ((len(mel) - 1) * cache.mel.hop_length,)
    assert np.isfinite(samples).all()
    with pytest.raises(VoiceError, match="hop_length 256, the voice has 200"):
        open_vocoder_file(path, dataclasses.replace(cache.mel, hop_length=200))
    stated = vocoder_spec(read_model(path, *VOCODER_TENSORS), path)
    assert stated.noise_gain == pytest.approx(-6 * np.log(10) / 20)
    spec, weights = read_vocoder(path)
    assert spec == dataclasses.replace(stated, noise_gain=0.0)
    train(config_of(corpus, tmp_path / "adapted", init_from=str(path), max_steps=1, adversarial_start=1))
    adapted, adapted_weights = read_vocoder(tmp_path / "adapted")
    assert adapted == spec
    start, now = weights["block_0/widen/kernel"], adapted_weights["block_0/widen/kernel"]
    assert 0 < np.abs(start - now).max() < 0.01


def test_a_vocoder_of_other_mels_is_refused_with_what_differs(corpus, tmp_path):
    train(config_of(corpus, tmp_path / "run", max_steps=1, adversarial_start=1))
    settings = config_of(corpus, tmp_path / "new", init_from=str(tmp_path / "run" / "vocoder.onnx"))
    other = dataclasses.replace(settings, data=dataclasses.replace(settings.data, n_mels=64))
    with pytest.raises(
        ConfigError, match=r"different mel settings: n_mels 80, the recordings give 64\. Use its mel settings"
    ):
        train(other)


def test_the_run_of_a_voice_is_not_resumed_as_a_vocoder(corpus, tmp_path):
    train(config_of(corpus, tmp_path, max_steps=1, adversarial_start=1))
    state = next(tmp_path.glob("step-*")) / "state.json"
    state.write_text(state.read_text().replace('"vocoder": {"mel"', '"model": {"mel"', 1))
    with pytest.raises(CheckpointError, match="run of a voice"):
        train(config_of(corpus, tmp_path, max_steps=2, adversarial_start=2))


def test_each_phase_warms_up_and_decays():
    schedule = Schedule.from_config(VocoderConfig(max_steps=1000, adversarial_start=600, warmup_steps=100))
    rates = [schedule.rate(step) for step in range(1000)]
    assert max(rates[:600]) == pytest.approx(1e-3)
    assert max(rates[600:]) == pytest.approx(2e-4)
    assert rates[0] == pytest.approx(1e-5)
    assert rates[599] < 6e-5
    assert rates[600] == pytest.approx(2e-6)
    assert np.argmax(rates[:600]) == 99


def test_a_vocoder_is_trained_on_the_mels_of_a_voice_that_are_made_once(corpus, tmp_path):
    config = config_of(corpus, tmp_path / "run", max_steps=2, adversarial_start=2, mels_fraction=0.9)
    voice = dataclasses.replace(
        config, training=dataclasses.replace(config.training, checkpoint_dir=str(tmp_path / "voice"))
    )
    voice = parse_config(config_to_dict(voice) | {"model": SMALL_NETWORK})
    voice = dataclasses.replace(voice, training=dataclasses.replace(voice.training, max_steps=1))
    XTTSTrainer(voice, display=Display(Console(quiet=True))).train()
    config = dataclasses.replace(config, vocoder=dataclasses.replace(config.vocoder, mels_of=str(tmp_path / "voice")))
    train(config)
    cache = open_cache(config)
    written = list(cache.folder.glob("decoded-*.npy"))
    assert len(written) == 1
    deviations = np.load(written[0])
    assert deviations.shape == (cache.num_rows, cache.mel.n_mels)
    training = np.flatnonzero(~cache.is_validation)[0]
    first, count = cache.frame_starts[training], cache.frame_counts[training]
    assert np.abs(deviations[first : first + count]).max() > 0.01
    changed = written[0].stat().st_mtime_ns
    train(
        dataclasses.replace(config, vocoder=dataclasses.replace(config.vocoder, checkpoint_dir=str(tmp_path / "again")))
    )
    assert written[0].stat().st_mtime_ns == changed
