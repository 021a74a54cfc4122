"""Padding and packing change nothing: a clip alone, padded more, or next to others gives the same losses."""

import numpy as np
import pytest
import tensorflow as tf

from myxtts.models.flow_matching import clip_losses
from myxtts.models.layout import ClipRandomness
from tests.models.clips import lay_out, make_clips, tiny_model


def results_of(model, batch, drops=False):
    """Per-clip losses, and each clip's alignment as (symbols relative to its own first one), by clip."""
    losses, alignment = clip_losses(model, batch, ClipRandomness(7, 11, batch.clips, drops=drops))
    found = {}
    for row, slot in np.argwhere(batch.clips.numpy() >= 0):
        clip = int(batch.clips[row, slot])
        start, length = int(batch.frame_starts[row, slot]), int(batch.mel_lengths[row, slot])
        first_symbol = 2 * int(batch.token_starts[row, slot])
        values = np.array([float(term[row, slot]) for term in losses])
        found[clip] = (values, alignment.path.numpy()[row, start : start + length] - first_symbol)
    return found


@pytest.fixture(scope="module")
def model():
    return tiny_model()


@pytest.fixture(scope="module")
def clips():
    return make_clips(6)


@pytest.fixture(scope="module")
def alone(model, clips):
    found = {}
    for clip in clips:
        batch = lay_out([[clip]], len(clip.tokens), len(clip.mel), 1)
        found |= results_of(model, batch)
    return found


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for clip, (losses, path) in expected.items():
        np.testing.assert_allclose(found[clip][0], losses, rtol=1e-4)
        np.testing.assert_array_equal(found[clip][1], path)


def test_a_clip_that_is_padded_more_gives_the_same_losses_and_alignment(model, clips, alone):
    assert_same(results_of(model, lay_out([[clip] for clip in clips], 30, 120, 1)), alone)


def test_a_clip_in_a_packed_row_gives_the_same_losses_and_alignment(model, clips, alone):
    assert_same(results_of(model, lay_out([clips[:3], clips[3:]], 60, 200, 4)), alone)


def test_the_order_within_a_row_changes_nothing(model, clips, alone):
    assert_same(results_of(model, lay_out([clips[::-1]], 80, 400, 6)), alone)


def test_noise_and_dropout_depend_on_the_clip_not_on_its_position_in_the_row(clips):
    model = tiny_model(dropout=0.3)
    packed = results_of(model, lay_out([clips[:3], clips[3:]], 60, 200, 4), drops=True)
    assert_same(results_of(model, lay_out([clips[::-1]], 80, 400, 6), drops=True), packed)


def test_dropout_changes_the_losses(clips):
    model = tiny_model(dropout=0.3)
    batch = lay_out([clips], 80, 400, 6)
    dropped, kept = results_of(model, batch, drops=True), results_of(model, batch, drops=False)
    assert any(not np.allclose(dropped[clip][0], kept[clip][0], rtol=1e-3) for clip in kept)


def test_the_decoder_has_a_dropout_rate_of_its_own(clips):
    model = tiny_model()
    for block in model.decoder.blocks:
        block.dropout = 0.3
    batch = lay_out([clips], 80, 400, 6)
    dropped, kept = results_of(model, batch, drops=True), results_of(model, batch, drops=False)
    for clip, ((flow, *others), _) in kept.items():
        (dropped_flow, *dropped_others), _ = dropped[clip]
        assert not np.isclose(dropped_flow, flow, rtol=1e-3)
        np.testing.assert_allclose(dropped_others, others, rtol=1e-5)


def test_a_longer_row_changes_no_synthesized_frame(model, clips):
    clip = clips[0]
    vectors = model.speaker_vectors(tf.constant(clip.reference[np.newaxis]))
    languages = tf.constant([1])
    noise = np.random.default_rng(0).normal(size=(1, 128, model.spec.n_mels)).astype(np.float32)

    def spoken(token_size, frame_size):
        tokens = np.zeros((1, token_size), np.int32)
        tokens[0, : len(clip.tokens)] = clip.tokens
        encoded, log_durations = model.encode(tf.constant(tokens), tf.constant([len(clip.tokens)]), vectors, languages)
        symbols = 2 * len(clip.tokens) + 1
        durations = np.zeros(log_durations.shape, np.int32)
        durations[0, :symbols] = 3
        mel = model.decode(
            encoded, tf.constant(durations), tf.constant(noise[:, :frame_size]), vectors, languages, 4, 0.7
        )
        return log_durations.numpy()[0, :symbols], mel.numpy()[0], 3 * symbols

    short_durations, short, frames = spoken(len(clip.tokens), 64)
    long_durations, long, _ = spoken(40, 128)
    np.testing.assert_allclose(long_durations, short_durations, atol=1e-4)
    assert np.abs(long[:frames] - short[:frames]).max() < 1e-3
    assert np.sqrt(np.mean(np.square(long[:frames] - short[:frames]))) < 1e-4
    assert not long[frames:].any()
