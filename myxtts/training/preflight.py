"""Checks of a configuration before anything is prepared or compiled. No TensorFlow here."""

from __future__ import annotations

import tempfile
from pathlib import Path

from myxtts.batches.plan import plan_kind
from myxtts.config.config import TrainingConfig, XTTSConfig
from myxtts.errors import ConfigError
from myxtts.models.spec import ModelSpec


def check_network(config: XTTSConfig) -> None:
    """Raise a `ConfigError` if the network cannot be built, or if it would look from one clip of a packed row into the next."""
    # The counts of the corpus are not known yet, and do not matter for what is checked.
    counts = {"num_symbols": 2, "num_languages": 1, "num_speakers": 1, "n_mels": config.data.n_mels}
    reach = ModelSpec.from_config(config.model, **counts).frame_reach
    if plan_kind(config.data) == "packed" and config.data.gap_frames < reach:
        raise ConfigError(
            f"data.gap_frames must be at least {reach}, the frames that the widest convolution of the decoder reaches: with "
            f"fewer, the clips of a packed row mix. Received: {config.data.gap_frames}. Set data.gap_frames: {reach}, or "
            "data.plan: buckets."
        )


def make_run_folders(training: TrainingConfig) -> None:
    """Make the folders that a run writes to; raises a `ConfigError` now instead of at the first checkpoint."""
    make_writable("training.checkpoint_dir", "--checkpoint-dir", training.checkpoint_dir)
    if training.tensorboard_log_dir is not None:
        make_writable("training.tensorboard_log_dir", "--tensorboard-log-dir", training.tensorboard_log_dir)


def make_writable(name: str, flag: str, folder: str) -> None:
    """Make the folder of a setting; raises a `ConfigError` that names its flag if it cannot be written to."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(
            f"{name} cannot be written to. Received: {folder} ({error.strerror}). Expected: a folder, or a path "
            f"where one can be made. Choose another with {flag}."
        ) from None
