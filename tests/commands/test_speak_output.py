"""Where `myxtts say` puts speech when no file is named: new files, a player or standard output."""

import subprocess
import sys

import pytest
import soundfile

from myxtts.cli import main
from myxtts.synthesis.output import find_player, play
from myxtts.text.tokenizer import FrontEnd
from tests.commands.command_line import failure_of, names_in
from tests.synthesis.tiny_voice import write_recording, write_voice


@pytest.fixture
def players(tmp_path, monkeypatch):
    """Installs players made by code, and nothing else; each plays by copying its last argument to `played.wav`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def install(name, script=f'for last; do :; done; /bin/cp "$last" "{tmp_path}/played.wav"'):
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
        return tmp_path / "played.wav"

    return install


# --- files without a given name ----------------------------------------------------------------------------------------


def test_without_a_name_every_speech_is_a_new_file(voice, here, capsys):
    for _ in range(2):
        assert main(["say", "Hello.", "--voice", voice, "--steps", "1"]) == 0
    (here / "speech-4.wav").write_text("mine")
    before = (here / "speech.wav").read_bytes()
    for text in ("Other words.", "And more."):
        assert main(["say", text, "--voice", voice, "--steps", "1"]) == 0
    assert names_in(here) == ["speech-2.wav", "speech-3.wav", "speech-4.wav", "speech-5.wav", "speech.wav"]
    assert (here / "speech.wav").read_bytes() == before
    assert (here / "speech-4.wav").read_text() == "mine"
    assert "speech-5.wav: " in capsys.readouterr().out


def test_a_file_that_was_not_named_is_named_by_its_format(voice, here):
    assert main(["say", "Hello.", "--voice", voice, "--steps", "1", "--format", "flac"]) == 0
    assert names_in(here) == ["speech.flac"]
    assert soundfile.info(here / "speech.flac").format == "FLAC"


def test_every_file_with_tags_names_the_voice(voice, here):
    assert main(["say", "Hello.", "--voice", voice, "--steps", "1", "-o", "one.ogg"]) == 0
    (here / "texts.txt").write_text("Hello.\n")
    assert main(["say", "--batch", "texts.txt", "--voice", voice, "--steps", "1", "-o", "."]) == 0
    for name in ("one.ogg", "0001.wav"):
        with soundfile.SoundFile(here / name) as sound:
            assert sound.comment == "Synthetic speech by MyXTTS, voice voice"  # the folder's name


def test_a_file_that_was_named_is_replaced(voice, here):
    (here / "speech.wav").write_text("old")
    assert main(["say", "Hello.", "--voice", voice, "--steps", "1", "-o", "speech.wav"]) == 0
    assert names_in(here) == ["speech.wav"]
    assert soundfile.info(here / "speech.wav").frames > 0


def test_no_new_file_stays_after_a_mistake(voice, here, capsys):
    assert "nothing to say" in failure_of(capsys, "say", "...!", "--voice", voice)
    assert names_in(here) == []


def test_a_folder_that_cannot_be_written_to_is_reported(voice, here, capsys, monkeypatch):
    monkeypatch.setattr("myxtts.commands.speak.DEFAULT_STEM", "missing/speech")
    assert "cannot be written: No such file" in failure_of(capsys, "say", "Hello.", "--voice", voice)


def test_raw_samples_come_with_their_rate_on_standard_error(voice, capfdbinary):
    assert main(["say", "Hello.", "--voice", voice, "-o", "-", "--format", "raw", "--steps", "1"]) == 0
    captured = capfdbinary.readouterr()
    assert captured.err.startswith(b"raw: 16-bit little-endian mono samples at 8000 Hz (aplay -f S16_LE -r 8000)\n")
    assert len(captured.out) > 1000


# --- playing ----------------------------------------------------------------------------------------------------------


def test_play_alone_writes_no_file(voice, here, players, capsys):
    played = players("aplay")
    assert main(["say", "Hello.", "--voice", voice, "--play", "--steps", "1"]) == 0
    assert soundfile.info(played).samplerate == 8000
    assert names_in(here) == []
    assert capsys.readouterr().out.startswith("playing: ")


def test_what_is_played_is_what_is_written(voice, here, players):
    played = players("aplay")
    assert main(["say", "Hello.", "--voice", voice, "--play", "-o", "a.wav", "--steps", "1"]) == 0
    assert played.read_bytes() == (here / "a.wav").read_bytes()


def test_a_clone_can_be_played(cloning_voice, here, players):
    played = players("ffplay")
    reference = str(write_recording(here / "reference.wav"))
    assert main(["clone", reference, "Hello.", "--voice", cloning_voice, "--play", "--steps", "1"]) == 0
    assert soundfile.info(played).frames > 100
    assert names_in(here) == ["reference.wav"]


def test_without_a_player_one_line_names_those_that_are_known(voice, here, players, capsys, monkeypatch):
    monkeypatch.setattr("myxtts.commands.speak._load_voice", lambda *arguments: pytest.fail("The voice is loaded"))
    error = failure_of(capsys, "say", "Hello.", "--voice", voice, "--play")
    assert "No audio player is installed. Expected one of: paplay, aplay, ffplay, afplay, powershell" in error
    assert names_in(here) == []


def test_a_player_that_fails_is_quoted(here, players):
    players("paplay", "echo 'no sound\x1b card' >&2; exit 3")
    from myxtts.errors import AudioError

    with pytest.raises(AudioError, match=r"paplay failed with exit code 3: no sound\\x1b card\. Write a file"):
        play("a.wav", find_player())


def test_the_first_player_of_the_list_is_taken(players):
    for name in ("powershell", "aplay", "paplay"):
        players(name)
    assert find_player() == "paplay"


def test_playing_and_standard_output_exclude_each_other(voice, players, capsys):
    players("aplay")
    assert "cannot be used together" in failure_of(capsys, "say", "Hello.", "--voice", voice, "--play", "-o", "-")


# --- languages and phonemes -------------------------------------------------------------------------------------------


def test_a_language_may_be_given_by_its_name(voice, here):
    assert main(["say", "Hello.", "--voice", voice, "--steps", "1", "--language", "English"]) == 0
    assert names_in(here) == ["speech.wav"]


def test_missing_phonemes_are_reported_before_the_voice_is_loaded(here, capsys, monkeypatch):
    monkeypatch.setattr("myxtts.commands.speak._load_voice", lambda *arguments: pytest.fail("The voice is loaded"))
    monkeypatch.setattr("myxtts.text.phonemes.is_installed", lambda: False)
    own = write_voice(here.parent / "espeak", front_end=FrontEnd("phonemes").to_dict())
    error = failure_of(capsys, "say", "Hello.", "--voice", str(own))
    assert "reads phonemes, which need espeak-ng" in error
    assert "`pip install '.[phonemes]'` in the project folder" in error
    assert "graphemes" not in error
    assert names_in(here) == []


# --- other systems ----------------------------------------------------------------------------------------------------

WITHOUT_LINUX = """
import os, signal, sys
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
for module, names in (
    (os, ("fork", "sched_getaffinity", "register_at_fork", "fchmod", "mkfifo", "O_NONBLOCK", "getuid", "geteuid", "sysconf")),
    (signal, ("SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGALRM")),
):
    for name in names:
        delattr(module, name)
from myxtts.cli import main
voice = sys.argv[1]
assert main(["voice", "list", voice]) == 0
assert main(["voice", "show", voice]) == 0
assert main(["say", "Hello.", "--voice", voice, "--steps", "1"]) == 0
"""


def test_voices_speak_without_linux_only_calls_and_without_warnings(voice, here):
    """The calls that Windows lacks are removed, and every warning is an error, as under `python -W error`."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_LINUX, voice], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert names_in(here) == ["speech.wav"]
