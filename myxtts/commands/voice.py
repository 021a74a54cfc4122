"""`myxtts voice export`, `convert`, `show` and `list`, and `myxtts export`: make voices, and describe them.

Voices are untrusted: their texts are printed without control characters, and cannot replace what was measured.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from myxtts.errors import MyXTTSError, TextError, VoiceError
from myxtts.runtime.console import add_action, printable
from myxtts.runtime.progress import open_progress
from myxtts.runtime.startup import start_tensorflow

if TYPE_CHECKING:
    from myxtts.synthesis.training_split import TrainingSplit
    from myxtts.synthesis.voice_folder import VoiceDescription

MOST_LINES = 30
"""Printed lines of one entry; the rest is in voice.json."""
LONGEST_FACT = 500
LONGEST_COLUMN = 60
SHOWN_SPEAKERS = 5
SHOWN_LANGUAGES = 20
MOST_WORD_BYTES = 64 << 20
AVERAGE_FRACTION = 0.5
"""Of the voice that --average-with names."""


def configure_voice(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts voice`."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    export = add_action(actions, "export", "export a checkpoint, or another voice, as a complete voice folder")
    export.add_argument(
        "source",
        metavar="SOURCE",
        help="a checkpoint, the folder of a run (its best checkpoint is used), a voice folder, or the name of a bundled voice",
    )
    export.add_argument("out", metavar="OUT", type=Path, help="folder to write; a voice there is replaced")
    export.add_argument("--license", "--licence", default="", help="terms under which the voice may be used")
    export.add_argument("--attribution", default="", help="people to credit: those who recorded and trained it")
    export.add_argument(
        "--shared-assets",
        action="store_true",
        help="do not copy the vocoder and the pronunciation models; the voice then works only with this version of MyXTTS",
    )
    export.add_argument(
        "--vocoder",
        metavar="FILE",
        help="vocoder: the .onnx file of `myxtts train-vocoder`, `universal`, or `griffin-lim` (default: the vocoder of the "
        "voice; for a checkpoint, universal if it fits its mels)",
    )
    export.add_argument("--no-samples", action="store_true", help="do not add sample-1.wav and sample-2.wav")
    export.add_argument(
        "--default-speaker",
        action="append",
        default=[],
        metavar="LANGUAGE=NAME",
        help="default speaker of a language, for a checkpoint (default: the speaker with the most speech in it; "
        "repeatable)",
    )
    export.add_argument(
        "--average-with",
        metavar="VOICE",
        help="for a checkpoint: average its weights with those of the voice or checkpoint that its training came from: a "
        "compromise that can be better than both",
    )
    export.add_argument(
        "--average-fraction",
        type=float,
        default=None,
        metavar="FRACTION",
        help=f"fraction of --average-with in the mean, from 0 to 1 (default: {AVERAGE_FRACTION:g})",
    )
    export.add_argument(
        "--steps",
        type=int,
        metavar="N",
        help="decoder steps, for a checkpoint (default: those that it was distilled to, otherwise the usual number)",
    )
    export.add_argument(
        "--guidance",
        type=float,
        metavar="STRENGTH",
        help="strength of the decoder's guidance by its text: the mel is sharper, but each step is computed twice "
        "(default: for a checkpoint of several speakers 0.5, otherwise and if it was distilled 0; a voice keeps its own)",
    )
    export.add_argument(
        "--decoder-emphasis",
        type=float,
        metavar="FACTOR",
        help="for a checkpoint of several speakers: move the decoder's vectors of the named ones away from their mean by this "
        "factor (default: 1, not at all)",
    )
    export.add_argument(
        "--clone-emphasis",
        type=float,
        metavar="FACTOR",
        help="for a checkpoint of several speakers: move clones away from their mean by this factor (default: 1, not at all)",
    )
    export.add_argument(
        "--clone-decoder-emphasis",
        type=float,
        metavar="FACTOR",
        help="the same for the decoder alone; --clone-emphasis is then for the text (default: the same factor)",
    )
    convert = add_action(actions, "convert", "rewrite a voice of an earlier version (weights.npz) as ONNX")
    convert.add_argument("voice", metavar="VOICE", type=Path, help="voice folder with weights.npz")
    convert.add_argument("out", metavar="OUT", type=Path, help="folder to write; name VOICE again to replace it")
    show = add_action(actions, "show", "show languages, speakers, size and license of a voice")
    show.add_argument(
        "voice",
        metavar="VOICE",
        nargs="?",
        help="voice folder, or the name of a bundled voice (default: the bundled English one)",
    )
    listing = add_action(actions, "list", "list the voices in folders, with their languages and speakers")
    listing.add_argument(
        "folders",
        metavar="FOLDER",
        nargs="*",
        type=Path,
        help="folders to search, two levels deep (default: the current folder; the bundled voices are listed as well)",
    )


def run_voice(arguments: argparse.Namespace) -> int:
    """Export, convert, show or list voices."""
    if arguments.action == "export":
        return _export(arguments)
    if arguments.action == "convert":
        from myxtts.export.old_voices import convert_voice
        from myxtts.export.voice_writer import check_voice_target

        check_voice_target(arguments.out)
        return _show(str(convert_voice(arguments.voice, arguments.out)))
    if arguments.action == "list":
        return list_voices(arguments.folders)
    return _show(arguments.voice)


def configure_export(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts export`."""
    parser.add_argument(
        "voice",
        metavar="VOICE",
        help="voice folder, or the name of a bundled voice (`bundled`: that of --language, or the English one)",
    )
    parser.add_argument("out", metavar="OUT", type=Path, help="folder to write; its name is the name of a Piper voice")
    parser.add_argument(
        "--format",
        required=True,
        choices=("piper", "sherpa", "onnx"),
        help="target program; onnx is for a program of your own",
    )
    parser.add_argument("--language", help="language of the exported voice (default: the first of the voice)")
    parser.add_argument(
        "--words",
        metavar="FILE",
        help="for sherpa and onnx, with a voice that reads phonemes: word list of the lexicon, one word per line "
        "(UTF-8; default: 241,000 English words, or the words of the Persian pronunciation model)",
    )


def run_export(arguments: argparse.Namespace) -> int:
    """Write a voice for another program."""
    from myxtts.export.piper import export_piper
    from myxtts.export.sherpa import export_sherpa
    from myxtts.export.whole_voice import check_new_folder, export_onnx
    from myxtts.synthesis.bundled import find_voice

    check_new_folder(arguments.out)  # making the lexicon takes a minute
    voice = find_voice(arguments.voice, *([] if arguments.language is None else [arguments.language]))
    if arguments.format == "piper":
        if arguments.words is not None:
            raise VoiceError("Piper phonemizes texts itself and needs no word list. Leave out --words.")
        folder = export_piper(voice, arguments.out, arguments.language)
    else:
        export = export_sherpa if arguments.format == "sherpa" else export_onnx
        folder = export(voice, arguments.out, arguments.language, _read_words(arguments.words))
    for path in sorted(folder.iterdir()):
        sys.stdout.write(f"{printable(str(path))}\n")
    return 0


def _read_words(path: str | None) -> list[str]:
    """The lines of --words; none without it."""
    from myxtts.runtime.safe_files import read_regular_file

    if path is None:
        return []
    try:
        words = read_regular_file(path, MOST_WORD_BYTES).decode("utf-8-sig").splitlines()
    except OSError as error:
        raise VoiceError(f"{path} cannot be read: {error.strerror}. Name another file.") from None
    except UnicodeDecodeError as error:
        raise VoiceError(f"{path} is not UTF-8 text (byte {error.start}). Convert it: iconv -t UTF-8.") from None
    if not any(map(str.strip, words)):
        raise VoiceError(f"{path} has no words. Expected one per line.")
    return words


def _export(arguments: argparse.Namespace) -> int:
    from myxtts.export.voice_writer import check_voice_target, copy_voice, write_samples
    from myxtts.synthesis.bundled import find_voice
    from myxtts.synthesis.voice_folder import DESCRIPTION_NAME

    check_voice_target(arguments.out)  # opening the corpus of a checkpoint takes minutes
    source = find_voice(arguments.source)
    if os.path.isfile(source / DESCRIPTION_NAME):
        if arguments.license or arguments.attribution:
            raise VoiceError(
                f"{source} is a voice, and a copy keeps its license and credits. Leave out --license and --attribution."
            )
        if arguments.default_speaker:
            raise VoiceError(
                f"--default-speaker is for the export of a checkpoint, and {source} is a voice. Leave it out."
            )
        averaging = (("--average-with", arguments.average_with), ("--average-fraction", arguments.average_fraction))
        for flag, value in (("--steps", arguments.steps), *averaging, *_emphases(arguments)):
            if value is not None:
                raise VoiceError(f"{flag} is for the export of a checkpoint, and {source} is a voice. Leave it out.")
        _check_guidance(arguments.guidance)
        folder = copy_voice(
            source,
            arguments.out,
            copies_assets=not arguments.shared_assets,
            vocoder=arguments.vocoder,
            guidance=arguments.guidance,
        )
    else:
        folder = _export_checkpoint(source, arguments)
    if not arguments.no_samples:
        try:
            write_samples(folder)
        except TextError as error:  # it needs espeak-ng, which is not here
            sys.stderr.write(f"No samples were written: {printable(str(error), keeps_lines=False)}\n")
    return _show(str(folder))


def _export_checkpoint(source: Path, arguments: argparse.Namespace) -> Path:
    from myxtts.synthesis.voice_folder import MOST_EMPHASIS, MOST_STEPS
    from myxtts.training.checkpoint import load_checkpoint, resolve_checkpoint

    if arguments.steps is not None and not 1 <= arguments.steps <= MOST_STEPS:
        raise VoiceError(f"--steps must be from 1 to {MOST_STEPS}. Received: {arguments.steps}.")
    _check_guidance(arguments.guidance)
    for flag, emphasis in _emphases(arguments):
        if emphasis is not None and not 0 <= emphasis <= MOST_EMPHASIS:
            raise VoiceError(f"{flag} must be from 0 to {MOST_EMPHASIS}. Received: {emphasis:g}.")
    average_with = _average_of(arguments.average_with, arguments.average_fraction)
    checkpoint = load_checkpoint(resolve_checkpoint(source))
    start_tensorflow()
    from myxtts.training.voice_export import export_voice

    with open_progress() as progress:
        return export_voice(
            checkpoint,
            arguments.out,
            arguments.license,
            arguments.attribution,
            copies_assets=not arguments.shared_assets,
            vocoder=arguments.vocoder,
            given_speakers=_given_speakers(arguments.default_speaker),
            average_with=average_with,
            steps=arguments.steps,
            guidance=arguments.guidance,
            decoder_emphasis=arguments.decoder_emphasis,
            clone_emphasis=arguments.clone_emphasis,
            clone_decoder_emphasis=arguments.clone_decoder_emphasis,
            announce=progress.announce,
        )


def _average_of(voice: str | None, fraction: float | None) -> tuple[str, float] | None:
    """The voice to average with and its fraction; None: none."""
    if voice is None:
        if fraction is not None:
            raise VoiceError("--average-fraction needs a voice to average with. Give --average-with VOICE as well.")
        return None
    fraction = AVERAGE_FRACTION if fraction is None else fraction
    if not 0 <= fraction <= 1:
        raise VoiceError(f"--average-fraction must be from 0 to 1. Received: {fraction:g}.")
    return voice, fraction


def _check_guidance(guidance: float | None) -> None:
    from myxtts.errors import VoiceError
    from myxtts.synthesis.voice_folder import MOST_GUIDANCE

    if guidance is not None and not 0 <= guidance <= MOST_GUIDANCE:
        raise VoiceError(f"--guidance must be from 0 to {MOST_GUIDANCE}. Received: {guidance:g}.")


def _emphases(arguments: argparse.Namespace) -> tuple[tuple[str, float | None], ...]:
    return (
        ("--decoder-emphasis", arguments.decoder_emphasis),
        ("--clone-emphasis", arguments.clone_emphasis),
        ("--clone-decoder-emphasis", arguments.clone_decoder_emphasis),
    )


def _given_speakers(flags: list[str]) -> dict[str, str]:
    """Language → speaker of every `LANGUAGE=NAME`."""
    from myxtts.errors import VoiceError

    found = {}
    for flag in flags:
        language, is_pair, name = flag.partition("=")
        if not (language and is_pair and name):
            raise VoiceError(f"--default-speaker must be LANGUAGE=NAME, such as fa=voiz. Received: {flag!r:.60}.")
        found[language] = name
    return found


def _show(voice: str | None) -> int:
    from myxtts.synthesis.bundled import find_voice
    from myxtts.synthesis.voice import check_voice

    folder = find_voice(voice)
    description = check_voice(folder)
    _write_entries(_entries_of(folder, description))
    _write_scores(folder)
    if description.about:
        sys.stdout.write("stated by the voice itself:\n")
        facts = {name: f"{value!s:.{LONGEST_FACT}}".replace("\n", " ") for name, value in description.about.items()}
        _write_entries(facts, indent="  ")
    return 0


def _write_scores(folder: Path) -> None:
    """Print what was measured, the voice next to the recordings."""
    from myxtts.synthesis.score_card import LABELS, SOURCES, format_score, read_score_card

    try:
        card = read_score_card(folder)
    except VoiceError as error:
        sys.stdout.write(f"scores: {printable(str(error), keeps_lines=False)}\n")
        return
    if card is None:
        return
    judge = f", recognizer {card.recognizer}" if card.recognizer else ""
    seeds = f"{card.seeds} seed{'s' * (card.seeds != 1)}"
    basis = f"{card.sentences} sentences, {seeds}{judge}; 95 % intervals. {card.notice}".rstrip()
    sys.stdout.write(f"measured on {printable(basis, keeps_lines=False)}\n")
    rows = {"": [*SOURCES]}
    for metric, (title, _) in LABELS.items():
        found = card.scores.get(metric, {})
        if found:
            rows[title] = [format_score(found[source], metric) if source in found else "–" for source in SOURCES]
    widths = [max(len(row[column]) for row in rows.values()) for column in range(len(SOURCES))]
    _write_entries(
        {title: "  ".join(map(str.ljust, cells, widths)).rstrip() for title, cells in rows.items()}, indent="  "
    )


def list_voices(folders: Sequence[Path]) -> int:
    """Print one line per voice: folder, rate, languages, speakers. Without folders: the bundled voices and those in `.`."""
    from myxtts.synthesis.bundled import bundled_voices
    from myxtts.synthesis.voice_folder import find_voices

    for folder in folders:
        if not os.path.isdir(folder):
            raise VoiceError(f"{folder} is not a folder. Expected folders that contain voices.")
    found = [voice for folder in folders or [Path()] for voice in find_voices(folder)]
    rows = list(bundled_voices().items()) if not folders else []
    rows += [(str(voice), voice) for voice in dict.fromkeys(found)]
    if not rows:
        raise VoiceError(
            f"No voice in {', '.join(map(str, folders))}. A voice is a folder with voice.json and voice.onnx; "
            "`myxtts voice export CHECKPOINT OUT` creates one."
        )
    width = min(LONGEST_COLUMN, max(len(name) for name, _ in rows))
    for name, folder in rows:
        sys.stdout.write(f"{printable(name, keeps_lines=False):<{width}}  {_summary_of(folder)}\n")
    return 0


def _summary_of(folder: Path) -> str:
    """Rate, languages and speakers of a voice on one line, or why it cannot be used."""
    from myxtts.synthesis.voice import check_voice

    try:
        description = check_voice(folder)
    except MyXTTSError as error:
        return f"cannot be used: {printable(str(error), keeps_lines=False)}"
    speakers = description.speakers
    shown = ", ".join(f"{name:.{LONGEST_COLUMN}}" for name in speakers[:SHOWN_SPEAKERS]) or "no speakers by name"
    more = f" and {len(speakers) - SHOWN_SPEAKERS:,} more" if len(speakers) > SHOWN_SPEAKERS else ""
    languages = ", ".join(description.languages[:SHOWN_LANGUAGES])
    rate = description.mel_spec().sample_rate
    return printable(f"{rate} Hz  {languages}  {shown}{more}", keeps_lines=False)


def _entries_of(folder: Path, description: VoiceDescription) -> dict[str, str]:
    from myxtts.synthesis.voice_folder import license_file, model_files

    model, mel = description.model_spec(), description.mel_spec()
    megabytes = sum(path.stat().st_size for path in model_files(folder, description)) / 1e6
    speakers = ", ".join(description.speakers) or "none by name"
    full_text = license_file(folder)
    return {
        "voice": str(folder),
        "languages": ", ".join(description.languages),
        "speakers": speakers + ("; can clone" if model.has_speakers else "; cannot clone"),
        "symbols": f"{len(description.symbols)} {description.front_end['kind']}",
        "sound": f"{mel.sample_rate} Hz, {mel.n_mels} mel bands, vocoder {description.vocoder.name}",
        "size": f"{megabytes:.1f} MB",
        "trained on": _trained_on(description.training_split),
        "license": _first_line(description.licence) or "not stated",
        **({"in full": str(full_text)} if full_text is not None else {}),
        "attribution": description.attribution or "not stated",
        "written by": f"{description.written_by:.{LONGEST_FACT}}",
    }


def _trained_on(split: TrainingSplit | None) -> str:
    if split is None:
        return "not recorded"
    more = "" if split.is_complete else ", and others that are not recorded"
    return f"{split.num_training_texts:,} texts; {split.num_held_out_clips:,} clips were held out{more}"


def _first_line(text: str) -> str:
    """The name of a license; if voice.json contains the whole text, as older versions wrote it, its first line."""
    lines = text.strip().splitlines()
    more = f" … ({len(lines) - 1} more lines in voice.json)" if len(lines) > 1 else ""
    return lines[0] + more if lines else ""


def _write_entries(entries: dict[str, str], indent: str = "") -> None:
    """Print names and values in two columns; further lines of a value stay in the second, so that none looks like an entry."""
    shown = {printable(name, keeps_lines=False): value for name, value in entries.items()}
    width = max(map(len, shown))
    for name, value in shown.items():
        lines = printable(value).rstrip().split("\n")
        if len(lines) > MOST_LINES:
            lines = [*lines[:MOST_LINES], f"… and {len(lines) - MOST_LINES} more lines in voice.json"]
        for number, line in enumerate(lines):
            sys.stdout.write(f"{indent}{name if number == 0 else '':<{width}}  {line}".rstrip() + "\n")
