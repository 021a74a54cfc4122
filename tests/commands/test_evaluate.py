"""`myxtts evaluate` as it is called."""

import json
import shutil
from dataclasses import asdict
from functools import partial

import pytest

from myxtts.cli import main
from myxtts.runtime.progress import LineProgress
from myxtts.synthesis.score_card import read_score_card
from myxtts.synthesis.training_split import TrainingSplit
from myxtts.text.tokenizer import FrontEnd
from tests.commands.command_line import failure_of
from tests.evaluation.made_up_voice import TEXTS, MadeUpVoice, made_up_sentences
from tests.synthesis.tiny_voice import describe


@pytest.fixture
def corpus(tmp_path):
    """An LJSpeech folder of tones, all of it held out."""
    folder = tmp_path / "corpus"
    (folder / "wavs").mkdir(parents=True)
    sentences = made_up_sentences(folder / "wavs")
    lines = "".join(f"{each.recording.stem}|{each.text}\n" for each in sentences)
    (folder / "metadata_eval.csv").write_text(lines, encoding="utf-8")
    (folder / "metadata.csv").write_text(lines, encoding="utf-8")
    return folder


@pytest.fixture
def voice(tmp_path):
    """Writes a voice folder without real weights, whose description records what it was trained on."""

    def write(trained=(), held_out=(), **changes):
        split = TrainingSplit.of("corpus", trained, held_out)
        folder = tmp_path / "my-voice"
        folder.mkdir()
        content = asdict(describe(("her",), **{"training_split": split} | changes))
        (folder / "voice.json").write_text(json.dumps(content), encoding="utf-8")
        (folder / "voice.onnx").write_bytes(bytes(100_000))
        return str(folder)

    return write


@pytest.fixture
def measured(loaded, tmp_path, capsys, monkeypatch):
    """Runs the command on the made-up voice; returns its exit code, what it wrote as JSON, and its standard error.

    Lines of progress come every `seconds`; by default never, whatever else the machine does.
    """

    def run(*words, seconds=1e9):
        monkeypatch.setattr("myxtts.runtime.progress.LineProgress", partial(LineProgress, every_seconds=seconds))
        path = tmp_path / "out.json"
        code = main(["evaluate", *words, "--metrics", "failed", "--seeds", "1", "--json", str(path)])
        content = json.loads(path.read_text(encoding="utf-8")) if code == 0 else {}
        return code, content, capsys.readouterr().err

    return run


@pytest.fixture
def loaded(monkeypatch):
    """Folders that were asked for; each is answered with the made-up voice."""
    asked = []

    def load(folder, vocoder=None):
        asked.append(folder)
        return MadeUpVoice(silent=TEXTS[:1])

    monkeypatch.setattr("myxtts.commands.evaluate._open_voice", load)
    return asked


def test_metrics_are_printed_and_written(corpus, loaded, voice, tmp_path, capsys):
    json_path, html_path = tmp_path / "out.json", tmp_path / "out.html"
    words = ["evaluate", voice(), "--data", str(corpus), "--metrics", "mcd", "failed", "--seeds", "2"]
    assert main([*words, "--json", str(json_path), "--html", str(html_path)]) == 0
    content = json.loads(json_path.read_text(encoding="utf-8"))
    assert content["failed"] == 0.25
    assert content["seeds"] == 2
    assert html_path.read_text(encoding="utf-8").startswith("<!doctype html>")
    printed = capsys.readouterr().out
    assert "Failed sentences" in printed
    assert "0 (seed 1): silent" in printed
    assert str(loaded[0]) == str(tmp_path / "my-voice")


def test_the_score_card_is_kept_in_the_voice_folder(corpus, loaded, voice, tmp_path):
    folder = voice()
    words = ["evaluate", folder, "--data", str(corpus), "--metrics", "mcd", "failed", "--seeds", "2", "--score-card"]
    assert main(words) == 0
    card = read_score_card(tmp_path / "my-voice")
    assert card.scores["failed"]["voice"].value == 0.25
    assert card.scores["failed"]["recordings"].value == 0.0
    assert set(card.scores["mcd"]) == {"voice", "vocoded"}
    assert (card.sentences, card.seeds) == (len(TEXTS), 2)


def test_without_recordings_their_metrics_come_from_the_score_card(corpus, loaded, voice, measured, tmp_path, capsys):
    folder = voice()
    words = ["evaluate", folder, "--data", str(corpus), "--metrics", "mcd", "failed", "--seeds", "2", "--score-card"]
    assert main(words) == 0
    shutil.rmtree(corpus)
    code, content, _ = measured(folder)
    assert (code, content["sentences"], content["failed"]) == (0, len(TEXTS), 0.25)
    assert content["failed_recordings"] == 0.0
    assert f"from the score card ({len(TEXTS)} sentences)" in content["notice"]
    assert [each["text"] for each in content["results"]] == list(TEXTS)
    code, content, _ = measured(folder, "--limit", "1", "--vocoder", "universal")
    assert (content["sentences"], content["failed_recordings"]) == (1, 0.0)
    assert "failed_vocoded" not in content or content["failed_vocoded"] is None
    assert "needs recordings" in failure_of(capsys, "evaluate", folder, "--score-card")


def test_sentences_without_recordings_leave_out_what_compares(loaded, tmp_path):
    path = tmp_path / "list.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    json_path = tmp_path / "out.json"
    assert (
        main(["evaluate", "--sentences", str(path), "--metrics", "failed", "--limit", "2", "--json", str(json_path)])
        == 0
    )
    content = json.loads(json_path.read_text(encoding="utf-8"))
    assert content["sentences"] == 2
    assert content["failed_recordings"] is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--sentences", "everyday", "--metrics", "similarity"], "these metrics cannot be measured: similarity"),
        (["--sentences", "everyday", "--recordings-only"], "--recordings-only"),
        (["--sentences", "no-such-file.txt"], "cannot be read"),
        (["--recordings-only", "--score-card"], "--score-card needs a voice"),
        (["--limit", "0"], "--limit"),
        (["--sample-rate", "16000"], "--sample-rate needs --recordings-only"),
        (["--recordings-only", "--sample-rate", "5"], "data.sample_rate"),
        (["--language", "Klingon"], "no language 'Klingon'"),
        (["--recordings-only", "--language", "Germn"], "Did you mean de (German)?"),
        (["--speaker", "nobody"], "no speaker 'nobody'"),
        (["--recognizer", "siri", "--metrics", "cer"], "Unknown recognizer. Received: 'siri'"),
        (["--recognizer", "moonshine", "--metrics", "failed"], "--recognizer is for the metrics cer and wer"),
    ],
)
def test_mistakes_are_explained(words, message, loaded, capsys):
    assert main(["evaluate", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("language", "count"), [("en", 100), ("fa", 60)])
def test_everyday_lists_hold_sentences_of_at_most_300_characters_that_no_corpus_has(language, count):
    from myxtts.commands.evaluate import everyday_sentences
    from myxtts.corpus.corpus import bundled_corpus, read_manifest
    from myxtts.evaluation.clip_metrics import comparable_text

    texts = [each.text for each in everyday_sentences(language)]
    known = {comparable_text(each.text, "en") for each in read_manifest(bundled_corpus()).utterances}
    assert len(set(texts)) == count
    assert max(map(len, texts)) <= 300
    assert not known & {comparable_text(text, language) for text in texts}


def ids(content):
    return [each["id"] for each in content["results"]]


def clips(*numbers):
    return [(str(number), TEXTS[number]) for number in numbers]


def test_exactly_the_clips_that_training_held_out_are_measured(corpus, voice, measured):
    folder = voice(trained=TEXTS[:3], held_out=clips(3))
    code, content, error = measured(folder, "--data", str(corpus))
    assert (code, ids(content), content["trained_sentences"], error) == (0, ["3"], [], "")


def test_a_corpus_that_was_trained_on_without_holding_out_is_refused(corpus, voice, measured):
    code, _, error = measured(voice(trained=TEXTS), "--data", str(corpus))
    assert code == 2
    assert "The voice was trained on all of these 4 sentences" in error


def test_another_corpus_is_measured_by_its_own_split(corpus, voice, measured):
    code, content, error = measured(voice(trained=["Something else."]), "--data", str(corpus))
    assert (code, ids(content), content["trained_sentences"], error) == (0, ["0", "1", "2", "3"], [], "")


def test_held_out_clips_whose_text_was_trained_on_are_named(corpus, voice, measured):
    folder = voice(trained=TEXTS, held_out=clips(1, 2))
    code, content, error = measured(folder, "--data", str(corpus))
    assert (code, ids(content), content["trained_sentences"]) == (0, ["1", "2"], ["1", "2"])
    assert error == f"The voice was trained on the text of 2 of these 2 sentences, such as {TEXTS[1]!r}.\n"
    assert content["notice"] in error


def test_sentences_of_a_list_that_were_trained_on_are_named(voice, measured, tmp_path):
    (tmp_path / "list.txt").write_text(f"{TEXTS[0].upper()}!\n{TEXTS[1]}\n", encoding="utf-8")
    folder = voice(trained=TEXTS[:1])
    code, content, error = measured(folder, "--sentences", str(tmp_path / "list.txt"))
    assert (code, content["trained_sentences"]) == (0, ["001"])
    assert "trained on the text of 1 of these 2 sentences" in error


def test_a_list_of_nothing_but_training_sentences_is_refused(voice, measured, tmp_path):
    (tmp_path / "list.txt").write_text(TEXTS[0], encoding="utf-8")
    code, _, error = measured(voice(trained=TEXTS), "--sentences", str(tmp_path / "list.txt"))
    assert code == 2
    assert "trained on all of these 1 sentences" in error


def test_a_voice_without_a_record_is_measured_with_one_line_that_says_so(corpus, voice, measured):
    code, content, error = measured(voice(training_split=None), "--data", str(corpus))
    assert (code, len(ids(content)), content["trained_sentences"]) == (0, 4, None)
    assert error.count("\n") == 1
    assert "does not record what it was trained on" in error


def test_a_voice_trained_from_one_without_a_record_says_so(corpus, voice, measured):
    split = TrainingSplit.of("corpus", TEXTS[:2], clips(2, 3)).after(None)
    code, content, error = measured(voice(training_split=split), "--data", str(corpus))
    assert (code, ids(content)) == (0, ["2", "3"])
    assert "records only part of what it was trained on" in error


def test_a_corpus_in_a_language_that_the_voice_lacks_is_refused(corpus, voice, measured):
    for name in ("metadata.csv", "metadata_eval.csv"):
        lines = f"id|text|normalised|speaker|language\n0|{TEXTS[0]}|{TEXTS[0]}|her|fr\n"
        (corpus / name).write_text(lines, encoding="utf-8")
    code, _, error = measured(voice(), "--data", str(corpus))
    assert code == 2
    assert "no language 'fr'. It has: en" in error


def test_a_language_by_name_is_the_one_of_the_corpus(corpus, voice, measured):
    folder = voice(languages=["de", "fa"], model=describe(languages=("de", "fa")).model)
    code, content, _ = measured(folder, "--data", str(corpus), "--language", "farsi")
    assert (code, len(ids(content))) == (0, 4)


def test_progress_is_printed_in_lines_where_there_is_no_terminal(corpus, voice, measured):
    code, _, error = measured(voice(), "--data", str(corpus), seconds=0)
    assert code == 0
    assert "speaking: 4 of 4 (100 %), took " in error


def test_missing_phonemes_are_reported_before_the_voice_is_loaded(corpus, voice, loaded, capsys, monkeypatch):
    monkeypatch.setattr("myxtts.text.phonemes.is_installed", lambda: False)
    own = voice(front_end=FrontEnd("phonemes").to_dict())
    assert main(["evaluate", own, "--data", str(corpus)]) == 2
    assert "This voice reads phonemes" in capsys.readouterr().err
    assert loaded == []


@pytest.mark.parametrize(("words", "expected_rate"), [([], 16000), (["--sample-rate", "8000"], 8000)])
def test_the_rate_of_recordings_alone_can_be_chosen(corpus, tmp_path, words, expected_rate, monkeypatch):
    from myxtts.evaluation import evaluate

    seen = []
    summed = evaluate.Evaluator.evaluate_recordings

    def noting(self, settings, vocode, progress):
        seen.append(settings)
        return summed(self, settings, lambda frames: vocode(frames)[:100], progress)

    monkeypatch.setattr(evaluate.Evaluator, "evaluate_recordings", noting)
    assert main(["evaluate", "--recordings-only", "--data", str(corpus), "--metrics", "failed", *words]) == 0
    assert seen[0].mel.sample_rate == expected_rate
    assert seen[0].mel.f_max == expected_rate / 2
    assert (seen[0].trim_silence_db, seen[0].loudness_db) == (45.0, -23.0)


def test_bundled_voices_record_what_they_were_trained_on():
    from myxtts.commands.evaluate import everyday_sentences
    from myxtts.synthesis.bundled import bundled_voices
    from myxtts.synthesis.voice_folder import read_description

    for folder in bundled_voices().values():
        split = read_description(folder).training_split
        assert split.is_complete
        assert split.num_held_out_clips >= 50
        assert split.was_trained_on("Author of the danger trail, Philip Steels, etc.")
        assert not any(split.was_trained_on(each.text) for each in everyday_sentences() if len(each.text.split()) > 3)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--json", "nowhere/a.json"], "The folder nowhere does not exist"),
        (["--html", "."], "not a regular file"),
        (["--json", "a", "--html", "./a"], "two different files"),
    ],
)
def test_a_report_that_cannot_be_written_is_refused_before_anything_is_measured(flags, message, capsys, here):
    error = failure_of(capsys, "evaluate", "kathleen", *flags)
    assert message in error
