"""Import TensorFlow without its start-up notices. Anything that is not a known notice is passed on."""

from __future__ import annotations

import os
import subprocess
import sys

NOTICES = (
    rb"All log messages before absl::InitializeLog|oneDNN custom operations are on|Could not find cuda drivers"
    rb"|failed call to cuInit|Cannot dlopen some GPU libraries|This TensorFlow binary is optimized"
    rb"|To enable the following instructions|computation_placer already registered"
)
"""Lines that TensorFlow's C++ side writes on every start, before its log level is known to it."""

FILTER = """
import os, re, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal reaches this process also
notices = re.compile(os.fsencode(sys.argv[1]))
for line in sys.stdin.buffer:
    if not notices.search(line):
        sys.stderr.buffer.write(line)
        sys.stderr.buffer.flush()
"""
"""Runs as a process of its own, so that the last lines of a TensorFlow that aborts (no AVX, broken CUDA) are still shown."""


def start_tensorflow() -> None:
    """Import TensorFlow and list its devices; its notices are dropped, everything else goes to standard error."""
    if "tensorflow" in sys.modules:
        return
    sys.stderr.flush()
    try:
        command = [sys.executable, "-S", "-E", "-c", FILTER, os.fsdecode(NOTICES)]
        notice_filter = subprocess.Popen(command, stdin=subprocess.PIPE)
    except OSError:  # no process to be had: notices are better than no TensorFlow
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
