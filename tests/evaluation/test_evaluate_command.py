"""`myxtts evaluate` as it is called."""

import json

import pytest

from myxtts.cli import main
from tests.evaluation.made_up_voice import TEXTS, MadeUpVoice, made_up_sentences


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
def loaded(monkeypatch):
    """Folders that were asked for; each is answered with the made-up voice."""
    asked = []

    def load(folder):
        asked.append(folder)
        return MadeUpVoice(silent=TEXTS[:1])

    monkeypatch.setattr("myxtts.commands.evaluate._load_voice", load)
    return asked


def test_figures_are_printed_and_written(corpus, loaded, tmp_path, capsys):
    json_path, html_path = tmp_path / "out.json", tmp_path / "out.html"
    words = ["evaluate", "my-voice", "--data", str(corpus), "--metrics", "mcd", "failed", "--seeds", "2"]
    assert main([*words, "--json", str(json_path), "--html", str(html_path)]) == 0
    content = json.loads(json_path.read_text(encoding="utf-8"))
    assert content["failed"] == 0.25
    assert content["seeds"] == 2
    assert html_path.read_text(encoding="utf-8").startswith("<!doctype html>")
    printed = capsys.readouterr().out
    assert "Failed sentences" in printed
    assert "0 (seed 1): silent" in printed
    assert str(loaded[0]) == "my-voice"


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
        (["--sentences", "everyday", "--metrics", "similarity"], "compare with recordings"),
        (["--sentences", "everyday", "--recordings-only"], "--recordings-only"),
        (["--sentences", "no-such-file.txt"], "cannot be read"),
        (["--limit", "0"], "--limit"),
    ],
)
def test_mistakes_are_explained(words, message, loaded, capsys):
    assert main(["evaluate", *words]) == 2
    assert message in capsys.readouterr().err


def test_the_everyday_list_holds_100_sentences_of_at_most_300_characters_that_no_corpus_has():
    from myxtts.commands.evaluate import everyday_sentences
    from myxtts.data.corpora import bundled_corpus
    from myxtts.data.manifest import read_corpus
    from myxtts.evaluation.error_rates import comparable_text

    texts = [each.text for each in everyday_sentences()]
    known = {comparable_text(each.text, "en") for each in read_corpus(bundled_corpus()).utterances}
    assert len(set(texts)) == 100
    assert max(map(len, texts)) <= 300
    assert not known & {comparable_text(text, "en") for text in texts}
