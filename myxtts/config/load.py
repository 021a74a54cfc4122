"""Read a configuration: YAML file + overrides → `XTTSConfig`, or one error that lists everything that is wrong."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from myxtts.config.config import XTTSConfig, contradictions
from myxtts.errors import ConfigError

SECTIONS = {field.name: field.default_factory for field in dataclasses.fields(XTTSConfig)}


class _Loader(yaml.SafeLoader):
    """YAML with every usual way of writing a number; PyYAML alone takes `1e-4` for text."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)([eE][-+]?\d+)$"),
    list("-+.0123456789"),
)


def load_config(path: str | Path | None = None, overrides: Mapping[str, Any] | None = None) -> XTTSConfig:
    """The configuration of a run. `overrides` are dotted names (`data.batch_size`) with their values; they win over the file."""
    sections = _read_yaml(Path(path)) if path is not None else {}
    for name, value in (overrides or {}).items():
        section, _, field = name.partition(".")
        sections.setdefault(section, {})[field] = value
    return parse_config(sections, source=str(path) if path is not None else "the configuration")


def parse_config(sections: Mapping[str, Any], source: str = "the configuration") -> XTTSConfig:
    """A configuration from plain dicts, as read from YAML or JSON."""
    problems, parsed = [], {}
    for name, values in sections.items():
        if name not in SECTIONS:
            problems.append(f"{name}: unknown section.{_nearest(name, SECTIONS)}")
        elif not isinstance(values, Mapping):
            problems.append(f"{name}: must be a section of `key: value` lines. Received: {values!r}.")
        else:
            try:
                parsed[name] = SECTIONS[name](**values)
            except ValidationError as error:
                problems += _explain(name, error)
    config = XTTSConfig(**parsed)
    problems += contradictions(config)
    if problems:
        raise ConfigError(_listing(source, problems))
    return config


def config_to_dict(config: XTTSConfig) -> dict[str, Any]:
    """Plain dicts that `parse_config` reads back to an equal configuration."""
    return dataclasses.asdict(config)


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(
            f"The configuration file cannot be read. Received: {path} ({error.strerror}). "
            "Expected: a YAML file such as configs/config.yaml."
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(f"The configuration file {path} is not UTF-8 text. Save it as UTF-8.") from None
    try:
        content = _Loader(text).get_single_data()
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(
            f"{path} must hold the sections data, model and training. Received: {type(content).__name__}."
        )
    return {str(name): {} if values is None else values for name, values in content.items()}


def _explain(section: str, error: ValidationError) -> list[str]:
    """One sentence for each field; the alternatives of a union (`auto` or a number) are joined."""
    messages: dict[str, list[str]] = {}
    received: dict[str, Any] = {}
    for problem in error.errors():
        field = str(problem["loc"][0])
        received[field] = problem["input"]
        message = problem["msg"].removeprefix("Input should be ").replace("String should have", "a text of")
        messages.setdefault(field, []).append(message)
        if problem["type"] == "unexpected_keyword_argument":
            messages[field] = [f"unknown name.{_nearest(field, _field_names(section), section)}"]
    return [
        f"{section}.{field}: {parts[0]}"
        if parts[0].startswith("unknown name")
        else f"{section}.{field}: must be {' or '.join(parts)}. Received: {received[field]!r}."
        for field, parts in messages.items()
    ]


def _field_names(section: str) -> list[str]:
    return [field.name for field in dataclasses.fields(SECTIONS[section])]


def _nearest(name: str, known: Iterable[str], section: str | None = None) -> str:
    elsewhere = [other for other in SECTIONS if other != section and name in _field_names(other)]
    if elsewhere:
        return f" Did you mean {elsewhere[0]}.{name}?"
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    if close:
        return f" Did you mean {section}.{close[0]}?" if section else f" Did you mean {close[0]}?"
    return f" Known names: {', '.join(known)}."


def _listing(source: str, problems: list[str]) -> str:
    unique = list(dict.fromkeys(problems))
    count = "1 problem" if len(unique) == 1 else f"{len(unique)} problems"
    return "\n".join([f"{count} in {source}:", *(f"  - {problem}" for problem in unique)])
