"""ONNX Runtime sessions: checked models in, functions of arrays out."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import onnxruntime
from onnx import ModelProto

from myxtts.errors import VoiceError
from myxtts.runtime.console import printable

ERRORS_ONLY = 3
"""ONNX Runtime's log level: it also warns about weights that only training uses."""


class Session:
    """A loaded model. Several threads may run it at once."""

    def __init__(self, model: ModelProto, threads: int | None = None):
        """`threads` of one run; None: as many as there are cores for this process."""
        options = onnxruntime.SessionOptions()
        options.log_severity_level = ERRORS_ONLY
        options.intra_op_num_threads = _usable_cores() if threads is None else threads
        options.inter_op_num_threads = 1
        # Lengths differ from sentence to sentence: memory patterns are kept per length and would grow without end.
        options.enable_mem_pattern = False
        # Threads that spin between two operators use as much processor time as the operators themselves.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        with _explained():
            self._session = onnxruntime.InferenceSession(
                model.SerializeToString(),
                options,
                providers=["CPUExecutionProvider"],
                enable_fallback=0,  # otherwise it prints errors and tries again
            )
        self._inputs = {each.name for each in self._session.get_inputs()}

    def run(self, outputs: Sequence[str], inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """The named outputs; inputs that the model lacks are left out."""
        given = {name: np.asarray(array) for name, array in inputs.items() if name in self._inputs}
        with _explained():
            return [np.asarray(array) for array in self._session.run(list(outputs), given)]


def _usable_cores() -> int:
    """Cores that this process may use, where the system can restrict them. Without psutil, which takes longer to import."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _explained() -> Iterator[None]:
    """ONNX Runtime's own errors as `VoiceError`: a voice whose parts do not fit each other."""
    try:
        yield
    except Exception as error:
        # ONNX Runtime's exceptions have no base class of their own; names that are not UTF-8 are a ValueError.
        kinds = RuntimeError | MemoryError | ValueError
        is_own = type(error).__module__.startswith("onnxruntime") or isinstance(error, kinds)
        if not is_own:
            raise
        cause = printable(str(error), keeps_lines=False)
        raise VoiceError(f"The network of the voice cannot be run: {cause:.200}. Export the voice again.") from None
