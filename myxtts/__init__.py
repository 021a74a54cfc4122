"""MyXTTS: text-to-speech. Train a voice in TensorFlow; speak it anywhere with ONNX Runtime.

import myxtts

audio = myxtts.load_voice().synthesize("Hello.")
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from myxtts.synthesis.voice import Voice

__version__ = "0.2.0.dev0"

# Read by TensorFlow when it is first imported. Batches of several megabytes are allocated for every step; without the
# pooling allocator each one is paid for in page faults (3–4x on the loader, benchmarks/loader.py).
os.environ.setdefault("TF_CPU_ALLOCATOR_USE_BFC", "true")
# oneDNN has the gradient of a dilated convolution, and is on by default only on processors with AVX512-VNNI, AVX-VNNI or AMX.
# Where it stays off, the convolution is a matrix product (models/layers.py).
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
# Keras and Matplotlib write into the home folder. Without a writable one (a container with a foreign user id) they print
# notices, or make a folder named "~".
if not os.access(os.path.expanduser("~"), os.W_OK) and not {"KERAS_HOME", "MPLCONFIGDIR"} <= os.environ.keys():
    from myxtts.runtime.machine import make_temporary_home

    make_temporary_home()
# TensorFlow's C++ start-up notices bury our own lines. A user's own setting wins.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def load_voice(folder: str | Path | None = None, threads: int | None = None) -> Voice:
    """Load a voice folder, or the bundled voice; see `myxtts.synthesis.voice.Voice.load`."""
    from myxtts.synthesis.voice import Voice  # only those who speak load ONNX Runtime

    return Voice.load(folder, threads)
