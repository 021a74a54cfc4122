"""TensorFlow starts silently; a user's environment wins over our defaults; no home folder is needed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from myxtts.runtime.startup import ENVIRONMENT_DEFAULTS

ROOT = Path(__file__).parents[2]
IMPORTS = "import myxtts, keras, matplotlib.font_manager"


def test_starting_tensorflow_prints_nothing():
    code = (
        "from myxtts.runtime.startup import start_tensorflow; start_tensorflow(); "
        "import tensorflow as tf; tf.constant(1) + 1"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_lines_that_are_not_known_notices_are_passed_on():
    code = (
        "import os, sys, types; fake = types.ModuleType('tensorflow'); "
        "from myxtts.runtime import startup; "
        "fake.config = types.SimpleNamespace(list_physical_devices=lambda: os.write(2, b'something is wrong\\n')); "
        "real = __import__; "
        "import builtins; "
        "builtins.__import__ = lambda name, *rest: fake if name == 'tensorflow' else real(name, *rest); "
        "startup.start_tensorflow()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "something is wrong\n"


def test_the_last_lines_of_a_tensorflow_that_aborts_are_printed():
    code = (
        "import os, types; from myxtts.runtime import startup; "
        "startup._import_tensorflow = lambda: (os.write(2, b'The TensorFlow library was compiled to use AVX\\n'), os.abort()); "
        "startup.start_tensorflow()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode != 0
    assert "compiled to use AVX" in done.stderr


def test_ctrl_c_while_tensorflow_starts_does_not_stop_the_filter_with_a_traceback():
    code = (
        "import os, signal, time; from myxtts.runtime import startup; "
        "startup._import_tensorflow = lambda: (time.sleep(0.5), os.killpg(0, signal.SIGINT), time.sleep(5)); "
        "exec('try:\\n startup.start_tensorflow()\\nexcept KeyboardInterrupt: pass')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, start_new_session=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_environment_variables_of_the_user_win_over_the_defaults():
    names = list(ENVIRONMENT_DEFAULTS)
    code = f"import os, myxtts; print(*(os.environ[name] for name in {names}))"
    kept = {name: value for name, value in os.environ.items() if name not in names} | {"PYTHONPATH": str(ROOT)}
    for environment, expected in (
        (kept, ENVIRONMENT_DEFAULTS),
        (kept | dict.fromkeys(names, "7"), dict.fromkeys(names, "7")),
    ):
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.split() == list(expected.values())


@pytest.mark.parametrize("home", ["/proc/1/none", ""])
def test_libraries_print_nothing_and_leave_nothing_without_a_home_folder(tmp_path, home):
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
