"""The evaluation of checkpoints next to the training: started at one step, and picked up at a later one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from myxtts.errors import MyXTTSError
from myxtts.runtime.atomic import cause_of

What = TypeVar("What")


@dataclass(frozen=True)
class EvaluationOutcome(Generic[What]):
    """How an evaluation ended: with metrics or with the reason why there are none."""

    what: What
    """What was evaluated."""
    metrics: Mapping[str, float] | None
    failure: str = ""


class BackgroundEvaluation(Generic[What]):
    """At most one evaluation at a time, in a thread of its own."""

    def __init__(self, evaluate: Callable[[What], Mapping[str, float]]):
        """`evaluate` waits for another process most of the time: what it computes itself slows the training down."""
        self._evaluate = evaluate
        self._thread: threading.Thread | None = None
        self._outcome: EvaluationOutcome[What] | None = None
        self._unexpected: BaseException | None = None
        self.running: What | None = None
        """What is being evaluated, until its outcome is taken."""

    def start(self, what: What) -> bool:
        """Begin to evaluate; false if an evaluation is still running or was not taken yet."""
        if self._thread is not None:
            return False
        self.running, self._outcome = what, None
        self._thread = threading.Thread(target=self._run, args=(what,), name="evaluation", daemon=True)
        self._thread.start()
        return True

    def take(self, timeout_seconds: float = 0.0) -> EvaluationOutcome[What] | None:
        """The outcome, once, if there is one by then."""
        if self._thread is None:
            return None
        if timeout_seconds > 0:
            self._thread.join(timeout_seconds)
        if self._thread.is_alive():
            return None
        self._thread = self.running = None
        if self._unexpected is not None:
            raise self._unexpected
        return self._outcome

    def _run(self, what: What) -> None:
        try:
            self._outcome = EvaluationOutcome(what, self._evaluate(what))
        except MyXTTSError as error:
            self._outcome = EvaluationOutcome(what, None, str(error))
        except OSError as error:
            self._outcome = EvaluationOutcome(what, None, f"{cause_of(error)}.")
        except BaseException as error:
            self._unexpected = error
