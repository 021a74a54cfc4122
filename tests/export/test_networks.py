"""The exported networks compute what the TensorFlow network computes."""

import numpy as np
import onnx
import pytest
import tensorflow as tf

from myxtts.errors import VoiceError
from myxtts.export.networks import speaker_model, voice_model
from myxtts.models.spec import ModelSpec
from myxtts.models.xtts import XTTS
from myxtts.synthesis.bundled import bundled_voice
from myxtts.synthesis.engine import Sampling, Session, load_engine, noise_of
from myxtts.synthesis.voice import Voice
from myxtts.synthesis.voice_folder import LONGEST_SYMBOL_SECONDS, Defaults, read_description, read_weights
from tests.synthesis.tiny_voice import MEL, describe, random_weights, write_voice

SENTENCES = (
    "Thank you for calling. Please leave your message after the tone.",
    "The quick brown fox jumps over the lazy dog, and twenty-three others look on in silence?",
    "No!",
)


def network(spec: ModelSpec, weights: dict[str, np.ndarray]) -> XTTS:
    model = XTTS(spec)
    model.build()
    for name, variable in model.weights_by_name().items():
        variable.assign(weights[name])
    return model


def frames_of(log_durations: np.ndarray, scale: float, frames_per_second: float) -> np.ndarray:
    """Frames per symbol as they are defined: rounded ends of durations of at least one frame."""
    longest = np.log(LONGEST_SYMBOL_SECONDS * frames_per_second)
    ends = np.cumsum(np.exp(np.clip(np.float64(log_durations), 0, longest)) * scale)
    frames = np.diff(np.floor(ends + 0.5).astype(np.int64), prepend=0)
    frames[0] += not frames.any()
    return frames


def assert_same_speech(
    model: XTTS, engine, ids, sampling: Sampling, frames_per_second: float, guidance: float = 0.0, mean_speaker=None
) -> None:
    vectors = tf.constant(sampling.speaker[None])
    languages = tf.constant([sampling.language])
    features, log_durations = model.encode(tf.constant([ids]), tf.constant([len(ids)]), vectors, languages)
    encoded = engine.encode(ids, sampling)
    expected = frames_of(log_durations[0].numpy(), np.float32(sampling.duration_scale), frames_per_second)
    np.testing.assert_array_equal(encoded.frames, expected)
    noise = noise_of(3, 0, int(expected.sum()), model.spec.n_mels)
    durations = tf.constant(expected[None].astype(np.int32))
    mel = model.decode(
        features,
        durations,
        tf.constant(noise[None]),
        vectors,
        languages,
        sampling.steps,
        sampling.temperature,
        sampling.expressiveness,
        guidance,
        mean_speaker,
    )
    difference = engine.decode(encoded, noise, sampling) - mel[0].numpy()
    assert np.abs(difference).max() < 1e-3
    assert np.sqrt(np.mean(difference**2)) < 1e-4


def test_the_bundled_voice_speaks_real_sentences_as_its_network_does():
    voice = Voice.load(bundled_voice())
    description, weights = read_weights(bundled_voice())
    model = network(description.model_spec(), weights)
    for sentence, scale, steps in zip(SENTENCES, (1.0, 0.8, 1.3), (10, 4, 1), strict=True):
        ids = description.tokenizer().encode(sentence, "en").ids
        sampling = Sampling(voice.speaker_vector(None), 0, scale, steps, 0.667)
        assert_same_speech(model, voice.engine, ids, sampling, voice.mel.frames_per_second)


@pytest.mark.parametrize("duration_scale", [0.25, 1.0, 4.0])
def test_speakers_and_languages_are_conditions_as_in_the_network(tmp_path, duration_scale):
    folder = write_voice(tmp_path / "voice", ("anna", "ben"), languages=("en", "fr"))
    description, weights = read_weights(folder)
    engine, vectors = load_engine(folder, description)
    model = network(description.model_spec(), weights)
    sampling = Sampling(vectors[1], 1, duration_scale, 5, 1.0)
    assert_same_speech(model, engine, [5, 9, 12, 4, 20, 11], sampling, MEL.frames_per_second)


def test_a_voice_with_a_recording_condition_speaks_as_from_a_wide_and_clean_recording(tmp_path):
    model = describe(("anna", "ben")).model | {"recording_condition": True}
    folder = write_voice(tmp_path / "voice", ("anna", "ben"), model=model)
    description, weights = read_weights(folder)
    assert np.abs(weights["recording_condition/kernel"]).max() > 0
    engine, vectors = load_engine(folder, description)
    network_of_voice = network(description.model_spec(), weights)
    sampling = Sampling(vectors[1], 0, 1.0, 5, 1.0)
    assert_same_speech(network_of_voice, engine, [5, 9, 12, 4, 20, 11], sampling, MEL.frames_per_second)


@pytest.mark.parametrize("speakers", [("anna",), ("anna", "ben")])
@pytest.mark.parametrize("condition", ["pitch", "recording_condition"])
def test_a_guided_voice_speaks_as_its_guided_network_does(tmp_path, speakers, condition):
    model = describe(speakers).model | {condition: True}
    folder = write_voice(tmp_path / "voice", speakers, model=model, defaults=Defaults(guidance=0.7))
    description, weights = read_weights(folder)
    engine, vectors = load_engine(folder, description)
    mean = None if vectors is None else tf.constant(vectors.mean(axis=0))
    sampling = Sampling(np.zeros(0, np.float32) if vectors is None else vectors[-1], 0, 1.0, 5, 1.0)
    guided_network = network(description.model_spec(), weights)
    assert_same_speech(guided_network, engine, [5, 9, 12, 4, 20, 11], sampling, MEL.frames_per_second, 0.7, mean)


def test_a_voice_with_pitch_speaks_as_its_network_does(tmp_path):
    folder = write_voice(tmp_path / "voice", ("anna", "ben"), model=describe(("anna", "ben")).model | {"pitch": True})
    description, weights = read_weights(folder)
    engine, vectors = load_engine(folder, description)
    ids, model, mels = [5, 9, 12, 4, 20, 11], network(description.model_spec(), weights), []
    for expressiveness in (0.0, 1.7):
        sampling = Sampling(vectors[1], 0, 1.0, 5, 1.0, expressiveness=expressiveness)
        assert_same_speech(model, engine, ids, sampling, MEL.frames_per_second)
        encoded = engine.encode(ids, sampling)
        noise = noise_of(3, 0, int(encoded.frames.sum()), MEL.n_mels)
        mels.append(engine.decode(encoded, noise, sampling))
    assert np.abs(mels[0] - mels[1]).max() > 0.01


def test_the_pitch_is_that_of_the_text_where_the_decoder_gets_another_vector(tmp_path):
    folder = write_voice(tmp_path / "voice", ("anna", "ben"), model=describe(("anna", "ben")).model | {"pitch": True})
    engine, vectors = load_engine(folder, read_description(folder))
    plain = Sampling(vectors[0], 0, 1.0, 5, 1.0)
    moved = plain._replace(decoder_speaker=3 * vectors[0] - vectors[1])
    encoded, of_other = engine.encode([5, 9, 12], moved), engine.encode([5, 9, 12], plain._replace(speaker=vectors[1]))
    np.testing.assert_array_equal(encoded.pitch_condition, engine.encode([5, 9, 12], plain).pitch_condition)
    noise = noise_of(3, 0, int(encoded.frames.sum()), MEL.n_mels)
    with_other = engine.decode(encoded._replace(pitch_condition=of_other.pitch_condition), noise, moved)
    assert np.abs(with_other - engine.decode(encoded, noise, moved)).max() > 0.01


@pytest.mark.parametrize("frames", [64, 67, 200])
def test_clone_vectors_are_those_of_the_network(tmp_path, frames):
    folder = write_voice(tmp_path / "voice", ("anna", "ben"))
    description, weights = read_weights(folder)
    engine, _ = load_engine(folder, description)
    references = np.random.default_rng(0).normal(-4, 1, (3, frames, MEL.n_mels)).astype(np.float32)
    expected = network(description.model_spec(), weights).speaker_vectors(tf.constant(references)).numpy()
    np.testing.assert_allclose(engine.speaker_vectors(references), expected, atol=1e-4)


def whole_graph_inputs(description, ids, noise_frames):
    return {
        "tokens": np.array(ids),
        "duration_scale": np.float32(1),
        "noise": noise_of(0, 0, noise_frames, MEL.n_mels),
        "steps": np.int64(3),
        "temperature": np.float32(0.5),
        "language": np.int64(0),
    }


def test_the_whole_graph_needs_one_call_and_ignores_noise_that_is_too_long():
    description = describe()
    session = Session(voice_model(description.model_spec(), MEL, random_weights(description)))
    enough = session.run(("mel", "frames_per_symbol"), whole_graph_inputs(description, [5, 6, 7], 200))
    more = session.run(("mel", "frames_per_symbol"), whole_graph_inputs(description, [5, 6, 7], 300))
    assert len(enough[0]) == enough[1].sum() < 200
    np.testing.assert_array_equal(enough[0], more[0])


@pytest.mark.parametrize(
    ("bias", "scale", "expected"),
    [(90.0, 1.0, LONGEST_SYMBOL_SECONDS * MEL.frames_per_second), (-90.0, 1.0, 1), (90.0, 0.5, 94)],
)
def test_durations_lie_between_one_frame_and_the_longest_symbol(bias, scale, expected):
    description = describe()
    weights = random_weights(description)
    weights["duration_predictor/output/kernel"] *= 0
    weights["duration_predictor/output/bias"] = np.float32([bias])
    session = Session(voice_model(description.model_spec(), MEL, weights))
    inputs = whole_graph_inputs(description, [5, 6, 7], 2000) | {"duration_scale": np.float32(scale)}
    frames = session.run(("frames_per_symbol",), inputs)[0]
    assert np.abs(frames - expected).max() <= 1


def test_a_text_whose_symbols_all_vanish_lasts_one_frame():
    description = describe()
    weights = random_weights(description)
    weights["duration_predictor/output/kernel"] *= 0
    weights["duration_predictor/output/bias"] = np.float32([0])
    session = Session(voice_model(description.model_spec(), MEL, weights))
    inputs = whole_graph_inputs(description, [5], 10) | {"duration_scale": np.float32(0.1)}
    assert session.run(("frames_per_symbol",), inputs)[0].tolist() == [1, 0, 0]


def test_models_are_valid_onnx_of_standard_operators():
    description = describe(("anna", "ben"))
    weights = random_weights(description)
    vectors = np.zeros((2, 8), np.float32)
    spec = description.model_spec()
    for model in (voice_model(spec, MEL, weights), speaker_model(spec, weights, vectors)):
        onnx.checker.check_model(model, full_check=True)
        assert [(each.domain, each.version) for each in model.opset_import] == [("", 17)]


def test_matrices_are_float16_named_by_their_path_and_vectors_float32():
    description = describe()
    weights = random_weights(description)
    model = voice_model(description.model_spec(), MEL, weights)
    stored = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    for name, array in weights.items():
        assert stored[name].shape == array.shape
        assert stored[name].dtype == (np.float16 if array.ndim > 1 else np.float32)


def test_weights_that_are_not_finite_or_missing_are_not_exported():
    description = describe()
    weights = random_weights(description)
    for broken in (weights | {"mean_projection/bias": np.full(MEL.n_mels, np.nan)}, {"mel_mean": weights["mel_mean"]}):
        with pytest.raises(VoiceError, match=r"not finite|has no weight"):
            voice_model(description.model_spec(), MEL, broken)


def test_weights_too_large_for_float16_keep_their_value():
    description = describe()
    weights = random_weights(description)
    weights["mean_projection/kernel"] = np.full_like(weights["mean_projection/kernel"], 1e6)
    model = voice_model(description.model_spec(), MEL, weights)
    stored = next(each for each in model.graph.initializer if each.name == "mean_projection/kernel")
    assert onnx.numpy_helper.to_array(stored).max() == 1e6
