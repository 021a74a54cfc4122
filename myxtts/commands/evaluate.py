"""`myxtts evaluate`: measure how well a voice speaks. Prints a table; writes JSON and a page where asked.

Without arguments: the bundled voice on the bundled corpus's held-out sentences.
"""

from __future__ import annotations

import argparse
import importlib.resources
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from myxtts.audio.mel import MelSpec
    from myxtts.evaluation.evaluate import RecordingSettings
    from myxtts.evaluation.sentence_sets import Sentence
    from myxtts.synthesis.training_split import TrainingSplit
    from myxtts.synthesis.voice import Voice
    from myxtts.synthesis.voice_folder import VoiceDescription

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
        "--data",
        type=Path,
        help="corpus whose held-out sentences are spoken: those that the voice's training held out (default: the bundled one)",
    )
    source.add_argument(
        "--sentences",
        help=f"a text file with one sentence per line, without recordings; `{EVERYDAY}`: the 100 that come with the package",
    )
    parser.add_argument(
        "--language",
        help="language of --sentences, and of --data where it names none, by code or name (default: the voice's first)",
    )
    parser.add_argument(
        "--sample-rate",
        type=int,
        metavar="HZ",
        help="with --recordings-only: rate of the mel and the vocoder (default: that of a voice made from the recordings)",
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
    from dataclasses import replace

    from rich.console import Console

    from myxtts.evaluation.evaluate import Evaluator
    from myxtts.evaluation.recognizers import CommandRecogniser
    from myxtts.evaluation.report import terminal_table, write_json
    from myxtts.evaluation.sentence_sets import trained_sentences, training_notice
    from myxtts.runtime.progress import open_progress

    folder, description = _described_voice(arguments)
    split = None if description is None else description.training_split
    sentences = _choose_sentences(arguments, description, split)
    notice = "" if description is None else training_notice(sentences, split)
    metrics = _choose_metrics(arguments, sentences)
    settings = _recording_settings(sentences, arguments.sample_rate) if arguments.recordings_only else None
    command = arguments.recogniser_command
    evaluator = Evaluator(
        sentences,
        seeds=arguments.seeds,
        recogniser=None if command is None else CommandRecogniser(command),
        metrics=metrics,
    )
    with open_progress() as progress:
        if notice:
            progress.announce(notice)
        if settings is not None:
            evaluation = evaluator.evaluate_recordings(settings, _griffin_lim(settings.mel), progress)
        else:
            evaluation = evaluator.evaluate(_load_voice(folder), progress)
            trained = trained_sentences(sentences, split)
            evaluation = replace(evaluation, trained_sentences=trained, notice=notice)
    console = Console()
    console.print(terminal_table(evaluation))
    failures = evaluation.failed_sentences
    for line in failures[:SHOWN_FAILURES]:
        console.print(f"failed: {line}", highlight=False, markup=False)
    if len(failures) > SHOWN_FAILURES:
        console.print(f"… and {len(failures) - SHOWN_FAILURES} more; --json lists them all.", highlight=False)
    if arguments.json is not None:
        write_json(evaluation, arguments.json)
    if arguments.html is not None:
        from myxtts.evaluation.html import write_page

        write_page(evaluation, arguments.html)
    return 0


def everyday_sentences() -> tuple[Sentence, ...]:
    """The 100 English sentences that come with the package and are in no corpus."""
    from myxtts.evaluation.sentence_sets import read_sentences

    listed = importlib.resources.files("myxtts") / "assets" / "sentences" / "everyday_en.txt"
    with importlib.resources.as_file(listed) as path:
        return read_sentences(path, "en")


def _described_voice(arguments: argparse.Namespace) -> tuple[Path | None, VoiceDescription | None]:
    """The voice's folder and description, checked before TensorFlow is imported; None with --recordings-only."""
    from myxtts.errors import EvaluationError
    from myxtts.synthesis.options import check_front_end
    from myxtts.synthesis.voice_folder import bundled_voice, read_description

    if arguments.recordings_only:
        return None, None
    if arguments.sample_rate is not None:
        raise EvaluationError("--sample-rate is for --recordings-only: a voice speaks at its own rate. Leave it out.")
    folder = arguments.voice if arguments.voice is not None else bundled_voice()
    description = read_description(folder)
    check_front_end(description.tokenizer().front_end)
    return folder, description


def _choose_sentences(
    arguments: argparse.Namespace, description: VoiceDescription | None, split: TrainingSplit | None
) -> tuple[Sentence, ...]:
    import dataclasses

    from myxtts.errors import EvaluationError
    from myxtts.evaluation.sentence_sets import read_sentences
    from myxtts.synthesis.options import check_language, check_name
    from myxtts.text.languages import resolve_language

    if arguments.limit is not None and arguments.limit < 1:
        raise EvaluationError(f"--limit must be at least 1. Received: {arguments.limit}.")
    if description is not None:
        language = check_language(arguments.language, description.languages)
    else:
        language = resolve_language(arguments.language) if arguments.language is not None else "en"
    if arguments.sentences == EVERYDAY:
        sentences = everyday_sentences()
    elif arguments.sentences is not None:
        sentences = read_sentences(arguments.sentences, language)
    else:
        sentences = _corpus_sentences(arguments.data, language, split)
    sentences = sentences[: arguments.limit]
    if description is not None:
        for used in sorted({each.language for each in sentences}):
            check_name("language", used, description.languages)
    if arguments.speaker is not None:
        if description is not None:
            check_name("speaker", arguments.speaker, description.speakers)
        sentences = tuple(dataclasses.replace(each, speaker=arguments.speaker) for each in sentences)
    return sentences


def _corpus_sentences(data: Path | None, language: str, split: TrainingSplit | None) -> tuple[Sentence, ...]:
    from myxtts.corpus.manifest import read_corpus
    from myxtts.corpus.recipes import bundled_corpus
    from myxtts.errors import EvaluationError
    from myxtts.evaluation.sentence_sets import choose_held_out, sentences_of

    folder = data if data is not None else bundled_corpus()
    own_split = sentences_of(read_corpus(folder, language, split="validation").utterances)
    everything = sentences_of(read_corpus(folder, language, split="all").utterances) if split is not None else ()
    sentences = choose_held_out(everything, own_split, split)
    if not sentences:
        raise EvaluationError(f"{folder} has no held-out sentence. Expected some in metadata_eval.csv, or more clips.")
    return sentences


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


def _load_voice(folder: Path) -> Voice:
    from myxtts.synthesis.voice import Voice

    return Voice.load(folder)


def _recording_settings(sentences: tuple[Sentence, ...], sample_rate: int | None) -> RecordingSettings:
    """The default settings of a voice made from the recordings, at its usual rate or at the one that was asked for."""
    from myxtts.audio.files import probe_audio
    from myxtts.audio.mel import MelSpec, voice_rate
    from myxtts.config.load import parse_config
    from myxtts.evaluation.evaluate import RecordingSettings

    rate = "auto" if sample_rate is None else sample_rate
    data = parse_config({"data": {"sample_rate": rate}}, source="--sample-rate").data
    if sample_rate is None:
        sample_rate = voice_rate(probe_audio(sentences[0].recording)[1])
    return RecordingSettings(MelSpec.from_config(data, sample_rate), data.trim_silence_db, data.loudness_db)


def _griffin_lim(mel: MelSpec) -> Callable[[np.ndarray], np.ndarray]:
    """Griffin-Lim: log-mel (frames, n_mels) → samples."""
    from myxtts.synthesis.griffin_lim import GriffinLim

    return GriffinLim(mel)
