"""A voice speaks: the same text and seed give the same audio, also next to other texts and in other threads."""

import dataclasses
import itertools
import json
import shutil
import subprocess
import sys
import threading
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.audio.mel import mel_numpy
from myxtts.errors import AudioError, TextError, VoiceError
from myxtts.synthesis.engine import LONGEST_FRAMES
from myxtts.synthesis.options import LONGEST_TEXT, SpeechOptions
from myxtts.synthesis.reader import Piece
from myxtts.synthesis.speaker import Speaker, cut_reference
from myxtts.synthesis.voice import Voice
from myxtts.synthesis.voice_folder import DESCRIPTION_NAME, check_description
from tests.synthesis.tiny_voice import MEL, describe, write_recording, write_voice

TEXT = "Hello there. This is a longer sentence, with a clause in it! And a third?"


@pytest.fixture(scope="module")
def voice(tmp_path_factory):
    return Voice.load(write_voice(tmp_path_factory.mktemp("one") / "voice"))


@pytest.fixture(scope="module")
def cloning_folder(tmp_path_factory):
    return write_voice(tmp_path_factory.mktemp("two") / "voice", ("anna", "ben"), languages=("en", "fr"))


@pytest.fixture(scope="module")
def cloning_voice(cloning_folder):
    return Voice.load(cloning_folder)


def test_speech_is_sound_and_lasts_as_long_as_its_chunks(voice):
    chunks = list(voice.say(TEXT))
    audio = voice.synthesize(TEXT)
    assert [chunk.text for chunk in chunks] == [
        "Hello there.",
        "This is a longer sentence, with a clause in it!",
        "And a third?",
    ]
    np.testing.assert_array_equal(np.concatenate([chunk.samples for chunk in chunks]), audio.samples)
    assert audio.sample_rate == 8000
    assert audio.seconds == pytest.approx(len(audio.samples) / 8000)
    assert np.isfinite(audio.samples).all()
    assert 0.001 < np.abs(audio.samples).max() <= 1


def test_the_seed_decides_the_audio(voice):
    first, again, other = (voice.synthesize("Hello", seed=seed).samples for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-3


def test_speed_and_pause_change_the_length(voice):
    normal = voice.synthesize(TEXT, pause=0).seconds
    assert voice.synthesize(TEXT, pause=0, speed=2).seconds == pytest.approx(normal / 2, rel=0.15)
    assert voice.synthesize(TEXT, pause=1).seconds == pytest.approx(normal + 3)


def test_expressiveness_changes_the_sound_of_a_voice_with_pitch(tmp_path):
    voice = Voice.load(write_voice(tmp_path / "voice", model=describe().model | {"pitch": True}))
    usual, flat = (voice.synthesize("Hello", seed=1, expressiveness=each).samples for each in (1.0, 0.0))
    assert np.abs(usual - flat).max() > 1e-4


def test_a_voice_without_pitch_refuses_expressiveness(voice):
    with pytest.raises(VoiceError, match="does not predict its pitch"):
        voice.say("Hello", expressiveness=1.2)


def test_steps_and_temperature_change_the_sound(voice):
    usual = voice.synthesize("Hello", seed=1).samples
    assert np.abs(voice.synthesize("Hello", seed=1, steps=2).samples - usual).max() > 1e-4
    assert np.abs(voice.synthesize("Hello", seed=1, temperature=0.1).samples - usual).max() > 1e-4


def test_many_texts_at_once_sound_like_each_on_its_own(voice):
    texts = [TEXT, "A short one.", "Another text that is a little longer than the last."]
    together = voice.synthesize_many(texts, seeds=[7, 8, 9])
    for text, seed, audio in zip(texts, [7, 8, 9], together, strict=True):
        alone = voice.synthesize(text, seed=seed).samples
        assert len(alone) == len(audio.samples)
        assert np.sqrt(np.mean((alone - audio.samples) ** 2)) < 1e-4


def test_a_piece_that_is_decoded_in_parts_has_the_frames_of_the_whole(voice):
    ids = voice.tokenizer.encode("hello there, this is it", "en").ids
    piece = Piece("", ids, Counter(), seed=5, position=0, pause_seconds=0.0)
    sampling = voice.sampling(SpeechOptions())
    encoded = voice.engine.encode(ids, sampling)
    (whole,), parts = voice.mels(piece, encoded, sampling), list(voice.mels(piece, encoded, sampling, longest=40))
    assert len(parts) > 1
    assert max(map(len, parts)) <= 40
    assert sum(map(len, parts)) == len(whole)


def test_speech_longer_than_is_decoded_at_once_lasts_as_long_as_its_symbols(voice):
    text = "abcdefgh ijkl " * 24
    usual, slow = (voice.synthesize(text, speed=speed, steps=1, pause=0).seconds for speed in (1, 0.25))
    assert slow > LONGEST_FRAMES / MEL.frames_per_second / 2
    assert slow == pytest.approx(4 * usual, rel=0.02)


CLAUSE = "it goes on for a good while and does not come to an end, "


@pytest.mark.parametrize(
    ("text", "sentences", "cuts"),
    [
        (CLAUSE * 5 + "here it ends. And this is new.", 2, 1),
        (CLAUSE * 5 + "here it ends", 1, 1),
        ("A heading\n\nthe paragraph below it", 2, 0),
        ("A verse\u0964 And a second one\u1362 Done", 3, 0),
        (CLAUSE * 3 + "漢字" * 30 + ".", 1, 0),
    ],
)
def test_a_sentence_is_followed_by_its_pause_and_a_cut_inside_it_by_a_third(voice, text, sentences, cuts):
    usual = {"speed": 4, "steps": 1}
    whole, with_pauses = (voice.synthesize(text, pause=pause, **usual).seconds for pause in (0, 3))
    assert with_pauses - whole == pytest.approx(3 * sentences + cuts)
    assert voice.synthesize_many([text], pause=3, **usual)[0].seconds == pytest.approx(with_pauses)


def test_threads_that_share_a_voice_get_what_one_alone_gets(tmp_path):
    shared = Voice.load(write_voice(tmp_path / "voice"))
    texts = ["Hello.", "A rather longer sentence than that.", "The third one here."] * 2
    found: dict[int, np.ndarray] = {}

    def speak(number):
        found[number] = shared.synthesize(texts[number], seed=number).samples

    threads = [threading.Thread(target=speak, args=(number,)) for number in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, text in enumerate(texts):
        np.testing.assert_allclose(found[number], shared.synthesize(text, seed=number).samples, atol=1e-5)


@pytest.mark.parametrize("text", ["", "   \n\t ", "...!?", "😀😀", "\u200f\u200e\u202b", "\x00\x07\x1b", "漢字"])
def test_a_text_with_nothing_to_speak_raises_at_once(voice, text):
    with pytest.raises(TextError, match=r"empty|nothing to say"):
        voice.say(text)  # at once, not at the first chunk


def test_symbols_that_the_voice_lacks_are_skipped_and_counted(voice):
    chunks = list(voice.say("漢. Hello 😀 there. 😀! Good day. 漢."))
    assert sum((chunk.unknown for chunk in chunks), start=Counter()) == {"😀": 2, "漢": 2}
    np.testing.assert_array_equal(
        voice.synthesize("Hello\x00\u200f there").samples, voice.synthesize("Hello there").samples
    )


def test_a_text_that_is_too_long_raises_and_a_long_one_is_spoken_in_pieces(voice):
    with pytest.raises(TextError, match="Split it"):
        voice.say("a" * (LONGEST_TEXT + 1))
    longest = max(len(chunk.samples) for chunk in voice.say("This is a sentence. " * 50 + "word " * 500, steps=1))
    assert longest < 8000 * 30


def test_a_word_without_end_is_spoken(voice):
    assert voice.synthesize("a" * 2000, steps=1).seconds > 1


NO_NUMBER = st.one_of(st.text(), st.booleans(), st.just(float("nan")), st.lists(st.integers(), max_size=1))
NO_WHOLE_NUMBER = st.floats(-1e6, 1e6) | NO_NUMBER
NO_NAME = st.one_of(st.integers(), st.floats(), st.booleans(), st.binary())
WRONG_OPTIONS = {
    "speed": st.one_of(NO_NUMBER, st.none(), st.floats(max_value=0.2), st.floats(min_value=4.1)),
    "pause": st.one_of(NO_NUMBER, st.none(), st.floats(max_value=-0.1), st.floats(min_value=10.1)),
    "seed": st.one_of(NO_WHOLE_NUMBER, st.none(), st.integers(max_value=-1), st.integers(min_value=2**63)),
    "steps": st.one_of(NO_WHOLE_NUMBER, st.integers(max_value=0), st.integers(min_value=101)),
    "temperature": st.one_of(NO_NUMBER, st.floats(max_value=-0.1), st.floats(min_value=2.1)),
    "expressiveness": st.one_of(NO_NUMBER, st.floats(max_value=-0.1), st.floats(min_value=3.1)),
    "language": NO_NAME,
    "speaker": NO_NAME,
}


@pytest.mark.parametrize("option", WRONG_OPTIONS)
def test_options_out_of_range_raise_at_once(voice, option):
    @settings(max_examples=25, deadline=None)
    @given(value=WRONG_OPTIONS[option])
    def raises(value):
        with pytest.raises(VoiceError, match=option):
            voice.say("Hello", **{option: value})

    raises()


def test_numbers_of_numpy_are_options(voice):
    options = SpeechOptions(speed=np.float32(2), seed=np.int64(1), steps=np.int32(1), temperature=np.float64(0.5))
    assert voice.synthesize("Hello", options).seconds > 0


def test_many_texts_are_a_list_and_their_seeds_whole_numbers(voice):
    with pytest.raises(TextError, match="list of texts"):
        voice.synthesize_many("hi")
    with pytest.raises(TextError, match="Expected a text"):
        voice.synthesize_many([1])
    for seed in (-1, 1.5, "1"):
        with pytest.raises(VoiceError, match="seed must"):
            voice.synthesize_many(["hi"], seeds=[seed])


def test_unknown_languages_and_speakers_raise_with_the_known_ones(cloning_voice):
    with pytest.raises(VoiceError, match=r"language 'de'.*en, fr"):
        cloning_voice.say("Hello", language="de")
    with pytest.raises(VoiceError, match=r"speaker 'bem'.*Did you mean 'ben'"):
        cloning_voice.say("Hello", speaker="bem")


def test_language_and_speaker_change_the_sound(cloning_voice):
    usual = cloning_voice.synthesize("Hello", pause=0).samples
    for other in ({"language": "fr"}, {"speaker": "ben"}):
        changed = cloning_voice.synthesize("Hello", pause=0, **other).samples
        assert len(changed) != len(usual) or np.abs(changed - usual).max() > 1e-3
    np.testing.assert_array_equal(cloning_voice.synthesize("Hello", pause=0, speaker="anna").samples, usual)


def test_a_clone_follows_its_references_and_several_are_averaged(cloning_voice, tmp_path):
    low, high = write_recording(tmp_path / "low.wav", 100), write_recording(tmp_path / "high.flac", 260)
    one, two, both = cloning_voice.clone(low), cloning_voice.clone([high]), cloning_voice.clone([low, high])
    assert np.abs(one.vector - two.vector).max() > 1e-3
    np.testing.assert_allclose(both.vector, (one.vector + two.vector) / 2, atol=1e-5)
    assert cloning_voice.synthesize("Hello", speaker=one).seconds > 0


def _with_default(voice, folder, **defaults):
    """A copy of a voice folder with other defaults, loaded."""
    shutil.copytree(voice, folder)
    content = json.loads((folder / DESCRIPTION_NAME).read_text())
    content["defaults"] |= defaults
    (folder / DESCRIPTION_NAME).write_text(json.dumps(content))
    return Voice.load(folder)


def test_emphasis_moves_clones_away_from_the_mean_of_the_named_speakers(cloning_voice, cloning_folder, tmp_path):
    emphasized, recording = (
        _with_default(cloning_folder, tmp_path / "voice", clone_emphasis=2.0),
        write_recording(tmp_path / "a.wav"),
    )
    center = np.mean([cloning_voice.speaker_vector(name) for name in cloning_voice.speakers], axis=0)
    plain, moved = cloning_voice.clone(recording).vector, emphasized.clone(recording).vector
    np.testing.assert_allclose(moved - center, 2 * (plain - center), atol=1e-5)
    np.testing.assert_array_equal(emphasized.speaker_vector("ben"), cloning_voice.speaker_vector("ben"))


def test_the_decoder_follows_a_named_speaker_with_the_emphasis_of_the_voice(cloning_voice, cloning_folder, tmp_path):
    emphasized, clone = (
        _with_default(cloning_folder, tmp_path / "voice", decoder_emphasis=2.0),
        cloning_voice.clone(write_recording(tmp_path / "a.wav")),
    )
    usual, moved = (each.synthesize("Hello", speaker="ben", pause=0) for each in (cloning_voice, emphasized))
    assert len(usual.samples) == len(moved.samples)  # durations come from the text
    assert np.abs(usual.samples - moved.samples).max() > 1e-3
    usual, same = (each.synthesize("Hello", speaker=clone, pause=0) for each in (cloning_voice, emphasized))
    np.testing.assert_array_equal(usual.samples, same.samples)


def test_the_decoder_follows_a_clone_with_an_emphasis_of_its_own(cloning_voice, cloning_folder, tmp_path):
    emphasized, recording = (
        _with_default(cloning_folder, tmp_path / "voice", clone_decoder_emphasis=3.0),
        write_recording(tmp_path / "a.wav"),
    )
    center = np.mean([cloning_voice.speaker_vector(name) for name in cloning_voice.speakers], axis=0)
    plain, clone = cloning_voice.clone(recording), emphasized.clone(recording)
    np.testing.assert_array_equal(clone.vector, plain.vector)
    np.testing.assert_allclose(clone.decoder_vector - center, 3 * (plain.vector - center), atol=1e-5)
    usual, moved = (
        each.synthesize("Hello", speaker=one, pause=0) for each, one in ((cloning_voice, plain), (emphasized, clone))
    )
    assert len(usual.samples) == len(moved.samples)  # durations come from the text
    assert np.abs(usual.samples - moved.samples).max() > 1e-3
    clone.save(tmp_path / "speaker.json")
    again = emphasized.synthesize("Hello", speaker=Speaker.load(tmp_path / "speaker.json"), pause=0)
    np.testing.assert_array_equal(again.samples, moved.samples)


def test_a_speaker_is_saved_loaded_and_bound_to_its_voice(cloning_voice, voice, tmp_path):
    speaker = cloning_voice.clone(write_recording(tmp_path / "a.wav"))
    speaker.save(tmp_path / "speaker.json")
    loaded = Speaker.load(tmp_path / "speaker.json")
    np.testing.assert_allclose(loaded.vector, speaker.vector, atol=1e-6)
    cloning_voice.synthesize("Hello", speaker=loaded)
    with pytest.raises(VoiceError, match="another voice"):
        voice.say("Hello", speaker=loaded)


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"format": "myxtts-speaker", "format_version": 2}'])
def test_a_file_that_is_no_speaker_raises(tmp_path, content):
    (tmp_path / "s.json").write_text(content)
    with pytest.raises(VoiceError, match=r"s\.json (is not|has) "):
        Speaker.load(tmp_path / "s.json")


def test_a_reference_that_is_short_silent_or_no_audio_raises(cloning_voice, tmp_path):
    from myxtts.audio.files import write_audio

    write_audio(tmp_path / "silent.wav", np.zeros(32000, np.float32), 16000)
    (tmp_path / "text.wav").write_text("hello")
    for path, message in [
        (write_recording(tmp_path / "short.wav", seconds=0.5), "short"),
        (tmp_path / "silent.wav", "silent"),
        (tmp_path / "text.wav", "cannot be read as audio"),
        (tmp_path / "missing.wav", "does not exist"),
    ]:
        with pytest.raises(AudioError, match=message):
            cloning_voice.clone(path)


def test_a_voice_of_one_speaker_says_that_it_cannot_clone(voice, tmp_path):
    with pytest.raises(VoiceError, match="cannot clone"):
        voice.clone(write_recording(tmp_path / "a.wav"))


def test_references_are_repeated_if_short_and_covered_if_long():
    frames = np.arange(10, dtype=np.float32)[:, None]
    assert cut_reference(frames, 16)[0, :, 0].tolist() == [*range(10), *range(6)]
    pieces = cut_reference(frames, 4)
    assert pieces.shape == (3, 4, 1)
    assert (pieces[0, 0, 0], pieces[-1, -1, 0]) == (0, 9)


def test_vocoding_gives_the_length_of_the_mel(voice):
    time = np.arange(8000) / 8000
    mel = mel_numpy(np.sin(2 * np.pi * 440 * time).astype(np.float32), MEL)
    audio = voice.vocode(mel)
    assert len(audio.samples) == (len(mel) - 1) * MEL.hop_length
    with pytest.raises(VoiceError, match="shape"):
        voice.vocode(mel[:, :-1])
    with pytest.raises(VoiceError, match="shape"):
        voice.vocode(mel[0])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_mel_that_is_not_finite_raises(voice, value):
    with pytest.raises(VoiceError, match="finite"):
        voice.vocode(np.full((4, MEL.n_mels), value, np.float32))


def test_a_description_says_how_long_a_sentence_may_be(tmp_path):
    short = Voice.load(write_voice(tmp_path / "voice", max_characters=20))
    assert short.description == describe(max_characters=20)
    assert max(len(chunk.text) for chunk in short.say("one two three four five six seven eight", steps=1)) <= 20


def test_speaking_and_cloning_import_no_tensorflow(cloning_folder, tmp_path):
    reference = write_recording(tmp_path / "a.wav")
    code = f"""
import sys
from myxtts.cli import main
assert main(["say", "Hello", "--voice", {str(cloning_folder)!r}, "--steps", "1", "-o", {str(tmp_path / "a.flac")!r}]) == 0
assert main(["clone", {str(reference)!r}, "Hello", "--voice", {str(cloning_folder)!r}, "-o", {str(tmp_path / "b.flac")!r}]) == 0
assert main(["voice", "show"]) == 0
found = {{"tensorflow", "keras", "matplotlib"}} & set(sys.modules)
assert not found, found
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)


def test_a_mixture_of_speakers_lies_between_them(cloning_voice):
    anna, ben = (cloning_voice.speaker_vector(name) for name in ("anna", "ben"))
    np.testing.assert_allclose(cloning_voice.speaker_vector("anna:3+ben:1"), 0.75 * anna + 0.25 * ben, atol=1e-6)
    np.testing.assert_allclose(cloning_voice.speaker_vector("anna+ben"), (anna + ben) / 2, atol=1e-6)
    for wrong in ("anna:0+ben", "anna:x+ben", "anna+", "anna:nan+ben", "anna+carl"):
        with pytest.raises(VoiceError, match=r"mixture|no speaker"):
            cloning_voice.speaker_vector(wrong)


def test_words_and_symbols_are_timed_within_their_chunk(voice):
    first, second = voice.say("Hello there, you. And more", pause=0.5)
    words = voice.words_of(first)
    assert [word.text for word in words] == ["Hello", "there,", "you."]
    assert words[0].start == 0
    assert all(before.end <= after.start for before, after in itertools.pairwise(words))
    assert "".join(symbol.text for symbol in first.symbols) == "hello there, you."
    assert first.symbols[-1].end == pytest.approx(first.seconds - 0.5)
    assert [word.text for word in voice.words_of(second)] == ["And", "more"]


def test_words_of_a_sentence_in_several_pieces_are_each_timed_once(voice):
    text = " ".join(["a long"] * 3 + ["99,999"] * 15 + ["end."])
    chunks = list(voice.say(text))
    assert len(chunks) > 1
    words = [word for chunk in chunks for word in voice.words_of(chunk)]
    assert [word.text for word in words] == text.split()
    assert [word.index for word in words] == list(range(len(words)))


def test_words_around_given_phonemes_keep_their_places(voice):
    (chunk,) = voice.say("<speak>One <phoneme ph='abe ce'>x</phoneme>, two 3.</speak>")
    assert [(word.text, word.spoken, word.index) for word in voice.words_of(chunk)] == [
        ("One", "One", 0),
        ("abe", "abe", 1),
        ("ce", "ce", 2),
        ("two", "two", 3),
        ("3.", "three.", 4),
    ]


def test_marks_set_pauses_speed_and_speakers(cloning_voice):
    chunks = list(
        cloning_voice.say("<speak><break time='2s'/>Hello<break time='1s'/><voice name='ben'>you</voice></speak>")
    )
    assert [chunk.text for chunk in chunks] == ["", "Hello", "you"]
    assert chunks[0].seconds == 2
    assert chunks[1].seconds - chunks[1].symbols[-1].end == pytest.approx(1)
    expected = cloning_voice.synthesize("you", speaker="ben").samples
    assert len(chunks[2].samples) == len(expected)
    slow, usual = (
        cloning_voice.synthesize(f"<speak><prosody rate='{rate}'>hello there</prosody></speak>", pause=0).seconds
        for rate in ("50%", "100%")
    )
    assert slow == pytest.approx(2 * usual, rel=0.1)
    with pytest.raises(VoiceError, match="no speaker 'carl'"):
        cloning_voice.say("<speak>Hello <voice name='carl'>you</voice></speak>")


def test_a_language_is_spoken_by_its_own_speaker_unless_one_is_named(cloning_voice, monkeypatch):
    language = cloning_voice.languages[0]
    first, second = cloning_voice.speakers[:2]
    first_vector, second_vector = (cloning_voice.speaker_vector(name) for name in (first, second))
    np.testing.assert_array_equal(cloning_voice.sampling(SpeechOptions()).speaker, first_vector)
    own = dataclasses.replace(cloning_voice.description, default_speakers={language: second})
    monkeypatch.setattr(cloning_voice, "description", own)
    np.testing.assert_array_equal(cloning_voice.sampling(SpeechOptions()).speaker, second_vector)
    np.testing.assert_array_equal(cloning_voice.sampling(SpeechOptions(speaker=first)).speaker, first_vector)
    check_description(own)
    with pytest.raises(VoiceError, match="default speakers that it does not have: 'nobody'"):
        check_description(dataclasses.replace(own, default_speakers={language: "nobody"}))
