"""What a run computes on: device, strategy, precision, compiler. Decided once, before the first tensor."""

from __future__ import annotations

import dataclasses
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

from myxtts.config.config import TrainingConfig
from myxtts.errors import ConfigError
from myxtts.models.compiled import allow_xla
from myxtts.training.cluster import Cluster, Result, check_agreement, in_turn, meet, read_cluster


@dataclass(frozen=True)
class Hardware:
    """Where and how the steps run."""

    strategy: tf.distribute.Strategy
    description: str
    uses_xla: bool
    dtype_policy: str
    """Keras's name: float32, mixed_bfloat16 or mixed_float16."""
    graph_mode: bool
    cluster: Cluster | None = None
    """The machines of the run, if there are several."""

    @property
    def replicas(self) -> int:
        """Copies of the network that train together."""
        return self.strategy.num_replicas_in_sync

    @property
    def uses_loss_scale(self) -> bool:
        """Small gradients vanish in float16, so there the loss is scaled."""
        return self.dtype_policy == "mixed_float16"

    @property
    def is_chief(self) -> bool:
        """Whether this process writes checkpoints and logs."""
        return self.cluster is None or self.cluster.is_chief

    def in_turn(self, action: Callable[[], Result]) -> Result:
        """Run `action`, worker after worker if there are several."""
        return action() if self.cluster is None else in_turn(self.cluster, self.strategy, action)

    def check_agreement(self, step: int, position: tuple[int, int], content_id: str) -> None:
        """A `TrainingError` if the workers of a cluster stand at different places or have different recordings."""
        if self.cluster is not None:
            facts = {"step": step, "pass": position[0], "row": position[1], "corpus": zlib.crc32(content_id.encode())}
            check_agreement(self.strategy, self.cluster, facts)

    def with_own_files(self, config: TrainingConfig) -> TrainingConfig:
        """Only the chief writes into the run's folder; the log and status of another worker go to a folder of its own."""
        if self.is_chief:
            return config
        folder = str(Path(config.checkpoint_dir) / f"worker-{self.cluster.number}")
        return dataclasses.replace(config, checkpoint_dir=folder, tensorboard_log_dir=None)


def set_up_hardware(config: TrainingConfig, strategy: tf.distribute.Strategy | None = None) -> Hardware:
    """Configure TensorFlow for this run. `strategy` replaces the choice by `device` and TF_CONFIG."""
    if config.deterministic:
        tf.config.experimental.enable_op_determinism()
    _set_threads(config)
    gpus = _visible_gpus(config)
    # The graph optimizer took most of the first call and gained nothing in the step (docs/training.md).
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    cluster = read_cluster() if strategy is None else None
    strategy = strategy or _strategy(gpus, cluster)
    graph_mode = config.enable_graph_mode and not config.enable_eager_debug
    xla = bool(gpus) if config.enable_xla_compilation == "auto" else config.enable_xla_compilation
    allow_xla(config.enable_xla_compilation is not False and graph_mode)
    names = [gpu.name.removeprefix("/physical_device:") for gpu in gpus] or [f"CPU ({os.cpu_count()} cores)"]
    replicas = strategy.num_replicas_in_sync
    description = ", ".join(names) + (f", {replicas} replicas" if replicas > 1 else "")
    if cluster is not None:
        description += f", {cluster.name_of(cluster.number)} of {len(cluster.addresses)}"
    return Hardware(strategy, description, xla and graph_mode, _dtype_policy(config, gpus), graph_mode, cluster)


def _set_threads(config: TrainingConfig) -> None:
    if config.threads == "auto" or tf.config.threading.get_intra_op_parallelism_threads() == config.threads:
        return
    try:
        tf.config.threading.set_intra_op_parallelism_threads(config.threads)
    except RuntimeError:
        raise ConfigError(
            f"training.threads ({config.threads}) must be set before TensorFlow's first operation. "
            "Start a new process for it."
        ) from None


def _visible_gpus(config: TrainingConfig) -> list[tf.config.PhysicalDevice]:
    gpus = tf.config.list_physical_devices("GPU")
    if config.device == "cpu":
        wanted = []
    elif config.device in ("auto", "gpu"):
        wanted = gpus
    else:
        number = int(config.device.partition(":")[2])
        wanted = gpus[number : number + 1]
    if config.device.startswith("gpu") and not wanted:
        raise ConfigError(
            f"training.device is {config.device}, but TensorFlow sees {len(gpus)} GPUs. Install the CUDA build "
            '(pip install "tensorflow[and-cuda]"), or use --device auto.'
        )
    try:
        if gpus:
            tf.config.set_visible_devices(wanted, "GPU")
        for gpu in wanted:
            tf.config.experimental.set_memory_growth(gpu, config.gpu_memory_growth)
    except RuntimeError:
        raise ConfigError(
            "The device must be chosen before TensorFlow's first operation. Start a new process."
        ) from None
    return wanted


def _strategy(gpus: list[tf.config.PhysicalDevice], cluster: Cluster | None) -> tf.distribute.Strategy:
    if cluster is not None:
        return meet(cluster)
    if len(gpus) > 1:
        return tf.distribute.MirroredStrategy()
    return tf.distribute.get_strategy()


def _dtype_policy(config: TrainingConfig, gpus: list[tf.config.PhysicalDevice]) -> str:
    if config.mixed_precision in ("bfloat16", "float16"):
        return f"mixed_{config.mixed_precision}"
    if config.mixed_precision == "off" or not gpus:
        return "float32"
    capability = tf.config.experimental.get_device_details(gpus[0]).get("compute_capability", (0, 0))
    if capability >= (8, 0):
        return "mixed_bfloat16"
    return "mixed_float16" if capability >= (7, 0) else "float32"
