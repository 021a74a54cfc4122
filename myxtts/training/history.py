"""What a run remembers besides its weights: best validation, patience, plateau. Plain numbers, saved with every checkpoint."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass
class RunHistory:
    """Counters and best results, updated by every validation and evaluation."""

    best_loss: float | None = None
    best_step: int = 0
    validations_without_improvement: int = 0
    validations_on_plateau: int = 0
    best_evaluation: float | None = None
    skipped_steps: int = 0
    duration_scale: float = 1.0
    """Frames of the held-out recordings over those predicted for them; durations are learned as logarithms, which biases them."""

    @classmethod
    def restored(cls, values: Mapping[str, Any]) -> RunHistory:
        """From a checkpoint; counters that only an earlier version had are ignored."""
        return cls(**{field.name: values[field.name] for field in fields(cls) if field.name in values})

    def to_dict(self) -> dict[str, Any]:
        """For a checkpoint."""
        return asdict(self)

    def note_validation(self, loss: float, step: int) -> bool:
        """Record a validation loss; true if it is the best so far. A loss that is not finite never is."""
        if _is_better(loss, self.best_loss):
            self.best_loss, self.best_step = loss, step
            self.validations_without_improvement = self.validations_on_plateau = 0
            return True
        self.validations_without_improvement += 1
        self.validations_on_plateau += 1
        return False

    def note_evaluation(self, error: float) -> bool:
        """Record an evaluation (lower is better); true if it is the best so far."""
        if _is_better(error, self.best_evaluation):
            self.best_evaluation = error
            return True
        return False

    def is_out_of_patience(self, patience: int | None) -> bool:
        """Whether the run should end early."""
        return patience is not None and self.validations_without_improvement >= patience

    def takes_plateau(self, patience: int | None) -> bool:
        """Whether the learning rate must be lowered now; if so, counting starts again."""
        if patience is None or self.validations_on_plateau < patience:
            return False
        self.validations_on_plateau = 0
        return True


def _is_better(value: float, best: float | None) -> bool:
    """Lower is better. A best that is not finite may come from a checkpoint of 0.1.0."""
    return math.isfinite(value) and (best is None or not math.isfinite(best) or value < best)
