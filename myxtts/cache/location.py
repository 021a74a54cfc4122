"""Where the cache of a corpus is, and what it must have been made with: configuration + folder in, `CacheLocation` out.

The folder is `.myxtts/cache/<fingerprint>` next to the recordings; where that cannot be written, and for the bundled corpus,
below the user's cache folder. Lengths and sample rates of the recordings are probed once and kept in `rates.npy`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs

from myxtts.audio.mel import MelSpec, voice_rate
from myxtts.cache.corpus_state import Source, read_source
from myxtts.cache.format import (
    HEADER_NAME,
    Cache,
    CacheSettings,
    load_cache,
    open_cache,
    read_header,
    settings_differences,
)
from myxtts.cache.writer import cache_lock, ignore_line, write_array_atomically, write_error
from myxtts.config.config import DEFAULT_LANGUAGE, DataConfig
from myxtts.corpus.recipes import bundled_corpus
from myxtts.errors import CacheError, CorpusError
from myxtts.runtime.machine import usable_cores
from myxtts.runtime.workers import Progress, WorkerPool
from myxtts.text.tokenizer import FrontEnd, build_front_end

RATES_NAME = "rates.npy"
RATE = np.dtype([("key", "<u8"), ("samples", "<i8"), ("rate", "<i4")])
"""A probed file: hash of its path, size and time; samples per channel; Hz (0: not readable; never kept)."""
PROBED_AT_ONCE = 64


@dataclass(frozen=True, eq=False)
class CacheLocation:
    """A corpus as it is now, and the cache that belongs to it under a configuration."""

    source: Source
    settings: CacheSettings
    front_end: FrontEnd
    folder: Path
    """The cache folder: its name is the fingerprint."""
    rates: np.ndarray
    """`RATE` of each utterance of the source."""


def user_cache_folder() -> Path:
    """The user's folder for caches: `$XDG_CACHE_HOME/myxtts` or `~/.cache/myxtts` on Linux."""
    try:
        return platformdirs.user_cache_path("myxtts", appauthor=False)
    except RuntimeError:  # neither HOME nor the user database names a folder
        raise CacheError(
            "This user has no home folder that a cache could be kept in (HOME is not set). Name a folder for it: "
            "--cache-dir FOLDER, or data.cache_dir in the configuration file."
        ) from None


def cache_root(data_folder: Path, config: DataConfig) -> Path:
    """The folder that holds the caches of one corpus, one for each fingerprint."""
    data_folder = data_folder.resolve()
    place = hashlib.blake2b(os.fsencode(data_folder), digest_size=4).hexdigest()
    own = f"{data_folder.name or 'corpus'}-{place}"  # corpora that share a cache folder must not replace each other
    if config.cache_dir is not None:
        return Path(os.path.expanduser(config.cache_dir)) / own
    beside = root_next_to(data_folder)
    if is_bundled(data_folder) or not can_be_written(beside):
        return user_cache_folder() / own
    return beside


def root_next_to(data_folder: Path) -> Path:
    """Where the caches of a corpus are by default."""
    return data_folder / ".myxtts" / "cache"


def can_be_written(folder: Path) -> bool:
    """Whether this user may write into a folder, or make it."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return os.access(folder, os.W_OK)


def is_bundled(data_folder: Path) -> bool:
    """Whether these are the prompts of this installation, which may be read-only."""
    try:
        return data_folder.resolve() == bundled_corpus().resolve()
    except CorpusError:  # an installation without them
        return False


def with_prepared_language(
    config: DataConfig, data_folder: str | Path | None = None, announce: Callable[[str], None] = ignore_line
) -> DataConfig:
    """The configuration with the one language that the corpus was last prepared in, where it names none itself."""
    folder = data_folder if data_folder is not None else config.train_data
    if config.language is not None or folder is None:
        return config
    languages = _prepared_languages(Path(os.path.expanduser(folder)), config)
    if len(languages) != 1 or languages == {DEFAULT_LANGUAGE}:
        return config
    (language,) = languages
    announce(
        f"Language: {language}, because this corpus was prepared with it. Change it with --language (data.language)."
    )
    return dataclasses.replace(config, language=language)


def _prepared_languages(data_folder: Path, config: DataConfig) -> set[str]:
    """Languages of the clips of the newest published cache of a corpus; empty if there is none."""
    roots = {root_next_to(data_folder.resolve())} if config.cache_dir is None else set()
    with suppress(CacheError):  # no place for a cache of this user's own
        roots.add(cache_root(data_folder, config))
    headers = [header for root in roots for header in root.glob(f"*/{HEADER_NAME}")]
    for header in sorted(headers, key=os.path.getmtime, reverse=True):
        try:
            content = read_header(header.parent)
        except CacheError:
            continue  # damaged; `prepare` reports it
        try:
            cache = load_cache(header.parent, content)
        except (CacheError, OSError):
            return set(content["languages"])  # also languages of earlier clips
        return {cache.languages[number] for number in np.unique(cache.language_numbers)}
    return set()


def locate_shared_cache(
    config: DataConfig, data_folder: str | Path | None, front_end: FrontEnd
) -> CacheLocation | None:
    """A published cache next to recordings that this user may not write, made by another user; None if there is none.

    It serves only as it is: recordings that were never probed are not, and whoever uses it checks that it is up to date.
    """
    folder = data_folder if data_folder is not None else config.train_data
    if config.cache_dir is not None or folder is None:
        return None
    root = root_next_to(Path(os.path.expanduser(folder)))
    if not os.path.isdir(root) or can_be_written(root):
        return None
    source = read_source(config, folder)
    root = root_next_to(source.folder)
    rates, is_known, _ = _known_rates(_file_keys(source), root / RATES_NAME)
    if not is_known.any():
        return None
    location = _location(config, source, front_end, root, rates)
    return location if (location.folder / HEADER_NAME).is_file() else None


def locate_cache(
    config: DataConfig,
    data_folder: str | Path | None,
    front_end: FrontEnd,
    pool: WorkerPool,
    progress: Progress,
    announce: Callable[[str], None] = ignore_line,
) -> CacheLocation:
    """Read the corpus and resolve what is automatic (sample rate, symbols); nothing is prepared yet."""
    source = read_source(config, data_folder)
    root = cache_root(source.folder, config)
    return _location(config, source, front_end, root, probe_rates(source, root / RATES_NAME, pool, progress, announce))


def _location(config: DataConfig, source: Source, front_end: FrontEnd, root: Path, rates: np.ndarray) -> CacheLocation:
    sample_rate = common_voice_rate(rates["rate"]) if config.sample_rate == "auto" else config.sample_rate
    settings = CacheSettings(
        mel=MelSpec.from_config(config, sample_rate),
        trim_silence_db=config.trim_silence_db,
        loudness_db=config.loudness_db,
        min_seconds=config.min_seconds,
        max_seconds=config.max_seconds,
        front_end_kind=front_end.kind,
        front_end_fingerprint=front_end.fingerprint(),
        validation_folder=str(Path(config.val_data).resolve()) if config.val_data is not None else None,
    )
    return CacheLocation(source, settings, front_end, root / settings.fingerprint, rates)


def find_cache(
    config: DataConfig,
    data_folder: str | Path | None = None,
    progress: Progress | None = None,
    workers: int | None = None,
    announce: Callable[[str], None] = ignore_line,
) -> CacheLocation:
    """Where the cache of a corpus is or will be; only recordings that were never looked at are opened."""
    config = with_prepared_language(config, data_folder, announce)
    front_end = build_front_end(config.text_symbols, config.lexicon, config.language)
    shared = locate_shared_cache(config, data_folder, front_end)
    try:
        with WorkerPool(worker_setup(config, front_end), worker_count(config, workers)) as pool:
            location = locate_cache(config, data_folder, front_end, pool, progress or ignore_progress, announce)
    except CacheError:  # no place for a cache of this user's own
        if shared is None:
            raise
        return shared
    return shared if shared is not None and not (location.folder / HEADER_NAME).exists() else location


def worker_setup(config: DataConfig, front_end: FrontEnd) -> dict[str, Any]:
    """What every worker of a pool is told first."""
    return {"data": dataclasses.asdict(config), "front_end": front_end.to_dict()}


def worker_count(config: DataConfig, workers: int | None = None) -> int:
    """Processes to use: as asked, as configured, or one for each core that this process may use."""
    if workers is not None:
        return workers
    return config.num_workers if config.num_workers != "auto" else usable_cores()


def ignore_progress(stage: str, done: int, total: int) -> None:
    """For callers that show nothing."""


def open_located(location: CacheLocation) -> Cache:
    """The prepared cache, or an error that says in which settings the existing ones differ."""
    if (location.folder / HEADER_NAME).exists():
        return open_cache(location.folder, expected_settings=location.settings.to_dict())
    others = []
    for header_path in sorted(location.folder.parent.glob(f"*/{HEADER_NAME}")):
        try:
            changes = settings_differences(read_header(header_path.parent)["settings"], location.settings.to_dict())
        except CacheError:
            continue  # damaged, so no help in explaining what differs
        others.append(f"{header_path.parent.name} ({'; '.join(changes)})")
    hint = f" Prepared with other settings: {', '.join(others)}." if others else ""
    raise CacheError(
        f"The corpus {location.source.folder} is not prepared for these settings.{hint} Run `myxtts prepare`."
    )


def common_voice_rate(rates: np.ndarray) -> int:
    """Hz of the voice that most of the recordings would make (`sample_rate: auto`)."""
    return most_frequent_rate(np.array([voice_rate(rate) for rate in rates.tolist()]))


def most_frequent_rate(rates: np.ndarray) -> int:
    """Hz; of equally frequent rates the lower one, because up-sampling invents nothing."""
    readable = rates[rates > 0]
    if not len(readable):
        raise CorpusError("None of the recordings can be read as audio. Expected: WAV, FLAC, Ogg, Opus or MP3 files.")
    values, counts = np.unique(readable, return_counts=True)
    return int(values[np.argmax(counts)])


def probe_rates(
    source: Source,
    kept_path: Path,
    pool: WorkerPool,
    progress: Progress,
    announce: Callable[[str], None] = ignore_line,
) -> np.ndarray:
    """`RATE` of every utterance; only files that are new or changed, or could not be read before, are opened."""
    keys = _file_keys(source)
    found, is_known, num_kept = _known_rates(keys, kept_path)
    if is_known.all() and num_kept == len(np.unique(keys)):
        return found
    with cache_lock(kept_path.parent, announce):
        found, is_known, num_kept = _known_rates(keys, kept_path)  # another process may have probed them meanwhile
        new = np.flatnonzero(~is_known)
        paths = [str(source.utterances[number].path) for number in new]
        for place, head, _ in pool.run("probe", paths, PROBED_AT_ONCE, "looking at recordings", progress):
            if "rejected" not in head:
                found["samples"][new[place]], found["rate"][new[place]] = head["samples"], head["rate"]
        readable = found[found["rate"] > 0]  # a file that cannot be read today may be readable tomorrow
        kept = readable[np.unique(readable["key"], return_index=True)[1]]
        if len(kept) != num_kept or (found["rate"][new] > 0).any():
            try:
                write_array_atomically(kept_path, kept)
            except OSError as error:
                raise write_error(kept_path.parent, error) from None
    return found


def _known_rates(keys: np.ndarray, kept_path: Path) -> tuple[np.ndarray, np.ndarray, int]:
    """`RATE` of each key as far as it was probed before, which of them were, and how many are kept in the file."""
    found = np.zeros(len(keys), RATE)
    found["key"] = keys
    kept = _read_kept(kept_path)
    if not len(kept):
        return found, np.zeros(len(keys), bool), 0
    places = np.searchsorted(kept["key"], keys).clip(max=len(kept) - 1)
    is_known = (kept["key"][places] == keys) & (kept["rate"][places] > 0)
    found[is_known] = kept[places[is_known]]
    return found, is_known, len(kept)


def _file_keys(source: Source) -> np.ndarray:
    """By the path below the corpus, so that a corpus can be moved together with its cache."""
    beginning = f"{source.folder}{os.sep}"

    def key(path: Path, size: int, mtime_ns: int) -> bytes:
        name = f"{str(path).removeprefix(beginning)}\0{size}\0{mtime_ns}"
        return hashlib.blake2b(os.fsencode(name), digest_size=8).digest()

    paths = [utterance.path for utterance in source.utterances]
    return np.frombuffer(b"".join(map(key, paths, source.sizes.tolist(), source.mtimes_ns.tolist())), "<u8")


def _read_kept(path: Path) -> np.ndarray:
    """What was probed before; a damaged file only costs the probing."""
    try:
        kept = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return np.zeros(0, RATE)
    return kept if kept.dtype == RATE and kept.ndim == 1 else np.zeros(0, RATE)
