"""Read a configuration from a YAML file and overrides, or raise one error that lists every problem."""

from __future__ import annotations

import dataclasses
import difflib
import re
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from myxtts.config.config import (
    SECTIONS,
    CorpusConfig,
    DataConfig,
    XTTSConfig,
    corpus_name,
    frame_contradictions,
)
from myxtts.errors import ConfigError
from myxtts.runtime.safe_files import read_regular_file

LARGEST_FILE_BYTES = 1 << 20
"""configs/config.yaml, with every field and its description, has 20 kB."""
MOST_VALUES = 10_000
"""Keys and values of one file. A full configuration has about 200; PyYAML reads about 20,000 per second."""
DEEPEST_LEVEL = 8
"""A configuration has three levels: sections, fields, and lists in some fields."""
LONGEST_INTEGER = 100
"""Digits of an integer; Python itself refuses to print or parse integers of more than 4,300."""
SHOWN_PROBLEMS = 20
"""Problems that one message shows; the rest is counted."""
LONGEST_NAME = 80
"""Characters of an unknown name that are shown and compared with the known ones."""


class _Loader(yaml.SafeLoader):
    """The part of YAML that a configuration needs, with limits; and `1e-4` is a number, which PyYAML reads as text.

    Explicit tags are rejected, and so are aliases of lists and sections, by which a small file can expand to billions of values.
    """

    def __init__(self, text: str):
        super().__init__(text)
        self._level = 0
        self._num_values = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()
        if getattr(event, "tag", None) is not None:
            raise yaml.MarkedYAMLError(
                problem=f"the tag {event.tag!r:.60} is not supported", problem_mark=event.start_mark
            )
        self._num_values += 1
        if self._num_values > MOST_VALUES:
            raise yaml.YAMLError(
                f"it has more than {MOST_VALUES:,} keys and values; a full configuration has about 200"
            )
        if self._level > DEEPEST_LEVEL:
            raise yaml.MarkedYAMLError(
                problem=f"it is nested more than {DEEPEST_LEVEL} levels deep", problem_mark=event.start_mark
            )
        self._level += 1
        node = super().compose_node(parent, index)
        self._level -= 1
        if isinstance(event, yaml.AliasEvent) and not isinstance(node, yaml.ScalarNode):
            raise yaml.MarkedYAMLError(
                problem=f"the alias *{event.anchor:.60} stands for a list or section; write its values out",
                problem_mark=event.start_mark,
            )
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:  # PyYAML would drop the first value, or the whole first section
                raise yaml.MarkedYAMLError(
                    problem=f"{key.value!r:.80} is there twice; put both together", problem_mark=key.start_mark
                )
            if isinstance(key, yaml.ScalarNode):
                seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        if len(node.value) > LONGEST_INTEGER:
            raise yaml.MarkedYAMLError(
                problem=f"an integer of {len(node.value):,} characters; expected at most {LONGEST_INTEGER}",
                problem_mark=node.start_mark,
            )
        return super().construct_yaml_int(node)


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
# No field is a date: `2020-13-45` is text, and must not raise because there is no such date.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)([eE][-+]?\d+)$"),
    list("-+.0123456789"),
)


def load_config(path: str | Path | None = None, overrides: Mapping[str, Any] | None = None) -> XTTSConfig:
    """The configuration of a run. `overrides` maps dotted names (`data.batch_size`) to values that replace those of the file."""
    sections = _read_yaml(Path(path)) if path is not None else {}
    for name, value in (overrides or {}).items():
        section, _, field = name.partition(".")
        values = sections.setdefault(section, {})
        if isinstance(values, dict):  # anything else is reported by `parse_config`
            values[field] = value
    return parse_config(sections, source=str(path) if path is not None else "the configuration")


def parse_config(sections: Mapping[str, Any], source: str = "the configuration") -> XTTSConfig:
    """A configuration from plain dicts, as read from YAML or JSON; raises ConfigError with all problems."""
    problems: list[_Problem] = []
    parsed = {}
    for name, values in sections.items():
        if name not in SECTIONS:
            problems.append(_Unknown("", name))
        elif not isinstance(values, Mapping):
            problems.append(f"{name}: must be a section of `key: value` lines. Received: {_shortened(values)}.")
        elif wrong_keys := [key for key in values if not isinstance(key, str)]:
            problems += [
                f"{name}: keys must be names of fields. Received: {_shortened(key)} ({type(key).__name__})."
                for key in wrong_keys
            ]
        else:
            try:
                parsed[name] = SECTIONS[name](**values)
            except ValidationError as error:
                problems += _explain(name, error)
    config = XTTSConfig(**parsed)
    problems += _contradictions(config)
    if problems:
        raise ConfigError(_listing(source, problems))
    return config


def _contradictions(config: XTTSConfig) -> list[str]:
    """One sentence for each contradiction between settings."""
    data, training = config.data, config.training
    found = [
        f"{section}.{name} contains a NUL character, which no file name can have. Remove it."
        for section in SECTIONS
        for name, value in dataclasses.asdict(getattr(config, section)).items()
        if isinstance(value, str) and "\0" in value
    ]
    found += _corpora_contradictions(data)
    found += frame_contradictions(data.n_fft, data.win_length, data.hop_length)
    if data.sample_rate != "auto" and data.mel_f_max is not None and data.mel_f_max > data.sample_rate / 2:
        found.append(
            f"data.mel_f_max ({data.mel_f_max:g} Hz) is above half of data.sample_rate ({data.sample_rate} Hz). "
            f"Try {data.sample_rate / 2:g} or null."
        )
    if data.mel_f_max is not None and data.mel_f_min >= data.mel_f_max:
        found.append(f"data.mel_f_min ({data.mel_f_min:g}) must be below data.mel_f_max ({data.mel_f_max:g}).")
    if data.min_seconds >= data.max_seconds:
        found.append(
            f"data.min_seconds ({data.min_seconds:g}) must be less than data.max_seconds ({data.max_seconds:g})."
        )
    if data.pad_to_fixed_length and data.plan not in ("auto", "fixed"):
        found.append(
            f"data.pad_to_fixed_length: true is the plan 'fixed', but data.plan is '{data.plan}'. Set one of the two."
        )
    if data.preprocessing_mode == "runtime" and data.plan in ("buckets", "packed"):
        found.append(
            f"data.plan '{data.plan}' needs the length of every clip in advance, but data.preprocessing_mode: runtime reads it "
            "during training. Use preprocessing_mode: precompute, or plan: fixed or dynamic."
        )
    if not data.use_tf_native_loading and data.preprocessing_mode == "runtime":
        found.append(
            "data.preprocessing_mode: runtime decodes with TensorFlow, but data.use_tf_native_loading is false. "
            "Set one of the two."
        )
    if config.model.distill_steps is not None and training.init_from is None:
        found.append(
            "model.distill_steps shortens the sampler of a trained voice, but training.init_from names none. Give --init-from."
        )
    if training.enable_eager_debug and training.enable_xla_compilation is True:
        found.append(
            "training.enable_eager_debug compiles nothing, but training.enable_xla_compilation is true. Set one of the two."
        )
    if not training.enable_graph_mode and training.enable_xla_compilation is True:
        found.append(
            "training.enable_graph_mode: false compiles nothing, but training.enable_xla_compilation is true. Set one of the two."
        )
    return found


def _corpora_contradictions(data: DataConfig) -> list[str]:
    found = []
    names = [corpus_name(corpus) for corpus in data.corpora]
    if data.corpora and data.train_data is not None:
        found.append("data.train_data and data.corpora are both set. Set one of the two.")
    if doubles := sorted({name for name in names if names.count(name) > 1}):
        found.append(f"Two of data.corpora have the name {doubles[0]!r}. Give them different names (name: …).")
    if any("\0" in corpus.folder for corpus in data.corpora):
        found.append("data.corpora: a folder contains a NUL character, which no file name can have. Remove it.")
    is_joint = bool(data.corpora or data.held_out_speakers)
    if data.corpora and data.val_data is not None:
        found.append(
            "data.val_data works with data.train_data only. With data.corpora, use a metadata_eval.csv in each corpus."
        )
    if is_joint and data.preprocessing_mode == "runtime":
        found.append(
            "data.corpora and data.held_out_speakers need the cache, but data.preprocessing_mode is runtime. Use precompute."
        )
    if is_joint and not data.use_tf_native_loading:
        found.append("data.corpora and data.held_out_speakers need data.use_tf_native_loading: true.")
    is_balanced = data.balance != 1 or any(corpus.weight != 1 for corpus in data.corpora)
    if is_balanced and data.plan in ("buckets", "dynamic"):
        found.append(
            f"data.balance and the weights of data.corpora need the plan packed or fixed, but data.plan is '{data.plan}'."
        )
    return found


def config_to_dict(config: XTTSConfig) -> dict[str, Any]:
    """Plain dicts from which `parse_config` makes an equal configuration."""
    return {
        section: {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}
        for section, settings in dataclasses.asdict(config).items()
    }


@dataclasses.dataclass(frozen=True)
class _Unknown:
    """A name that does not exist; the most similar known name is searched for only if the problem is shown."""

    section: str
    """Empty for the name of a section."""
    name: str
    entry: str = ""
    """The entry of a list that it is in, such as `corpora[2]`."""

    def __str__(self) -> str:
        name = self.name[:LONGEST_NAME]
        if self.entry:
            known = [one.name for one in dataclasses.fields(CorpusConfig)]
            return f"{self.section}.{self.entry}.{name}: unknown name.{_nearest_of(name, known)}"
        if not self.section:
            return f"{name}: unknown section.{_nearest(name, SECTIONS)}"
        return f"{self.section}.{name}: unknown name.{_nearest(name, _field_names(self.section), self.section)}"


_Problem = str | _Unknown


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        text = read_regular_file(path, LARGEST_FILE_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(
            f"The configuration file cannot be read. Received: {path} ({error.strerror}). "
            "Expected: a YAML file such as configs/config.yaml."
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(f"The configuration file {path} is not UTF-8 text. Save it as UTF-8.") from None
    try:
        content = _Loader(text).get_single_data()
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # the last two: numbers out of Python's range
        raise ConfigError(f"{path} is not a valid configuration: {' '.join(str(error).split()):.400}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(
            f"{path} must contain the sections {', '.join(SECTIONS)}. Received: {type(content).__name__}."
        )
    return {str(name): {} if values is None else values for name, values in content.items()}


def _explain(section: str, error: ValidationError) -> list[_Problem]:
    """One problem per field; the alternatives of a union (`auto` or a number) are joined."""
    messages: dict[str, list[str]] = {}
    received: dict[str, Any] = {}
    unknown: list[_Problem] = []
    for problem in error.errors():
        field, *inside = (str(part) for part in problem["loc"])
        if problem["type"] == "unexpected_keyword_argument":
            *entry, name = inside or [field]
            unknown.append(_Unknown(section, name, _place_in_list(field, entry) if entry else ""))
            continue
        if inside and inside[0].isdigit():
            field = _place_in_list(field, inside)
        received[field] = problem["input"]
        message = (
            problem["msg"]
            .replace("Field required", "given")
            .removeprefix("Input should be ")
            .replace("String should have", "a text of")
        )
        messages.setdefault(field, []).append(message)
    return unknown + [
        f"{section}.{field}: must be {' or '.join(parts)}. Received: {_shortened(received[field])}."
        for field, parts in messages.items()
    ]


def _place_in_list(field: str, inside: list[str]) -> str:
    """`corpora[2].weight` of a problem in an entry of a list; entries are counted from 1."""
    return ".".join([f"{field}[{int(inside[0]) + 1}]", *inside[1:]])


def _field_names(section: str) -> list[str]:
    return [field.name for field in dataclasses.fields(SECTIONS[section])]


def _nearest(name: str, known: Iterable[str], section: str | None = None) -> str:
    elsewhere = [other for other in SECTIONS if other != section and name in _field_names(other)]
    if elsewhere:
        return f" Did you mean {elsewhere[0]}.{name}?"
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    if close:
        return f" Did you mean {section}.{close[0]}?" if section else f" Did you mean {close[0]}?"
    return " `myxtts config` prints all names." if section else f" Known sections: {', '.join(known)}."


def _nearest_of(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f" Did you mean {close[0]}?" if close else f" Expected: {', '.join(known)}."


def _shortened(value: Any) -> str:
    """A received value on one short line, however large it is."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = LONGEST_NAME
    return short.repr(value)


def _listing(source: str, problems: list[_Problem]) -> str:
    unique = list(dict.fromkeys(problems))
    count = "1 problem" if len(unique) == 1 else f"{len(unique):,} problems"
    lines = [f"{count} in {source}:", *(f"  - {problem}" for problem in unique[:SHOWN_PROBLEMS])]
    if len(unique) > SHOWN_PROBLEMS:
        lines.append(f"  and {len(unique) - SHOWN_PROBLEMS:,} more")
    return "\n".join(lines)
