"""Runs that take seconds: a corpus made by code and a very small network."""

from __future__ import annotations

import io
import json
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from myxtts.config.config import XTTSConfig
from myxtts.config.load import parse_config
from myxtts.training.checkpoint import ARRAYS_NAME, STATE_NAME, load_checkpoint
from myxtts.training.display import Display

SMALL_NETWORK = {
    "text_channels": 16,
    "text_layers": 1,
    "text_heads": 2,
    "decoder_channels": 16,
    "decoder_layers": 2,
    "speaker_channels": 8,
}


def small_config(corpus: Path, run: Path, data: dict[str, Any] | None = None, **training: Any) -> XTTSConfig:
    """Ten steps on a tiny corpus, nothing in between."""
    return parse_config(
        {
            "data": {
                "train_data": str(corpus),
                "cache_dir": str(corpus / "cache"),
                "text_symbols": "graphemes",
                "num_workers": 1,
                "max_mel_frames": 160,
                "max_text_length": 40,
                "batch_size": 4,
                "validation_share": 0.2,
            }
            | (data or {}),
            "model": SMALL_NETWORK,
            "training": {
                "checkpoint_dir": str(run),
                "max_steps": 10,
                "log_interval": 2,
                "validation_interval": 1000,
                "checkpoint_interval": 1000,
                "mixed_precision": "off",  # auto depends on the processor
            }
            | training,
        }
    )


def quiet_display(clock: Callable[[], float] = time.monotonic) -> Display:
    """A display whose text can be read: `display.console.file.getvalue()`."""
    return Display(Console(file=io.StringIO(), width=200, soft_wrap=True), clock)


def text_of(display: Display) -> str:
    return display.console.file.getvalue()


def to_format_1(checkpoint: Path) -> Path:
    """Rewrite a checkpoint folder as version 0.1.0 wrote it: arrays.npz, no fingerprint of the batch order, no hardware."""
    loaded = load_checkpoint(checkpoint)
    (checkpoint / ARRAYS_NAME).unlink()
    np.savez(checkpoint / "arrays.npz", allow_pickle=False, **loaded.arrays)
    state = json.loads((checkpoint / STATE_NAME).read_text(encoding="utf-8"))
    state |= {"format_version": 1, "arrays_crc32": zlib.crc32((checkpoint / "arrays.npz").read_bytes())}
    del state["plan_fingerprint"], state["hardware"]
    (checkpoint / STATE_NAME).write_text(json.dumps(state), encoding="utf-8")
    return checkpoint
