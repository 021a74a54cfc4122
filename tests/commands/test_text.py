"""`myxtts text` prints every stage of reading."""

import subprocess
import sys

from myxtts.cli import main
from tests.commands.command_line import failure_of


def stages(capsys, *words):
    assert main(["text", *words]) == 0
    return [line.split(":", 1) for line in capsys.readouterr().out.splitlines()]


def test_each_stage_of_a_persian_text_is_one_line(capsys):
    printed = {stage: content.strip() for stage, content in stages(capsys, "كتاب ۹ <b>😀</b>", "--language", "fa")}
    assert printed["cleaned"] == "كتاب ۹ 😀"
    assert printed["normalized"] == "کتاب نُه 😀"
    assert (printed.get("phonemes") or printed["letters"])[0] in "kک"
    assert printed["symbols"][:2] in ("k ", "ک ")
    assert printed["unknown"] == "😀 ×1"


def test_the_rules_that_changed_a_text_are_listed_in_order(capsys):
    rules = [content.strip() for stage, content in stages(capsys, "Dr. Li paid $5.", "--rules") if stage == "rule"]
    assert rules == ["money: Dr. Li paid five dollars.", "title: Doctor Li paid five dollars."]


def test_without_a_language_the_script_of_the_text_decides(capsys):
    for text, normalized in (("۲۵ کتاب", "بیست و پنج کتاب"), ("25 books", "twenty-five books"), ("25", "twenty-five")):
        assert ["normalized", normalized] in [[stage, content.strip()] for stage, content in stages(capsys, text)]


def test_an_empty_text_is_one_message(capsys):
    assert "text is empty" in failure_of(capsys, "text", " ")


def test_an_unknown_language_is_one_message(capsys):
    assert "Unknown language" in failure_of(capsys, "text", "hi", "--language", "Persiam")


def test_reading_a_text_imports_no_tensorflow():
    code = "import sys; from myxtts.cli import main; main(['text', 'Hi 5']); sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=False).returncode == 0
