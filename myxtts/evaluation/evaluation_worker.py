"""A worker process (`myxtts.runtime.workers`) that measures the voice in a folder while a training runs.

It has the lowest priority and one thread, and judges the recordings only once. `open_evaluation` is the other side.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from myxtts.errors import EvaluationError, MyXTTSError
from myxtts.evaluation.evaluate import evaluation_callback
from myxtts.evaluation.metrics import check_packages
from myxtts.evaluation.recognizers import open_recognizer
from myxtts.evaluation.sentence_sets import Sentence
from myxtts.runtime.worker_process import NICENESS, Job, serve_jobs
from myxtts.runtime.workers import WorkerPool
from myxtts.synthesis.voice import Voice

MODULE = "myxtts.evaluation.evaluation_worker"
METRICS = ("cer", "wer", "failed")


def open_evaluation(sentences: Sequence[Sentence], recognizer: str | None) -> WorkerEvaluation:
    """Prepare to measure voices: `with open_evaluation(…) as evaluate`.

    Args:
        sentences: to speak and recognize.
        recognizer: as in `open_recognizer`; a missing package or a language that it lacks is an error now.
    """
    if not sentences:
        raise EvaluationError("No clip is held out for evaluation. Raise data.validation_share, or give --val-data.")
    check_packages(METRICS)
    open_recognizer(recognizer, {each.language for each in sentences})
    items = [asdict(each) | {"recording": _text(each.recording)} for each in sentences]
    return WorkerEvaluation(
        WorkerPool({"sentences": items, "recognizer": recognizer}, 1, module=MODULE, crash_result={})
    )


class WorkerEvaluation:
    """A function from a voice folder to its metrics, measured in a process of its own. Made by `open_evaluation`."""

    def __init__(self, pool: WorkerPool):
        self._pool = pool

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __call__(self, voice_folder: Path) -> dict[str, float]:
        """Measure the voice in a folder; an `EvaluationError` if that fails. May be called from any thread, one at a time."""
        for _, head, _ in self._pool.run("evaluate", [str(voice_folder.resolve())], chunk=1):
            if "metrics" in head:
                return head["metrics"]
            reason = head.get("failure") or f"its process ended with exit code {head['exit_code']}: {head['stderr']}"
            raise EvaluationError(f"The voice could not be measured: {reason}")
        raise EvaluationError("The voice could not be measured: the evaluation was stopped.")

    def close(self) -> None:
        """End the process, whatever it does."""
        self._pool.close()


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path.resolve())


def build_jobs(setup: dict[str, Any]) -> dict[str, Job]:
    """The one job, `evaluate`: the path of a voice folder → `metrics`, or `failure`."""
    os.nice(NICENESS)
    sentences = [
        Sentence(**each | {"recording": None if each["recording"] is None else Path(each["recording"])})
        for each in setup["sentences"]
    ]
    recognizer = open_recognizer(setup["recognizer"], {each.language for each in sentences})
    evaluate = evaluation_callback(sentences, recognizer=recognizer, metrics=METRICS)

    def evaluate_folder(folder: str) -> tuple[dict[str, Any], bytes]:
        try:
            return {"metrics": evaluate(Voice.load(Path(folder)))}, b""
        except MyXTTSError as error:
            return {"failure": str(error)}, b""

    return {"evaluate": evaluate_folder}


if __name__ == "__main__":
    sys.exit(serve_jobs(build_jobs))
