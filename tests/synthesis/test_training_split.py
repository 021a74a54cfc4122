"""The record of what a voice was trained on: small, checkable against any sentence, safe to read from an untrusted file."""

import pytest

from myxtts.errors import VoiceError
from myxtts.synthesis import training_split
from myxtts.synthesis.training_split import TrainingSplit

SPLIT = TrainingSplit.of("corpus", ["Hello, World!", "سلام، دنیا", "straße"], [("a", "Good bye.")])


@pytest.mark.parametrize("text", ["hello world", "HELLO -- world...", "Hello,\nWorld!", "سلام دنیا!", "STRASSE"])
def test_case_punctuation_and_spacing_do_not_hide_a_training_text(text):
    assert SPLIT.was_trained_on(text)


def test_other_texts_were_not_trained_on():
    assert not SPLIT.was_trained_on("hello worlds")
    assert not SPLIT.was_trained_on("Good bye.")


def test_a_clip_is_held_out_by_its_id_and_text():
    assert SPLIT.was_held_out("a", "good bye")
    assert not SPLIT.was_held_out("b", "good bye")
    assert not SPLIT.was_held_out("a", "another corpus")


def test_a_record_takes_five_bytes_per_text_and_the_order_does_not_matter():
    texts = [f"sentence {number}" for number in range(3000)]
    split = TrainingSplit.of("corpus", texts, [])
    assert len(split.training_texts) == 4 * 3000 * 5 / 3
    assert split == TrainingSplit.of("corpus", reversed(texts), [])
    assert split.num_training_texts == 3000


def test_texts_of_an_earlier_training_also_count():
    later = TrainingSplit.of("other", ["New text."], [("b", "New held out.")]).after(SPLIT)
    assert later.was_trained_on("Hello world")
    assert later.was_trained_on("new text")
    assert later.was_held_out("b", "New held out.")
    assert not later.was_held_out("a", "Good bye.")
    assert later.is_complete
    assert not later.after(None).is_complete
    assert not SPLIT.after(later.after(None)).is_complete


def test_a_corpus_too_large_to_record_is_marked_as_such(monkeypatch):
    monkeypatch.setattr(training_split, "MOST_HASHES", 2)
    split = TrainingSplit.of("corpus", ["a", "b", "c"], [])
    assert (split.training_texts, split.is_complete) == ("", False)
    assert not TrainingSplit.of("corpus", ["a", "b"], []).after(SPLIT).is_complete


@pytest.mark.parametrize("damaged", ["?", "AAAA", "AAAAAA=", "\u00e9" * 8])
def test_a_damaged_record_is_refused(damaged):
    with pytest.raises(VoiceError, match="training split"):
        TrainingSplit(corpus="c", training_texts=damaged, held_out_clips="").check()
