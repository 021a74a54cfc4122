"""`myxtts say` and `clone` as a user calls them."""

import io
import re
import subprocess
import sys

import numpy as np
import pytest
import soundfile

from myxtts.cli import main
from tests.commands.command_line import PipedInput, failure_of
from tests.synthesis.tiny_voice import write_recording


def test_say_writes_a_file_and_prints_its_length(voice, tmp_path, capsys):
    assert main(["say", "Hello there.", "--voice", voice, "-o", str(tmp_path / "a.wav"), "--steps", "2"]) == 0
    samples, rate = soundfile.read(tmp_path / "a.wav")
    printed = capsys.readouterr().out
    assert rate == 8000
    assert f"{len(samples) / rate:.2f} s of speech" in printed
    assert re.search(r"\(real-time factor [0-9.]+; plus [0-9.]+ s start-up\)\n$", printed)


def test_one_sentence_imports_nothing_that_speaking_does_not_need(voice, tmp_path):
    unneeded = (
        "tensorflow", "keras", "scipy", "librosa", "matplotlib", "torch", "rich", "psutil", "langcodes", "phonemizer",
        "espeakng_loader", "fastapi", "multiprocessing", "asyncio", "myxtts.training", "myxtts.export", "myxtts.cache",
    )  # fmt: skip
    code = (
        "import sys; from myxtts.cli import main; "
        f"code = main(['say', 'Hello.', '--voice', {voice!r}, '-o', {str(tmp_path / 'a.wav')!r}]); "
        f"print(code, [name for name in {unneeded!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines()[-1] == "0 []", done.stderr


@pytest.mark.parametrize("format", ["flac", "ogg", "mp3", "raw"])
def test_say_writes_the_format_of_the_file_name(voice, tmp_path, format):
    path = tmp_path / f"a.{format}"
    assert main(["say", "Hello.", "--voice", voice, "-o", str(path), "--steps", "1"]) == 0
    if format == "raw":
        assert len(path.read_bytes()) > 1000
    else:
        assert soundfile.info(path).format == format.upper()


def test_the_text_comes_from_an_argument_a_file_or_standard_input(voice, tmp_path, monkeypatch):
    (tmp_path / "text.txt").write_bytes("\ufeffHello there.".encode())
    sources = {"argument": ["Hello there."], "file": ["--text-file", str(tmp_path / "text.txt")], "pipe": []}
    for name, words in sources.items():
        monkeypatch.setattr(sys, "stdin", PipedInput(b"Hello there."))
        assert main(["say", *words, "--voice", voice, "-o", str(tmp_path / f"{name}.wav"), "--steps", "1"]) == 0
    contents = {(tmp_path / f"{name}.wav").read_bytes() for name in sources}
    assert len(contents) == 1


def test_standard_output_gets_audio_only(voice, capfdbinary):
    assert main(["say", "Hello.", "--voice", voice, "-o", "-", "--format", "wav", "--steps", "1"]) == 0
    captured = capfdbinary.readouterr()
    samples, rate = soundfile.read(io.BytesIO(captured.out))
    assert rate == 8000
    assert len(samples) > 100
    assert b"s of speech" in captured.err


def test_symbols_that_the_voice_lacks_are_reported(voice, tmp_path, capsys):
    assert main(["say", "Hello 😀.", "--voice", voice, "-o", str(tmp_path / "a.wav"), "--steps", "1"]) == 0
    assert "skipped (not in this voice's symbols): '😀' ×1\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([""], "is empty"),
        (["...!"], "nothing to say"),
        (["😀"], "nothing to say"),
        (["\u200f\u200e"], "nothing to say|empty"),
        (["Hello", "--language", "xx"], "no language 'xx'"),
        (["Hello", "--speaker", "nobody"], "no speaker 'nobody'"),
        (["Hello", "--speed", "0"], "speed must lie"),
        (["Hello", "--steps", "0"], "steps must lie"),
        (["a" * 1_000_000], "Split it"),
        (["Hello", "--text-file", "x"], "not both"),
        (["--text-file", "/nowhere/at/all.txt"], "cannot be read"),
        (["Hello", "--format", "exe"], "Unknown audio format"),
    ],
)
def test_bad_input_is_one_line_and_leaves_no_file(voice, tmp_path, capsys, words, message):
    error = failure_of(capsys, "say", *words, "--voice", voice, "-o", str(tmp_path / "a.wav"))
    assert re.search(message, error)
    assert list(tmp_path.iterdir()) == []


def test_an_output_folder_that_does_not_exist_is_reported_before_anything_is_spoken(voice, tmp_path, capsys):
    assert "does not exist" in failure_of(capsys, "say", "Hi", "--voice", voice, "-o", str(tmp_path / "no" / "a.wav"))


def test_a_text_that_is_not_utf8_is_reported(voice, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", PipedInput(b"caf\xe9"))
    assert "not UTF-8" in failure_of(capsys, "say", "--voice", voice, "-o", str(tmp_path / "a.wav"))


def test_a_folder_that_is_not_a_voice_is_reported(tmp_path, capsys):
    assert "is not a voice" in failure_of(capsys, "say", "Hi", "--voice", str(tmp_path), "-o", str(tmp_path / "a.wav"))


def test_clone_saves_a_speaker_that_say_takes(cloning_voice, tmp_path):
    reference = str(write_recording(tmp_path / "reference.wav"))
    speaker, cloned, said = (str(tmp_path / name) for name in ("speaker.json", "cloned.wav", "said.wav"))
    words = ["--voice", cloning_voice, "--steps", "1"]
    assert main(["clone", reference, "Hello.", *words, "-o", cloned, "--save-speaker", speaker]) == 0
    assert main(["say", "Hello.", *words, "-o", said, "--speaker", speaker]) == 0
    np.testing.assert_array_equal(soundfile.read(said)[0], soundfile.read(cloned)[0])


def test_clone_without_a_text_only_saves_the_speaker(cloning_voice, tmp_path):
    reference = str(write_recording(tmp_path / "reference.wav"))
    more = str(write_recording(tmp_path / "more.wav", 200))
    saved = tmp_path / "speaker.json"
    words = ["clone", reference, "--reference", more, "--voice", cloning_voice, "--save-speaker", str(saved)]
    assert main(words) == 0
    assert saved.is_file()


def test_a_voice_of_one_speaker_and_a_short_reference_are_reported(voice, cloning_voice, tmp_path, capsys):
    reference = str(write_recording(tmp_path / "reference.wav"))
    output = ["-o", str(tmp_path / "a.wav")]
    assert "cannot clone" in failure_of(capsys, "clone", reference, "Hi", "--voice", voice, *output)
    short = str(write_recording(tmp_path / "short.wav", seconds=0.4))
    assert "at least 1 s" in failure_of(capsys, "clone", short, "Hi", "--voice", cloning_voice, *output)
    assert not (tmp_path / "a.wav").exists()
