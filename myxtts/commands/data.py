"""`myxtts corpus`, `prepare`, `verify` and `stats`: from a folder of recordings to a cache that can be trusted.

Exit codes: 0 done (verify: nothing wrong, or all repaired); 1 verify found damage and was not asked to repair it; 2 a problem
that the user can fix, explained in one message; 130 interrupted (`prepare` continues where it stopped when it is called again).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from myxtts.commands.language import language_code, load_command_config
from myxtts.errors import CorpusError
from myxtts.runtime.progress import open_progress

EXIT_DAMAGED = 1
ASTERISK_FOLDER = "corpora/asterisk"
SHOWN_IDS = 10
SHOWN_SYMBOLS = 20


def number_or_auto(text: str) -> int | str:
    """A whole number, or the word auto."""
    return text if text == "auto" else int(text)


DATA_OPTIONS: dict[str, tuple[str, Callable[[str], Any] | None, str]] = {
    "--cache-dir": ("cache_dir", None, "where prepared clips are kept"),
    "--val-data": ("val_data", None, "folder of validation recordings"),
    "--language": ("language", language_code, "language of clips whose metadata names none: fa, Persian, … (en)"),
    "--text-symbols": ("text_symbols", None, "auto, phonemes, espeak or graphemes"),
    "--lexicon": ("lexicon", None, "file of word<TAB>phonemes lines"),
    "--sample-rate": (
        "sample_rate",
        number_or_auto,
        "Hz of the voice; auto: 24000 for 22050 and above, lower rates stay",
    ),
    "--n-mels": ("n_mels", int, "mel bands"),
    "--hop-length": ("hop_length", number_or_auto, "samples from one frame to the next; auto: by the sample rate"),
    "--max-text-length": ("max_text_length", int, "symbols of the longest text"),
    "--max-mel-frames": ("max_mel_frames", number_or_auto, "frames of the longest clip; auto: from the corpus"),
    "--min-seconds": ("min_seconds", float, "shorter clips are rejected"),
    "--max-seconds": ("max_seconds", float, "longer clips are rejected"),
    "--num-workers": ("num_workers", number_or_auto, "processes; auto: one per core"),
}
"""Flag → field of the section `data`, its type, its help."""


def configure_corpus(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts corpus`."""
    recipes = parser.add_subparsers(dest="recipe", metavar="RECIPE", required=True)
    asterisk = recipes.add_parser("asterisk", help="Debian's telephone prompts: en, es, fr, it, ru")
    asterisk.add_argument("out", metavar="OUT", nargs="?", default=ASTERISK_FOLDER, help=f"default: {ASTERISK_FOLDER}")
    asterisk.add_argument("--languages", default="en", help="comma-separated; default: en")
    asterisk.add_argument("--deb", action="extend", nargs="+", metavar="FILE", help="downloaded .deb files")
    asterisk.add_argument(
        "--sounds-root", metavar="DIR", help="where the packages are unpacked; default: installed ones"
    )
    folder = recipes.add_parser("folder", help="a folder of recordings with same-named .txt files")
    folder.add_argument("folder", metavar="FOLDER", help="recordings and texts, e.g. hello.wav and hello.txt")
    folder.add_argument("out", metavar="OUT", nargs="?", help="folder to write; default: metadata.csv into FOLDER")
    folder.add_argument("--language", type=language_code, default="en", help="language of the texts; default: en")
    folder.add_argument("--speaker", help="name of the one speaker; default: the subfolders are speakers")
    folder.add_argument("--copy", action="store_true", help="copy the recordings instead of linking them")


def run_corpus(arguments: argparse.Namespace) -> int:
    """Write a corpus and say what is in it."""
    from myxtts.corpus.manifest import summarise_rejections
    from myxtts.corpus.recipes import build_asterisk_corpus, build_folder_corpus

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
    else:
        summary = build_folder_corpus(
            arguments.folder, arguments.out, arguments.language, arguments.speaker, copy_audio=arguments.copy
        )
    languages = ", ".join(f"{name} {count}" for name, count in summary.clips_by_language.items())
    _say(f"{summary.clips} clips, {summary.seconds / 60:.1f} minutes ({languages}) in {summary.folder}")
    _say(f"speakers: {', '.join(summary.speakers)}")
    for notice in summary.notices:
        _say(notice)
    if summary.rejected:
        _say(f"{summarise_rejections(summary.rejected)} ({summary.folder / 'rejected.csv'})")
    return 0


def configure_prepare(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts prepare`."""
    _add_data_arguments(parser)
    parser.add_argument("--retry", action="store_true", help="try clips again that an earlier run rejected")


def run_prepare(arguments: argparse.Namespace) -> int:
    """Bring the cache of a corpus up to date."""
    from myxtts.cache.prepare import prepare_corpus

    config = _data_config(arguments)
    try:
        with open_progress() as progress:
            report = prepare_corpus(
                config, arguments.data, progress=progress, announce=progress.announce, retry=arguments.retry
            )
    except KeyboardInterrupt:
        sys.stderr.write("What is done is kept: the next `myxtts prepare` continues from there.\n")
        raise
    outcome = report.outcome
    done = {
        "added": outcome.added,
        "changed": outcome.changed,
        "with a new text": outcome.retexted,
        "removed": outcome.removed,
        "unchanged": outcome.kept,
    }
    _say(
        f"{report.clips} clips, {report.speech_seconds / 60:.1f} minutes at {report.sample_rate} Hz, "
        f"{report.validation_clips} held out, in {report.elapsed_seconds:.1f} s"
    )
    _say(report.sound)
    _say(", ".join(f"{count} {name}" for name, count in done.items() if count) or "nothing to do")
    if outcome.recovered:
        _say(f"{outcome.recovered} of them were finished by an earlier run that was stopped")
    if report.rejections:
        _say(f"{report.summary_of_rejections()} ({report.rejected_path})")
    if outcome.failed:
        _say(
            f"{len(outcome.failed)} of them may be usable (the disk, the memory or a killed process failed, not the clip): "
            "run `myxtts prepare` again"
        )
    if report.unknown_symbols:
        shown = ", ".join(f"{symbol!r} {count}" for symbol, count in [*report.unknown_symbols.items()][:SHOWN_SYMBOLS])
        _say(f"characters without a symbol: {shown}")
    _say(f"cache: {report.folder}")
    return 0


def configure_verify(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts verify`."""
    _add_data_arguments(parser)
    parser.add_argument("--fix", action="store_true", help="repair: damaged clips are prepared again")


def run_verify(arguments: argparse.Namespace) -> int:
    """Check every record of a cache, and repair it with --fix."""
    from myxtts.cache.location import find_cache
    from myxtts.cache.verify import verify_and_fix_cache

    config = _data_config(arguments)
    with open_progress() as progress:
        location = find_cache(config, arguments.data, progress, announce=progress.announce)
        report = verify_and_fix_cache(
            location.folder,
            arguments.fix,
            config=config,
            data_folder=arguments.data,
            expected_settings=location.settings.to_dict(),
            progress=progress,
            announce=progress.announce,
        )
    for problem in report.problems:
        _say(f"{problem.kind}: {problem.file}: {problem.detail}")
    if report.damaged_ids:
        more = f" and {len(report.damaged_ids) - SHOWN_IDS} more" if len(report.damaged_ids) > SHOWN_IDS else ""
        _say(f"damaged clips: {', '.join(report.damaged_ids[:SHOWN_IDS])}{more}")
    if report.unfinished_clips is not None and not report.is_repaired:
        _say(
            f"`myxtts prepare` was interrupted after {report.unfinished_clips} new clips; run it again and it continues "
            "from there"
        )
    if report.is_clean:
        _say(f"{report.checked_clips} clips checked, nothing wrong: {report.folder}")
        return 0
    if report.is_repaired:
        outcome = report.prepared.outcome
        _say(f"repaired: {outcome.added + outcome.changed} clips prepared again, {outcome.kept} kept: {report.folder}")
        return 0
    _say(f"{len(report.problems)} problems in {report.folder}. Run `myxtts verify --fix` to repair them.")
    return EXIT_DAMAGED


def configure_stats(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts stats`."""
    _add_data_arguments(parser)
    parser.add_argument("--subset", choices=("train", "validation", "all"), default="all", help="default: all")
    parser.add_argument("--png", metavar="FILE", help="write the histograms as a picture")
    parser.add_argument("--json", metavar="FILE", help="write the numbers as JSON")


def run_stats(arguments: argparse.Namespace) -> int:
    """Show what is in a corpus and which settings fit it; what is not prepared yet is prepared."""
    from rich.console import Console

    from myxtts.cache.format import open_cache
    from myxtts.cache.prepare import prepare_corpus
    from myxtts.cache.statistics import (
        get_statistics,
        histogram_lines,
        save_histograms,
        settings_to_paste,
        subset_clips,
    )

    config = _data_config(arguments)
    with open_progress() as progress:
        report = prepare_corpus(config, arguments.data, progress=progress, announce=progress.announce)
    cache = open_cache(report.folder)
    statistics = get_statistics(cache, config, arguments.subset)
    clips = subset_clips(cache, arguments.subset)
    console = Console(file=sys.stdout)
    _say(
        f"{statistics['clips']} clips ({statistics['usable_clips']} within the limits), {statistics['hours'] * 60:.1f} minutes, "
        f"{statistics['sample_rate']} Hz, {statistics['frames_per_second']:.1f} frames a second, {statistics['symbols']} symbols"
    )
    for table in _statistics_tables(statistics):
        console.print(table)
    for title, lengths in (("symbols", cache.token_counts[clips]), ("frames", cache.frame_counts[clips])):
        _say(f"\n{title} of a clip")
        _say("\n".join(histogram_lines(lengths)))
    _say("\nrecommended settings")
    _say(settings_to_paste(statistics["recommended"]))
    if arguments.png:
        charts = {"symbols of a clip": cache.token_counts[clips], "frames of a clip": cache.frame_counts[clips]}
        save_histograms(arguments.png, charts)
    if arguments.json:
        _write_json(Path(arguments.json), statistics)
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


def _add_data_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", metavar="DATA", nargs="?", help="folder of recordings; default: the bundled prompts")
    parser.add_argument("--config", metavar="FILE", help="YAML file; flags win over it")
    for flag, (field, convert, help_line) in DATA_OPTIONS.items():
        parser.add_argument(flag, dest=field, type=convert, metavar=field.upper(), help=help_line)


def _data_config(arguments: argparse.Namespace):
    """The section `data` of the configuration file, with the flags that were given."""
    given = vars(arguments)
    overrides = {f"data.{field}": given[field] for field, _, _ in DATA_OPTIONS.values() if given[field] is not None}
    if given["data"] is not None:
        overrides["data.train_data"] = given["data"]
    return load_command_config(arguments.config, overrides).data


def _write_json(path: Path, content: Any) -> None:
    beside = path.with_name(f".{path.name}.part")
    try:
        beside.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise CorpusError(f"The statistics cannot be written. Received: {path} ({error.strerror}).") from None
    finally:
        beside.unlink(missing_ok=True)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
