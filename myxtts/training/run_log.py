"""The log of a run, written by one background thread: JSON lines, TensorBoard, pictures, spoken samples.

The loop only hands over numbers and never waits for the disk. `log.jsonl` has one object per line. TensorBoard's own
`RecordWriter` encodes the records for TensorBoard, with their checksums. Its `EventFileWriter` is not used: it buffers what it
writes, so that a disk that runs full leaves half a record behind, after which TensorBoard reads no further. Here every record is
appended whole or not at all.
"""

from __future__ import annotations

import io
import json
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorboard.compat.proto.event_pb2 import Event  # pyright: ignore[reportAttributeAccessIssue]
from tensorboard.compat.proto.summary_pb2 import Summary  # pyright: ignore[reportAttributeAccessIssue]
from tensorboard.summary.writer.record_writer import RecordWriter

from myxtts.audio.files import write_audio
from myxtts.errors import MyXTTSError
from myxtts.runtime.safe_files import append_whole, cause_of, is_full
from myxtts.runtime.status import LOG_NAME

VERSION = "brain.Event:2"
"""The version that the first event of a file names."""


class TensorBoardFile:
    """One file of events in `folder`, made with its first event.

    An event that cannot be written raises OSError and leaves the file as it was; the next event is written as usual.
    """

    def __init__(self, folder: Path):
        self.path = folder / f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}"

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """One point of several curves."""
        self._append(step, [Summary.Value(tag=tag, simple_value=float(value)) for tag, value in values.items()])

    def picture(self, tag: str, step: int, pixels: np.ndarray) -> None:
        """An RGB picture: uint8 (height, width, 3)."""
        height, width, colors = pixels.shape
        encoded = tf.io.encode_png(pixels).numpy()
        image = Summary.Image(height=height, width=width, colorspace=colors, encoded_image_string=encoded)
        self._append(step, [Summary.Value(tag=tag, image=image)])

    def audio(self, tag: str, step: int, samples: np.ndarray, sample_rate: int) -> None:
        """Mono audio: float32 (samples,)."""
        encoded = io.BytesIO()
        write_audio(encoded, samples, sample_rate, "wav")
        audio = Summary.Audio(
            sample_rate=sample_rate,
            num_channels=1,
            length_frames=len(samples),
            encoded_audio_string=encoded.getvalue(),
            content_type="audio/wav",
        )
        self._append(step, [Summary.Value(tag=tag, audio=audio)])

    def _append(self, step: int, values: list[Summary.Value]) -> None:
        now = time.time()
        first = _record(Event(wall_time=now, file_version=VERSION))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        append_whole(self.path, _record(Event(wall_time=now, step=step, summary=Summary(value=values))), header=first)


def _record(event: Event) -> bytes:
    encoded = io.BytesIO()
    RecordWriter(encoded).write(event.SerializeToString())
    return encoded.getvalue()


class Logbook:
    """Takes entries without ever waiting for the disk.

    An entry that cannot be written or made (a full disk, a sentence without a pronunciation) is reported once, and training
    continues; any other exception is raised at `close`.
    """

    def __init__(self, folder: Path, tensorboard_folder: Path, notices: FailureNotices):
        self._path = folder / LOG_NAME
        self._events = TensorBoardFile(tensorboard_folder)
        self._notices = notices
        self._jobs: queue.SimpleQueue[tuple[str, Callable[[], object]] | None] = queue.SimpleQueue()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._work, name="logbook", daemon=True)

    def start(self) -> None:
        """Begin writing; entries that came before are written now."""
        self._thread.start()

    def submit(self, job: Callable[[], object], what: str = "A picture or spoken sample for the log") -> None:
        """Run something later, in the thread of the log; `what` begins the line that reports its failure."""
        self._jobs.put((what, job))

    def scalars(self, kind: str, step: int, values: Mapping[str, float]) -> None:
        """Metrics of a step: one JSON line, and one TensorBoard curve each."""

        def write():
            self._write_line({"kind": kind, "step": step} | {name: _plain(value) for name, value in values.items()})
            self._write_event(self._events.scalars, step, {f"{kind}/{name}": value for name, value in values.items()})

        self.submit(write)

    def note(self, kind: str, step: int, **facts: float | str | list[str]) -> None:
        """Something that happened at a step: one JSON line."""
        plain = {name: _plain(fact) if isinstance(fact, float) else fact for name, fact in facts.items()}
        self.submit(lambda: self._write_line({"kind": kind, "step": step} | plain))

    def picture(self, name: str, step: int, pixels: np.ndarray) -> None:
        """An RGB picture, uint8 (height, width, 3); call it from a job."""
        self._write_event(self._events.picture, name, step, pixels)

    def audio(self, name: str, step: int, samples: np.ndarray, sample_rate: int) -> None:
        """Mono audio; call it from a job."""
        self._write_event(self._events.audio, name, step, samples, sample_rate)

    def drain(self) -> None:
        """Wait until everything submitted so far is done, such as a sample that writes the voice."""
        is_done = threading.Event()
        self.submit(is_done.set)
        is_done.wait()

    def close(self) -> None:
        """Write the rest; raises an exception of the thread that was not reported."""
        if not self._thread.is_alive():
            return
        self._jobs.put(None)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _write_line(self, line: dict[str, Any]) -> None:
        try:
            append_whole(self._path, (json.dumps(line, ensure_ascii=False) + "\n").encode())
        except OSError as error:
            self._notices.unwritten(f"The log {self._path}", error)

    def _write_event(self, write: Callable[..., None], *arguments: object) -> None:
        try:
            write(*arguments)
        except OSError as error:
            self._notices.unwritten(f"TensorBoard's file {self._events.path}", error)

    def _work(self) -> None:
        while (entry := self._jobs.get()) is not None:
            try:
                self._attempt(*entry)
            except Exception as error:
                self._error = self._error or error

    def _attempt(self, what: str, job: Callable[[], object]) -> None:
        try:
            job()
        except (OSError, MyXTTSError) as error:
            self._notices.undone(what, error)


class FailureNotices:
    """One line for each thing that fails next to the training, however often it fails. Any thread may call."""

    def __init__(self, announce: Callable[[str], None]):
        self._announce = announce
        self._announced: set[str] = set()
        self._lock = threading.Lock()

    def unwritten(self, what: str, error: OSError) -> None:
        """A file of the run could not be written; `what` begins the line, such as "The log run/log.jsonl"."""
        hint = "; it is written again when there is space" if is_full(error) else " without it"
        self._once(what, f"{what} cannot be written: {cause_of(error)}. Training continues{hint}.")

    def undone(self, what: str, error: OSError | MyXTTSError) -> None:
        """Something for the log could not be created; `what` begins the line, such as "Spoken samples"."""
        cause = f"{cause_of(error)}." if isinstance(error, OSError) else str(error)
        self._once(what, f"{what} could not be created: {cause} Training continues.")

    def _once(self, what: str, line: str) -> None:
        with self._lock:
            is_new = what not in self._announced
            self._announced.add(what)
        if is_new:
            self._announce(line)


def _plain(value: float) -> float | int | str:
    value = float(value)
    if not np.isfinite(value):
        return str(value)  # JSON has no NaN
    return int(value) if value.is_integer() else float(f"{value:.7g}")
