"""Without a writable home folder nothing is printed about it, and nothing is left behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IMPORTS = "import myxtts, keras, matplotlib.font_manager"


@pytest.mark.parametrize("home", ["/proc/1/none", ""])
def test_libraries_are_quiet_without_a_home_folder(tmp_path, home):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    kept = {name: value for name, value in os.environ.items() if name not in ("KERAS_HOME", "MPLCONFIGDIR")}
    environment = {"HOME": home, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    code = f"import os; os.path.expanduser = lambda path: path\n{IMPORTS}" if not home else IMPORTS
    done = subprocess.run(
        [sys.executable, "-c", code], env=kept | environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    lines = [line for line in done.stderr.splitlines() if "matplotlib" in line.lower() or "mkdir" in line]
    assert lines == []
    assert not (tmp_path / "~").exists()
    assert list(temporary.iterdir()) == []
