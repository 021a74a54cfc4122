"""Sentences to listen to, spoken by a process of its own."""

import pytest
import soundfile

from myxtts.errors import VoiceError
from myxtts.synthesis.samples import SAMPLE_TEXTS, speak_in_child
from tests.synthesis.tiny_voice import write_voice


def test_the_sentences_of_every_language_are_spoken_by_a_child(tmp_path):
    voice = write_voice(tmp_path / "voice", languages=("en", "de", "xx"))
    paths = speak_in_child(voice, tmp_path / "samples", "step-1")
    assert [path.name for path in paths] == [f"step-1-{code}-{n}.wav" for code in ("en", "de") for n in (0, 1)]
    for path in paths:
        with soundfile.SoundFile(path) as sound:
            assert sound.frames > 1000
            assert "Synthetic" in sound.comment


def test_what_the_child_cannot_do_is_its_own_message(tmp_path):
    with pytest.raises(VoiceError, match="nowhere is not a voice"):
        speak_in_child(tmp_path / "nowhere", tmp_path / "samples", "step-1")
    assert all(len(texts) == 2 for texts in SAMPLE_TEXTS.values())
