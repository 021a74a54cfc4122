"""scores.json: kept with the voice, shown only for the weights that were measured, and never trusted."""

import json

import pytest

from myxtts.cli import main
from myxtts.errors import VoiceError
from myxtts.synthesis.score_card import Score, ScoreCard, read_score_card, save_score_card, weights_checksum
from tests.synthesis.tiny_voice import write_voice


@pytest.fixture
def voice(tmp_path):
    return write_voice(tmp_path / "voice")


def save(voice, **changes):
    score = Score(value=0.123, low=0.1, high=0.15)
    values = {
        "weights": weights_checksum(voice),
        "scores": {
            "cer": {"voice": score, "recordings": Score(value=0.05, low=0.04, high=0.06)},
            "rtf": {"voice": score},
        },
        "sentences": 60,
        "seeds": 3,
        "recognizer": "pocketsphinx",
    }
    card = ScoreCard(**values | changes)
    save_score_card(voice, card)
    return card


def test_a_card_is_read_as_it_was_written_and_shown_next_to_the_recordings(voice, capsys):
    assert read_score_card(voice) is None
    assert read_score_card(voice) != (card := save(voice))
    assert read_score_card(voice) == card
    assert main(["voice", "show", str(voice)]) == 0
    lines = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    shown = {parts[1]: [each.strip() for each in parts[2:] if each.strip()] for parts in lines if len(parts) > 2}
    assert shown["Character error"] == ["12.3 % (10.0 … 15.0)", "5.0 % (4.0 … 6.0)", "–"]
    assert ["measured on 60 sentences, 3 seeds, recognizer pocketsphinx; 95 % intervals."] in lines


def test_a_card_of_other_weights_is_not_shown(voice, capsys):
    save(voice, weights="00000000")
    with pytest.raises(VoiceError, match="belongs to other weights"):
        read_score_card(voice)
    assert main(["voice", "show", str(voice)]) == 0
    shown = capsys.readouterr().out
    assert "belongs to other weights" in shown
    assert "12.3 %" not in shown


@pytest.mark.parametrize(
    "change",
    [
        {"scores": {"cer": {"voice": {"value": 1e999, "low": 0, "high": 1}}}},
        {"seeds": -1},
        {"more": 1},
        {"format": "x"},
    ],
)
def test_a_damaged_card_is_one_line_and_the_voice_still_speaks(voice, change, capsys):
    save(voice)
    path = voice / "scores.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(VoiceError, match="not a score card"):
        read_score_card(voice)
    assert main(["voice", "show", str(voice)]) == 0
    assert "scores: " in capsys.readouterr().out
