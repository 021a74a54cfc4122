"""Everything that is written about a run while it runs: JSON lines, TensorBoard, pictures, spoken sentences.

All of it happens in one background thread; the loop only hands over numbers. `log.jsonl` has one object a line.
"""

from __future__ import annotations

import io
import json
import os
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.audio.files import write_audio
from myxtts.errors import MyXTTSError
from myxtts.runtime.atomic import append_whole, cause_of, is_full

# MERGED: What goes wrong beside the training, told once: a run does not end because its log cannot be written.


class Notices:
    """One line for each thing that could not be done, through `tell`; any thread may call."""

    def __init__(self, tell: Callable[[str], None]):
        self._tell = tell
        self._told: set[str] = set()
        self._lock = threading.Lock()

    def unwritten(self, what: str, error: OSError) -> None:
        """A file of the run could not be written; `what` begins the line, such as "The log run/log.jsonl"."""
        hint = "; it is written again when there is space" if is_full(error) else " without it"
        self._once(what, f"{what} cannot be written: {cause_of(error)}. Training goes on{hint}.")

    def undone(self, what: str, error: OSError | MyXTTSError) -> None:
        """Something for the log could not be made; `what` begins the line, such as "Spoken samples"."""
        cause = f"{cause_of(error)}." if isinstance(error, OSError) else str(error)
        self._once(what, f"{what} could not be made: {cause} Training goes on.")

    def _once(self, what: str, line: str) -> None:
        with self._lock:
            is_new = what not in self._told
            self._told.add(what)
        if is_new:
            self._tell(line)


# MERGED: The files that TensorBoard reads: records of numbers, pictures and sound, each appended whole.
#
# TensorFlow's own writer leaves half a record behind when the disk is full, after which TensorBoard reads no further, and runs
# operations in the loop's process for every number. A record is: length (uint64), its checksum, the event, its checksum.

Event, Summary = tf.compat.v1.Event, tf.compat.v1.Summary
VERSION = "brain.Event:2"
"""What the first event of a file says."""


class EventFile:
    """One file of events in `folder`. What cannot be written raises OSError; the next event is written as if nothing was."""

    def __init__(self, folder: Path):
        self.path = folder / f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}"

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """One point of several curves."""
        self._append(step, [Summary.Value(tag=tag, simple_value=float(value)) for tag, value in values.items()])

    def picture(self, tag: str, step: int, pixels: np.ndarray) -> None:
        """An RGB picture uint8 (height, width, 3)."""
        height, width, colours = pixels.shape
        encoded = tf.io.encode_png(pixels).numpy()
        image = Summary.Image(height=height, width=width, colorspace=colours, encoded_image_string=encoded)
        self._append(step, [Summary.Value(tag=tag, image=image)])

    def audio(self, tag: str, step: int, samples: np.ndarray, sample_rate: int) -> None:
        """Mono sound (samples,)."""
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
    content = event.SerializeToString()
    length = struct.pack("<Q", len(content))
    return length + _masked_checksum(length) + content + _masked_checksum(content)


def _table_of_bytes() -> list[int]:
    table = []
    for remainder in range(256):
        for _ in range(8):
            remainder = remainder >> 1 ^ (0x82F63B78 if remainder & 1 else 0)
        table.append(remainder)
    return table


_TABLE = _table_of_bytes()


def _masked_checksum(content: bytes) -> bytes:
    """CRC-32C, turned and shifted as the format wants it: 30 ms for a spoken sentence, in the logbook's thread."""
    checksum = 0xFFFFFFFF
    for byte in content:
        checksum = _TABLE[(checksum ^ byte) & 0xFF] ^ checksum >> 8
    checksum ^= 0xFFFFFFFF
    return struct.pack("<I", ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF)


LOG_NAME = "log.jsonl"


class Logbook:
    """Takes entries without ever waiting for the disk.

    What the disk or the user's data make impossible is told once and the rest goes on; a defect of ours is raised at `close`.
    """

    def __init__(self, folder: Path, tensorboard_folder: Path, notices: Notices):
        self._path = folder / LOG_NAME
        self._events = EventFile(tensorboard_folder)
        self._notices = notices
        self._jobs: queue.SimpleQueue[tuple[str, Callable[[], None]] | None] = queue.SimpleQueue()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._work, name="logbook", daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[], object], what: str = "A picture or spoken sample for the log") -> None:
        """Run something later, in the logbook's thread; `what` begins the line that tells of its failure."""
        self._jobs.put((what, job))

    def scalars(self, kind: str, step: int, values: Mapping[str, float]) -> None:
        """Numbers of a step: one JSON line, and one TensorBoard curve each."""

        def write():
            self._write_line({"kind": kind, "step": step} | {name: _plain(value) for name, value in values.items()})
            self._write_event(self._events.scalars, step, {f"{kind}/{name}": value for name, value in values.items()})

        self.submit(write)

    def note(self, kind: str, step: int, **facts: float | str | list[str]) -> None:
        """Something that happened at a step: one JSON line."""
        plain = {name: _plain(fact) if isinstance(fact, float) else fact for name, fact in facts.items()}
        self.submit(lambda: self._write_line({"kind": kind, "step": step} | plain))

    def picture(self, name: str, step: int, pixels: np.ndarray) -> None:
        """An RGB picture uint8 (height, width, 3); call it from a job."""
        self._write_event(self._events.picture, name, step, pixels)

    def audio(self, name: str, step: int, samples: np.ndarray, sample_rate: int) -> None:
        """Mono audio; call it from a job."""
        self._write_event(self._events.audio, name, step, samples, sample_rate)

    def drain(self) -> None:
        """Wait until everything submitted so far is done: what follows may write where those jobs write (the voice)."""
        is_done = threading.Event()
        self.submit(is_done.set)
        is_done.wait()

    def close(self) -> None:
        """Write what is left; raises a defect that the thread met, never what was already told."""
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


def _plain(value: float) -> float | int | str:
    number = float(value)
    if not np.isfinite(number):
        return str(number)  # JSON has no NaN
    return int(number) if number.is_integer() else float(f"{number:.7g}")
