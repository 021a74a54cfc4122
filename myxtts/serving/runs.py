"""Training runs: start, resume, find, and read the files that they write.

A run is a folder with a `status.json`, started here or elsewhere; one started here also has a `launch.json` and a `train.log`.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.errors import TrainingError
from myxtts.runtime.safe_files import visible_subfolders
from myxtts.runtime.status import ALIGNMENT_FILE, LOG_NAME, STATUS_FILE, RunStatus, read_steps
from myxtts.serving.processes import (
    LAUNCH_NAME,
    OUTPUT_NAME,
    Launch,
    is_unused,
    last_line,
    launch,
    process_of,
    read_launch,
    read_output,
    status_of,
)

MOST_FOLDERS = 500
"""Folders that a search for runs looks at on each level."""
SEARCH_DEPTH = 3
CURVE_POINTS = 400
DEVICE_BUCKETS = 120
READ_STEPS = 3000
WAITING_FRACTION, HOST_FRACTION, PADDING_FRACTION, UNSTEADY = 0.15, 0.15, 0.5, 0.5
"""Above these a verdict names waiting, the host, padding, or unsteady steps. The first is that of `myxtts diagnose`."""
FEWEST_JUDGED_STEPS = 20
_SAMPLE = re.compile(r"step-(\d+)-(.+)-(\d+)\.wav")


@dataclass(frozen=True)
class TrainingWish:
    """What the page asks for."""

    corpus: Path | None
    """None: the bundled corpus."""
    corpus_name: str
    size: str
    start: Path | None
    """A voice folder; None: from nothing."""
    minutes: float
    language: str | None = None

    def arguments(self, folder: Path) -> tuple[str, ...]:
        """The command line of `myxtts`."""
        words = ["train", "--checkpoint-dir", str(folder), "--max-minutes", f"{self.minutes:g}"]
        if self.corpus is not None:
            words += ["--train-data", str(self.corpus)]
        if self.language is not None:
            words += ["--language", self.language]
        if self.start is not None:
            words += ["--init-from", str(self.start), "--lr", "1e-4"]
        else:
            words += ["--model-size", self.size]
        return tuple(words)


def start_training(folder: Path, wish: TrainingWish) -> None:
    """Start a new run in a folder that holds nothing yet."""
    if not is_unused(folder):
        raise TrainingError(f"The run {folder.name} already exists. Choose another name, or resume that one.")
    launch(folder, Launch(wish.arguments(folder), wish.corpus_name, wish.minutes))


def resume_training(folder: Path) -> None:
    """Continue a run that was paused, stopped or interrupted, for the minutes that are left of it."""
    launched = read_launch(folder)
    if launched is None:
        raise TrainingError(f"{folder.name} was not started in the studio. Resume it with the command that started it.")
    if process_of(folder, launched) is not None:
        raise TrainingError(f"{folder.name} is running already. Pause or stop it first.")
    words = list(launched.arguments)
    if launched.minutes is not None:
        left = launched.minutes - trained_minutes(folder)
        words[words.index("--max-minutes") + 1] = f"{left if left >= 1 else launched.minutes:g}"
    launch(folder, replace(launched, arguments=tuple(words), wish="run", process_id=0, process_start=0.0))


def trained_minutes(folder: Path) -> float:
    """Minutes that the steps of a run took so far."""
    steps = read_steps(folder)
    return float((steps["wait_seconds"] + steps["host_seconds"] + steps["device_seconds"]).sum()) / 60


def find_runs(workspace: Path) -> dict[str, Path]:
    """Every run in a folder: its path below the folder → its folder. The newest first."""
    level, found = [workspace], []
    for _ in range(SEARCH_DEPTH):
        level = [child for parent in level for child in visible_subfolders(parent)][:MOST_FOLDERS]
        runs = [child for child in level if (child / STATUS_FILE).is_file() or (child / LAUNCH_NAME).is_file()]
        found += [run for run in runs if not _is_evaluation(run)]
        level = [child for child in level if child not in set(runs)]
    found.sort(key=_changed_at, reverse=True)
    return {run.relative_to(workspace).as_posix(): run for run in found}


def _is_evaluation(folder: Path) -> bool:
    launched = read_launch(folder)
    return launched is not None and launched.arguments[:1] == ("evaluate",)


def _changed_at(folder: Path) -> float:
    times = []
    for name in (STATUS_FILE, LAUNCH_NAME):
        try:
            times.append((folder / name).stat().st_mtime)
        except OSError:
            continue
    return max(times, default=0.0)


def describe_run(folder: Path) -> dict[str, Any]:
    """The state of a run for a list: state, step, loss, time left."""
    launched, status = read_launch(folder), status_of(folder)
    process = process_of(folder, launched)
    metrics = status.figures if status is not None else {}
    return {
        "state": _state(launched, status, process),
        "is_running": process is not None,
        "can_resume": process is None and launched is not None,
        "step": status.step if status is not None else 0,
        "total_steps": status.total_steps if status is not None else None,
        "loss": _finite(metrics.get("loss")),
        "corpus": launched.corpus if launched is not None else "",
        "minutes": launched.minutes if launched is not None else None,
        "left_seconds": _left_seconds(status) if process is not None else None,
        "changed_at": _changed_at(folder),
        "is_from_terminal": launched is None,
    }


def _state(launched: Launch | None, status: RunStatus | None, process: tuple[int, float] | None) -> str:
    """starting | training | validating | saving | stopping | paused | stopped | finished | failed | interrupted"""
    if process is not None:
        if launched is not None and launched.wish != "run":
            return "stopping"
        return status.state if status is not None and status.process_id == process[0] else "starting"
    if launched is not None and launched.wish != "run":
        return {"pause": "paused"}.get(launched.wish, "stopped")
    if status is None or (launched is not None and launched.process_id not in (0, status.process_id)):
        return "failed" if launched is not None and launched.process_id else "interrupted"
    return status.state if status.state in ("finished", "failed") else "interrupted"


def _left_seconds(status: RunStatus | None) -> float | None:
    """Time to the end of a run: to its last step, or to its deadline if that is earlier."""
    if status is None or not status.mean_step_seconds:
        return None
    ends = []
    if status.total_steps is not None:
        ends.append((status.total_steps - status.step) * status.mean_step_seconds)
    if status.deadline_unix_seconds is not None:
        ends.append(status.deadline_unix_seconds - time.time())
    return max(0.0, min(ends)) if ends else None


class RunReader:
    """Reads the log of runs; lines that were read once are not read again."""

    def __init__(self):
        self._curves: dict[Path, _Curves] = {}

    def detail(self, folder: Path) -> dict[str, Any]:
        """Everything that the page shows about a run."""
        status = status_of(folder)
        curves = self._curves.setdefault(folder, _Curves(folder / LOG_NAME))
        curves.read()
        metrics = status.figures if status is not None else {}
        return describe_run(folder) | {
            "figures": {name: _finite(value) for name, value in metrics.items()},
            "shares": None
            if status is None
            else {"wait": status.wait_share, "host": status.host_share, "device": status.device_share},
            "account": {} if status is None else status.account,
            "curves": {kind: thin_out(points, CURVE_POINTS) for kind, points in curves.points.items()},
            "device": device_curve(read_steps(folder, last=READ_STEPS)),
            "verdict": judge(status, metrics, curves.skipped),
            "samples": find_samples(folder),
            "alignment": _changed(folder / ALIGNMENT_FILE),
            "has_voice": (folder / "voice" / "voice.json").is_file(),
            "log": read_output(folder / OUTPUT_NAME),
            "line": last_line(folder / OUTPUT_NAME),
        }


class _Curves:
    """The losses of a `log.jsonl`, read as it grows."""

    def __init__(self, path: Path):
        self._path, self._offset = path, 0
        self.points: dict[str, list[tuple[int, float]]] = {}
        self.skipped = 0

    def read(self) -> None:
        try:
            size = self._path.stat().st_size
            if size < self._offset:  # the run was reset
                self._offset, self.points, self.skipped = 0, {}, 0
            with open(self._path, "rb") as file:
                file.seek(self._offset)
                content = file.read()
        except OSError:
            return
        whole = content.rfind(b"\n") + 1
        self._offset += whole
        for line in content[:whole].splitlines():
            self._add(line)

    def _add(self, line: bytes) -> None:
        try:
            entry = json.loads(line)
            kind, step = entry["kind"], int(entry["step"])
        except (ValueError, KeyError, TypeError):
            return
        self.skipped += kind == "skipped"
        value = _finite(entry.get("loss"))
        if kind in ("train", "validation") and value is not None:
            points = self.points.setdefault(kind, [])
            while points and points[-1][0] >= step:  # the run was resumed from an earlier step
                points.pop()
            points.append((step, value))


def thin_out(points: Sequence[tuple[int, float]], count: int) -> list[tuple[int, float]]:
    """At most `count` points: the means of equally many neighbors each; few points stay as they are."""
    if len(points) <= count:
        return list(points)
    bounds = np.linspace(0, len(points), count + 1).astype(int)
    groups = [points[first:last] for first, last in pairwise(bounds)]
    return [(group[-1][0], float(f"{sum(value for _, value in group) / len(group):.6g}")) for group in groups]


def device_curve(steps: np.ndarray) -> list[tuple[int, float]]:
    """(step, fraction of the time in which the device worked) of the newest steps, in buckets."""
    if not len(steps):
        return []
    curve = []
    for part in np.array_split(steps, min(len(steps), DEVICE_BUCKETS)):
        whole = (part["wait_seconds"] + part["host_seconds"] + part["device_seconds"]).sum()
        curve.append((int(part["step"][-1]), round(float(part["device_seconds"].sum() / max(whole, 1e-9)), 4)))
    return curve


def judge(status: RunStatus | None, metrics: dict[str, Any], skipped: int) -> dict[str, Any] | None:
    """The verdict of the diagnosis: the most expensive problem that the files of a run show, with its size.

    Kinds: retracing, input, host, skipped, padding, unsteady, busy (nothing to gain). None before there is anything to judge.
    """
    if status is None or status.step < FEWEST_JUDGED_STEPS or not status.mean_step_seconds:
        return None
    padding = _finite(metrics.get("padding_share")) or 0.0
    found = [
        ("retracing", float(status.retraces), status.retraces > 0),
        ("input", status.wait_share, status.wait_share >= WAITING_FRACTION),
        ("host", status.host_share, status.host_share >= HOST_FRACTION),
        ("skipped", float(skipped), skipped > 0),
        ("padding", padding, padding >= PADDING_FRACTION),
        ("unsteady", status.step_cv, status.step_cv >= UNSTEADY),
    ]
    for kind, value, is_found in found:
        if is_found:
            return {"kind": kind, "value": value}
    return {"kind": "busy", "value": status.device_share}


def find_samples(folder: Path) -> list[dict[str, Any]]:
    """The spoken samples of a run by sentence: `[{"language", "index", "steps": [newest, …]}]`."""
    steps: dict[tuple[str, int], list[int]] = {}
    for path in (folder / "samples").glob("step-*.wav"):
        if (found := _SAMPLE.fullmatch(path.name)) is not None:
            steps.setdefault((found[2], int(found[3])), []).append(int(found[1]))
    return [
        {"language": language, "index": index, "steps": sorted(listed, reverse=True)}
        for (language, index), listed in sorted(steps.items())
    ]


def sample_file(folder: Path, language: str, index: int, step: int) -> Path | None:
    """The file of a sample that `find_samples` lists, otherwise None."""
    is_listed = any(
        (each["language"], each["index"]) == (language, index) and step in each["steps"]
        for each in find_samples(folder)
    )
    return folder / "samples" / f"step-{step:08d}-{language}-{index}.wav" if is_listed else None


def _finite(value: Any) -> float | None:
    """A number for JSON; the log has `nan` and `inf` as text."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _changed(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None
