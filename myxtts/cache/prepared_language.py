"""The language that a corpus was last prepared in, used where neither metadata nor configuration names one."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from myxtts.cache.format import HEADER_NAME, load_cache, read_header
from myxtts.cache.location import cache_root, root_next_to
from myxtts.cache.writer import ignore_line
from myxtts.config.config import DEFAULT_LANGUAGE, DataConfig
from myxtts.corpus.utterance import Utterance
from myxtts.errors import CacheError


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
        f"Warning: this corpus was prepared with texts in {', '.join(given_up)}; now they are read as {', '.join(new)}. "
        f"If that is a mistake, give --language {given_up[0]} (data.language).",
    )
