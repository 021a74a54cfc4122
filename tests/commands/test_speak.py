"""`myxtts voice`, `say` and `clone` as a user calls them."""

import io
import re
import sys

import numpy as np
import pytest
import soundfile

from myxtts.cli import EXIT_USER_ERROR, main
from myxtts.config.config import XTTSConfig
from myxtts.config.load import config_to_dict
from myxtts.synthesis.voice_folder import read_description, read_weights
from myxtts.training.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from tests.synthesis.tiny_voice import describe, random_weights, write_recording


class PipedInput:
    """Standard input that comes through a pipe."""

    def __init__(self, content: bytes):
        self.buffer = io.BytesIO(content)

    def isatty(self):
        return False


def failure_of(capsys, *words: str) -> str:
    """The one line that a failing command says."""
    assert main([*words]) == EXIT_USER_ERROR
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def test_say_writes_a_file_and_tells_its_length(voice, tmp_path, capsys):
    assert main(["say", "Hello there.", "--voice", voice, "-o", str(tmp_path / "a.wav"), "--steps", "2"]) == 0
    samples, rate = soundfile.read(tmp_path / "a.wav")
    told = capsys.readouterr().out
    assert rate == 8000
    assert f"{len(samples) / rate:.2f} s of speech" in told
    assert re.search(r"\(real-time factor [0-9.]+; plus [0-9.]+ s start-up\)\n$", told)


@pytest.mark.parametrize("format", ["flac", "ogg", "mp3", "raw"])
def test_say_writes_what_the_name_asks_for(voice, tmp_path, format):
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


def test_standard_output_gets_sound_alone(voice, capfdbinary):
    assert main(["say", "Hello.", "--voice", voice, "-o", "-", "--format", "wav", "--steps", "1"]) == 0
    captured = capfdbinary.readouterr()
    samples, rate = soundfile.read(io.BytesIO(captured.out))
    assert rate == 8000
    assert len(samples) > 100
    assert b"s of speech" in captured.err


def test_what_the_voice_has_not_learnt_is_told(voice, tmp_path, capsys):
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


def test_an_output_folder_that_does_not_exist_is_told_before_anything_is_spoken(voice, tmp_path, capsys):
    assert "does not exist" in failure_of(capsys, "say", "Hi", "--voice", voice, "-o", str(tmp_path / "no" / "a.wav"))


def test_a_text_that_is_not_utf8_is_told(voice, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", PipedInput(b"caf\xe9"))
    assert "not UTF-8" in failure_of(capsys, "say", "--voice", voice, "-o", str(tmp_path / "a.wav"))


def test_a_folder_that_is_no_voice_is_told(tmp_path, capsys):
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


def test_a_voice_of_one_speaker_and_a_bad_reference_are_told(voice, cloning_voice, tmp_path, capsys):
    reference = str(write_recording(tmp_path / "reference.wav"))
    output = ["-o", str(tmp_path / "a.wav")]
    assert "cannot clone" in failure_of(capsys, "clone", reference, "Hi", "--voice", voice, *output)
    short = str(write_recording(tmp_path / "short.wav", seconds=0.4))
    assert "at least 1 s" in failure_of(capsys, "clone", short, "Hi", "--voice", cloning_voice, *output)
    assert not (tmp_path / "a.wav").exists()


def test_show_tells_languages_speakers_size_and_licence(cloning_voice, capsys):
    assert main(["voice", "show", cloning_voice]) == 0
    told = capsys.readouterr().out
    for expected in ("en", "anna, ben; can clone", "MB", "CC0", "made by code"):
        assert expected in told


def write_checkpoint(folder):
    description = describe()
    weights = {name: array for name, array in random_weights(description).items() if not name.startswith("mel_")}
    flat = np.concatenate([array.ravel() for array in weights.values()])
    return save_checkpoint(
        folder,
        Checkpoint(
            step=1500,
            position=(0, 0),
            arrays={
                "weights": flat,
                "average": flat * 0.5,
                "fixed/mel_mean": np.full(20, -4.0, np.float32),
                "fixed/mel_deviation": np.ones(20, np.float32),
            },
            weight_names=list(weights),
            weight_shapes=[list(array.shape) for array in weights.values()],
            scalars={},
            config=config_to_dict(XTTSConfig()),
            corpus={
                "model": description.model,
                "mel": description.mel,
                "symbols": description.symbols,
                "front_end": description.front_end,
                "languages": ["en"],
                "speakers": ["anna"],
                "reference_frames": 0,
                "trim_silence_db": 45.0,
                "loudness_db": -23.0,
                "max_characters": 180,
                "licence": "the corpus's own",
                "attribution": "Anna",
                "content_id": "0",
            },
            progress={"duration_scale": 1.1},
        ),
    )


def test_a_checkpoint_becomes_a_voice_that_speaks_with_the_averaged_weights(tmp_path, capsys):
    from myxtts.synthesis.voice import Voice

    checkpoint = write_checkpoint(tmp_path / "run")
    assert main(["voice", "export", str(tmp_path / "run"), str(tmp_path / "voice"), "--licence", "MIT"]) == 0
    assert "1500" in capsys.readouterr().out
    description = read_description(tmp_path / "voice")
    assert (description.licence, description.attribution) == ("MIT", "Anna")
    assert description.defaults.duration_scale == 1.1
    voice = Voice.load(tmp_path / "voice")
    assert voice.synthesize("Hello", steps=1).seconds > 0
    expected = load_checkpoint(checkpoint).named_weights("average")["decoder/noisy_projection/kernel"]
    found = read_weights(tmp_path / "voice")[1]["decoder/noisy_projection/kernel"]
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)
