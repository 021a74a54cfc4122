"""Flags that set fields of the configuration, for every command that takes them.

`FLAGS` names the field of each flag; type, choices, default and help are taken from `myxtts.config.config`. A parsed flag is
stored under the dotted name of its field (`data.batch_size`), so that `config_of` can collect all flags that were given.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from myxtts.config.config import SECTIONS, XTTSConfig, field_descriptions
from myxtts.config.load import load_config
from myxtts.errors import ConfigError, TextError
from myxtts.text.languages import resolve_language

FLAGS = {
    "--train-data": "data.train_data",
    "--val-data": "data.val_data",
    "--language": "data.language",
    "--text-symbols": "data.text_symbols",
    "--lexicon": "data.lexicon",
    "--sample-rate": "data.sample_rate",
    "--n-mels": "data.n_mels",
    "--hop-length": "data.hop_length",
    "--min-seconds": "data.min_seconds",
    "--max-seconds": "data.max_seconds",
    "--max-text-length": "data.max_text_length",
    "--max-mel-frames": "data.max_mel_frames",
    "--cache-dir": "data.cache_dir",
    "--num-workers": "data.num_workers",
    "--batch-size": "data.batch_size",
    "--plan": "data.plan",
    "--prefetch-buffer-size": "data.prefetch_buffer_size",
    "--preprocessing-mode": "data.preprocessing_mode",
    "--model-size": "model.size",
    "--distill-steps": "model.distill_steps",
    "--checkpoint-dir": "training.checkpoint_dir",
    "--epochs": "training.epochs",
    "--max-steps": "training.max_steps",
    "--max-minutes": "training.max_minutes",
    "--optimization-level": "training.optimization_level",
    "--lr": "training.learning_rate",
    "--grad-accum": "training.gradient_accumulation_steps",
    "--seed": "training.seed",
    "--device": "training.device",
    "--init-from": "training.init_from",
    "--evaluation-interval": "training.evaluation_interval",
    "--evaluation-recognizer": "training.evaluation_recognizer",
    "--tensorboard-log-dir": "training.tensorboard_log_dir",
}
"""Flag → field that it sets."""
VOCODER_FLAGS = {
    "--batch-size": "vocoder.batch_size",
    "--checkpoint-dir": "vocoder.checkpoint_dir",
    "--max-steps": "vocoder.max_steps",
    "--adversarial-start": "vocoder.adversarial_start",
    "--lr": "vocoder.learning_rate",
    "--adversarial-lr": "vocoder.adversarial_learning_rate",
    "--init-from": "vocoder.init_from",
    "--mels-of": "vocoder.mels_of",
    **{flag: FLAGS[flag] for flag in (
        "--train-data", "--val-data", "--language", "--text-symbols", "--sample-rate", "--cache-dir", "--num-workers",
        "--max-minutes", "--seed", "--device", "--tensorboard-log-dir",
    )},
}  # fmt: skip
"""Flags of `train-vocoder`: flag → field that it sets."""
CORPUS_FLAGS = (
    "--val-data", "--language", "--text-symbols", "--lexicon", "--sample-rate", "--n-mels", "--hop-length", "--min-seconds",
    "--max-seconds", "--max-text-length", "--max-mel-frames", "--cache-dir", "--num-workers",
)  # fmt: skip
"""Flags of `prepare`, `verify` and `stats`."""
_ONLY_CORPUS = ("--text-symbols", "--lexicon", "--n-mels", "--hop-length", "--min-seconds", "--max-seconds")
TRAINING_FLAGS = tuple(flag for flag in FLAGS if flag not in _ONLY_CORPUS)
"""Flags of `train` and `config`."""
ONLY_WHOLE_RUNS = (
    "--max-minutes", "--enable-evaluation", "--evaluation-interval", "--evaluation-recognizer", "--tensorboard-log-dir"
)  # fmt: skip
"""Flags and switches without an effect on the steps of a trial: `diagnose` and `benchmark` do not have them."""
SWITCHES = {
    "--disable-tf-native-loading": (
        "data.use_tf_native_loading",
        False,
        "load clips one at a time in Python, which is slow",
    ),
    "--disable-gpu-prefetch": ("data.prefetch_to_gpu", False, "copy a batch to the device only when the step needs it"),
    "--disable-cpu-gpu-overlap": ("data.optimize_cpu_gpu_overlap", False, "give the loader no threads of its own"),
    "--enable-eager-debug": (
        "training.enable_eager_debug",
        True,
        "run the steps eagerly with numeric checks, which is slow",
    ),
    "--enable-evaluation": ("training.enable_evaluation", True, "evaluate the voice during training"),
    "--deterministic": ("training.deterministic", True, "make losses bit-identical between runs on the same machine"),
    "--auto-tune": (
        "data.auto_tune_performance",
        True,
        "measure the best loader settings at the start, and with --batch-size auto the best batch size",
    ),
}
"""Switch → field, value that it sets, help. Switches of the same commands as `TRAINING_FLAGS`."""


def add_training_flags(parser: argparse.ArgumentParser, leaving_out: Collection[str] = ()) -> None:
    """Add `--config`, `TRAINING_FLAGS`, `SWITCHES` and the flags for static shapes."""
    _add_flags(parser, [flag for flag in TRAINING_FLAGS if flag not in leaving_out])
    for switch, (field, value, help_line) in SWITCHES.items():
        if switch not in leaving_out:
            parser.add_argument(switch, dest=field, action="store_const", const=value, help=help_line)
    shapes = parser.add_mutually_exclusive_group()
    shapes.add_argument(
        "--enable-static-shapes",
        "--pad-to-fixed-length",
        dest="fixed_shapes",
        action="store_true",
        help="one clip per row, exactly max-text-length symbols and max-mel-frames frames (plan fixed)",
    )
    shapes.add_argument(
        "--disable-static-shapes",
        dest="dynamic_shapes",
        action="store_true",
        help="pad to the longest clip of each batch (plan dynamic)",
    )


def add_vocoder_flags(parser: argparse.ArgumentParser) -> None:
    """Add `--config` and `VOCODER_FLAGS`."""
    _add_flags(parser, VOCODER_FLAGS, VOCODER_FLAGS)


def add_reset_flag(parser: argparse.ArgumentParser) -> None:
    """Add `--reset-training`, which belongs to the command and not to the configuration of a run."""
    parser.add_argument(
        "--reset-training",
        action="store_true",
        help="start again; an earlier run is moved to a subfolder of the checkpoint folder",
    )


def add_corpus_flags(parser: argparse.ArgumentParser) -> None:
    """Add the folder of recordings, `--config` and `CORPUS_FLAGS`."""
    parser.add_argument(
        "data.train_data",
        metavar="DATA",
        nargs="*",
        help="folder of recordings, or several to use together (default: the bundled English prompts)",
    )
    _add_flags(parser, CORPUS_FLAGS)


def config_of(arguments: argparse.Namespace) -> XTTSConfig:
    """The configuration that the file and the flags give; flags take precedence. Language names become codes."""
    config = load_config(arguments.config, overrides_of(arguments))

    def code_of(field: str, language: str | None) -> str | None:
        try:
            return None if language is None else resolve_language(language)
        except TextError as error:
            raise ConfigError(f"{field} in {arguments.config or 'the configuration'}: {error}") from None

    corpora = tuple(
        dataclasses.replace(corpus, language=code_of("data.corpora", corpus.language)) for corpus in config.data.corpora
    )
    language = code_of("data.language", config.data.language)
    return dataclasses.replace(config, data=dataclasses.replace(config.data, language=language, corpora=corpora))


def overrides_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The configuration fields that were given as flags, by dotted name."""
    given = {name: value for name, value in vars(arguments).items() if "." in name and value is not None}
    folders = given.pop("data.train_data", [])
    if len(folders) == 1:
        given |= {"data.train_data": folders[0], "data.corpora": []}
    elif folders:
        given |= {"data.train_data": None, "data.corpora": folders}
    return given | (_plan_of(arguments) if "fixed_shapes" in arguments else {})


def language_code(name: str) -> str:
    """The code of a language given by code or name; argparse prints what is wrong with it."""
    try:
        return resolve_language(name)
    except TextError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _plan_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The plan of the shape flags, which take precedence over the file and must not contradict each other."""
    plan = vars(arguments)["data.plan"]
    requested = {"fixed": arguments.fixed_shapes, "dynamic": arguments.dynamic_shapes, plan: plan is not None}
    plans = [name for name, is_requested in requested.items() if is_requested]
    if len(plans) > 1:
        raise ConfigError(
            f"The flags select two plans: {' and '.join(plans)}. --enable-static-shapes is --plan fixed, "
            "--disable-static-shapes is --plan dynamic. Keep one of them."
        )
    return {"data.plan": plans[0], "data.pad_to_fixed_length": plans[0] == "fixed"} if plans else {}


def _add_flags(parser: argparse.ArgumentParser, flags: Iterable[str], fields: Mapping[str, str] = FLAGS) -> None:
    parser.add_argument("--config", metavar="FILE", help="YAML file such as configs/config.yaml; flags take precedence")
    descriptions, annotations, defaults = {}, {}, {}
    for section, section_type in SECTIONS.items():
        annotations[section] = typing.get_type_hints(section_type, include_extras=True)
        descriptions[section] = field_descriptions(section)
        defaults[section] = {field.name: field.default for field in dataclasses.fields(section_type)}
    for flag in flags:
        section, _, field = fields[flag].partition(".")
        convert, choices = _parsing_of(annotations[section][field])
        parser.add_argument(
            flag,
            nargs="+" if field == "train_data" else None,
            dest=fields[flag],
            metavar=None if choices else flag.removeprefix("--").replace("-", "_").upper(),
            type=language_code if fields[flag] == "data.language" else convert,
            choices=choices,
            help=_help_of(descriptions[section][field], defaults[section][field]),
        )


def _parsing_of(annotation: Any) -> tuple[Callable[[str], Any], tuple[str, ...] | None]:
    """How argparse converts the text of a flag, and the choices if there are only some."""
    words, kinds = _alternatives(annotation)
    if int in kinds and "auto" in words:
        return _int_or_auto, None
    return (kinds[0], None) if kinds else (str, words)


def _alternatives(annotation: Any) -> tuple[tuple[str, ...], tuple[type, ...]]:
    """The words and the types of a union such as `Literal["auto"] | Annotated[int, …] | None`."""
    origin = typing.get_origin(annotation)
    if origin is typing.Literal:
        return typing.get_args(annotation), ()
    if origin is typing.Annotated:
        return _alternatives(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        parts = [_alternatives(part) for part in typing.get_args(annotation)]
        return tuple(word for words, _ in parts for word in words), tuple(kind for _, kinds in parts for kind in kinds)
    return (), () if annotation is type(None) else (annotation,)


def _int_or_auto(text: str) -> int | str:
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number or auto, received {text!r}") from None


def _help_of(description: str, default: Any) -> str:
    """The first sentence of a field's description, and its default: the value, or the sentence that explains null or auto."""
    first, *others = re.split(r"\.\s+(?=[A-Z0-9])", description.rstrip("."))
    if default in (None, "auto"):
        word = "Null: " if default is None else "Auto: "
        default = next((other.removeprefix(word) for other in others if other.startswith(word)), default)
    line = first[0].lower() + first[1:] if first[1:2].islower() else first
    line = line if default is None else f"{line} (default: {default})"
    return re.sub(r" \(docs/[^)]*\)", "", line).replace("%", "%%")
