"""Small random data in the files that Keras would download: public scripts run on it unmodified and offline."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

_WORDS = [
    "the",
    "and",
    "of",
    "a",
    "truth",
    "will",
    "to",
    "power",
    "spirit",
    "man",
    "which",
    "is",
    "not",
    "in",
    "every",
    "soul",
]


def write_keras_home(folder: Path) -> None:
    """Write what `keras.datasets` and `get_file` look for under KERAS_HOME: MNIST, Fashion-MNIST, IMDB, a text."""
    numbers = np.random.default_rng(18)
    datasets = folder / "datasets"
    (datasets / "fashion-mnist").mkdir(parents=True, exist_ok=True)
    train, test = _digits(numbers, 1280), _digits(numbers, 256)
    np.savez(datasets / "mnist.npz", x_train=train[0], y_train=train[1], x_test=test[0], y_test=test[1])
    for prefix, rows in (("train", 640), ("t10k", 128)):
        images, labels = _digits(numbers, rows)
        _write_idx(datasets / "fashion-mnist" / f"{prefix}-images-idx3-ubyte.gz", images, header=16)
        _write_idx(datasets / "fashion-mnist" / f"{prefix}-labels-idx1-ubyte.gz", labels, header=8)
    reviews, test_reviews = _reviews(numbers, 640), _reviews(numbers, 128)
    np.savez(
        datasets / "imdb.npz",
        x_train=reviews[0], y_train=reviews[1], x_test=test_reviews[0], y_test=test_reviews[1],
    )  # fmt: skip
    text = " ".join(numbers.choice(_WORDS, size=1500).tolist())
    (datasets / "nietzsche.txt").write_text(text, encoding="utf-8")


def _digits(numbers: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    return numbers.integers(0, 256, (rows, 28, 28), dtype=np.uint8), (np.arange(rows) % 10).astype(np.uint8)


def _reviews(numbers: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Reviews as lists of word numbers, in an array of objects like the original."""
    reviews = np.empty(rows, dtype=object)
    for row in range(rows):
        reviews[row] = numbers.integers(1, 19_000, size=int(numbers.integers(20, 300))).tolist()
    return reviews, np.arange(rows) % 2


def _write_idx(path: Path, values: np.ndarray, header: int) -> None:
    with gzip.open(path, "wb") as file:
        file.write(bytes(header) + values.tobytes())
