"""`myxtts evaluate`: measure how well a voice speaks. Prints a table; optionally writes JSON and an HTML page.

Without --data and --sentences a voice speaks the sentences of its score card, next to the metrics of the recordings that the card
has; one without a score card speaks the held-out sentences of the bundled corpus.
"""

from __future__ import annotations

import argparse
import importlib.resources
from pathlib import Path
from typing import TYPE_CHECKING

from myxtts.evaluation.metrics import METRIC_NAMES, NEED_RECORDINGS

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from myxtts.audio.mel import MelSpec
    from myxtts.evaluation.evaluate import RecordingSettings
    from myxtts.evaluation.recognizers import Recognizer
    from myxtts.evaluation.sentence_sets import Sentence
    from myxtts.synthesis.score_card import ScoreCard
    from myxtts.synthesis.training_split import TrainingSplit
    from myxtts.synthesis.voice import Voice
    from myxtts.synthesis.voice_folder import VoiceDescription

EVERYDAY = "everyday"
"""Value of --sentences for the list that comes with the package."""
SHOWN_FAILURES = 20


def configure_evaluate(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts evaluate`."""
    parser.add_argument(
        "voice",
        metavar="VOICE",
        nargs="?",
        help="a voice folder, or a bundled voice by name (default: the bundled voice for the language)",
    )
    parser.add_argument(
        "--vocoder",
        metavar="FILE",
        help=".onnx file of a vocoder (or `universal`) instead of the voice's own, or of Griffin-Lim",
    )
    parser.add_argument(
        "--recordings-only",
        action="store_true",
        help="measure the recordings instead of a voice, as they are and through Griffin-Lim (or --vocoder): an upper bound "
        "for a voice",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--data",
        type=Path,
        help="corpus whose held-out sentences are spoken and compared with its recordings (default: the sentences of the "
        "voice's score card; without one, the bundled corpus)",
    )
    source.add_argument(
        "--sentences",
        help=f"text file with one sentence per line, without recordings; `{EVERYDAY}`: the sentences that come with MyXTTS "
        "(English, Persian)",
    )
    parser.add_argument(
        "--language",
        help="language of --sentences, and of --data where it names none, by code or name (default: the voice's first)",
    )
    parser.add_argument(
        "--sample-rate",
        type=int,
        metavar="HZ",
        help="with --recordings-only: rate of mel and vocoder (default: that of a voice trained on the recordings)",
    )
    parser.add_argument("--speaker", help="speak every sentence as this speaker of the voice")
    parser.add_argument("--limit", type=int, help="use only the first N sentences")
    parser.add_argument(
        "--seeds",
        type=int,
        default=3,
        help="number of times that each sentence is spoken, with a different seed each time (default: %(default)s)",
    )
    parser.add_argument(
        "--metrics",
        nargs="+",
        choices=METRIC_NAMES,
        metavar="METRIC",
        help=f"some of: {', '.join(METRIC_NAMES)} (default: all)",
    )
    recognizer = parser.add_mutually_exclusive_group()
    recognizer.add_argument(
        "--recognizer",
        metavar="NAME",
        help="speech recognizer of cer and wer: moonshine (English; default if installed), whisper:FOLDER (any language; a "
        "faster-whisper model), pocketsphinx (English), or command:COMMAND, which prints the text of a 16 kHz wav file; {wav} is "
        "replaced by the file, or it is the last argument; {wavs} by many files, and it prints one line per file",
    )
    recognizer.add_argument(
        "--recognizer-command", "--recogniser-command", metavar="COMMAND", help="same as --recognizer command:COMMAND"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write metrics, intervals and every sentence as JSON")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write an HTML page with players and spectrograms")
    parser.add_argument(
        "--score-card",
        action="store_true",
        help="store the metrics in the voice folder (scores.json), where `myxtts voice show` reads them",
    )


def run_evaluate(arguments: argparse.Namespace) -> int:
    """Measure, print and write; returns 0 when the metrics were measured."""
    from dataclasses import replace

    from rich.console import Console

    from myxtts.evaluation.evaluate import Evaluator
    from myxtts.evaluation.judge import load_judge
    from myxtts.evaluation.metrics import check_packages
    from myxtts.evaluation.score_report import score_card, terminal_table, with_recordings_of, write_json
    from myxtts.evaluation.sentence_sets import trained_sentences, training_notice
    from myxtts.runtime.progress import open_progress
    from myxtts.synthesis.output import check_places
    from myxtts.synthesis.score_card import save_score_card, weights_checksum

    check_places([arguments.json, arguments.html])
    voice_folder, description = _voice_to_measure(arguments)
    weights = "" if voice_folder is None else weights_checksum(voice_folder)
    split = None if description is None else description.training_split
    card = _score_card(arguments, voice_folder)
    sentences = _choose_sentences(arguments, description, split, card)
    notice = "" if description is None else training_notice(sentences, split)
    metrics = _choose_metrics(arguments, sentences)
    settings = _recording_settings(sentences, arguments.sample_rate) if arguments.recordings_only else None
    check_packages(metrics, writes_page=arguments.html is not None)
    recognizer = _choose_recognizer(arguments, metrics, sentences)
    with open_progress() as progress:
        if notice:
            progress.announce(notice)
        evaluator = Evaluator(sentences, load_judge(metrics, recognizer), arguments.seeds)
        if settings is not None:
            evaluation = evaluator.evaluate_recordings(
                settings, _copying_vocoder(settings.mel, arguments.vocoder), progress
            )
        else:
            evaluation = evaluator.evaluate(_open_voice(voice_folder, arguments.vocoder), progress)
            trained = trained_sentences(sentences, split)
            evaluation = replace(evaluation, trained_sentences=trained, notice=notice)
            if card is not None:
                evaluation = with_recordings_of(evaluation, card, has_vocoder=arguments.vocoder is None)
    console = Console()
    console.print(terminal_table(evaluation))
    failures = evaluation.failed_sentences
    for line in failures[:SHOWN_FAILURES]:
        console.print(f"failed: {line}", highlight=False, markup=False)
    if len(failures) > SHOWN_FAILURES:
        console.print(f"… and {len(failures) - SHOWN_FAILURES} more; --json lists all of them.", highlight=False)
    if arguments.score_card and voice_folder is not None:
        path = save_score_card(voice_folder, score_card(evaluation, weights))
        console.print(f"score card: {path}", highlight=False, markup=False)
    if arguments.json is not None:
        write_json(evaluation, arguments.json)
    if arguments.html is not None:
        from myxtts.evaluation.score_report import write_page

        write_page(evaluation, arguments.html)
    return 0


def everyday_sentences(language: str = "en") -> tuple[Sentence, ...]:
    """The sentences of a language that come with the package and are not part of a corpus: 100 in English, 60 in Persian."""
    from myxtts.errors import EvaluationError
    from myxtts.evaluation.sentence_sets import read_sentences

    lists = importlib.resources.files("myxtts") / "assets" / "sentences"
    listed = lists / f"everyday_{language.split('-')[0]}.txt"
    if not listed.is_file():
        raise EvaluationError(
            f"--sentences everyday supports en and fa. Received: {language}. Give a file: --sentences FILE."
        )
    with importlib.resources.as_file(listed) as path:
        return read_sentences(path, language)


def _voice_to_measure(arguments: argparse.Namespace) -> tuple[Path | None, VoiceDescription | None]:
    """The folder and description of the voice, checked before TensorFlow is imported; None with --recordings-only."""
    from myxtts.errors import EvaluationError
    from myxtts.synthesis.bundled import find_voice
    from myxtts.synthesis.options import check_front_end
    from myxtts.synthesis.voice_folder import read_description

    if arguments.recordings_only:
        if arguments.score_card:
            raise EvaluationError(
                "--score-card needs a voice, and --recordings-only measures none. Remove one of them."
            )
        return None, None
    if arguments.sample_rate is not None:
        raise EvaluationError("--sample-rate needs --recordings-only: a voice speaks at its own rate. Remove the flag.")
    folder = find_voice(arguments.voice, *([] if arguments.language is None else [arguments.language]))
    description = read_description(folder)
    check_front_end(description.tokenizer().front_end)
    return folder, description


def _score_card(arguments: argparse.Namespace, folder: Path | None) -> ScoreCard | None:
    """The score card that gives the sentences; None with --data or --sentences, and for a voice without one of its weights."""
    from myxtts.errors import EvaluationError, VoiceError
    from myxtts.synthesis.score_card import read_score_card

    if folder is None or arguments.data is not None or arguments.sentences is not None:
        return None
    try:
        card = read_score_card(folder)
    except VoiceError:  # damaged, or of other weights: it is measured again
        return None
    if card is None or not card.texts:
        return None
    if arguments.score_card:
        raise EvaluationError("A new score card needs recordings to compare with. Name their folder: --data FOLDER.")
    return card


def _choose_sentences(
    arguments: argparse.Namespace,
    description: VoiceDescription | None,
    split: TrainingSplit | None,
    card: ScoreCard | None,
) -> tuple[Sentence, ...]:
    import dataclasses

    from myxtts.errors import EvaluationError
    from myxtts.evaluation.sentence_sets import read_sentences, sentences_of_card
    from myxtts.synthesis.options import check_language, check_name
    from myxtts.text.languages import resolve_language

    if arguments.limit is not None and arguments.limit < 1:
        raise EvaluationError(f"--limit must be at least 1. Received: {arguments.limit}.")
    if description is not None:
        language = check_language(arguments.language, description.languages)
    else:
        language = resolve_language(arguments.language) if arguments.language is not None else "en"
    if arguments.sentences == EVERYDAY:
        sentences = everyday_sentences(language)
    elif arguments.sentences is not None:
        sentences = read_sentences(arguments.sentences, language)
    elif card is not None:
        sentences = sentences_of_card(card, None if arguments.language is None else language)
        if not sentences:
            raise EvaluationError(
                f"The score card has no sentences in {language!r}. Give others: --data FOLDER or --sentences FILE."
            )
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
    from myxtts.corpus.corpus import bundled_corpus, read_manifest
    from myxtts.errors import EvaluationError
    from myxtts.evaluation.sentence_sets import held_out_sentences, sentences_of

    folder = data if data is not None else bundled_corpus()
    own_split = sentences_of(read_manifest(folder, language, split="validation").utterances)
    everything = sentences_of(read_manifest(folder, language, split="all").utterances) if split is not None else ()
    sentences = held_out_sentences(everything, own_split, split)
    if not sentences:
        read_manifest(folder, language, split="all")  # raises with the reason if no clip can be used at all
        raise EvaluationError(f"{folder} has no held-out sentences. Expected some in metadata_eval.csv, or more clips.")
    return sentences


def _choose_metrics(arguments: argparse.Namespace, sentences: tuple[Sentence, ...]) -> tuple[str, ...]:
    """The requested metrics; by default all that can be measured, with or without recordings to compare with."""
    from myxtts.errors import EvaluationError

    is_recorded = any(each.recording is not None for each in sentences)
    if arguments.recordings_only and not (is_recorded and arguments.voice is None):
        raise EvaluationError(
            "--recordings-only measures the recordings of --data only. Remove the voice or --sentences."
        )
    if arguments.metrics is None:
        return tuple(
            name
            for name in METRIC_NAMES
            if (is_recorded or name not in NEED_RECORDINGS) and not (arguments.recordings_only and name == "rtf")
        )
    impossible = sorted(NEED_RECORDINGS & set(arguments.metrics))
    if impossible and not is_recorded:
        raise EvaluationError(
            f"Without recordings these metrics cannot be measured: {', '.join(impossible)}. "
            "Give the recordings with --data, or other --metrics."
        )
    return tuple(arguments.metrics)


def _choose_recognizer(
    arguments: argparse.Namespace, metrics: tuple[str, ...], sentences: tuple[Sentence, ...]
) -> Recognizer | None:
    """The requested recognizer, or the default for the sentences; None if no metric needs one."""
    from myxtts.errors import EvaluationError
    from myxtts.evaluation.recognizers import open_recognizer

    name = arguments.recognizer
    if arguments.recognizer_command is not None:
        name = f"command:{arguments.recognizer_command}"
    if not {"cer", "wer"} & set(metrics):
        if name is not None:
            raise EvaluationError(
                "--recognizer is for the metrics cer and wer. Add one of them to --metrics, or leave it out."
            )
        return None
    return open_recognizer(name, {each.language for each in sentences})


def _open_voice(folder: Path | None, vocoder: str | None) -> Voice:
    from myxtts.synthesis.voice import Voice

    return Voice.load(folder, vocoder=vocoder)


def _recording_settings(sentences: tuple[Sentence, ...], sample_rate: int | None) -> RecordingSettings:
    """The default settings of a voice trained on the recordings, at the given rate or the default one."""
    from myxtts.audio.files import probe_audio
    from myxtts.audio.mel import MelSpec, voice_rate
    from myxtts.config.load import parse_config
    from myxtts.evaluation.evaluate import RecordingSettings

    rate = "auto" if sample_rate is None else sample_rate
    data = parse_config({"data": {"sample_rate": rate}}, source="--sample-rate").data
    if sample_rate is None:
        recording = next(each.recording for each in sentences if each.recording is not None)
        sample_rate = voice_rate(probe_audio(recording)[1])
    mel = MelSpec.from_config(data, sample_rate)
    return RecordingSettings(mel, data.trim_silence_db, data.loudness_db, data.trim_noise_db)


def _copying_vocoder(mel: MelSpec, vocoder: str | None) -> Callable[[np.ndarray], np.ndarray]:
    """The vocoder of --vocoder, otherwise Griffin-Lim: log-mel (frames, n_mels) → samples."""
    from myxtts.synthesis.vocoder import GriffinLim, find_vocoder, open_vocoder_file

    return GriffinLim(mel) if vocoder is None else open_vocoder_file(find_vocoder(vocoder), mel)
