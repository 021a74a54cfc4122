"""The base install: speaking without TensorFlow, in at most 300 MB of site-packages."""

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from myxtts.cli import EXIT_USER_ERROR, TRAINING_PACKAGES

ROOT = Path(__file__).resolve().parents[1]
MOST_MEGABYTES = 300


def required_packages() -> set[str]:
    """Names of the packages that `pip install .` brings, and those that they bring, on this system."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        waiting = [Requirement(line) for line in tomllib.load(file)["project"]["dependencies"]]
    found: dict[str, set[str]] = {}
    while waiting:
        requirement = waiting.pop()
        name = requirement.name.lower().replace("_", "-")
        extras = found.setdefault(name, set())
        if requirement.extras - extras or not extras:
            extras |= {"", *requirement.extras}
            for line in importlib.metadata.requires(name) or []:
                needed = Requirement(line)
                if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                    waiting.append(needed)
    return set(found)


def megabytes(name: str) -> float:
    """Size of a package as its own list of files states it, without compiled Python."""
    files = importlib.metadata.files(name) or []
    sizes = [file.size if file.size is not None else 0 for file in files if file.suffix != ".pyc"]
    return sum(sizes) / 1e6


def test_the_base_install_has_no_tensorflow_and_at_most_300_megabytes():
    packages = required_packages()
    assert {"onnxruntime", "numpy", "onnx", "marisa-trie"} <= packages
    assert not packages & {"tensorflow", "keras", "torch", "scipy", "phonemizer"}
    sizes = {name: megabytes(name) for name in packages}
    own = sum(
        os.path.getsize(path) for path in (ROOT / "myxtts").rglob("*") if path.suffix != ".pyc" and path.is_file()
    )
    assert min(sizes["onnxruntime"], sizes["numpy"]) > 10  # the lists of files were read
    assert sum(sizes.values()) + own / 1e6 < MOST_MEGABYTES, sorted(sizes.items(), key=lambda item: -item[1])[:8]


def test_each_package_of_the_extra_train_has_a_line_that_says_how_to_install_it():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    names = {Requirement(line).name for line in extras["train"]}
    assert names == set(TRAINING_PACKAGES)


def test_training_without_the_extra_is_one_line():
    code = "import sys; sys.modules.update(dict.fromkeys(sys.argv[1:])); from myxtts.cli import main; sys.exit(main(['train']))"
    done = subprocess.run([sys.executable, "-c", code, *TRAINING_PACKAGES], capture_output=True, text=True, check=False)
    assert done.returncode == EXIT_USER_ERROR
    assert re.fullmatch(r"myxtts train: This needs \w+, which is not installed\. Run .*\[train\].*\n", done.stderr)
