"""Process-wide settings, and imports with preparation: TensorFlow without its start-up notices, packages with removed modules.

Everything that changes the behavior of the whole process, in the order in which it happens:

    import myxtts              environment variables that TensorFlow, Keras and Matplotlib read (`set_environment_defaults`)
    start_tensorflow()         standard error is filtered while TensorFlow is imported
    training/hardware.py       determinism of ops, threads, visible GPUs and their memory growth, graph optimizer off,
                               XLA allowed or not in the parts that always gain by it (`models.layers.allow_xla`)
    training/voice_task.py     seed of Python, NumPy and TensorFlow, also in training/vocoder_steps.py

Trainers with different settings can follow each other in one process (`myxtts benchmark`), because each compiles its functions
in its own warm-up, after it has made its settings. Speaking needs no TensorFlow and changes nothing after the first line.
"""

from __future__ import annotations

import os
import sys
import threading
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_stand_ins_lock = threading.Lock()

ENVIRONMENT_DEFAULTS = {
    # Batches of several megabytes are allocated for every step; without the pooling allocator each one costs page faults
    # (the loader is 3–4x slower, benchmarks/loader.py).
    "TF_CPU_ALLOCATOR_USE_BFC": "true",
    # oneDNN has the gradient of a dilated convolution, and is on by default only on processors with AVX512-VNNI, AVX-VNNI or
    # AMX. Where it stays off, the convolution is a matrix product (models/layers.py).
    "TF_ENABLE_ONEDNN_OPTS": "1",
    # TensorFlow's C++ start-up notices would hide our own lines.
    "TF_CPP_MIN_LOG_LEVEL": "2",
    # ONNX Runtime 1.31 reports its use over the network and keeps an id of the session in the temporary folder.
    "ORT_DISABLE_TELEMETRY": "1",
}
"""Variable → value, for the first import of TensorFlow and ONNX Runtime. A value that the user has set takes precedence."""
HOME_VARIABLES = ("KERAS_HOME", "MPLCONFIGDIR")
"""Where Keras and Matplotlib write their own files; by default below the home folder."""
NOTICES = (
    rb"All log messages before absl::InitializeLog|oneDNN custom operations are on|Could not find cuda drivers"
    rb"|failed call to cuInit|Cannot dlopen some GPU libraries|This TensorFlow binary is optimized"
    rb"|To enable the following instructions|computation_placer already registered"
)
"""Lines that TensorFlow's C++ code writes at every start, before it has read its log level."""
FILTER = """
import os, re, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal reaches this process as well
notices = re.compile(os.fsencode(sys.argv[1]))
for line in sys.stdin.buffer:
    if not notices.search(line):
        sys.stderr.buffer.write(line)
        sys.stderr.buffer.flush()
"""
"""Runs in a separate process, so that the last lines of a TensorFlow that aborts (no AVX, broken CUDA) are still printed."""


def set_environment_defaults() -> None:
    """Set `ENVIRONMENT_DEFAULTS`, and a temporary `HOME_VARIABLES` folder if there is no writable home folder."""
    for variable, value in ENVIRONMENT_DEFAULTS.items():
        os.environ.setdefault(variable, value)
    # Without a writable home folder (a container with an unknown user id) the libraries print notices, or create a folder "~".
    if not os.access(os.path.expanduser("~"), os.W_OK) and not set(HOME_VARIABLES) <= os.environ.keys():
        _make_temporary_home()


def start_tensorflow() -> None:
    """Import TensorFlow and list its devices; drop its known notices and pass everything else to standard error."""
    if "tensorflow" in sys.modules:
        return
    import subprocess

    sys.stderr.flush()
    try:
        command = [sys.executable, "-S", "-E", "-c", FILTER, os.fsdecode(NOTICES)]
        notice_filter = subprocess.Popen(command, stdin=subprocess.PIPE)
    except OSError:  # no further process can be started: notices are better than no TensorFlow
        notice_filter = None
    if notice_filter is None or notice_filter.stdin is None:
        _import_tensorflow()
        return
    original = os.dup(2)
    os.dup2(notice_filter.stdin.fileno(), 2)
    notice_filter.stdin.close()
    try:
        _import_tensorflow()
    finally:
        os.dup2(original, 2)
        os.close(original)
        notice_filter.wait()


def _import_tensorflow() -> None:
    import tensorflow as tf

    tf.config.list_physical_devices()


def _make_temporary_home() -> None:
    """Point `HOME_VARIABLES` to a folder that is removed at the end of the process."""
    import atexit
    import shutil
    import tempfile

    try:
        folder = tempfile.mkdtemp(prefix="myxtts-home-")
    except OSError:  # no temporary folder either: whatever needs one reports it
        return
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for variable in HOME_VARIABLES:
        os.environ.setdefault(variable, folder)


@contextmanager
def removed_modules() -> Iterator[None]:
    """Provide stand-ins for two modules that current packages have removed, while an older package is imported.

    webrtcvad (used by resemblyzer) and pyworld ask pkg_resources for their own version; setuptools 81 and later do not have it.
    resemblyzer takes one function from scipy.ndimage.morphology, which is deprecated. Both stand-ins are gone afterwards.
    """
    import importlib.metadata

    versions = types.ModuleType("pkg_resources")
    vars(versions)["get_distribution"] = importlib.metadata.distribution
    morphology = types.ModuleType("scipy.ndimage.morphology")
    vars(morphology)["binary_dilation"] = _binary_dilation
    stand_ins = {"pkg_resources": versions, "scipy.ndimage.morphology": morphology}
    with _stand_ins_lock:
        replaced = {name: sys.modules[name] for name in stand_ins if name in sys.modules}
        sys.modules.update(stand_ins)
        try:
            yield
        finally:
            for name in stand_ins:
                del sys.modules[name]
            sys.modules.update(replaced)


def _binary_dilation(*arguments: Any, **settings: Any) -> Any:
    """scipy's, imported when it is called: pyworld does without."""
    from scipy.ndimage import binary_dilation

    return binary_dilation(*arguments, **settings)
