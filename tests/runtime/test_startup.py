"""TensorFlow starts without noise."""

import subprocess
import sys


def test_starting_tensorflow_writes_nothing():
    code = (
        "from myxtts.runtime.startup import start_tensorflow; start_tensorflow(); "
        "import tensorflow as tf; tf.constant(1) + 1"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_lines_that_are_no_notice_are_passed_on():
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


def test_last_lines_of_a_tensorflow_that_aborts_are_shown():
    code = (
        "import os, types; from myxtts.runtime import startup; "
        "startup._import_tensorflow = lambda: (os.write(2, b'The TensorFlow library was compiled to use AVX\\n'), os.abort()); "
        "startup.start_tensorflow()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode != 0
    assert "compiled to use AVX" in done.stderr


def test_ctrl_c_while_tensorflow_starts_leaves_the_filter_silent():
    code = (
        "import os, signal, time; from myxtts.runtime import startup; "
        "startup._import_tensorflow = lambda: (time.sleep(0.5), os.killpg(0, signal.SIGINT), time.sleep(5)); "
        "exec('try:\\n startup.start_tensorflow()\\nexcept KeyboardInterrupt: pass')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, start_new_session=True)
    assert (done.returncode, done.stderr) == (0, "")
