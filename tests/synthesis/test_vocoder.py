"""Vocoders: Griffin-Lim makes the sound of a mel; a file is used only if it has the right hash."""

import dataclasses
import hashlib
import json

import numpy as np
import pytest
from onnx import TensorProto

from myxtts.audio.mel import MelSpec, mel_filterbank, mel_numpy
from myxtts.config.config import DataConfig
from myxtts.errors import VoiceError
from myxtts.export.graph import Graph
from myxtts.models.spec import VocoderSpec
from myxtts.synthesis import vocoder as vocoder_module
from myxtts.synthesis.onnx_file import GRAPH_FORMAT
from myxtts.synthesis.vocoder import GriffinLim, GriffinLimSettings, _Bands, open_vocoder, open_vocoder_file
from myxtts.synthesis.voice import Voice
from myxtts.synthesis.voice_folder import VocoderReference
from tests.synthesis.tiny_voice import MEL, write_voice

SPEC = MelSpec(16000)


def vowel(seconds=1.0, pitch_hz=140.0, sample_rate=16000):
    """A buzz with a gliding pitch and two resonances."""
    time = np.arange(round(seconds * sample_rate)) / sample_rate
    phase = 2 * np.pi * np.cumsum(pitch_hz * (1 + 0.15 * np.sin(3 * time))) / sample_rate
    harmonics = [
        np.exp(-(((n * pitch_hz - 700) / 300) ** 2)) + 0.5 * np.exp(-(((n * pitch_hz - 1800) / 400) ** 2)) + 0.02
        for n in range(1, 40)
    ]
    buzz = sum(weight * np.sin(n * phase) for n, weight in enumerate(harmonics, 1))
    return (0.05 * buzz * np.sin(np.pi * time / seconds) ** 0.5).astype(np.float32)


def vocode(mel, settings=None, spec=SPEC):
    return GriffinLim(spec, settings)(mel)


def mel_distance(samples, mel, spec=SPEC):
    """Mean difference of log-mels where the mel is not silent."""
    found = mel_numpy(samples, spec)
    frames = min(len(found), len(mel))
    is_heard = mel[:frames] > mel.max() - 7
    return np.abs(found[:frames] - mel[:frames])[is_heard].mean()


def test_the_sound_has_the_mel_it_was_made_from():
    mel = mel_numpy(vowel(), SPEC)
    samples = vocode(mel)
    assert len(samples) == (len(mel) - 1) * SPEC.hop_length
    assert mel_distance(samples, mel) < 0.12


def test_it_is_nearer_to_the_mel_than_librosa_with_sixty_iterations():
    import librosa

    mel = mel_numpy(vowel(), SPEC)
    magnitude = librosa.feature.inverse.mel_to_stft(np.exp(mel.T), sr=SPEC.sample_rate, n_fft=SPEC.n_fft, power=1.0)
    theirs = librosa.griffinlim(magnitude, n_iter=60, hop_length=SPEC.hop_length, random_state=0)
    assert mel_distance(vocode(mel), mel) < mel_distance(theirs, mel)


def test_more_iterations_come_nearer():
    mel = mel_numpy(vowel(), SPEC)
    few, many = (vocode(mel, GriffinLimSettings(iterations=count)) for count in (4, 40))
    assert mel_distance(many, mel) < 0.7 * mel_distance(few, mel)


def test_a_mel_beyond_anything_real_gives_finite_sound():
    assert np.isfinite(vocode(np.full((40, SPEC.n_mels), 500.0, np.float32))).all()


def test_silence_stays_silent():
    mel = np.full((40, SPEC.n_mels), np.log(SPEC.log_floor), np.float32)
    assert np.abs(vocode(mel)).max() < 1e-4


@pytest.mark.parametrize(
    "spec",
    [
        MelSpec(22050, n_fft=1024, win_length=800, hop_length=200, n_mels=80, f_max=8000.0),
        MelSpec(8000, n_fft=512, win_length=400, hop_length=150, n_mels=40, f_min=50.0, f_max=4000.0),
        *(MelSpec.from_config(DataConfig(), rate) for rate in (8000, 24000, 44100)),
    ],
)
def test_any_mel_definition_is_vocoded(spec):
    mel = mel_numpy(vowel(1.0, sample_rate=spec.sample_rate), spec)
    samples = vocode(mel, spec=spec)
    assert len(samples) == (len(mel) - 1) * spec.hop_length
    assert mel_distance(samples, mel, spec) < 0.2


def test_a_single_frame_is_no_sound():
    assert vocode(np.zeros((1, SPEC.n_mels), np.float32)).shape == (0,)


@pytest.mark.parametrize(
    "spec", [SPEC, MelSpec.from_config(DataConfig(), 24000), MelSpec(8000, n_mels=1, f_max=4000.0)]
)
def test_sums_over_bands_are_products_with_the_filterbank(spec):
    filterbank = mel_filterbank(spec)
    magnitude = np.random.default_rng(0).random((5, len(filterbank)), np.float32)
    np.testing.assert_allclose(_Bands(filterbank).sum(magnitude), magnitude @ filterbank, rtol=1e-4, atol=1e-6)
    back = filterbank / (filterbank.sum(axis=1) + 1e-8)[:, None]
    bands = magnitude[:, : spec.n_mels]
    np.testing.assert_allclose(_Bands(filterbank).spread(bands), bands @ back.T, rtol=1e-4, atol=1e-6)


def write_vocoder(path):
    """A vocoder that makes `n_mels` samples of each frame; returns its hash."""
    graph, spec = Graph({}), VocoderSpec(MEL)
    quiet = graph.node("Mul", "mel", graph.constant(0.01))
    graph.node("Reshape", quiet, graph.integers(-1), name="samples")
    model = graph.model(
        "vocoder",
        {"mel": (TensorProto.FLOAT, ("frames", MEL.n_mels)), "noise": (TensorProto.FLOAT, ("frames", spec.bins))},
        {"samples": (TensorProto.FLOAT, ("samples",))},
        {"format": GRAPH_FORMAT, "vocoder": json.dumps(spec.to_dict())},
    )
    path.write_bytes(model.SerializeToString())
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_voice_without_another_vocoder_uses_griffin_lim(tmp_path):
    assert isinstance(open_vocoder(VocoderReference(), MEL, tmp_path), GriffinLim)


def test_a_voice_speaks_with_the_neural_vocoder_that_it_names(tmp_path):
    folder = write_voice(tmp_path / "voice")
    sha256 = write_vocoder(folder / "tiny-1.onnx")
    description = json.loads((folder / "voice.json").read_text())
    (folder / "voice.json").write_text(json.dumps(description | {"vocoder": {"name": "tiny-1", "sha256": sha256}}))
    voice = Voice.load(folder)
    mel = np.full((7, MEL.n_mels), -2.0, np.float32)
    np.testing.assert_allclose(voice.vocode(mel).samples, np.full(7 * MEL.n_mels, -0.02), rtol=1e-6)
    assert voice.synthesize("hello", steps=1).seconds > 0


def test_another_vocoder_can_be_heard_and_must_fit_the_mels_of_the_voice(tmp_path):
    folder = write_voice(tmp_path / "voice")
    write_vocoder(tmp_path / "other.onnx")
    mel = np.full((7, MEL.n_mels), -2.0, np.float32)
    heard = Voice.load(folder, vocoder=tmp_path / "other.onnx").vocode(mel).samples
    np.testing.assert_allclose(heard, np.full(7 * MEL.n_mels, -0.02), rtol=1e-6)
    with pytest.raises(VoiceError, match=rf"hop_length {MEL.hop_length}, the voice has {MEL.hop_length + 8}"):
        open_vocoder_file(tmp_path / "other.onnx", dataclasses.replace(MEL, hop_length=MEL.hop_length + 8))


def test_a_copy_in_the_package_is_used_if_the_voice_folder_has_none(tmp_path, monkeypatch):
    shared = tmp_path / "assets" / "vocoder"
    shared.mkdir(parents=True)
    sha256 = write_vocoder(shared / "tiny-1.onnx")
    monkeypatch.setattr(vocoder_module.myxtts, "__file__", str(tmp_path / "__init__.py"))
    opened = open_vocoder(VocoderReference(name="tiny-1", sha256=sha256), MEL, tmp_path / "voice")
    assert opened(np.zeros((3, MEL.n_mels))).shape == (3 * MEL.n_mels,)


def test_a_missing_vocoder_and_one_with_another_hash_are_refused(tmp_path):
    with pytest.raises(VoiceError, match="needs the vocoder 'tiny-1'"):
        open_vocoder(VocoderReference(name="tiny-1", sha256="0" * 64), MEL, tmp_path)
    write_vocoder(tmp_path / "tiny-1.onnx")
    with pytest.raises(VoiceError, match="its hash differs"):
        open_vocoder(VocoderReference(name="tiny-1", sha256="0" * 64), MEL, tmp_path)


@pytest.mark.parametrize("name", ["../evil", "a/b", "", "x" * 65, ".hidden"])
def test_a_vocoder_name_is_never_a_path(name):
    with pytest.raises(ValueError, match="pattern"):
        VocoderReference(name=name)
