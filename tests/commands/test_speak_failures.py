"""`myxtts say` and `clone` when something is wrong: one line, early, and nothing left behind."""

import os
import signal
import subprocess
import sys

import pytest

from myxtts.cli import EXIT_USER_ERROR, main
from myxtts.synthesis.options import LONGEST_TEXT
from tests.commands.command_line import PipedInput, failure_of
from tests.synthesis.tiny_voice import write_recording


@pytest.fixture
def reference(tmp_path):
    return str(write_recording(tmp_path / "reference.wav"))


@pytest.fixture
def no_voice(monkeypatch):
    """Loading a voice fails."""

    def refuse(folder):
        raise AssertionError("The voice is loaded before the mistake is reported")

    monkeypatch.setattr("myxtts.commands.speak._load_voice", refuse)


@pytest.mark.usefixtures("no_voice")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["Hello", "-o", "-", "--format", "xyz"], "Unknown audio format"),
        (["Hello", "-o", "{folder}/a.wav", "--speaker", "nobody"], "no speaker 'nobody'. It has: anna"),
        (["Hello", "-o", "{folder}/a.wav", "--speaker", "a" * 300], "no speaker 'aaa"),
        (["Hello", "-o", "{folder}/a.wav", "--language", "xx"], "no language 'xx'"),
        (["Hello", "-o", "{folder}/a.json", "--format", "wav", "--timings", "{folder}/a.json"], "two different files"),
        (["Hello", "-o", "{folder}/" + "a" * 300 + ".wav"], "cannot be written: File name too long"),
        (["a" * (LONGEST_TEXT + 1), "-o", "{folder}/a.wav"], "Split it"),
        (["Hello", "-o", "{folder}/a.wav", "--voice", "a" * 300], "is not a voice"),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_say_reports_a_mistake_before_the_voice_is_loaded(voice, tmp_path, capsys, words, message):
    words = [word.format(folder=tmp_path) for word in words]
    words = words if "--voice" in words else [*words, "--voice", voice]
    assert message in failure_of(capsys, "say", *words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("no_voice")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{folder}/missing.wav", "Hello"], "does not exist"),
        (["{reference}", "Hello", "--reference", "{folder}/missing.wav"], "does not exist"),
        (["{reference}", "--save-speaker", "{folder}/nowhere/s.json"], "does not exist"),
        (["{reference}", "--save-speaker", "{folder}"], "not a regular file, so it cannot be replaced"),
        (["{reference}", "--save-speaker", "{reference}"], "is the reference"),
        (["{reference}", "Hello", "-o", "{reference}"], "is the reference"),
        (["{reference}", "Hello", "-o", "-", "--format", "xyz"], "Unknown audio format"),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_clone_reports_a_mistake_before_the_voice_is_loaded(cloning_voice, reference, tmp_path, capsys, words, message):
    words = [word.format(folder=tmp_path, reference=reference) for word in words]
    assert message in failure_of(capsys, "clone", *words, "--voice", cloning_voice)


@pytest.mark.usefixtures("no_voice")
def test_a_voice_of_one_speaker_cannot_clone_reported_before_the_voice_is_loaded(voice, reference, capsys):
    assert "cannot clone" in failure_of(capsys, "clone", reference, "Hello", "--voice", voice)


def test_a_mistake_is_reported_by_a_process_that_never_imports_tensorflow(voice):
    code = "import sys; from myxtts.cli import main; main(sys.argv[1:]); print('tensorflow' in sys.modules)"
    words = ["say", "Hello", "--voice", voice, "--speaker", "nobody"]
    outcome = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert "no speaker" in outcome.stderr
    assert outcome.stdout == "False\n"


def test_a_text_too_long_to_be_read_is_not_reported_as_another_encoding(voice, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", PipedInput(("a" + "é" * (1 << 21)).encode()))
    printed = failure_of(capsys, "say", "--voice", voice)
    assert "more than 4,194,304 bytes" in printed
    assert "UTF-8" not in printed


@pytest.mark.parametrize("words", [["-o", "-", "--format", "raw"], ["-o", "-"], ["-o", "{folder}/a.wav"]])
def test_a_full_standard_output_is_one_line(voice, tmp_path, monkeypatch, capsys, words):
    words = [word.format(folder=tmp_path) for word in words]
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["say", "Hello", "--voice", voice, "--steps", "1", *words]) == EXIT_USER_ERROR
        full.flush()  # nothing is left that Python would report when it exits
    printed = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("raw: ")]
    assert printed == ["myxtts say: Standard output cannot be written: No space left on device."]


@pytest.mark.usefixtures("usual_hangup")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("command", ["say", "clone"])
def test_a_signal_gives_the_usual_exit_code_and_leaves_no_file(
    cloning_voice, reference, tmp_path, monkeypatch, command, number
):
    from myxtts.synthesis.voice import Voice

    say = Voice.say

    def say_and_receive_a_signal(*arguments):
        for chunk in say(*arguments):
            yield chunk
            os.kill(os.getpid(), number)

    monkeypatch.setattr(Voice, "say", say_and_receive_a_signal)
    output = tmp_path / "spoken"
    output.mkdir()
    words = [command, *([reference] if command == "clone" else []), "Hello. And more."]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--voice", cloning_voice, "--steps", "1", "-o", str(output / "a.wav")])
    assert ended.value.code == 128 + number
    assert list(output.iterdir()) == []
