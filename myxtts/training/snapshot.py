"""Between a run and its checkpoint: the train state with all that belongs to it as plain data, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from myxtts.config.config import XTTSConfig
from myxtts.config.load import config_to_dict
from myxtts.data.plan import Position
from myxtts.errors import CheckpointError
from myxtts.training.checkpoint import Checkpoint
from myxtts.training.progress import Progress
from myxtts.training.state import TrainState


def take_snapshot(
    state: TrainState,
    config: XTTSConfig,
    facts: Mapping[str, Any],
    progress: Progress,
    position: Position,
    plan_fingerprint: str,
    hardware: Mapping[str, str],
) -> Checkpoint:
    """Everything that a run needs to resume from here; `facts` are those of `corpus_facts`."""
    fixed = {f"fixed/{name}": value.numpy() for name, value in state.fixed_weights().items()}
    return Checkpoint(
        step=int(state.step.numpy()),
        position=position,
        arrays={"weights": state.flat_weights(), **state.vectors(), **fixed},
        weight_names=state.names,
        weight_shapes=[list(shape) for shape in state.layout.shapes],
        scalars={name: variable.numpy().item() for name, variable in state.scalars().items()},
        config=config_to_dict(config),
        corpus=dict(facts),
        progress=progress.to_dict(),
        plan_fingerprint=plan_fingerprint,
        hardware=dict(hardware),
    )


def apply_snapshot(state: TrainState, saved: Checkpoint, announce: Callable[[str], None]) -> None:
    """Bring `state` to where the checkpoint was taken."""
    if saved.weight_names != state.names:
        raise CheckpointError("The checkpoint belongs to another network. Use --reset-training.")
    state.assign_weights(saved.arrays["weights"])
    if not state.restore_vectors(saved.arrays):
        announce("The checkpoint has no averaged weights: the average starts from its weights.")
    # Another precision may need a scale where there was none (1), or none where there was one.
    keeps_scale = state.uses_loss_scale and saved.scalars["loss_scale"] > 1
    for name, variable in state.scalars().items():
        if name != "loss_scale" or keeps_scale:
            # By NumPy: TensorFlow would make a Python number a float32 first, which rounds steps beyond 16.7 million.
            variable.assign(np.asarray(saved.scalars[name], variable.dtype.as_numpy_dtype))
    for name, variable in state.fixed_weights().items():
        variable.assign(saved.arrays[f"fixed/{name}"])
