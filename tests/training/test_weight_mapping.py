"""Averages of a network and the one that it came from."""

import numpy as np
import pytest

from myxtts.errors import VoiceError
from myxtts.synthesis.voice_folder import read_description, read_weights
from myxtts.training.checkpoint import load_checkpoint, newest_checkpoint
from myxtts.training.trainer import XTTSTrainer
from myxtts.training.voice_export import export_voice
from myxtts.training.weight_mapping import LANGUAGE_TABLE, SYMBOL_TABLE, average_weights
from tests.corpus.tiny_corpus import make_corpus, write_metadata
from tests.training.small_runs import quiet_display, small_config


@pytest.fixture(scope="module")
def first(corpus, tmp_path_factory):
    """The voice of a run of a few steps."""
    run = tmp_path_factory.mktemp("first")
    XTTSTrainer(small_config(corpus, run, max_steps=2, enable_graph_mode=False), display=quiet_display()).train()
    return run / "voice"


@pytest.fixture(scope="module")
def further(first, tmp_path_factory):
    """A checkpoint of a run that started from that voice, on texts with one more symbol."""
    folder = tmp_path_factory.mktemp("further")
    lines = make_corpus(folder / "corpus", 12)
    write_metadata(folder / "corpus", {clip: f"{text} ß" for clip, text in lines.items()})
    settings = {"max_steps": 3, "enable_graph_mode": False, "init_from": str(first)}
    XTTSTrainer(small_config(folder / "corpus", folder / "run", **settings), display=quiet_display()).train()
    return load_checkpoint(newest_checkpoint(folder / "run"))


def averaged(checkpoint, other, fraction):
    weights = checkpoint.named_weights(prefers_ema=True)
    return average_weights(weights, checkpoint.corpus["symbols"], checkpoint.corpus["languages"], str(other), fraction)


def test_an_average_lies_between_both_networks(first, further):
    own, (description, other) = further.named_weights(prefers_ema=True), read_weights(first)
    for fraction in (0.0, 0.25, 1.0):
        found = averaged(further, first, fraction)
        for name in set(own) - {SYMBOL_TABLE, LANGUAGE_TABLE}:
            np.testing.assert_allclose(found[name], (1 - fraction) * own[name] + fraction * other[name], atol=1e-6)
        for symbol in description.symbols:
            here, there = further.corpus["symbols"].index(symbol), description.symbols.index(symbol)
            expected = (1 - fraction) * own[SYMBOL_TABLE][here] + fraction * other[SYMBOL_TABLE][there]
            np.testing.assert_allclose(found[SYMBOL_TABLE][here], expected, atol=1e-6)


def test_what_the_other_network_lacks_stays(first, further):
    new = further.corpus["symbols"].index("ß")
    own = further.named_weights(prefers_ema=True)[SYMBOL_TABLE]
    np.testing.assert_array_equal(averaged(further, first, 1.0)[SYMBOL_TABLE][new], own[new])


def test_an_exported_average_says_so_and_keeps_the_texts_of_both(first, further, tmp_path):
    description = read_description(export_voice(further, tmp_path / "voice", average_with=(str(first), 0.5)))
    assert description.about["averaged with"] == f"{first.name} (0.5)"
    assert description.training_split.is_complete
    before = read_description(first).training_split
    assert before._texts <= description.training_split._texts


def test_networks_without_a_common_origin_are_not_averaged(further):
    with pytest.raises(VoiceError, match=r"base has another size: .* differs\. Average with a voice of the same"):
        averaged(further, "base", 0.5)


def test_networks_with_other_mels_are_not_averaged(first, further):
    weights = further.named_weights(prefers_ema=True)
    weights["mel_mean"] = weights["mel_mean"] + 1
    with pytest.raises(VoiceError, match="neither was trained from the other"):
        average_weights(weights, further.corpus["symbols"], further.corpus["languages"], str(first), 0.5)
