"""The files that TensorBoard reads: records of numbers, pictures and sound, each appended whole.

TensorFlow's own writer leaves half a record behind when the disk is full, after which TensorBoard reads no further, and runs
operations in the loop's process for every number. A record is: length (uint64), its checksum, the event, its checksum.
"""

from __future__ import annotations

import io
import os
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf

from myxtts.audio.files import write_audio
from myxtts.runtime.disk import append_whole

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
