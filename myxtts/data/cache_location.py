"""Where the cache of a corpus is, and what it must have been made with: configuration + folder in, `CacheLocation` out.

The folder is `.myxtts/cache/<fingerprint>` beside the recordings; where those cannot be written to, and for the bundled corpus,
below the user's cache folder. Lengths and sample rates of the recordings are probed once and kept in `rates.npy`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.audio.mel import MelSpec, voice_rate
from myxtts.config.config import DataConfig
from myxtts.data.cache import HEADER_NAME, Cache, CacheSettings, open_cache, read_header, settings_differences
from myxtts.data.cache_writer import write_array_atomically, write_error
from myxtts.data.corpora import bundled_corpus
from myxtts.data.source import Source, read_source
from myxtts.data.worker_pool import WorkerPool
from myxtts.errors import CacheError, CorpusError
from myxtts.text.tokenizer import FrontEnd, build_front_end

RATES_NAME = "rates.npy"
RATE = np.dtype([("key", "<u8"), ("samples", "<i8"), ("rate", "<i4")])
"""A probed file: hash of its path, size and time; samples per channel; Hz (0: not readable)."""
PROBED_AT_ONCE = 64

Progress = Callable[[str, int, int], None]
"""Called with the stage, what is done and what there is to do."""


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
    """`$XDG_CACHE_HOME/myxtts`, or `~/.cache/myxtts`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "myxtts"


def cache_root(data_folder: Path, config: DataConfig) -> Path:
    """The folder that holds the caches of one corpus, one for each fingerprint."""
    data_folder = data_folder.resolve()
    place = hashlib.blake2b(os.fsencode(data_folder), digest_size=4).hexdigest()
    own = f"{data_folder.name or 'corpus'}-{place}"  # corpora that share a cache folder must not replace each other
    if config.cache_dir is not None:
        return Path(config.cache_dir).expanduser() / own
    if is_bundled(data_folder) or not os.access(data_folder, os.W_OK):
        return user_cache_folder() / own
    return data_folder / ".myxtts" / "cache"


def is_bundled(data_folder: Path) -> bool:
    """Whether these are the prompts of this installation, which may be read-only."""
    try:
        return data_folder.resolve() == bundled_corpus().resolve()
    except CorpusError:  # an installation without them
        return False


def locate_cache(
    config: DataConfig, data_folder: str | Path | None, front_end: FrontEnd, pool: WorkerPool, progress: Progress
) -> CacheLocation:
    """Read the corpus and resolve what is automatic (sample rate, symbols); nothing is prepared yet."""
    source = read_source(config, data_folder)
    root = cache_root(source.folder, config)
    rates = probe_rates(source, root / RATES_NAME, pool, progress)
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
) -> CacheLocation:
    """Where the cache of a corpus is or will be; only recordings that were never looked at are opened."""
    front_end = build_front_end(config.text_symbols, config.lexicon)
    with WorkerPool(worker_setup(config, front_end), worker_count(config, workers)) as pool:
        return locate_cache(config, data_folder, front_end, pool, progress or ignore_progress)


def worker_setup(config: DataConfig, front_end: FrontEnd) -> dict[str, Any]:
    """What every worker of a pool is told first."""
    return {"data": dataclasses.asdict(config), "front_end": front_end.to_dict()}


def worker_count(config: DataConfig, workers: int | None = None) -> int:
    """Processes to use: as asked, as configured, or one for each core that this process may use."""
    if workers is not None:
        return workers
    return config.num_workers if config.num_workers != "auto" else len(os.sched_getaffinity(0))


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


def probe_rates(source: Source, kept_path: Path, pool: WorkerPool, progress: Progress) -> np.ndarray:
    """`RATE` of every utterance; only files that are new or changed are opened."""
    found = np.zeros(len(source.utterances), RATE)
    found["key"] = _file_keys(source)
    known = _read_kept(kept_path)
    places = np.searchsorted(known["key"], found["key"]).clip(max=max(0, len(known) - 1))
    is_known = known["key"][places] == found["key"] if len(known) else np.zeros(len(found), bool)
    found[is_known] = known[places[is_known]]
    new = np.flatnonzero(~is_known)
    paths = [str(source.utterances[number].path) for number in new]
    for done, (place, head, _) in enumerate(pool.run("probe", paths, PROBED_AT_ONCE) if paths else (), 1):
        if "rejected" not in head:
            found["samples"][new[place]], found["rate"][new[place]] = head["samples"], head["rate"]
        progress("looking at recordings", done, len(paths))
    if len(new) or len(known) != len(np.unique(found["key"])):
        try:
            kept_path.parent.mkdir(parents=True, exist_ok=True)
            write_array_atomically(kept_path, found[np.unique(found["key"], return_index=True)[1]])
        except OSError as error:
            raise write_error(kept_path.parent, error) from None
    return found


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
