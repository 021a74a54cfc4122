"""Import TensorFlow without its start-up notices. Anything that is not a known notice is passed on."""

from __future__ import annotations

import os
import re
import sys
import tempfile

NOTICES = re.compile(
    rb"All log messages before absl::InitializeLog|oneDNN custom operations are on|Could not find cuda drivers"
    rb"|failed call to cuInit|Cannot dlopen some GPU libraries|This TensorFlow binary is optimized"
    rb"|To enable the following instructions|computation_placer already registered"
)
"""Lines that TensorFlow's C++ side writes on every start, before its log level is known to it."""


def start_tensorflow() -> None:
    """Import TensorFlow and let it look for devices; its notices go nowhere, everything else to standard error."""
    if "tensorflow" in sys.modules:
        return
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as captured:
        os.dup2(captured.fileno(), 2)
        try:
            import tensorflow as tf

            tf.config.list_physical_devices()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            captured.seek(0)
            for line in captured:
                if not NOTICES.search(line):
                    os.write(2, line)
