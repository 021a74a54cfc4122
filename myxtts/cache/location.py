"""Where the cache of a corpus is, and the settings that it must have been made with.

The folder is `.myxtts/cache/<fingerprint>` next to the recordings; where that cannot be written, and for the bundled corpus,
below the user's cache folder.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import platformdirs

from myxtts.audio.mel import MelSpec
from myxtts.cache.format import HEADER_NAME, CacheSettings
from myxtts.cache.probing import RATES_NAME, common_voice_rate, known_rates, probe_rates
from myxtts.cache.writer import ignore_line
from myxtts.config.config import DataConfig
from myxtts.corpus.corpus import Corpus
from myxtts.corpus.recipes import bundled_corpus
from myxtts.errors import CacheError, CorpusError
from myxtts.runtime.workers import Progress, WorkerPool
from myxtts.text.tokenizer import FrontEnd


@dataclass(frozen=True, eq=False)
class CacheLocation:
    """A corpus as it is now, and the cache that belongs to it under a configuration."""

    corpus: Corpus
    settings: CacheSettings
    front_end: FrontEnd
    folder: Path
    """The cache folder: its name is the fingerprint."""
    rates: np.ndarray
    """`myxtts.cache.probing.RATE` of each utterance of the corpus."""


def locate_cache(
    config: DataConfig,
    corpus: Corpus,
    front_end: FrontEnd,
    pool: WorkerPool,
    progress: Progress,
    announce: Callable[[str], None] = ignore_line,
) -> CacheLocation:
    """The cache of a corpus, whether it exists or not; recordings that were never probed are, for `sample_rate: auto`."""
    root = cache_root(corpus.folder, config)
    return _location(config, corpus, front_end, root, probe_rates(corpus, root / RATES_NAME, pool, progress, announce))


def locate_shared_cache(config: DataConfig, corpus: Corpus, front_end: FrontEnd) -> CacheLocation | None:
    """A published cache next to recordings that this user may not write, made by another user; None if there is none.

    It can only be used as it is, so the caller checks that it is up to date. Recordings that were never probed are not opened.
    """
    root = root_next_to(corpus.folder)
    if config.cache_dir is not None or is_bundled(corpus.folder) or not os.path.isdir(root) or can_be_written(root):
        return None
    rates = known_rates(corpus, root / RATES_NAME)
    if not (rates["rate"] > 0).any():
        return None
    location = _location(config, corpus, front_end, root, rates)
    return location if (location.folder / HEADER_NAME).is_file() else None


def _location(config: DataConfig, corpus: Corpus, front_end: FrontEnd, root: Path, rates: np.ndarray) -> CacheLocation:
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
    return CacheLocation(corpus, settings, front_end, root / settings.fingerprint, rates)


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
    path_hash = hashlib.blake2b(os.fsencode(data_folder), digest_size=4).hexdigest()
    own = f"{data_folder.name or 'corpus'}-{path_hash}"  # corpora that share a cache folder must not replace each other
    if config.cache_dir is not None:
        folder = Path(os.path.expanduser(config.cache_dir))
        _check_name(folder)
        return folder / own
    next_to_recordings = root_next_to(data_folder)
    if is_bundled(data_folder) or not can_be_written(next_to_recordings):
        return user_cache_folder() / own
    return next_to_recordings


def joint_root(data_folder: Path, config: DataConfig) -> Path:
    """The folder that holds the joint caches (`myxtts.cache.joint`) whose first corpus is in `data_folder`."""
    return cache_root(data_folder, config).parent / "joint"


def _check_name(folder: Path) -> None:
    """Raise `CacheError` for a name that no folder can have: too long, or with a NUL character."""
    try:
        folder.stat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass  # making it reports what is wrong
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) else str(error)
        raise CacheError(
            f"No cache can be kept in such a folder ({cause}). Received: {str(folder)[:200]!r}. Name another one: "
            "--cache-dir FOLDER, or data.cache_dir in the configuration file."
        ) from None


def root_next_to(data_folder: Path) -> Path:
    """Where the caches of a corpus are by default."""
    return data_folder / ".myxtts" / "cache"


def can_be_written(folder: Path) -> bool:
    """Whether this user may write into a folder, or make it."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return os.access(folder, os.W_OK)


def is_bundled(data_folder: Path) -> bool:
    """Whether these are the bundled prompts, whose folder may be read-only."""
    try:
        return data_folder.resolve() == bundled_corpus().resolve()
    except CorpusError:  # an installation without them
        return False
