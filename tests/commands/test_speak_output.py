"""Where `myxtts say` puts speech when no file is named: new files, a player, standard output; and what it lists."""

import subprocess
import sys

import pytest
import soundfile

from myxtts.cli import main
from myxtts.synthesis.output import find_player, play
from tests.commands.test_speak import failure_of
from tests.synthesis.tiny_voice import write_recording, write_voice


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty current folder."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


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


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


# --- files that were not named ----------------------------------------------------------------------------------------


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
    assert capsys.readouterr().out.startswith("played: ")


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
    monkeypatch.setattr("myxtts.commands.speak._load_voice", lambda folder: pytest.fail("The voice is loaded"))
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
    assert "exclude each other" in failure_of(capsys, "say", "Hello.", "--voice", voice, "--play", "-o", "-")


# --- lists ------------------------------------------------------------------------------------------------------------


def test_voice_list_finds_the_bundled_voice_and_those_of_runs(here, capsys):
    write_voice(here / "anna")
    write_voice(here / "run" / "voice", ("anna", "ben"), languages=("en", "fa"))
    (here / "run" / "step-1").mkdir()
    (here / ".hidden").mkdir()
    write_voice(here / ".hidden" / "voice")
    assert main(["voice", "list"]) == 0
    listed = capsys.readouterr().out
    assert [line.split() for line in listed.splitlines()] == [
        ["bundled", "16000", "Hz", "en", "Allison"],
        ["anna", "8000", "Hz", "en", "anna"],
        ["run/voice", "8000", "Hz", "en,", "fa", "anna,", "ben"],
    ]
    assert main(["say", "--list-voices"]) == 0
    assert capsys.readouterr().out == listed


def test_voice_list_looks_only_into_the_folders_that_are_named(here, capsys):
    write_voice(here / "voices" / "anna")
    write_voice(here / "ben")
    assert main(["voice", "list", "voices", "ben"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["voices/anna", "ben"]


def test_a_voice_that_cannot_be_used_is_listed_with_its_reason(here, capsys):
    (here / "bad").mkdir()
    (here / "bad" / "voice.json").write_text("\x1b[2J")
    assert main(["voice", "list"]) == 0
    line = capsys.readouterr().out.splitlines()[1]
    assert line.startswith("bad      cannot be used: ")
    assert line.isprintable()


def test_a_folder_without_voices_or_that_does_not_exist_is_an_error(here, capsys):
    assert "No voice in ." in failure_of(capsys, "voice", "list", ".")
    assert "nowhere is not a folder" in failure_of(capsys, "voice", "list", "nowhere")


def test_languages_and_speakers_of_a_voice_are_listed_one_per_line(here, capsys):
    voice = str(write_voice(here / "voice", ("anna", "be\x1bn"), languages=("en", "fa")))
    assert main(["say", "--list-languages", "--voice", voice]) == 0
    assert capsys.readouterr().out == "en  English\nfa  Persian\n"
    assert main(["say", "--list-speakers", "--voice", voice]) == 0
    assert capsys.readouterr().out == "anna\nbe\\x1bn\n"


# --- languages and phonemes -------------------------------------------------------------------------------------------


def test_a_language_may_be_given_by_its_name(voice, here):
    assert main(["say", "Hello.", "--voice", voice, "--steps", "1", "--language", "English"]) == 0
    assert names_in(here) == ["speech.wav"]


def test_missing_phonemes_are_reported_before_the_voice_is_loaded(here, capsys, monkeypatch):
    monkeypatch.setattr("myxtts.commands.speak._load_voice", lambda folder: pytest.fail("The voice is loaded"))
    monkeypatch.setattr("myxtts.text.phonemes.is_installed", lambda: False)
    error = failure_of(capsys, "say", "Hello.")
    assert "This voice speaks from phonemes" in error
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
