"""`myxtts voice`: voices are described, listed and exported; their own texts are untrusted."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

from myxtts.cli import EXIT_USER_ERROR, main
from myxtts.config.config import XTTSConfig
from myxtts.config.load import config_to_dict
from myxtts.errors import VoiceError
from myxtts.export.voice_writer import save_voice
from myxtts.synthesis.bundled import bundled_voices
from myxtts.synthesis.voice_folder import read_description, read_weights
from myxtts.training.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from tests.commands.command_line import failure_of, names_in
from tests.synthesis.tiny_voice import describe, random_weights, write_voice


@pytest.fixture
def show(tmp_path, capsys):
    """Show a tiny voice with changes to its description."""

    def show_voice(license_text="", **changes):
        folder = save_voice(tmp_path / "voice", describe(**changes), random_weights(describe()), None, license_text)
        assert main(["voice", "show", str(folder)]) == 0
        return capsys.readouterr().out

    return show_voice


def entries(shown_text: str) -> list[tuple[str, str]]:
    """Names and values of the lines that look like entries."""
    return [tuple(line.split("  ", 1)) for line in shown_text.splitlines() if not line.startswith(" ") and "  " in line]


def test_the_bundled_voice_is_described_on_one_page(capsys):
    assert main(["voice", "show"]) == 0
    shown_text = capsys.readouterr().out
    assert len(shown_text.splitlines()) < 40
    assert "CC0-1.0" in shown_text
    assert "LICENSE" in shown_text
    assert "Kathleen" in shown_text


def test_a_license_is_shown_by_name_with_the_path_of_its_text(show, tmp_path):
    shown_text = dict(entries(show(licence="MIT", license_text="Permission is\ngranted.\n")))
    assert shown_text["license"].strip() == "MIT"
    assert shown_text["in full"].strip() == str(tmp_path / "voice" / "LICENSE")


def test_a_license_text_in_the_description_is_shown_by_its_first_line(show):
    assert "Some License … (2 more lines in voice.json)" in show(licence="Some License\nand\nmore")


def test_statements_of_a_voice_never_replace_what_was_found(show):
    about = {"license": "public domain", "size": "0 MB", "training steps": 7}
    shown_text = show(licence="CC0", about=about)
    found = entries(shown_text)
    assert [value.strip() for name, value in found if name == "license"] == ["CC0"]
    _, _, own = shown_text.partition("stated by the voice itself:\n")
    assert "public domain" in own
    assert "7" in own


def test_lines_of_a_text_do_not_look_like_entries(show):
    shown_text = show(attribution="Anna\nlicense      public domain\n" + "more\n" * 1000)
    assert [name for name, _ in entries(shown_text)].count("license") == 1
    assert len(shown_text.splitlines()) < 50


def test_control_characters_are_escaped_everywhere(show):
    escape = "\x1b[2J"
    shown_text = show(
        licence=escape, attribution=escape, written_by=escape, about={escape: escape, "a\nlicense": "b\nsize  0"}
    )
    assert "\x1b" not in shown_text
    assert shown_text.count(r"\x1b[2J") == 5
    assert not any(line.startswith(("license  b", "size  0")) for line in shown_text.splitlines())


def test_an_unknown_key_is_reported_without_its_control_characters(tmp_path, capsys):
    folder = save_voice(tmp_path / "voice", describe(), random_weights(describe()))
    content = json.loads((folder / "voice.json").read_text()) | {"\x1b[2J": 1}
    (folder / "voice.json").write_text(json.dumps(content))
    assert main(["voice", "show", str(folder)]) == EXIT_USER_ERROR
    shown_text = capsys.readouterr().err
    assert r"\x1b[2J" in shown_text
    assert shown_text.count("\n") == 1
    assert shown_text.strip().isprintable()


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_standard_output_is_one_line_and_an_exit_code(unbuffered):
    with open("/dev/full", "w") as full:
        outcome = subprocess.run(
            [sys.executable, "-m", "myxtts.cli", "voice", "show"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={"PYTHONUNBUFFERED": unbuffered},
        )
    assert outcome.returncode == EXIT_USER_ERROR
    assert outcome.stderr.count("\n") == 1
    assert "cannot be written: No space left on device" in outcome.stderr


def test_a_reader_that_exits_early_causes_no_message():
    show = f"{sys.executable} -m myxtts.cli voice show"
    outcome = subprocess.run(["bash", "-c", f"{show} | true"], capture_output=True, text=True)
    assert outcome.stderr == ""


def test_voice_list_finds_the_bundled_voice_and_those_of_runs(here, capsys):
    write_voice(here / "anna")
    write_voice(here / "run" / "voice", ("anna", "ben"), languages=("en", "fa"))
    (here / "run" / "step-1").mkdir()
    (here / ".hidden").mkdir()
    write_voice(here / ".hidden" / "voice")
    assert main(["voice", "list"]) == 0
    listed = capsys.readouterr().out
    rows = [line.split() for line in listed.splitlines()]
    assert [row[0] for row in rows[:-2]] == list(bundled_voices())
    assert rows[-2:] == [
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
    line = capsys.readouterr().out.splitlines()[len(bundled_voices())]
    assert re.match("bad +cannot be used: ", line)
    assert line.isprintable()


def test_a_voice_with_a_damaged_file_is_one_line_for_every_command(here, capsys):
    damaged = write_voice(here / "damaged")
    content = (damaged / "voice.onnx").read_bytes()
    (damaged / "voice.onnx").write_bytes(content[: len(content) // 2])
    reason = "voice.onnx is cut off, damaged or not an ONNX file"
    assert main(["voice", "list", str(here)]) == 0
    assert f"cannot be used: {damaged}/{reason}" in capsys.readouterr().out
    commands = (
        ["voice", "show", str(damaged)],
        ["voice", "export", str(damaged), "copy"],
        ["export", str(damaged), "out", "--format", "onnx"],
        ["say", "a", "--voice", str(damaged)],
        ["train", "--init-from", str(damaged), "--checkpoint-dir", "run"],
    )
    for command in commands:
        assert reason in failure_of(capsys, *command)
    assert [path.name for path in here.iterdir()] == ["damaged"]


def test_a_voice_whose_vocoder_is_missing_is_listed_with_its_reason(here, capsys):
    folder = write_voice(here / "mute")
    content = json.loads((folder / "voice.json").read_text()) | {"vocoder": {"name": "lost", "sha256": "0" * 64}}
    (folder / "voice.json").write_text(json.dumps(content))
    assert main(["voice", "list", str(folder)]) == 0
    assert "needs the vocoder 'lost'" in capsys.readouterr().out


def test_a_folder_without_voices_or_that_does_not_exist_is_an_error(here, capsys):
    assert "No voice in ." in failure_of(capsys, "voice", "list", ".")
    assert "nowhere is not a folder" in failure_of(capsys, "voice", "list", "nowhere")


def test_languages_and_speakers_of_a_voice_are_listed_one_per_line(here, capsys):
    voice = str(write_voice(here / "voice", ("anna", "be\x1bn"), languages=("en", "fa")))
    assert main(["say", "--list-languages", "--voice", voice]) == 0
    assert capsys.readouterr().out == "en  English\nfa  Persian\n"
    assert main(["say", "--list-speakers", "--voice", voice]) == 0
    assert capsys.readouterr().out == "anna\nbe\\x1bn\n"


def test_show_prints_languages_speakers_size_and_license(cloning_voice, capsys):
    assert main(["voice", "show", cloning_voice]) == 0
    shown_text = capsys.readouterr().out
    for expected in ("en", "anna, ben; can clone", "MB", "CC0", "made by code"):
        assert expected in shown_text


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


@pytest.mark.parametrize("option", ["--license", "--licence"])
def test_a_checkpoint_becomes_a_voice_that_speaks_with_the_ema_weights(tmp_path, capsys, option):
    from myxtts.synthesis.voice import Voice

    checkpoint = write_checkpoint(tmp_path / "run")
    assert main(["voice", "export", str(tmp_path / "run"), str(tmp_path / "voice"), option, "MIT"]) == 0
    assert "1500" in capsys.readouterr().out
    description = read_description(tmp_path / "voice")
    assert (description.licence, description.attribution) == ("MIT", "Anna")
    assert description.defaults.duration_scale == 1.1
    voice = Voice.load(tmp_path / "voice")
    assert voice.synthesize("Hello", steps=1).seconds > 0
    expected = load_checkpoint(checkpoint).named_weights(prefers_ema=True)["decoder/noisy_projection/kernel"]
    found = read_weights(tmp_path / "voice")[1]["decoder/noisy_projection/kernel"]
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)


def test_a_default_speaker_without_a_language_is_explained():
    from myxtts.commands.voice import _given_speakers

    assert _given_speakers(["fa=voiz", "de=a=b"]) == {"fa": "voiz", "de": "a=b"}
    with pytest.raises(VoiceError, match=r"LANGUAGE=NAME, such as fa=voiz\. Received: 'voiz'"):
        _given_speakers(["voiz"])


@pytest.mark.parametrize(
    ("flag", "wrong", "message"),
    [
        ("--steps", "0", "from 1 to 100. Received: 0"),
        ("--clone-emphasis", "9", "from 0 to 8. Received: 9"),
        ("--decoder-emphasis", "inf", "from 0 to 8"),
        ("--clone-decoder-emphasis", "-1", "from 0 to 8"),
        ("--average-fraction", "0.5", "needs a voice to average with"),
    ],
)
def test_defaults_of_speech_belong_to_the_export_of_a_checkpoint_and_have_a_range(
    tmp_path, capsys, flag, wrong, message
):
    voice = write_voice(tmp_path / "voice")
    words = ("voice", "export", str(voice), str(tmp_path / "out"), flag, "2")
    assert f"{flag} is for the export of a checkpoint" in failure_of(capsys, *words)
    words = ("voice", "export", str(tmp_path), str(tmp_path / "out"), flag, wrong)
    assert message in failure_of(capsys, *words)


def test_a_voice_folder_with_other_files_is_not_replaced(tmp_path, capsys):
    source, out = write_voice(tmp_path / "voice"), write_voice(tmp_path / "out")
    (out / ".0123abcd.1.0.partial").touch()
    assert main(["voice", "export", str(source), str(out), "--no-samples"]) == 0
    assert names_in(out) == ["voice.json", "voice.onnx"]
    capsys.readouterr()
    (out / ".git").mkdir()
    (out / "notes.txt").write_text("important")
    for command in (["export", str(source), str(out)], ["convert", str(source), str(out)]):
        assert "holds more than a voice, so it was not replaced: .git, notes.txt. Move" in failure_of(
            capsys, "voice", *command
        )
    assert names_in(out) == [".git", "notes.txt", "voice.json", "voice.onnx"]


def test_a_folder_that_cannot_become_a_voice_is_refused_before_the_export_starts(tmp_path, capsys):
    (tmp_path / "file").touch()
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").touch()
    for name, message in (("file", "Not a directory"), ("thesis", "is not a voice, so it was not replaced")):
        assert message in failure_of(capsys, "voice", "export", "no such source", str(tmp_path / name))


def test_the_fraction_of_an_average_has_a_range(tmp_path, capsys):
    words = (
        "voice",
        "export",
        str(tmp_path),
        str(tmp_path / "out"),
        "--average-with",
        "base",
        "--average-fraction",
        "1.5",
    )
    assert "--average-fraction must be from 0 to 1. Received: 1.5." in failure_of(capsys, *words)
    voice = write_voice(tmp_path / "voice")
    words = ("voice", "export", str(voice), str(tmp_path / "out"), "--average-with", "base")
    assert "--average-with is for the export of a checkpoint" in failure_of(capsys, *words)
