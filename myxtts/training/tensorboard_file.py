"""The file that TensorBoard reads: metrics, pictures and audio, one record each, never torn by a full disk.

TensorBoard's own `RecordWriter` encodes the records, with their checksums. Its `EventFileWriter` is not used: it buffers what it
writes, so that a disk that runs full leaves half a record behind, after which TensorBoard reads no further. Here every record is
appended whole or not at all.
"""

from __future__ import annotations

import io
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorboard.compat.proto.event_pb2 import Event  # pyright: ignore[reportAttributeAccessIssue]
from tensorboard.compat.proto.summary_pb2 import Summary  # pyright: ignore[reportAttributeAccessIssue]
from tensorboard.summary.writer.record_writer import RecordWriter

from myxtts.audio.files import write_audio
from myxtts.runtime.atomic import append_whole

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
