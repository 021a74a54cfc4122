"""Lists of texts: every format is read, every text is a file, and a run can be resumed."""

import json
import subprocess
import sys

import pytest
import soundfile

from myxtts.cli import main
from myxtts.errors import TextError
from myxtts.runtime.worker_process import child_environment
from myxtts.synthesis.batch_file import BatchItem, read_batch
from tests.synthesis.tiny_voice import describe, write_voice

DESCRIPTION = describe(("anna", "ben"), languages=("en", "fr"))


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.txt", "Hello.\n\nYou.\n", [BatchItem("0001", "Hello."), BatchItem("0003", "You.")]),
        (
            "a.csv",
            'id,text,speed\none,"Hello, you.",2\n../../etc/two,Bye.,\n',
            [BatchItem("one", "Hello, you.", {"speed": 2.0}), BatchItem("two", "Bye.")],
        ),
        ("a.tsv", "text\tlanguage\nHello.\tfr\n", [BatchItem("0002", "Hello.", {"language": "fr"})]),
        (
            "a.jsonl",
            '{"file": "x y", "text": "Hi.", "speaker": "ben", "seed": 3}\n',
            [BatchItem("x_y", "Hi.", {"speaker": "ben", "seed": 3})],
        ),
    ],
)
def test_every_format_is_read(tmp_path, name, content, expected):
    (tmp_path / name).write_text(content, encoding="utf-8-sig")
    assert read_batch(tmp_path / name, DESCRIPTION) == expected


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "id,words\none,Hello\n", "line 2: expected a text in the column text"),
        ("a.csv", 'text\n"open', "unexpected end of data. Close every quotation mark"),
        (
            "a.csv",
            f"text\n{'a' * 140_000}\n",
            "texts of more than 131,072 characters need a .jsonl file",
        ),
        ("a.csv", "id,text\none,Hello\none,Bye\n", "line 3: the name 'one' was used above"),
        ("a.csv", "text,speed\nHello,fast\n", "line 2: speed is not a number"),
        ("a.csv", "text,speed\nHello,900\n", "line 2: speed must lie between"),
        ("a.csv", "text,speaker\nHello,carl\n", "line 2: This voice has no speaker 'carl'"),
        ("a.csv", "text,language\nHello,de\n", "line 2: This voice has no language 'de'"),
        ("a.jsonl", "[1]\n", "line 1: expected a JSON object"),
        ("a.txt", "\n", "has no texts"),
        ("a.doc", "Hello", "a .txt, .csv, .tsv or .jsonl file"),
    ],
)
def test_a_list_that_cannot_be_used_names_the_line(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(TextError, match=message):
        read_batch(tmp_path / name, DESCRIPTION)


@pytest.fixture(scope="module")
def voice(tmp_path_factory):
    return str(write_voice(tmp_path_factory.mktemp("one") / "voice"))


def batch_command(voice, items, out):
    return ["say", "--batch", str(items), "--voice", voice, "-o", str(out), "--steps", "1"]


def test_a_batch_is_resumed_and_reports_what_cannot_be_spoken(voice, tmp_path, capsys):
    (tmp_path / "list.csv").write_text("id,text\none,Hello.\ntwo,漢字\nthree,Bye.\n")
    words = batch_command(voice, tmp_path / "list.csv", tmp_path / "out")
    assert main([*words, "--sample-rate", "16000"]) == 1
    printed = capsys.readouterr()
    assert "2 files, 1 failed" in printed.out
    assert printed.err.startswith("two: There is nothing to say")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["one.wav", "three.wav"]
    assert soundfile.info(tmp_path / "out" / "one.wav").samplerate == 16000
    (tmp_path / "out" / "one.wav").unlink()
    assert main(words) == 1
    assert "1 files, 1 existed already, 1 failed" in capsys.readouterr().out
    assert soundfile.info(tmp_path / "out" / "three.wav").samplerate == 16000
    assert main([*words, "--force"]) == 1
    assert soundfile.info(tmp_path / "out" / "three.wav").samplerate == 8000


def test_a_batch_removes_what_a_killed_one_had_begun(voice, tmp_path):
    (tmp_path / "list.txt").write_text("Hello.\n")
    words = batch_command(voice, tmp_path / "list.txt", tmp_path / "out")
    killed = (
        "import os, sys; from myxtts import cli; from myxtts.synthesis.output import AudioFileWriter\n"
        "AudioFileWriter.write = lambda *_: os.kill(os.getpid(), 9)\n"
        "cli.main(sys.argv[1:])"
    )
    subprocess.run([sys.executable, "-c", killed, *words], env=child_environment())
    (left,) = (tmp_path / "out").iterdir()
    assert left.suffix == ".partial"
    assert main(words) == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["0001.wav"]


def test_a_batch_needs_a_folder_and_no_other_text(voice, tmp_path, capsys):
    (tmp_path / "list.txt").write_text("Hello.\n")
    batch = ["--batch", str(tmp_path / "list.txt"), "--voice", voice]
    assert main(["say", *batch]) == 2
    assert "-o FOLDER" in capsys.readouterr().err
    assert main(["say", "Hello", *batch, "-o", str(tmp_path)]) == 2
    assert "cannot be used together" in capsys.readouterr().err


def test_timings_rate_and_force_of_one_text(voice, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["say", "Hello you. Bye.", "--voice", voice, "--steps", "1"]
    for name in ("a.json", "a.srt"):
        assert main([*words, "--timings", name, "--force", "--sample-rate", "22050"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "a.srt", "speech.wav"]
    timings = json.loads((tmp_path / "a.json").read_text())
    assert [word["word"] for word in timings["words"]] == ["Hello", "you.", "Bye."]
    assert timings["visemes"] == []  # letters
    info = soundfile.info(tmp_path / "speech.wav")
    assert info.samplerate == 22050
    assert timings["seconds"] == pytest.approx(info.duration, abs=0.01)
    assert (tmp_path / "a.srt").read_text().count(" --> ") == 2
    capsys.readouterr()
    for wrong, message in ((["--timings", "a.txt"], ".json, .srt or .vtt"), (["--sample-rate", "1"], "between 4000")):
        assert main([*words, *wrong]) == 2
        assert message in capsys.readouterr().err
