"""`myxtts voice show`: what a voice is, and what it says about itself, which may be a stranger's words."""

import json
import subprocess
import sys

import pytest

from myxtts.cli import EXIT_USER_ERROR, main
from myxtts.export.voice_writer import save_voice
from tests.synthesis.tiny_voice import describe, random_weights


@pytest.fixture
def show(tmp_path, capsys):
    """Shows a tiny voice with changes to its description."""

    def shown(licence_text="", **changes):
        folder = save_voice(tmp_path / "voice", describe(**changes), random_weights(describe()), None, licence_text)
        assert main(["voice", "show", str(folder)]) == 0
        return capsys.readouterr().out

    return shown


def entries(told: str) -> list[tuple[str, str]]:
    """Names and values of the lines that look like entries."""
    return [tuple(line.split("  ", 1)) for line in told.splitlines() if not line.startswith(" ") and "  " in line]


def test_the_bundled_voice_is_told_on_one_page(capsys):
    assert main(["voice", "show"]) == 0
    told = capsys.readouterr().out
    assert len(told.splitlines()) < 40
    assert "CC-BY-SA-3.0" in told
    assert "LICENSE" in told
    assert "Allison Smith" in told


def test_a_licence_is_told_by_name_and_by_the_place_of_its_text(show, tmp_path):
    told = dict(entries(show(licence="MIT", licence_text="Permission is\ngranted.\n")))
    assert told["licence"].strip() == "MIT"
    assert told["in full"].strip() == str(tmp_path / "voice" / "LICENSE")


def test_a_licence_that_stands_in_the_description_is_told_by_its_first_line(show):
    assert "Some Licence … (2 more lines in voice.json)" in show(licence="Some Licence\nand\nmore")


def test_what_a_voice_says_of_itself_never_replaces_what_was_found(show):
    about = {"licence": "public domain", "size": "0 MB", "training steps": 7}
    told = show(licence="CC0", about=about)
    found = entries(told)
    assert [value.strip() for name, value in found if name == "licence"] == ["CC0"]
    _, _, own = told.partition("stated by the voice itself:\n")
    assert "public domain" in own
    assert "7" in own


def test_lines_of_a_text_do_not_look_like_entries(show):
    told = show(attribution="Anna\nlicence      public domain\n" + "more\n" * 1000)
    assert [name for name, _ in entries(told)].count("licence") == 1
    assert len(told.splitlines()) < 50


def test_control_characters_are_spelled_out_wherever_they_stand(show):
    escape = "\x1b[2J"
    told = show(
        licence=escape, attribution=escape, written_by=escape, about={escape: escape, "a\nlicence": "b\nsize  0"}
    )
    assert "\x1b" not in told
    assert told.count(r"\x1b[2J") == 5
    assert not any(line.startswith(("licence  b", "size  0")) for line in told.splitlines())


def test_an_unknown_key_is_told_without_its_control_characters(tmp_path, capsys):
    folder = save_voice(tmp_path / "voice", describe(), random_weights(describe()))
    content = json.loads((folder / "voice.json").read_text()) | {"\x1b[2J": 1}
    (folder / "voice.json").write_text(json.dumps(content))
    assert main(["voice", "show", str(folder)]) == EXIT_USER_ERROR
    told = capsys.readouterr().err
    assert r"\x1b[2J" in told
    assert told.count("\n") == 1
    assert told.strip().isprintable()


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


def test_a_reader_that_leaves_is_taken_quietly():
    show = f"{sys.executable} -m myxtts.cli voice show"
    outcome = subprocess.run(["bash", "-c", f"{show} | true"], capture_output=True, text=True)
    assert outcome.stderr == ""
