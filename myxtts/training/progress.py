"""State of a run besides its weights: best validation, patience, plateau. Plain numbers, saved with every checkpoint."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any


class StopReason(StrEnum):
    """Why a run stopped, for the last table: `Stopped: …`."""

    FINISHED = "all steps are done"
    TIME = "reached training.max_minutes"
    PATIENCE = "the validation loss stopped improving (training.early_stopping_patience)"
    SIGNAL = "interrupted; run the same command again to resume"


@dataclass
class Progress:
    """Changes with every validation."""

    best_loss: float | None = None
    best_step: int = 0
    validations_without_improvement: int = 0
    validations_on_plateau: int = 0
    best_evaluation: float | None = None
    skipped_steps: int = 0
    duration_scale: float = 1.0
    """Frames of the held-out recordings over those predicted for them; what the mean of a logarithm leaves out."""

    @classmethod
    def restored(cls, values: Mapping[str, Any]) -> Progress:
        """From a checkpoint; what only an earlier version counted is left out."""
        return cls(**{field.name: values[field.name] for field in fields(cls) if field.name in values})

    def to_dict(self) -> dict[str, Any]:
        """For a checkpoint."""
        return asdict(self)

    def note_validation(self, loss: float, step: int) -> bool:
        """Take in a validation loss; true if it is the best so far, which a loss that is not finite never is."""
        if _is_better(loss, self.best_loss):
            self.best_loss, self.best_step = loss, step
            self.validations_without_improvement = self.validations_on_plateau = 0
            return True
        self.validations_without_improvement += 1
        self.validations_on_plateau += 1
        return False

    def note_evaluation(self, error: float) -> bool:
        """Take in an evaluation (lower is better); true if it is the best so far."""
        if _is_better(error, self.best_evaluation):
            self.best_evaluation = error
            return True
        return False

    def is_out_of_patience(self, patience: int | None) -> bool:
        """Whether the run should end early."""
        return patience is not None and self.validations_without_improvement >= patience

    def takes_plateau(self, patience: int | None) -> bool:
        """Whether the rate is to be cut now; if so, counting starts again."""
        if patience is None or self.validations_on_plateau < patience:
            return False
        self.validations_on_plateau = 0
        return True


def _is_better(value: float, best: float | None) -> bool:
    """Lower is better. A best that is not finite may come from a checkpoint of 0.1.0."""
    return math.isfinite(value) and (best is None or not math.isfinite(best) or value < best)
