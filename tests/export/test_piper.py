"""Voices for Piper: their graph says what our engine says, whatever the ids look like."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from myxtts.audio.mel import mel_numpy
from myxtts.export.graph import Graph
from myxtts.export.piper import export_piper, phoneme_ids, symbol_ids
from myxtts.export.vocoder_graph import GriffinLimGraph
from myxtts.export.whole_voice import WholeVoice
from myxtts.synthesis.engine import Session, noise_of
from myxtts.synthesis.options import SpeechOptions
from myxtts.synthesis.vocoder import GriffinLim, GriffinLimSettings
from myxtts.synthesis.voice import Voice
from myxtts.text.tokenizer import FrontEnd, SymbolTable
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
    return GriffinLim(MEL)(voice.engine.decode(encoded, noise, sampling)), encoded.frames


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


def test_the_frames_of_ids_add_up_with_repeated_and_missing_blanks(voices, tmp_path):
    _, frames = expected(Voice.load(voices[0]), IDS)
    blanks, symbols = frames[::2], frames[1::2]
    start = describe().model_spec().num_symbols
    first, *others, last = IDS
    ids = [start, 1, first, 1, 1, *others, last, 1, start + 1]  # two blanks after the first symbol, then none
    _, found = run(export_piper(voices[0], tmp_path / "voice"), ids)
    inner = [symbol + blank for symbol, blank in zip(symbols[1:-1], blanks[2:-1], strict=True)]
    assert found[0].tolist() == [0, blanks[0], symbols[0], 0, blanks[1], *inner, symbols[-1], blanks[-1], 0]


def test_symbols_of_espeak_get_the_ids_of_our_own_phonemes():
    symbols = SymbolTable().extended_with("bdtɝəˈiɹ")
    description = describe(
        symbols=symbols.to_list(),
        front_end=FrontEnd("phonemes").to_dict(),
        g2p={"en": "0" * 64},
        languages=("en", "de"),
    )
    voice = WholeVoice(Path(), description, {}, None, None, "en")
    ids = symbol_ids(description)
    mapped = phoneme_ids(voice)
    assert (mapped["ɜ"], mapped["ɾ"], mapped["ː"], mapped["b"]) == ([ids["ɝ"]], [ids["t"]], [], [ids["b"]])
    assert mapped["ᵻ"] == []  # the voice has no ɪ
    german = phoneme_ids(replace(voice, language="de"))
    assert "ɜ" not in german


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
