"""The separate distribution: a package of its own that imports nothing of the rest and needs no other package."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGING = Path(__file__).parents[3] / "packaging" / "diagnose"
FORBIDDEN = ("myxtts", "psutil", "rich", "pydantic", "yaml")


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The copied sources, importable from a folder."""
    pytest.importorskip("setuptools")
    specification = importlib.util.spec_from_file_location("diagnose_backend", PACKAGING / "backend.py")
    backend = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(backend)
    backend.PACKAGE = tmp_path_factory.mktemp("distribution") / "myxtts_diagnose"
    backend.copy_sources()
    return backend.PACKAGE


def test_sources_name_no_module_of_the_rest(package):
    for path in package.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "import myxtts\n" not in text, path.name
        assert "from myxtts." not in text, path.name
        assert "myxtts." not in text.replace("myxtts_diagnose.", ""), path.name


def test_every_module_of_it_is_imported_from_it(package):
    code = (
        "import sys\n"
        "class Refuse:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.split('.')[0] in {FORBIDDEN}: raise ImportError(name)\n"
        "sys.meta_path.insert(0, Refuse())\n"
        "import myxtts_diagnose.script, myxtts_diagnose.report, myxtts_diagnose.compare, myxtts_diagnose.cli\n"
        "assert 'tensorflow' not in sys.modules\n"
        "sys.exit(myxtts_diagnose.cli.main(['run', 'nowhere.py']))\n"
    )
    environment = {"PYTHONPATH": str(package.parent), "PATH": ""}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert run.returncode == 2, run.stderr
    assert "tf-diagnose run train.py" in run.stderr
    assert "myxtts diagnose" not in run.stderr
