"""The score card of a voice, scores.json: what `myxtts evaluate --score-card` measured, next to the recordings.

It belongs to the weights that were measured, and comes from as untrusted a source as the voice itself.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal, Protocol

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

import myxtts
from myxtts.config.config import STRICT
from myxtts.errors import VoiceError
from myxtts.runtime.console import printable
from myxtts.runtime.safe_files import cause_of, read_regular_file, write_atomically
from myxtts.synthesis.voice_folder import VOICE_MODEL_NAME, file_checksum

FORMAT = "myxtts-scores"
SCORES_NAME = "scores.json"
MOST_BYTES = 1 << 20
Source = Literal["voice", "recordings", "vocoded"]
SOURCES: tuple[Source, ...] = ("voice", "recordings", "vocoded")
"""What a metric is measured on: the voice, the recordings of the same sentences, and these through the voice's vocoder."""
LABELS = {
    "cer": ("Character error", "percent"),
    "wer": ("Word error", "percent"),
    "similarity": ("Speaker similarity", "number"),
    "dnsmos": ("DNSMOS (1 to 5)", "number"),
    "pesq": ("PESQ wideband (1 to 4.64)", "number"),
    "mcd": ("Mel-cepstral distortion (dB)", "number"),
    "log_f0_rmse": ("Log-F0 error (RMS)", "number"),
    "duration_error": ("Duration error", "percent"),
    "failed": ("Failed sentences", "percent"),
    "rtf": ("Real-time factor", "small"),
}
"""Title and format of each metric."""

Text = Annotated[str, Field(max_length=500)]
Number = Annotated[float, Field(allow_inf_nan=False)]


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Score:
    """One value and its 95 % interval."""

    value: Number
    low: Number
    high: Number


@dataclass(frozen=True, config=STRICT, kw_only=True)
class MeasuredSentence:
    """A sentence that the voice was measured on."""

    id: Text
    text: Annotated[str, Field(max_length=10_000)]
    language: Text
    speaker: Text = ""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class ScoreCard:
    """What was measured, and on what."""

    weights: Annotated[str, Field(pattern=r"^[0-9a-f]{8}$")]
    """Checksum of the voice.onnx that was measured."""
    scores: Annotated[dict[Text, dict[Source, Score]], Field(max_length=100)]
    """By metric (`LABELS`) and source (`SOURCES`)."""
    sentences: Annotated[int, Field(ge=0)]
    seeds: Annotated[int, Field(ge=0)]
    recognizer: Text | None = None
    """The recognizer of the character and word errors."""
    notice: Annotated[str, Field(max_length=2000)] = ""
    """Whether the voice was trained on the sentences."""
    texts: Annotated[list[MeasuredSentence], Field(max_length=10_000)] = Field(default_factory=list)
    """The sentences, so that the voice can be measured again where their recordings are not."""
    format: Literal["myxtts-scores"] = FORMAT
    format_version: Literal[1] = 1
    written_by: Text = f"myxtts {myxtts.__version__}"


class Interval(Protocol):
    """A value and its 95 % interval."""

    @property
    def value(self) -> float: ...

    @property
    def low(self) -> float: ...

    @property
    def high(self) -> float: ...


def format_score(score: Interval, metric: str) -> str:
    """`12.3 % (10.1 … 14.6)`: the value and its 95 % interval."""
    style = LABELS[metric][1]
    factor, places, unit = {"percent": (100.0, 1, " %"), "number": (1.0, 2, ""), "small": (1.0, 4, "")}[style]
    value, low, high = (f"{number * factor:.{places}f}" for number in (score.value, score.low, score.high))
    return f"{value}{unit} ({low} … {high})"


def weights_checksum(folder: Path) -> str:
    """The checksum by which a score card names the weights of a voice."""
    return file_checksum(folder / VOICE_MODEL_NAME)


def save_score_card(folder: Path, card: ScoreCard) -> Path:
    """Write the score card of the voice in `folder`, in place of an earlier one."""
    path = folder / SCORES_NAME
    try:
        write_atomically(path, json.dumps(asdict(card), ensure_ascii=False, indent=1) + "\n")
    except OSError as error:
        raise VoiceError(
            f"The score card {path} could not be written: {cause_of(error)}. Use a copy of the voice."
        ) from None
    return path


def read_score_card(folder: Path) -> ScoreCard | None:
    """The score card of a voice; None if it has none. A `VoiceError` if it is damaged, or measured with other weights."""
    path = folder / SCORES_NAME
    try:
        card = TypeAdapter(ScoreCard).validate_json(read_regular_file(path, MOST_BYTES))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise VoiceError(f"{path} cannot be read: {error.strerror}. Remove it and measure again.") from None
    except ValidationError as error:
        reason = printable(str(error.errors(include_url=False)[0]["msg"]), keeps_lines=False)
        raise VoiceError(
            f"{path} is not a score card of this version of MyXTTS: {reason:.200}. Measure again."
        ) from None
    if card.weights != weights_checksum(folder):
        raise VoiceError(f"{path} belongs to other weights. Measure again: `myxtts evaluate {folder} --score-card`.")
    return card
