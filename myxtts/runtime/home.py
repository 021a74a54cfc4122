"""A place for the files that libraries write into the home folder, where there is no writable one."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile


def make_temporary_home() -> None:
    """Point Keras and Matplotlib to a folder that is removed at the end of the process; a user's own setting wins."""
    try:
        folder = tempfile.mkdtemp(prefix="myxtts-home-")
    except OSError:  # no temporary folder either: who needs one reports it
        return
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for variable in ("KERAS_HOME", "MPLCONFIGDIR"):
        os.environ.setdefault(variable, folder)
