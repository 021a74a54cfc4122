"""What a run computes on: device, strategy, precision, compiler. Decided once, before the first tensor.

TensorFlow keeps these settings per process, so they are set here and nowhere else in training: op determinism, threads, visible
GPUs, the graph optimizer, and whether parts of a step may be compiled by XLA (read when a step is traced). Several trainers in
one process must therefore be opened and warmed up one after the other. The random seed is set when a network is built.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

from myxtts.config.config import TrainingConfig
from myxtts.errors import ConfigError
from myxtts.models.layers import DESCRIPTIONS, allow_xla, convolution_path
from myxtts.runtime.machine import Bfloat16, bfloat16_support, instruction_set, usable_cores
from myxtts.runtime.progress import ignore_line
from myxtts.training.distributed import Cluster, Result, check_agreement, connect, in_turn, read_cluster

XLA_FAILS_FROM_CAPABILITY = (12, 0)
"""Compute capability of NVIDIA's Blackwell cards: XLA of TensorFlow 2.21 aborts the whole process there ("PTX version 8.5 does
not support target 'sm_120'", tensorflow#111958), and plain operations fail on some of them (tensorflow#89272)."""
PROBE_SECONDS = 600
"""A GPU that TensorFlow has no binary code for compiles its kernels at first use, for minutes. Chosen; not measured."""


@dataclass(frozen=True)
class XlaChoice:
    """What XLA compiles."""

    compiles_step: bool
    compiles_parts: bool
    """The parts of a step that gain by it on every device (`models.layers.compiled_by_xla`)."""
    note: str = ""
    """Why it compiles nothing although it was not switched off."""

    def __str__(self) -> str:
        if self.compiles_step:
            return "all of the step"
        if self.compiles_parts:
            return "alignment, norms and activations, update"
        return f"off: {self.note}" if self.note else "off"


@dataclass(frozen=True)
class Hardware:
    """Where and how the steps run."""

    strategy: tf.distribute.Strategy
    description: str
    xla: XlaChoice
    dtype_policy: str
    """Keras's name: float32, mixed_bfloat16 or mixed_float16."""
    graph_mode: bool
    convolution: str
    """`NATIVE` or `MATMUL` of `models.layers`."""
    cluster: Cluster | None = None
    """The machines of the run, if there are several."""

    def facts(self) -> dict[str, str]:
        """What the numbers of a run depend on apart from its configuration; in the log, the checkpoint and the diagnosis."""
        return {
            "device": self.description,
            "instruction_set": instruction_set(),
            "convolution": self.convolution,
            "precision": self.dtype_policy,
        }

    def described(self) -> dict[str, str]:
        """The first lines of a run about its hardware, by their titles."""
        return {
            "Device": self.description,
            "XLA": str(self.xla),
            "Convolution": f"{DESCRIPTIONS[self.convolution]}, {instruction_set()}",
            "Precision": self.dtype_policy,
        }

    def changes_since(self, facts: Mapping[str, str]) -> list[str]:
        """One line for each of the facts of a checkpoint that is different now."""
        return [
            f"Changed since the checkpoint: {name.replace('_', ' ')} {facts[name]} → {value}; losses may differ slightly."
            for name, value in self.facts().items()
            if name in facts and facts[name] != value
        ]

    @property
    def replicas(self) -> int:
        """Copies of the network that train together."""
        return self.strategy.num_replicas_in_sync

    @property
    def data_strategy(self) -> tf.distribute.Strategy | None:
        """The strategy by which batches are split among replicas; None for a single replica."""
        return self.strategy if self.replicas > 1 else None

    @property
    def uses_loss_scale(self) -> bool:
        """Small gradients vanish in float16, so there the loss is scaled."""
        return self.dtype_policy == "mixed_float16"

    @property
    def is_chief(self) -> bool:
        """Whether this process writes checkpoints and logs."""
        return self.cluster is None or self.cluster.is_chief

    def in_turn(self, action: Callable[[], Result]) -> Result:
        """Run `action`, one worker after the other if there are several."""
        return action() if self.cluster is None else in_turn(self.cluster, self.strategy, action)

    def check_agreement(self, step: int, position: tuple[int, int], content_id: str) -> None:
        """Raise a `TrainingError` if the workers of a cluster are at different positions or have different recordings."""
        if self.cluster is not None:
            facts = {"step": step, "epoch": position[0], "row": position[1], "corpus": zlib.crc32(content_id.encode())}
            check_agreement(self.strategy, self.cluster, facts)

    def with_own_files(self, config: TrainingConfig) -> TrainingConfig:
        """The configuration with the folder for log and status: that of the run for the chief, one of its own otherwise."""
        if self.cluster is None or self.cluster.is_chief:
            return config
        folder = str(Path(config.checkpoint_dir) / f"worker-{self.cluster.index}")
        return dataclasses.replace(config, checkpoint_dir=folder, tensorboard_log_dir=None)


def set_up_hardware(
    config: TrainingConfig,
    strategy: tf.distribute.Strategy | None = None,
    announce: Callable[[str], None] = ignore_line,
) -> Hardware:
    """Configure TensorFlow for this run. `strategy` replaces the choice by `device` and TF_CONFIG."""
    if config.deterministic:
        tf.config.experimental.enable_op_determinism()
    _set_threads(config)
    gpus = _visible_gpus(config)
    # The graph optimizer took most of the first call and gained nothing in the step (docs/training.md).
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    graph_mode = config.enable_graph_mode and not config.enable_eager_debug
    capabilities = [_compute_capability(gpu) for gpu in gpus]
    for gpu, capability in zip(gpus, capabilities, strict=True):
        if capability >= XLA_FAILS_FROM_CAPABILITY:
            _check_gpu_runs(gpu.name.removeprefix("/physical_device:"), announce)
    xla = choose_xla(config.enable_xla_compilation, capabilities, graph_mode)
    allow_xla(xla.compiles_parts)
    cluster = read_cluster() if strategy is None else None
    chosen = _strategy(gpus, cluster) if strategy is None else strategy
    names = [gpu.name.removeprefix("/physical_device:") for gpu in gpus] or [f"CPU ({usable_cores()} cores)"]
    replicas = chosen.num_replicas_in_sync
    description = ", ".join(names) + (f", {replicas} replicas" if replicas > 1 else "")
    if cluster is not None:
        description += f", {cluster.name_of(cluster.index)} of {len(cluster.addresses)}"
    return Hardware(
        strategy=chosen,
        description=description,
        xla=xla,
        dtype_policy=choose_precision(config.mixed_precision, capabilities),
        graph_mode=graph_mode,
        convolution=convolution_path(),
        cluster=cluster,
    )


def choose_xla(setting: bool | str, capabilities: Sequence[tuple[int, int]], graph_mode: bool) -> XlaChoice:
    """What XLA may compile on GPUs of these compute capabilities (none: on the CPU)."""
    if setting is False or not graph_mode:
        return XlaChoice(False, False)
    highest = max(capabilities, default=(0, 0))
    if highest >= XLA_FAILS_FROM_CAPABILITY:
        name = ".".join(map(str, highest))
        if setting is True:
            raise ConfigError(
                f"training.enable_xla_compilation is true, but XLA of TensorFlow {tf.__version__} aborts on GPUs of compute "
                f"capability {name}. Expected below 12.0. Use auto or false, or --device cpu."
            )
        return XlaChoice(
            False, False, f"XLA aborts on GPUs of compute capability {name} in TensorFlow {tf.__version__}"
        )
    return XlaChoice(setting is True or bool(capabilities), True)


def _check_gpu_runs(name: str, announce: Callable[[str], None]) -> None:
    """Run one operation on a GPU (`GPU:1`) in a child process, because a GPU without kernels can abort the process."""
    announce(f"Trying {name} in a child process; its kernels may be compiled first, which can take minutes.")
    code = f"import tensorflow as tf\nwith tf.device('{name}'): tf.linalg.matmul(tf.eye(8), tf.eye(8)).numpy()"
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, timeout=PROBE_SECONDS, check=False
        )
        is_working = done.returncode == 0
    except subprocess.TimeoutExpired:
        is_working = False
    if not is_working:
        raise ConfigError(
            f"{name} cannot run the kernels of TensorFlow {tf.__version__}: a matrix product "
            "in a child process failed. Use NVIDIA's TensorFlow container, a GPU of compute capability below 12.0, or "
            "--device cpu."
        )


def _compute_capability(gpu: tf.config.PhysicalDevice) -> tuple[int, int]:
    """(major, minor); (0, 0) for a device that reports none (an AMD or Intel plug-in)."""
    major, minor = tf.config.experimental.get_device_details(gpu).get("compute_capability") or (0, 0)
    return int(major), int(minor)


def _set_threads(config: TrainingConfig) -> None:
    if config.threads == "auto" or tf.config.threading.get_intra_op_parallelism_threads() == config.threads:
        return
    try:
        tf.config.threading.set_intra_op_parallelism_threads(config.threads)
    except RuntimeError:
        raise ConfigError(
            f"training.threads ({config.threads}) must be set before TensorFlow's first operation. Start a new process."
        ) from None


def _visible_gpus(config: TrainingConfig) -> list[tf.config.PhysicalDevice]:
    gpus = tf.config.list_physical_devices("GPU")
    if config.device == "cpu":
        wanted = []
    elif config.device in ("auto", "gpu"):
        wanted = gpus
    else:
        index = int(config.device.partition(":")[2])
        wanted = gpus[index : index + 1]
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
        return connect(cluster)
    if len(gpus) > 1:
        return tf.distribute.MirroredStrategy()
    return tf.distribute.get_strategy()


def choose_precision(setting: str, capabilities: Sequence[tuple[int, int]]) -> str:
    """Keras's name of the precision that a step computes in.

    Args:
        setting: `training.mixed_precision`.
        capabilities: compute capabilities of the GPUs; empty on a CPU.
    """
    if setting == "off":
        return "float32"
    if not capabilities:
        support = bfloat16_support()
        if setting == "bfloat16" and support is Bfloat16.ABORTS:
            raise ConfigError(
                "training.mixed_precision must be auto or off on a CPU without AVX-512, because oneDNN aborts the process "
                f"there. Received: bfloat16 on {instruction_set()}. TF_ENABLE_ONEDNN_OPTS=0 allows it, but is slow."
            )
        if setting == "auto":
            return "mixed_bfloat16" if support is Bfloat16.FAST else "float32"
    if setting in ("bfloat16", "float16"):
        return f"mixed_{setting}"
    lowest = min(capabilities)
    if lowest >= (8, 0):
        return "mixed_bfloat16"
    return "mixed_float16" if lowest >= (7, 0) else "float32"
