"""MyXTTS: text-to-speech. Train a voice in TensorFlow; speak it anywhere with ONNX Runtime.

import myxtts

audio = myxtts.load_voice().synthesize("Hello.")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from myxtts.runtime.startup import set_environment_defaults

if TYPE_CHECKING:
    from pathlib import Path

    from myxtts.synthesis.voice import Voice

__version__ = "0.2.0.dev0"

set_environment_defaults()


def load_voice(folder: str | Path | None = None, threads: int = 1) -> Voice:
    """Load a voice folder, or a bundled voice by name; see `myxtts.synthesis.voice.Voice.load`."""
    from myxtts.synthesis.voice import Voice  # only those who speak load ONNX Runtime

    return Voice.load(folder, threads)
