"""Voices for Piper: their graph says what our engine says, whatever the ids look like."""

import json
from dataclasses import replace

import numpy as np
import onnx
import pytest

from myxtts.audio.mel import mel_numpy
from myxtts.export.graph import Graph
from myxtts.export.griffin_lim_graph import GriffinLimGraph
from myxtts.export.piper import export_piper, symbol_ids
from myxtts.synthesis.engine import Session
from myxtts.synthesis.griffin_lim import GriffinLim, GriffinLimSettings
from myxtts.synthesis.options import SpeechOptions
from myxtts.synthesis.pieces import noise_of
from myxtts.synthesis.voice import Voice
from tests.synthesis.tiny_voice import MEL, describe, write_voice

IDS = [12, 8, 15, 2, 20, 9]


@pytest.fixture(scope="module")
def voices(tmp_path_factory):
    folder = tmp_path_factory.mktemp("voices")
    return write_voice(folder / "one"), write_voice(folder / "two", ("anna", "ben"), languages=("en", "fr"))


def run(folder, ids, noise=0.0, length=1.0, **more):
    session = Session(onnx.load(next(folder.glob("*.onnx"))))
    inputs = {
        "input": np.array([ids]),
        "input_lengths": np.array([len(ids)]),
        "scales": np.array([noise, length, 0.8], np.float32),
        **more,
    }
    return session.run(("output", "frames_per_id"), inputs)


def as_piper_gives_them(ids):
    start, end = describe().model_spec().num_symbols, describe().model_spec().num_symbols + 1
    return [start, 1, *(each for symbol in ids for each in (symbol, 1)), end]


def expected(voice, ids, **options):
    """Samples and frames of our own engine without noise."""
    sampling = voice.sampling(SpeechOptions(temperature=0.0, **options))
    encoded = voice.engine.encode(ids, sampling)
    noise = noise_of(0, 0, int(encoded.frames.sum()), MEL.n_mels)
    return GriffinLim(MEL)(voice.engine.decode(*encoded, noise, sampling)), encoded.frames


def test_the_export_speaks_as_the_voice_does_without_noise(voices, tmp_path):
    samples, frames = expected(Voice.load(voices[0]), IDS)
    spoken, frames_per_id = run(export_piper(voices[0], tmp_path / "voice"), as_piper_gives_them(IDS))
    np.testing.assert_array_equal(frames_per_id[0, 1:-1], frames)
    assert frames_per_id[0, [0, -1]].tolist() == [0, 0]
    assert spoken.shape == (1, 1, len(samples))
    assert np.sqrt(np.mean((spoken[0, 0] - np.clip(samples, -1, 1)) ** 2)) < 1e-3


def test_ids_with_and_without_blanks_and_marks_say_the_same(voices, tmp_path):
    folder = export_piper(voices[0], tmp_path / "voice")
    with_blanks, without = (run(folder, ids)[0] for ids in (as_piper_gives_them(IDS), IDS))
    np.testing.assert_array_equal(with_blanks, without)


def test_length_speaker_and_language_have_an_effect(voices, tmp_path):
    voice = Voice.load(voices[1])
    folder = export_piper(voices[1], tmp_path / "voice", "fr")
    _, frames = expected(voice, IDS, language="fr", speaker="ben", speed=0.5)
    _, frames_per_id = run(folder, as_piper_gives_them(IDS), length=2.0, sid=np.array([1]))
    np.testing.assert_array_equal(frames_per_id[0, 1:-1], frames)
    quiet, noisy = (run(folder, IDS, noise=noise, sid=np.array([0]))[0] for noise in (0.0, 1.0))
    assert np.abs(quiet - noisy).max() > 1e-3


def test_the_settings_next_to_a_piper_voice_name_its_symbols_and_speakers(voices, tmp_path):
    content = json.loads((export_piper(voices[1], tmp_path / "ann") / "ann.onnx.json").read_text())
    assert content["num_speakers"] == 2
    assert content["speaker_id_map"] == {"anna": 0, "ben": 1}
    assert content["audio"]["sample_rate"] == 8000
    assert content["hop_length"] == MEL.hop_length
    assert content["phoneme_type"] == "text"
    ids = {symbol: index for symbol, (index,) in content["phoneme_id_map"].items()}
    assert ids == symbol_ids(describe())
    assert ids["_"] == 1
    assert len(set(ids.values())) == len(ids)
    assert {"^", "$", "a", " ", "."} <= ids.keys()


@pytest.mark.parametrize("hop_length", [64, 60])
def test_griffin_lim_in_onnx_is_that_in_numpy(hop_length):
    spec, few = replace(MEL, hop_length=hop_length), GriffinLimSettings(iterations=6)
    graph = Graph({})
    graph.node("Identity", GriffinLimGraph(graph, spec, few).samples("mel"), name="samples")
    float_type = onnx.TensorProto.FLOAT
    model = graph.model(
        "vocoder", {"mel": (float_type, ("frames", MEL.n_mels))}, {"samples": (float_type, ("samples",))}, {}
    )
    noise = np.random.default_rng(0).normal(0, 0.1, 6000).astype(np.float32)
    mel = mel_numpy(noise, spec)
    found, wanted = Session(model).run(("samples",), {"mel": mel})[0], GriffinLim(spec, few)(mel)
    assert found.shape == wanted.shape
    # Few iterations of a signal without empty bins: more of them amplify rounding.
    assert np.sqrt(np.mean((found - wanted) ** 2)) < 1e-4
