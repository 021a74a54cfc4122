"""Languages as users write them, in --language flags and in configuration files: names and codes in, codes out."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from myxtts.errors import ConfigError, TextError
from myxtts.text.languages import resolve_language

if TYPE_CHECKING:
    from myxtts.config.config import XTTSConfig


def language_code(name: str) -> str:
    """The code of a language given by code or name; argparse prints what is wrong with it."""
    try:
        return resolve_language(name)
    except TextError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def load_command_config(path: str | Path | None, overrides: Mapping[str, Any]) -> XTTSConfig:
    """The configuration of a command, with `data.language` as a code; an unknown language is a `ConfigError`."""
    from myxtts.config.load import load_config

    config = load_config(path, overrides)
    if config.data.language is None:
        return config
    try:
        code = resolve_language(config.data.language)
    except TextError as error:
        raise ConfigError(f"data.language in {path or 'the configuration'}: {error}") from None
    return dataclasses.replace(config, data=dataclasses.replace(config.data, language=code))
