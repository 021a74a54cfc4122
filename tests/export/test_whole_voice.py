"""`--format onnx`: one file from symbols to samples, spoken by the program that docs/export.md shows."""

import re
import subprocess
import sys
import wave
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from myxtts.cli import main
from myxtts.export.graph import Graph
from myxtts.export.whole_voice import export_onnx, read_voice, whole_model
from myxtts.synthesis.engine import Session
from myxtts.synthesis.options import SpeechOptions
from myxtts.synthesis.voice import Voice
from myxtts.synthesis.voice_folder import Defaults
from tests.export.test_voice_writer import phoneme_voice
from tests.synthesis.test_vocoder import write_vocoder
from tests.synthesis.tiny_voice import MEL, write_voice

EXPORT_PAGE = Path(__file__).parents[2] / "docs" / "export.md"


def run(folder, tokens, noise, **more):
    session = Session(onnx.load(folder / "model.onnx"))
    given = {
        "tokens": np.array(tokens),
        "noise": noise,
        "duration_scale": np.float32(1),
        "temperature": np.float32(0.5),
        "steps": np.int64(3),
        "language": np.int64(0),
        **more,
    }
    return session.run(("samples", "frames_per_symbol"), given)


@pytest.mark.parametrize("changed", [{}, {"decoder_emphasis": 2.0}, {"guidance": 0.6}])
def test_the_same_noise_gives_the_audio_of_our_engine(tmp_path, changed):
    source = write_voice(tmp_path / "voice", ("anna", "ben"), defaults=Defaults(**changed))
    sha256 = write_vocoder(source / "tiny-1.onnx")
    path = source / "voice.json"
    path.write_text(
        re.sub(r'"vocoder": \{[^}]*\}', f'"vocoder": {{"name": "tiny-1", "sha256": "{sha256}"}}', path.read_text())
    )
    folder = export_onnx(source, tmp_path / "out")
    voice, tokens = Voice.load(source), [12, 8, 15, 2, 20, 9]
    noise = np.random.default_rng(0).standard_normal((500, MEL.n_mels), np.float32)
    sampling = voice.sampling(SpeechOptions(speaker="ben", temperature=0.5, steps=3))
    encoded = voice.engine.encode(tokens, sampling)
    expected = voice.vocoder(voice.engine.decode(encoded, noise[: encoded.frames.sum()], sampling))
    samples, frames = run(folder, tokens, noise, speaker_index=np.int64(1))
    np.testing.assert_array_equal(frames, encoded.frames)
    np.testing.assert_allclose(samples, np.clip(expected, -1, 1), atol=1e-5)
    assert np.abs(run(folder, tokens, noise, speaker_index=np.int64(0))[0][:100] - samples[:100]).max() > 1e-4


def test_a_vocoder_with_noise_gets_uniform_numbers_of_its_size(tmp_path):
    graph = Graph({})
    half = graph.node("ReduceMean", "noise", axes=[1], keepdims=0)
    graph.node("Identity", half, name="samples")
    shapes = {"mel": (TensorProto.FLOAT, ("frames", MEL.n_mels)), "noise": (TensorProto.FLOAT, ("frames", 5000))}
    vocoder = graph.model("vocoder", shapes, {"samples": (TensorProto.FLOAT, ("samples",))}, {})
    voice = replace(read_voice(write_voice(tmp_path / "voice")), vocoder=vocoder)
    (tmp_path / "model.onnx").write_bytes(whole_model(voice).SerializeToString())
    noise = np.zeros((500, MEL.n_mels), np.float32)
    samples, frames = run(tmp_path, [12, 8, 15, 2, 20, 9], noise)
    assert samples.shape == (frames.sum(),)
    np.testing.assert_allclose(samples, 0.5, atol=0.03)  # the mean of 5,000 numbers from 0 to 1


def snippet():
    """The Python program of docs/export.md."""
    page = EXPORT_PAGE.read_text(encoding="utf-8")
    return next(code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "onnxruntime" in code)


@pytest.mark.parametrize("write", [phoneme_voice, write_voice])
def test_the_program_of_the_documentation_speaks(tmp_path, write):
    write(tmp_path / "voice")
    words = tmp_path / "words.txt"
    words.write_text("hello\noh\n")
    given = ["--words", str(words)] if write is phoneme_voice else []
    assert main(["export", str(tmp_path / "voice"), str(tmp_path / "out"), "--format", "onnx", *given]) == 0
    program = tmp_path / "speak.py"
    program.write_text(snippet())
    subprocess.run([sys.executable, program, "out", "Hello, oh!"], cwd=tmp_path, check=True)
    with wave.open(str(tmp_path / "speech.wav")) as file:
        assert file.getframerate() == MEL.sample_rate
        assert file.getnframes() > 0.1 * MEL.sample_rate
    tokens = Voice.load(tmp_path / "voice").tokenizer.encode("Hello, oh!", "en").ids
    shown = subprocess.run(
        [sys.executable, "-c", snippet().replace("given |= ", "print(tokens)\ngiven |= "), "out", "Hello, oh!"],
        cwd=tmp_path, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert shown.stdout.strip() == str(tokens)


def test_the_program_of_the_documentation_has_25_lines():
    assert len(snippet().splitlines()) <= 25
