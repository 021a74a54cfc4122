"""Names of voices: what a request may ask for."""

import os

import pytest

from myxtts.errors import VoiceError
from myxtts.serving.voices import OPENAI_VOICES, VoicePool
from myxtts.synthesis.bundled import guess_language
from myxtts.synthesis.speaker import Speaker


def test_a_name_is_a_voice_a_speaker_a_mixture_or_one_of_openais(pool, voices):
    assert pool.choose(None) == (voices["solo"], None)
    assert pool.choose("default") == (voices["solo"], None)
    assert pool.choose("duo") == (voices["duo"], None)
    assert pool.choose("duo/ben") == (voices["duo"], "ben")
    assert pool.choose("ben") == (voices["duo"], "ben")
    assert pool.choose("anna:0.3+ben:0.7") == (voices["duo"], "anna:0.3+ben:0.7")
    assert [pool.aliases()[name] for name in OPENAI_VOICES[:4]] == ["solo", "duo/anna", "duo/ben", "solo"]
    assert pool.choose("fable") == (voices["duo"], "ben")


def test_an_unknown_name_is_answered_with_the_names_there_are(pool):
    with pytest.raises(VoiceError, match=r"no voice 'dou'.*solo, duo, duo/anna, duo/ben.*mean 'duo'"):
        pool.choose("dou")


def test_stored_speakers_are_found_again_and_others_are_reported(pool, voices, tmp_path):
    folder = tmp_path / "speakers"
    vector = voices["duo"].speaker_vector("ben")
    Speaker(vector, voices["duo"].identity, "carl", 5).save(folder / "a.json")
    Speaker(vector, "another voice", "lost").save(folder / "b.json")
    (folder / "c.json").write_text("{}")
    fresh = VoicePool(voices, folder)
    problems = fresh.load_speakers()
    assert len(problems) == 1
    assert "c.json" in problems[0]
    assert [entry.id for entry in fresh.entries() if entry.is_cloned] == ["carl"]
    assert fresh.choose("carl").voice is voices["duo"]
    with pytest.raises(VoiceError):
        fresh.choose("lost")


@pytest.mark.parametrize("name", ["", "../x", "a/b", "solo", "anna", "Alloy", "x" * 65, "a\0b", "a\n", " a", "default"])
def test_a_new_speaker_cannot_take_a_name_that_is_no_name_or_is_taken(pool, name):
    with pytest.raises(VoiceError):
        pool.check_new_name(name)


def test_the_language_follows_the_script_of_the_text():
    assert guess_language("سلام دنیا", ["en", "fa"]) == "fa"
    assert guess_language("hello دنیا", ["fa", "en"]) == "en"
    assert guess_language("سلام", ["en", "de"]) is None
    assert guess_language("123", ["en", "fa"]) is None
    assert guess_language("سلام", ["en"]) is None


def test_what_a_killed_server_was_writing_is_removed_at_the_next_start(pool, tmp_path):
    old, new = tmp_path / "speakers" / ".0a1b2c3d.99.0.partial", tmp_path / "speakers" / ".0a1b2c3d.99.1.partial"
    old.write_text("{")
    new.write_text("{")  # another server may be writing it
    os.utime(old, (0, 0))
    assert pool.load_speakers() == []
    assert list((tmp_path / "speakers").iterdir()) == [new]
