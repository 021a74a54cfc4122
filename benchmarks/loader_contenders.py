"""The ways of filling a batch that `loader.py` compares; each is a function that takes one batch and returns its clips."""

from __future__ import annotations

import subprocess
import sys
from collections import deque
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path

import numpy as np
import tensorflow as tf

from benchmarks.librosa_mel import librosa_mel
from myxtts.batch import NO_CLIP
from myxtts.batches.feed import Feed
from myxtts.batches.order import Plan
from myxtts.cache.clip_table import Cache
from myxtts.data.tf_native_loader import TFNativeDataLoader

Take = Callable[[], float]


def feed_contender(feed: Feed, clips_per_batch: float) -> Take:
    """MyXTTS from the cache, planning included."""

    def take() -> float:
        next(feed)
        return clips_per_batch

    return take


def clips_per_batch(plan: Plan, epochs: int = 20) -> float:
    """Mean over many batches, empty slots not counted."""
    batches = list(islice(plan.batches(), epochs * 20))
    return float(np.mean([(rows != NO_CLIP).sum() for rows, _, _ in batches]))


def on_the_fly_dataset(cache: Cache, plan: Plan, paths: list[str], with_librosa: bool) -> tf.data.Dataset:
    """Recordings decoded while they are needed, padded to the plan's shape: by TensorFlow, or by librosa in numpy_function."""
    shape, spec = plan.shapes[0], cache.mel
    native = TFNativeDataLoader(spec)

    def python_mel(path: bytes) -> np.ndarray:
        return librosa_mel(path.decode(), spec.sample_rate, spec.n_fft, spec.hop_length, spec.n_mels, spec.log_floor)

    def load(path: tf.Tensor, tokens: tf.Tensor):
        if with_librosa:
            mel = tf.numpy_function(python_mel, [path], tf.float32, stateful=False)
            mel = tf.ensure_shape(mel, (None, spec.n_mels))
        else:
            mel = native.load_and_process_audio(path, shape.frames)[1]
        return tokens, mel, tf.shape(tokens)[0], tf.shape(mel)[0]

    tokens = tf.ragged.constant([cache.clip_tokens(clip) for clip in plan.clips], dtype=tf.int32)
    chosen = tf.constant([paths[clip] for clip in plan.clips])
    dataset = tf.data.Dataset.zip(
        (tf.data.Dataset.from_tensor_slices(chosen), tf.data.Dataset.from_tensor_slices(tokens))
    )
    dataset = dataset.shuffle(len(plan.clips), seed=plan.seed).repeat()
    dataset = dataset.map(load, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    padded = ((shape.tokens,), (shape.frames, spec.n_mels), (), ())
    return dataset.padded_batch(shape.rows, padded, drop_remainder=True).prefetch(2)


def dataset_contender(dataset: tf.data.Dataset, clips: int) -> Take:
    stream = iter(dataset)

    def take() -> float:
        next(stream)
        return clips

    return take


def copy_contender(feed: Feed, rows: int) -> Take:
    """One thread of NumPy that copies ready batches into fresh memory; the last 8 copies stay alive."""
    sources = cycle([[field.numpy().copy() for field in next(feed)] for _ in range(8)])
    alive: deque[list[np.ndarray]] = deque(maxlen=8)

    def take() -> float:
        alive.append([field.copy() for field in next(sources)])
        return rows

    return take


class TorchLoader:
    """PyTorch's DataLoader in a process of its own; `contender(workers, seconds)` is one round of it."""

    def __init__(self, cache: Cache, plan: Plan, folder: Path):
        path = folder / "clips.npz"
        shape, clips = plan.shapes[0], plan.clips
        np.savez(
            path,
            frames=np.array(cache.frames),
            tokens=np.array(cache.tokens),
            frame_starts=cache.frame_starts[clips],
            frame_counts=cache.frame_counts[clips],
            token_starts=cache.token_starts[clips],
            token_counts=cache.token_counts[clips],
            batch_size=shape.rows,
            max_frames=shape.frames,
            max_tokens=shape.tokens,
        )
        script = Path(__file__).with_name("torch_loader.py")
        self._process = subprocess.Popen(
            [sys.executable, str(script), str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        if self._process.stdout.readline().strip() != "ready":
            raise RuntimeError(
                f"torch_loader.py did not start (exit code {self._process.wait()}). Its output above says why."
            )

    def contender(self, workers: int, seconds: float) -> Callable[[], float]:
        def run() -> float:
            self._process.stdin.write(f"{workers} {seconds}\n")
            self._process.stdin.flush()
            return float(self._process.stdout.readline())

        return run

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(timeout=30)
