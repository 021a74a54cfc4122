"""Sentences to read aloud: many, with the sounds of the language, chosen for what is missing."""

import pytest

from myxtts.corpus.prompts import LANGUAGES, PAUSE, Prompt, choose_prompts, pairs_of, prompts_of, sounds_of
from myxtts.text import g2p
from myxtts.text.normalize import normalize_text


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_sentences_are_many_different_and_cover_the_sounds_of_the_language(language):
    prompts = prompts_of(language)
    sounds = {sound for prompt in prompts for pair in prompt.pairs for sound in pair}
    assert len(prompts) >= 150
    assert len({prompt.id for prompt in prompts}) == len(prompts)
    assert sounds - {PAUSE} <= g2p.INVENTORY
    assert len(sounds) > 25


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_stored_phonemes_are_those_of_our_g2p(language):
    prompts = prompts_of(language)[:3]
    spoken = g2p.phonemize([normalize_text(prompt.text, language) for prompt in prompts], language)
    for prompt, phonemes in zip(prompts, spoken, strict=True):
        now = pairs_of(sounds_of(phonemes))
        # A model that was trained again may read a word differently.
        assert len(now & prompt.pairs) > 0.7 * len(now), prompt.text


def test_the_next_sentence_has_the_most_pairs_that_are_missing():
    prompts = [
        Prompt("a", "a", "en", 4, frozenset({"ab", "bc", "cd"})),
        Prompt("b", "b", "en", 5, frozenset({"ab", "bc", "xy", "yz"})),
        Prompt("c", "c", "en", 3, frozenset({"cd", "de"})),
        Prompt("d", "d", "en", 9, frozenset({"cd", "de"})),
    ]
    assert [each.id for each in choose_prompts(prompts, (), 2)] == ["b", "c"]  # of two equals the shorter one
    assert choose_prompts(prompts, {"ab", "bc", "xy", "yz"}, 1)[0].id == "c"


def test_half_of_the_english_pairs_are_covered_by_twenty_sentences():
    prompts = prompts_of("en")
    every = frozenset().union(*(prompt.pairs for prompt in prompts))
    covered = frozenset().union(*(prompt.pairs for prompt in choose_prompts(prompts, (), 20)))
    assert len(covered) > 0.5 * len(every)
