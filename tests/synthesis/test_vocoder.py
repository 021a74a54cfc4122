"""The vocoder that a voice names: Griffin-Lim, or a file with the right hash from the voice folder or the package."""

import dataclasses
import hashlib
import json

import numpy as np
import pytest
from onnx import TensorProto

from myxtts.errors import VoiceError
from myxtts.export.graph import Graph
from myxtts.models.spec import VocoderSpec
from myxtts.synthesis import vocoder as vocoder_module
from myxtts.synthesis.griffin_lim import GriffinLim
from myxtts.synthesis.onnx_file import GRAPH_FORMAT
from myxtts.synthesis.vocoder import open_vocoder, open_vocoder_file
from myxtts.synthesis.voice import Voice
from myxtts.synthesis.voice_folder import VocoderReference
from tests.synthesis.tiny_voice import MEL, write_voice


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
