"""`make` finds a Python by itself: the newest that TensorFlow supports, and one that can create an environment."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = ("python3.13", "python3.12", "python3.11", "python3")

WORKING_PYTHON = """#!/bin/sh
case "$*" in
    *"print("*) echo {version} ;;
    *ensurepip*) exit {ensurepip_exit_code} ;;
    *"-m venv"*) mkdir -p {environment}/bin && cp "$0" {environment}/bin/python ;;
    *"-m pip"*) echo "packages installed with {version}" ;;
    *) exit {supported_exit_code} ;;
esac
"""
MISSING_PYTHON = "#!/bin/sh\necho 'pyenv: command not found' >&2\nexit 127\n"


class Machine:
    """A machine with the Pythons that a test installs; no other Python is found on it."""

    def __init__(self, folder: Path):
        self.commands, self.environment = folder / "bin", folder / "environment"
        self.commands.mkdir()
        for command in COMMANDS:
            self._write(self.commands / command, MISSING_PYTHON)

    def install(self, command: str, version: str, can_create_environments: bool = True) -> None:
        is_supported = version in ("3.11", "3.12", "3.13")
        script = WORKING_PYTHON.format(
            version=version,
            environment=self.environment,
            ensurepip_exit_code=int(not can_create_environments),
            supported_exit_code=int(not is_supported),
        )
        self._write(self.commands / command, script)

    def make(self, *words: str) -> subprocess.CompletedProcess:
        command = ["make", f"VENV={self.environment}", *words, str(self.environment / ".ready")]
        path = f"{self.commands}:/usr/bin:/bin"
        return subprocess.run(command, cwd=ROOT, env={"PATH": path}, capture_output=True, text=True, timeout=60)

    @staticmethod
    def _write(path: Path, script: str) -> None:
        path.write_text(script)
        path.chmod(0o755)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_the_newest_supported_python_is_taken(machine):
    machine.install("python3.11", "3.11")
    machine.install("python3.12", "3.12")
    machine.install("python3", "3.14")
    assert "packages installed with 3.12" in machine.make().stdout


def test_plain_python3_is_taken_if_its_version_is_supported(machine):
    machine.install("python3", "3.13")
    assert "packages installed with 3.13" in machine.make().stdout


def test_the_python_that_is_named_is_taken(machine):
    machine.install("python3.13", "3.13")
    machine.install("python3.11", "3.11")
    assert "packages installed with 3.11" in machine.make("PYTHON=python3.11").stdout


def test_naming_another_python_replaces_the_environment(machine):
    machine.install("python3.13", "3.13")
    machine.install("python3.11", "3.11")
    machine.make()
    assert "packages installed with 3.11" in machine.make("PYTHON=python3.11").stdout
    assert "up to date" in machine.make().stdout


def test_an_environment_that_works_is_kept_when_a_newer_python_appears(machine):
    machine.install("python3.11", "3.11")
    machine.make()
    machine.install("python3.13", "3.13")
    (machine.environment / ".ready").unlink()
    assert "packages installed with 3.11" in machine.make().stdout


def test_a_python_without_venv_is_passed_over(machine):
    machine.install("python3.13", "3.13", can_create_environments=False)
    machine.install("python3.11", "3.11")
    assert "packages installed with 3.11" in machine.make().stdout


def test_no_venv_anywhere_names_the_package_to_install(machine):
    machine.install("python3", "3.12", can_create_environments=False)
    done = machine.make()
    assert done.returncode != 0
    assert "sudo apt install python3.12-venv" in done.stderr
    assert not machine.environment.exists()


@pytest.mark.parametrize("words", [(), ("PYTHON=/nowhere/python",)])
def test_without_a_supported_python_the_message_names_the_versions(machine, words):
    machine.install("python3", "3.14")
    done = machine.make(*words)
    assert done.returncode != 0
    assert "No supported Python was found" in done.stderr
    assert "Needed: one of 3.13 3.12 3.11" in done.stderr


def test_make_and_pyproject_name_the_same_versions():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = re.search(r"^VERSIONS := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)[
        1
    ].split()
    named = [name.split(" :: ")[-1] for name in project["classifiers"] if name.startswith("Programming Language")]
    assert sorted(named) == sorted(versions)
    assert project["requires-python"] == f">={versions[-1]},<3.{int(versions[0].split('.')[1]) + 1}"


def test_make_installs_no_gpl_package():
    """phonemizer, espeak-ng and piper-tts are GPL, the wheels of PyAV hold GPL codecs; only `make test-slow` may install them."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    ready = makefile[: makefile.index("$(VENV)/.ready-benchmark")]
    (extras,) = re.findall(r"--editable '\.\[([a-z,]+)\]'", ready)
    with open(ROOT / "pyproject.toml", "rb") as file:
        project = tomllib.load(file)["project"]
    installed = [
        *project["dependencies"],
        *(line for each in extras.split(",") for line in project["optional-dependencies"][each]),
    ]
    names = {re.split(r"[\[>=<;, ]", line)[0].lower() for line in installed}
    assert {"tensorflow", "fastapi", "pytest"} <= names
    assert not names & {"phonemizer", "espeakng-loader", "piper-tts", "av"}
