"""Guidance moves each step of a decoder away from the one for the averaged text, in the graph of the voice."""

import numpy as np
import onnx
import pytest

from myxtts.errors import VoiceError
from myxtts.synthesis.engine import Session, noise_of
from myxtts.synthesis.guidance import with_guidance
from myxtts.synthesis.options import SpeechOptions
from myxtts.synthesis.voice import Voice
from myxtts.synthesis.voice_folder import MEL as MEL_OUTPUT
from myxtts.synthesis.voice_folder import Defaults, read_models
from tests.synthesis.tiny_voice import MEL, write_voice

TOKENS = [12, 8, 15, 2, 20, 9]


def mel_of(folder, strength, steps):
    model, _ = read_models(folder, Voice.load(folder).description)
    inputs = {
        "tokens": np.array(TOKENS),
        "duration_scale": np.float32(1),
        "noise": noise_of(1, 0, 500, MEL.n_mels),
        "steps": np.int64(steps),
        "temperature": np.float32(0.5),
        "language": np.int64(0),
    }
    return Session(with_guidance(model, strength)).run((MEL_OUTPUT,), inputs)[0]


def test_strength_0_changes_nothing_and_one_step_is_linear_in_the_strength(tmp_path):
    folder = write_voice(tmp_path / "voice")
    voice = Voice.load(folder)
    sampling = voice.sampling(SpeechOptions(temperature=0.5, steps=1))
    encoded = voice.engine.encode(TOKENS, sampling)
    plain = voice.engine.decode(encoded, noise_of(1, 0, int(encoded.frames.sum()), MEL.n_mels), sampling)
    without, half, whole = (mel_of(folder, strength, steps=1) for strength in (0.0, 0.5, 1.0))
    np.testing.assert_allclose(without, plain, atol=1e-5)
    assert np.abs(whole - without).max() > 1e-3
    np.testing.assert_allclose(half - without, (whole - without) / 2, atol=1e-4)


def test_the_guidance_of_a_voice_is_that_of_its_description(tmp_path):
    folder = write_voice(tmp_path / "voice", defaults=Defaults(guidance=0.8))
    voice = Voice.load(folder)
    sampling = voice.sampling(SpeechOptions(temperature=0.5, steps=4))
    encoded = voice.engine.encode(TOKENS, sampling)
    spoken = voice.engine.decode(encoded, noise_of(1, 0, int(encoded.frames.sum()), MEL.n_mels), sampling)
    np.testing.assert_allclose(spoken, mel_of(folder, 0.8, steps=4), atol=1e-4)


def _without_bias(graph):
    body = next(node for node in graph.node if node.op_type == "Loop").attribute[0].g
    for node in body.node:
        node.input[:] = ["mel_mean" if name == "decoder/noisy_projection/bias" else name for name in node.input]


def _without_attributes(graph):
    del next(node for node in graph.node if node.op_type == "Loop").attribute[:]


def _without_inputs(graph):
    for node in graph.node:
        if node.op_type == "MatMul":
            del node.input[1:]


@pytest.mark.parametrize("damage", [_without_bias, _without_attributes, _without_inputs])
def test_a_decoder_of_another_kind_is_refused(tmp_path, damage):
    folder = write_voice(tmp_path / "voice", ("anna", "ben"), defaults=Defaults(guidance=0.8))
    model = onnx.load(folder / "voice.onnx")
    damage(model.graph)
    with pytest.raises(VoiceError, match="cannot be guided"):
        with_guidance(model, 0.8, np.zeros((2, 8)))
