"""`myxtts evaluate`: measure how well a voice speaks. Prints a table; writes JSON and a page where asked.

Without arguments: the bundled voice on the bundled corpus's held-out sentences.
"""

from __future__ import annotations

import argparse
import importlib.resources
from pathlib import Path
from typing import TYPE_CHECKING

from myxtts.runtime.startup import start_tensorflow

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from myxtts.audio.mel import MelSpec
    from myxtts.evaluation.sentences import Sentence
    from myxtts.synthesis.voice import Voice

METRIC_NAMES = ("cer", "wer", "similarity", "dnsmos", "mcd", "duration_error", "failed", "rtf")
EVERYDAY = "everyday"
"""Name under which --sentences finds the list that comes with the package."""
SHOWN_FAILURES = 20


def configure_evaluate(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `myxtts evaluate`."""
    parser.add_argument("voice", nargs="?", type=Path, help="a voice folder (default: the bundled voice)")
    parser.add_argument(
        "--recordings-only",
        action="store_true",
        help="no voice: the recordings themselves, and through Griffin-Lim, which is what a voice can reach at best",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--data", type=Path, help="corpus whose held-out sentences are spoken (default: the bundled one)"
    )
    source.add_argument(
        "--sentences",
        help=f"a text file with one sentence a line, without recordings; `{EVERYDAY}`: the 100 that come with the package",
    )
    parser.add_argument(
        "--language", default="en", help="language of --sentences, and of --data where it names none (en)"
    )
    parser.add_argument("--speaker", help="speak every sentence as this speaker of the voice")
    parser.add_argument("--limit", type=int, help="measure on the first N sentences only")
    parser.add_argument(
        "--seeds", type=int, default=3, help="times that every sentence is spoken, each differently (3)"
    )
    parser.add_argument(
        "--metrics",
        nargs="+",
        choices=METRIC_NAMES,
        metavar="METRIC",
        help=f"some of: {', '.join(METRIC_NAMES)} (default: all)",
    )
    parser.add_argument(
        "--recogniser-command",
        metavar="COMMAND",
        help="a command that prints what it hears in a 16 kHz wav file: {wav} in it, or its end, becomes the file",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write figures, intervals and every sentence")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write one page with players and spectrograms")


def run_evaluate(arguments: argparse.Namespace) -> int:
    """Measure, print, write; 0 when the figures are there."""
    from rich.console import Console
    from rich.progress import Progress

    from myxtts.evaluation.evaluate import Evaluator
    from myxtts.evaluation.recognise import CommandRecogniser
    from myxtts.evaluation.report import terminal_table, write_json

    sentences = _choose_sentences(arguments)
    command = arguments.recogniser_command
    evaluator = Evaluator(
        sentences,
        seeds=arguments.seeds,
        recogniser=None if command is None else CommandRecogniser(command),
        metrics=_choose_metrics(arguments, sentences),
    )
    voice = None if arguments.recordings_only else _load_voice(arguments.voice)
    console = Console()
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("")

        def tell(stage: str, done: int, total: int) -> None:
            bar.update(task, description=stage, completed=done, total=total)

        if voice is None:
            evaluation = evaluator.evaluate_recordings(*_griffin_lim(sentences), tell)
        else:
            evaluation = evaluator.evaluate(voice, tell)
    console.print(terminal_table(evaluation))
    failures = evaluation.failed_sentences
    for line in failures[:SHOWN_FAILURES]:
        console.print(f"failed: {line}", highlight=False, markup=False)
    if len(failures) > SHOWN_FAILURES:
        console.print(f"… and {len(failures) - SHOWN_FAILURES} more; --json lists them all.", highlight=False)
    if arguments.json is not None:
        write_json(evaluation, arguments.json)
    if arguments.html is not None:
        from myxtts.evaluation.page import write_page

        write_page(evaluation, arguments.html)
    return 0


def everyday_sentences() -> tuple[Sentence, ...]:
    """The 100 English sentences that come with the package and are in no corpus."""
    from myxtts.evaluation.sentences import read_sentences

    listed = importlib.resources.files("myxtts") / "assets" / "sentences" / "everyday_en.txt"
    with importlib.resources.as_file(listed) as path:
        return read_sentences(path, "en")


def _choose_sentences(arguments: argparse.Namespace) -> tuple[Sentence, ...]:
    import dataclasses

    from myxtts.errors import EvaluationError
    from myxtts.evaluation.sentences import read_sentences, sentences_of

    if arguments.limit is not None and arguments.limit < 1:
        raise EvaluationError(f"--limit must be at least 1. Received: {arguments.limit}.")
    if arguments.sentences is not None:
        if arguments.sentences == EVERYDAY:
            sentences = everyday_sentences()
        else:
            sentences = read_sentences(arguments.sentences, arguments.language)
    else:
        from myxtts.data.corpora import bundled_corpus
        from myxtts.data.manifest import read_corpus

        folder = arguments.data if arguments.data is not None else bundled_corpus()
        sentences = sentences_of(read_corpus(folder, arguments.language, split="validation").utterances)
        if not sentences:
            raise EvaluationError(
                f"{folder} has no held-out sentence. Expected some in metadata_eval.csv, or more clips."
            )
    if arguments.speaker is not None:
        sentences = tuple(dataclasses.replace(each, speaker=arguments.speaker) for each in sentences)
    return sentences[: arguments.limit]


def _choose_metrics(arguments: argparse.Namespace, sentences: tuple[Sentence, ...]) -> tuple[str, ...]:
    """Those asked for; by default all that can be measured on the sentences, which may have no recordings to compare with."""
    from myxtts.errors import EvaluationError

    needs_recordings = {"similarity", "mcd", "duration_error"}
    is_recorded = any(each.recording is not None for each in sentences)
    if arguments.recordings_only and not (is_recorded and arguments.voice is None):
        raise EvaluationError(
            "--recordings-only takes neither a voice nor --sentences: it measures the recordings of --data."
        )
    if arguments.metrics is None:
        return tuple(
            name
            for name in METRIC_NAMES
            if (is_recorded or name not in needs_recordings) and not (arguments.recordings_only and name == "rtf")
        )
    impossible = sorted(needs_recordings & set(arguments.metrics))
    if impossible and not is_recorded:
        raise EvaluationError(
            f"{', '.join(impossible)} compare with recordings, and --sentences has none. Try --data, or other --metrics."
        )
    return tuple(arguments.metrics)


def _load_voice(folder: Path | None) -> Voice:
    start_tensorflow()
    from myxtts.synthesis.voice import Voice
    from myxtts.synthesis.voice_folder import bundled_voice

    return Voice.load(folder if folder is not None else bundled_voice())


def _griffin_lim(sentences: tuple[Sentence, ...]) -> tuple[MelSpec, Callable[[np.ndarray], np.ndarray]]:
    """The default mel of a voice made from the recordings, and Griffin-Lim with its own settings as a plain function."""
    start_tensorflow()
    import tensorflow as tf

    from myxtts.audio.files import probe_audio
    from myxtts.audio.mel import MelSpec, voice_rate
    from myxtts.config.config import DataConfig
    from myxtts.models.vocoder import GriffinLim

    mel = MelSpec.from_config(DataConfig(), voice_rate(probe_audio(sentences[0].recording)[1]))
    vocoder = GriffinLim(mel)

    def vocode(frames: np.ndarray) -> np.ndarray:
        return vocoder(tf.constant(frames[None]), tf.constant([len(frames)]))[0].numpy()

    return mel, vocode
