"""The folder that a studio works in: what is found there, and where new things go.

A name in a request is looked up in what was found, or must match a pattern for new names; it is never used as a path.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from myxtts.corpus.prompts import Prompt
from myxtts.errors import CorpusError, EvaluationError, TrainingError
from myxtts.serving import recorder
from myxtts.serving.recorder import RecordedCorpus
from myxtts.serving.runs import find_runs

BUNDLED_CORPUS = "bundled"


class Take(NamedTuple):
    """A take that was checked and is not kept yet."""

    prompt: Prompt
    samples: np.ndarray
    sample_rate: int


class Workspace:
    """What the studio finds and makes in a folder: corpora/, runs/, speakers/, evaluations/, lexicon-*.tsv."""

    def __init__(self, folder: Path, voices: Mapping[str, Path], corpora: Sequence[Path] = ()):
        """
        Args:
            folder: where everything is found and made.
            voices: the folders of the server's voices by name.
            corpora: folders of recordings elsewhere that can be trained on.
        """
        self.folder, self.voices = folder, dict(voices)
        self.corpora_folder, self.runs_folder = folder / "corpora", folder / "runs"
        self.evaluations_folder, self.speakers_folder = folder / "evaluations", folder / "speakers"
        self._other_corpora = corpora
        self._open: dict[str, RecordedCorpus] = {}
        self._takes: dict[str, Take] = {}
        self._lock = threading.Lock()

    # --- corpora ------------------------------------------------------------------------------------------------------

    def recorded(self, name: str) -> RecordedCorpus:
        """A corpus of the recorder by its name."""
        recorder.check_folder_name("corpus", name)
        with self._lock:
            if name not in self._open:
                if not (self.corpora_folder / name / recorder.SETTINGS_NAME).is_file():
                    raise CorpusError(f"There is no recorded corpus {name!r:.60}. Load the page again.")
                self._open[name] = recorder.open_corpus(self.corpora_folder / name)
            return self._open[name]

    def recorded_names(self) -> list[str]:
        """The corpora of the recorder."""
        found = self.corpora_folder.glob(f"*/{recorder.SETTINGS_NAME}")
        return sorted(path.parent.name for path in found if recorder.NAME_PATTERN.fullmatch(path.parent.name))

    def training_corpora(self) -> dict[str, Path | None]:
        """Everything that can be trained on: name → folder, None for the bundled corpus."""
        found = {path.parent.name: path.parent for path in sorted(self.corpora_folder.glob("*/metadata.csv"))}
        return {BUNDLED_CORPUS: None, **found, **{str(path): path for path in self._other_corpora}}

    def training_corpus(self, name: str) -> Path | None:
        """The folder of a corpus that `training_corpora` lists."""
        listed = self.training_corpora()
        if name not in listed:
            raise CorpusError(f"There is no corpus {name!r:.60}. Expected one of: {', '.join(listed)}.")
        return listed[name]

    def put_take(self, name: str, take: Take) -> None:
        self._takes[name] = take

    def take(self, name: str) -> Take:
        """The take that waits to be kept."""
        take = self._takes.get(name)
        if take is None:
            raise CorpusError("There is no take to keep. Record the sentence again.")
        return take

    def drop_take(self, name: str) -> None:
        self._takes.pop(name, None)

    # --- runs and evaluations -----------------------------------------------------------------------------------------

    def run(self, name: str) -> Path:
        """The folder of a run that was found in the workspace."""
        found = find_runs(self.folder)
        if name not in found:
            raise TrainingError(f"There is no run {name!r:.60} in the workspace. Load the page again.")
        return found[name]

    def evaluation(self, name: str) -> Path:
        """The folder of an evaluation."""
        recorder.check_folder_name("evaluation", name)
        if not (self.evaluations_folder / name).is_dir():
            raise EvaluationError(f"There is no evaluation {name!r:.60}. Load the page again.")
        return self.evaluations_folder / name
