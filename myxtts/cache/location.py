"""Where the cache of a corpus is, and the settings that it must have been made with.

The folder is `.myxtts/cache/<fingerprint>` next to the recordings; where that cannot be written, and for the bundled corpus,
below the user's cache folder. Two settings may come from the corpus: the sample rate from the recordings, which are probed once
and whose lengths and rates are kept in `rates.npy` next to the caches; the language from the cache that was prepared last, where
neither metadata nor configuration names one.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError

import numpy as np
import platformdirs

from myxtts.audio.mel import MelSpec, voice_rate
from myxtts.cache.clip_table import load_cache
from myxtts.cache.format import HEADER_NAME, CacheSettings, read_header
from myxtts.cache.writer import cache_lock, write_array_atomically, write_error
from myxtts.config.config import DEFAULT_LANGUAGE, DataConfig
from myxtts.corpus.corpus import Corpus, bundled_corpus
from myxtts.corpus.utterance import Utterance
from myxtts.errors import CacheError, CorpusError
from myxtts.runtime.progress import ProgressCallback, ignore_line
from myxtts.runtime.safe_files import open_regular_file
from myxtts.runtime.workers import WorkerPool
from myxtts.text.tokenizer import FrontEnd

RATES_NAME = "rates.npy"
RATE = np.dtype([("key", "<u8"), ("samples", "<i8"), ("rate", "<i4")])
"""A probed file: hash of its path, size and time; samples per channel; Hz (0: not readable; never kept)."""
PATHS_PER_REQUEST = 64
"""Files probed per message to a worker. Chosen; not measured."""


@dataclass(frozen=True, eq=False)
class CacheLocation:
    """A corpus as it is now, and the cache that belongs to it under a configuration."""

    corpus: Corpus
    settings: CacheSettings
    front_end: FrontEnd
    folder: Path
    """The cache folder: its name is the fingerprint."""
    rates: np.ndarray
    """`RATE` of each utterance of the corpus."""


def locate_cache(
    config: DataConfig,
    corpus: Corpus,
    front_end: FrontEnd,
    pool: WorkerPool,
    progress: ProgressCallback,
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
        trim_noise_db=config.trim_noise_db,
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
            "There is no home folder to store the cache in (HOME is not set). Name a folder for it: "
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
            f"The cache cannot be stored in this folder ({cause}). Received: {str(folder)[:200]!r}. Name another one: "
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


def common_voice_rate(rates: np.ndarray) -> int:
    """Hz of the voice that most of the recordings would make (`sample_rate: auto`)."""
    return most_frequent_rate(np.array([voice_rate(rate) for rate in rates.tolist()]))


def most_frequent_rate(rates: np.ndarray) -> int:
    """Hz; of equally frequent rates the lower one, because up-sampling adds nothing."""
    readable = rates[rates > 0]
    if not len(readable):
        raise CorpusError("None of the recordings can be read as audio. Expected: WAV, FLAC, Ogg, Opus or MP3 files.")
    values, counts = np.unique(readable, return_counts=True)
    return int(values[np.argmax(counts)])


def probe_rates(
    corpus: Corpus,
    kept_path: Path,
    pool: WorkerPool,
    progress: ProgressCallback,
    announce: Callable[[str], None] = ignore_line,
) -> np.ndarray:
    """`RATE` of every utterance; only files that are new or changed, or could not be read before, are opened."""
    keys = _file_keys(corpus)
    found, is_known, num_kept = _known_rates(keys, kept_path)
    if is_known.all() and num_kept == len(np.unique(keys)):
        return found
    with cache_lock(kept_path.parent, announce):
        found, is_known, num_kept = _known_rates(keys, kept_path)  # another process may have probed them meanwhile
        new = np.flatnonzero(~is_known)
        paths = [str(corpus.utterances[clip].path) for clip in new]
        for job, head, _ in pool.run("probe", paths, PATHS_PER_REQUEST, "probing recordings", progress):
            if "rejected" not in head:
                found["samples"][new[job]], found["rate"][new[job]] = head["samples"], head["rate"]
        readable = found[found["rate"] > 0]  # a file that cannot be read today may be readable tomorrow
        kept = readable[np.unique(readable["key"], return_index=True)[1]]
        if len(kept) != num_kept or (found["rate"][new] > 0).any():
            try:
                write_array_atomically(kept_path, kept)
            except OSError as error:
                raise write_error(kept_path.parent, error) from None
    return found


def known_rates(corpus: Corpus, kept_path: Path) -> np.ndarray:
    """`RATE` of every utterance as far as it was probed before; the rate of the others is 0. No recording is opened."""
    return _known_rates(_file_keys(corpus), kept_path)[0]


def _known_rates(keys: np.ndarray, kept_path: Path) -> tuple[np.ndarray, np.ndarray, int]:
    """`RATE` of each key as far as it was probed before, which of them were, and how many are kept in the file."""
    found = np.zeros(len(keys), RATE)
    found["key"] = keys
    kept = _read_kept(kept_path)
    if not len(kept):
        return found, np.zeros(len(keys), bool), 0
    rows = np.searchsorted(kept["key"], keys).clip(max=len(kept) - 1)
    is_known = (kept["key"][rows] == keys) & (kept["rate"][rows] > 0)
    found[is_known] = kept[rows[is_known]]
    return found, is_known, len(kept)


def _file_keys(corpus: Corpus) -> np.ndarray:
    """By the path below the corpus, so that a corpus can be moved together with its cache."""
    beginning = f"{corpus.folder}{os.sep}"

    def key(path: Path, size: int, mtime_ns: int) -> bytes:
        name = f"{str(path).removeprefix(beginning)}\0{size}\0{mtime_ns}"
        return hashlib.blake2b(os.fsencode(name), digest_size=8).digest()

    paths = [utterance.path for utterance in corpus.utterances]
    return np.frombuffer(b"".join(map(key, paths, corpus.sizes.tolist(), corpus.mtimes_ns.tolist())), "<u8")


def _read_kept(path: Path) -> np.ndarray:
    """What was probed before; a damaged file only costs the probing."""
    try:
        with open_regular_file(path) as file:
            kept = np.load(file, allow_pickle=False)
    except (
        OSError,
        ValueError,
        EOFError,
        TypeError,
        SyntaxError,
        TokenError,
        MemoryError,
    ):  # the header is Python code
        return np.zeros(0, RATE)
    return kept if kept.dtype == RATE and kept.ndim == 1 else np.zeros(0, RATE)


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
    if not os.path.isdir(data_folder):  # reading the corpus says why
        return set()
    roots = {root_next_to(data_folder.resolve())} if config.cache_dir is None else set()
    with suppress(CacheError):  # this user has no folder for caches
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
        return {cache.languages[language] for language in np.unique(cache.language_numbers)}
    return set()


def language_notices(prepared_as: Sequence[str], utterances: Sequence[Utterance]) -> tuple[str, ...]:
    """A warning where texts that were prepared in one language are now read in another: a forgotten --language."""
    now = {one.language for one in utterances}
    given_up, new = sorted(set(prepared_as) - now), sorted(now.difference(prepared_as))
    if not given_up or not new:
        return ()
    return (
        f"Warning: this corpus was prepared with texts in {', '.join(given_up)}; they are now read as {', '.join(new)}. "
        f"If that is a mistake, give --language {given_up[0]} (data.language).",
    )
