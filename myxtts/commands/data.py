"""`myxtts corpus`, `prepare`, `verify`, `stats` and `advise`: from a folder of recordings to a verified cache, with statistics
and advice.

Exit codes: 0 success (verify: no damage, or all of it repaired); 1 verify found damage and --fix was not given; 2 a problem that
the user can fix, explained in one message; 130 interrupted (the next `prepare` continues where this one stopped).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from myxtts.commands.config_flags import add_corpus_flags, config_of, language_code
from myxtts.config.config import DEFAULT_LANGUAGE
from myxtts.errors import CorpusError
from myxtts.runtime.console import add_action, exit_on_signals, print_line, printable
from myxtts.runtime.progress import open_progress
from myxtts.runtime.safe_files import cause_of, write_atomically

if TYPE_CHECKING:
    from myxtts.cache.verify import VerifyReport
    from myxtts.corpus.corpus_writer import CorpusSummary


EXIT_DAMAGED = 1
ASTERISK_FOLDER = "corpora/asterisk"
SHOWN_IDS = 10
SHOWN_SYMBOLS = 20


def configure_corpus(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts corpus`."""
    recipes = parser.add_subparsers(dest="recipe", metavar="RECIPE", required=True)
    asterisk = add_action(recipes, "asterisk", "Debian's telephone prompts: en, es, fr, it, ru")
    asterisk.add_argument(
        "out", metavar="OUT", nargs="?", default=ASTERISK_FOLDER, help=f"folder to write (default: {ASTERISK_FOLDER})"
    )
    asterisk.add_argument("--languages", default="en", help="languages, separated by commas (default: en)")
    asterisk.add_argument(
        "--deb", action="extend", nargs="+", metavar="FILE", help="downloaded .deb files to read instead"
    )
    asterisk.add_argument(
        "--sounds-root", metavar="DIR", help="folder with the unpacked packages (default: the installed packages)"
    )
    folder = add_action(recipes, "folder", "a folder of recordings with same-named .txt files")
    folder.add_argument(
        "folder", metavar="FOLDER", help="folder of recordings and texts, such as hello.wav and hello.txt"
    )
    folder.add_argument("out", metavar="OUT", nargs="?", help="folder to write (default: write metadata.csv to FOLDER)")
    folder.add_argument(
        "--language", type=language_code, default=DEFAULT_LANGUAGE, help="language of the texts (default: %(default)s)"
    )
    folder.add_argument("--speaker", help="name of the only speaker (default: each subfolder is a speaker)")
    folder.add_argument("--copy", action="store_true", help="copy the recordings instead of linking them")
    _configure_public_corpora(recipes)


def _configure_public_corpora(recipes: Any) -> None:
    from myxtts.corpus.public_corpora import AUDIOMNIST, FREESWITCH, FREESWITCH_VOICES, READABLE

    for corpus in (*READABLE, FREESWITCH, AUDIOMNIST):
        recipe = add_action(recipes, corpus.name, f"a clone of {corpus.repository} ({corpus.license})")
        recipe.add_argument("folder", metavar="FOLDER", help=f"clone of github.com/{corpus.repository}")
        recipe.add_argument("out", metavar="OUT", help="folder to write")
        if corpus is not AUDIOMNIST:
            recipe.add_argument("--copy", action="store_true", help="copy the recordings instead of linking them")
        if corpus is FREESWITCH:
            recipe.add_argument("--phrases", metavar="DIR", required=True, help="docs/phrase of signalwire/freeswitch")
            recipe.add_argument(
                "--voices",
                default=",".join(FREESWITCH_VOICES),
                help="voices, separated by commas (default: %(default)s)",
            )
        if corpus is AUDIOMNIST:
            recipe.add_argument(
                "--takes", type=int, default=10, help="recordings per digit, 1 to 50 (default: %(default)s)"
            )
            recipe.add_argument(
                "--digits-per-clip", type=int, default=5, help="digits per clip: 1, 2, 5 or 10 (default: %(default)s)"
            )


def run_corpus(arguments: argparse.Namespace) -> int:
    """Write a corpus and print a summary of it."""
    from myxtts.corpus.asterisk import build_asterisk_corpus
    from myxtts.corpus.corpus_writer import build_folder_corpus
    from myxtts.corpus.utterance import summarize_rejections

    if arguments.recipe == "asterisk":
        languages = [name.strip() for name in arguments.languages.split(",") if name.strip()]
        with open_progress() as progress:
            summary = build_asterisk_corpus(
                arguments.out,
                languages,
                debs=arguments.deb,
                sounds_root=arguments.sounds_root,
                progress=lambda done, total: progress("decoding prompts", done, total),
            )
    elif arguments.recipe == "folder":
        summary = build_folder_corpus(
            arguments.folder, arguments.out, arguments.language, arguments.speaker, copy_audio=arguments.copy
        )
    else:
        summary = _build_public_corpus(arguments)
    languages = ", ".join(f"{name} {count}" for name, count in summary.clips_by_language.items())
    print_line(f"{summary.clips} clips, {summary.seconds / 60:.1f} minutes ({languages}) in {summary.folder}")
    print_line(f"speakers: {', '.join(summary.speakers)}")
    for notice in summary.notices:
        print_line(notice)
    if summary.rejected:
        print_line(f"{summarize_rejections(summary.rejected)} ({summary.folder / 'rejected.csv'})")
    return 0


def _build_public_corpus(arguments: argparse.Namespace) -> CorpusSummary:
    """Write the public corpus that the recipe names."""
    from myxtts.corpus.public_corpora import (
        AUDIOMNIST,
        FREESWITCH,
        READABLE,
        build_audiomnist_corpus,
        build_freeswitch_corpus,
        build_public_corpus,
    )

    if arguments.recipe == FREESWITCH.name:
        voices = [name.strip() for name in arguments.voices.split(",") if name.strip()]
        return build_freeswitch_corpus(arguments.folder, arguments.out, arguments.phrases, voices, arguments.copy)
    if arguments.recipe == AUDIOMNIST.name:
        with open_progress() as progress:
            return build_audiomnist_corpus(
                arguments.folder,
                arguments.out,
                arguments.takes,
                arguments.digits_per_clip,
                lambda done, total: progress("joining digits", done, total),
            )
    (corpus,) = (each for each in READABLE if each.name == arguments.recipe)
    return build_public_corpus(corpus, arguments.folder, arguments.out, arguments.copy)


def configure_prepare(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts prepare`."""
    add_corpus_flags(parser)
    parser.add_argument("--retry", action="store_true", help="retry clips that an earlier run rejected")


def run_prepare(arguments: argparse.Namespace) -> int:
    """Bring the cache of a corpus up to date."""
    from myxtts.batches.plan import describe_sound, plan_kind, resolved_max_mel_frames, usable_clips
    from myxtts.cache.prepare import prepare_cache
    from myxtts.corpus.utterance import summarize_rejections, write_rejected_csv

    config = config_of(arguments).data
    try:
        with open_progress() as progress:
            cache = prepare_cache(config, progress=progress, announce=progress.announce, retry=arguments.retry)
    except KeyboardInterrupt:
        sys.stderr.write("Finished clips are kept: the next `myxtts prepare` continues from there.\n")
        raise
    report = cache.report
    outcome = report.outcome
    max_mel_frames = resolved_max_mel_frames(cache, config.max_mel_frames, config.max_text_length, plan_kind(config))
    _, too_long = usable_clips(cache, config.max_text_length, max_mel_frames)
    rejections = (*report.rejections, *too_long)
    if too_long and os.access(report.rejected_path, os.W_OK):
        write_rejected_csv(report.rejected_path, rejections)
    done = {
        "added": outcome.added,
        "changed": outcome.changed,
        "with a new text": outcome.retexted,
        "removed": outcome.removed,
        "unchanged": outcome.kept,
    }
    print_line(
        f"{cache.num_clips} clips, {cache.speech_seconds / 60:.1f} minutes at {cache.mel.sample_rate} Hz, "
        f"{int(cache.is_validation.sum())} held out, in {report.elapsed_seconds:.1f} s"
    )
    print_line(describe_sound(cache, config, report.recorded_rates))
    print_line(cache.describe_quality())
    print_line(", ".join(f"{count} {name}" for name, count in done.items() if count) or "nothing to do")
    if outcome.recovered:
        print_line(f"{outcome.recovered} of them were finished by an earlier, interrupted run")
    if rejections:
        print_line(f"{summarize_rejections(rejections)} ({report.rejected_path})")
    if outcome.failed:
        print_line(
            f"{len(outcome.failed)} of them may be usable (caused by the disk, the memory or a killed process): "
            "run `myxtts prepare` again"
        )
    if report.unknown_symbols:
        shown = ", ".join(f"{symbol!r} {count}" for symbol, count in [*report.unknown_symbols.items()][:SHOWN_SYMBOLS])
        print_line(f"characters without a symbol: {shown}")
    print_line(f"cache: {cache.folder}")
    return 0


def configure_verify(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts verify`."""
    add_corpus_flags(parser)
    parser.add_argument("--fix", action="store_true", help="repair the cache: prepare damaged clips again")


def run_verify(arguments: argparse.Namespace) -> int:
    """Check every record of a cache, and repair it with --fix."""
    from myxtts.cache.joint import is_joint
    from myxtts.cache.verify import find_cache, verify_and_fix_cache, verify_joint_cache

    config = config_of(arguments).data
    with open_progress() as progress:
        if is_joint(config):
            reports = verify_joint_cache(config, arguments.fix, progress=progress, announce=progress.announce)
            return max(_print_verified(report) for report in reports)
        location = find_cache(config, progress=progress, announce=progress.announce)
        report = verify_and_fix_cache(
            location.folder,
            arguments.fix,
            config=config,
            expected_settings=location.settings.to_dict(),
            progress=progress,
            announce=progress.announce,
        )
    return _print_verified(report)


def _print_verified(report: VerifyReport) -> int:
    """Print what was found and repaired; returns the exit code."""
    from myxtts.cache.clip_table import open_cache

    for problem in report.problems:
        print_line(f"{problem.kind}: {problem.file}: {problem.detail}")
    if report.damaged_ids:
        more = f" and {len(report.damaged_ids) - SHOWN_IDS} more" if len(report.damaged_ids) > SHOWN_IDS else ""
        print_line(f"damaged clips: {', '.join(report.damaged_ids[:SHOWN_IDS])}{more}")
    if report.unfinished_clips is not None and not report.is_repaired:
        print_line(
            f"`myxtts prepare` was interrupted after {report.unfinished_clips} new clips; run it again and it continues "
            "from there"
        )
    if report.is_clean:
        print_line(open_cache(report.folder).describe_quality())
        print_line(f"{report.checked_clips} clips checked, nothing wrong: {report.folder}")
        return 0
    if report.is_repaired and report.prepared is not None:
        outcome = report.prepared.outcome
        print_line(
            f"repaired: {outcome.added + outcome.changed} clips prepared again, {outcome.kept} kept: {report.folder}"
        )
        return 0
    print_line(f"{len(report.problems)} problems in {report.folder}. Run `myxtts verify --fix` to repair them.")
    return EXIT_DAMAGED


def configure_stats(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts stats`."""
    add_corpus_flags(parser)
    parser.add_argument(
        "--subset", choices=("train", "validation", "all"), default="all", help="clips to count (default: all)"
    )
    parser.add_argument("--png", metavar="FILE", help="write the histograms as a PNG image")
    parser.add_argument("--json", metavar="FILE", help="write the statistics as JSON")


def run_stats(arguments: argparse.Namespace) -> int:
    """Print the statistics of a corpus and the settings that fit it; clips that are not prepared yet are prepared first."""
    from rich.console import Console

    from myxtts.batches.statistics import (
        get_statistics,
        histogram_lines,
        save_histograms,
        settings_to_paste,
        subset_clips,
    )
    from myxtts.cache.prepare import prepare_cache

    config = config_of(arguments).data
    with open_progress() as progress:
        cache = prepare_cache(config, progress=progress, announce=progress.announce)
    statistics = get_statistics(cache, config, arguments.subset)
    clips = subset_clips(cache, arguments.subset)
    console = Console(file=sys.stdout)
    print_line(
        f"{statistics['clips']} clips ({statistics['usable_clips']} within the limits), {statistics['hours'] * 60:.1f} minutes, "
        f"{statistics['sample_rate']} Hz, {statistics['frames_per_second']:.1f} frames per second, "
        f"{statistics['symbols']} symbols"
    )
    for table in _statistics_tables(statistics):
        console.print(table)
    for title, lengths in (("symbols", cache.token_counts[clips]), ("frames", cache.frame_counts[clips])):
        print_line(f"\n{title} per clip")
        print_line("\n".join(histogram_lines(lengths)))
    print_line("\nrecommended settings")
    print_line(settings_to_paste(statistics["recommended"]))
    if arguments.png:
        charts = {"symbols per clip": cache.token_counts[clips], "frames per clip": cache.frame_counts[clips]}
        save_histograms(arguments.png, charts)
    if arguments.json:
        _write_json(arguments.json, statistics)
    return 0


def _statistics_tables(statistics: dict[str, Any]) -> list[Any]:
    from rich.table import Table

    lengths = Table("", *(name.replace("percentile_", "p") for name in statistics["mel_length"]))
    for title, name in (("symbols", "text_length"), ("frames", "mel_length")):
        lengths.add_row(title, *(f"{value:.0f}" for value in statistics[name].values()))
    dropped = Table("limit", "drops clips")
    for name, candidates in statistics["dropped"].items():
        for limit, count in candidates.items():
            dropped.add_row(f"{name} {limit}", str(count))
    plans = Table("plan", "useful", "padding")
    for name, waste in statistics["padding_waste"].items():
        plans.add_row(name.replace("_", " "), f"{1 - waste:.1%}", f"{waste:.1%}")
    return [lengths, dropped, plans]


def _write_json(path: str, content: Any) -> None:
    try:
        write_atomically(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise CorpusError(f"{path} cannot be written: {cause_of(error)}. Name another file.") from None


def configure_advise(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts advise`."""
    parser.add_argument("data", metavar="DATA", type=Path, help="folder of recordings with their texts")
    parser.add_argument(
        "--language",
        default=DEFAULT_LANGUAGE,
        help="language of clips whose metadata names none (default: %(default)s)",
    )
    parser.add_argument(
        "--voice",
        metavar="NAME|DIR",
        help="voice whose network compares texts and recordings (default: the bundled voice for the language)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all measurements as JSON")


def run_advise(arguments: argparse.Namespace) -> int:
    """Measure, print and write."""
    from myxtts.corpus.corpus import read_manifest
    from myxtts.evaluation.advise import advice_lines, advise
    from myxtts.evaluation.score_report import write_report
    from myxtts.synthesis.bundled import find_voice
    from myxtts.synthesis.output import check_places
    from myxtts.synthesis.voice_folder import read_description

    check_places([arguments.json])
    voice = None if arguments.voice is None else find_voice(arguments.voice)
    if voice is not None:
        read_description(voice)  # before the recordings are measured
    with exit_on_signals(), open_progress() as progress:
        manifest = read_manifest(arguments.data, arguments.language, "all")
        advice = advise(arguments.data, manifest.utterances, manifest.rejected, voice, progress)
    for line in advice_lines(advice):
        sys.stdout.write(f"{printable(line, keeps_lines=False)}\n")
    if arguments.json is not None:
        write_report(arguments.json, json.dumps(advice.to_json(), ensure_ascii=False, indent=1, allow_nan=False) + "\n")
    return 0
