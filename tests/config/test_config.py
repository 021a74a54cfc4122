"""The configuration: strict, complete, and without TensorFlow."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

from myxtts.config.config import XTTSConfig
from myxtts.config.load import config_to_dict, load_config, parse_config
from myxtts.config.yaml_file import render_config_yaml
from myxtts.errors import ConfigError

CONFIG_FILE = Path(__file__).parents[2] / "configs" / "config.yaml"


def write(folder: Path, text: str) -> Path:
    path = folder / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_shipped_file_holds_every_key_with_its_default():
    assert CONFIG_FILE.read_text(encoding="utf-8") == render_config_yaml()
    assert load_config(CONFIG_FILE) == XTTSConfig()


def test_every_shipped_file_can_be_read():
    for path in CONFIG_FILE.parent.glob("*.yaml"):
        load_config(path)


def test_importing_the_configuration_does_not_load_tensorflow():
    code = "import sys, myxtts.config.config, myxtts.config.load; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_unknown_key_is_refused_with_the_nearest_name(tmp_path):
    with pytest.raises(ConfigError, match=r"data\.batch_siz: unknown name\. Did you mean data\.batch_size\?"):
        load_config(write(tmp_path, "data:\n  batch_siz: 3\n"))


def test_a_key_of_another_section_is_named_with_its_section(tmp_path):
    with pytest.raises(ConfigError, match=r"training\.batch_size: unknown name\. Did you mean data\.batch_size\?"):
        load_config(write(tmp_path, "training:\n  batch_size: 3\n"))


def test_all_problems_are_listed_in_one_error(tmp_path):
    text = "data:\n  n_mels: eighty\n  max_mel_frames: -3\n  hop_length: 2048\ntraining:\n  seed: -1\nfoo: 1\n"
    with pytest.raises(ConfigError) as caught:
        load_config(write(tmp_path, text))
    message = str(caught.value)
    assert message.startswith("4 problems in")
    assert all(name in message for name in ("data.n_mels", "data.max_mel_frames", "training.seed", "foo"))


def test_contradictory_values_are_all_listed(tmp_path):
    text = "data:\n  win_length: 1024\n  hop_length: 2048\n  pad_to_fixed_length: true\n  plan: packed\n  min_seconds: 40.0\n"
    with pytest.raises(ConfigError, match="3 problems"):
        load_config(write(tmp_path, text))


def test_a_nul_character_in_a_name_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"data\.cache_dir contains a NUL character"):
        load_config(write(tmp_path, 'data:\n  cache_dir: "a\\0b"\n'))


def test_a_hop_too_small_for_a_voice_is_told_before_training(tmp_path):
    with pytest.raises(ConfigError, match=r"hop_length.*64th of data\.n_fft"):
        load_config(write(tmp_path, "data:\n  n_fft: 4096\n  hop_length: 32\n"))


@pytest.mark.parametrize("written", ["1e-4", "1.0e-4", "1E-04", "0.0001", "+1e-4", ".1e-3"])
def test_every_way_of_writing_a_number_is_a_number(tmp_path, written):
    assert load_config(write(tmp_path, f"training:\n  learning_rate: {written}\n")).training.learning_rate == 1e-4


@pytest.mark.parametrize("written", ["true", "'16'", "16.0", "[16]"])
def test_a_wrong_type_is_refused_not_converted(tmp_path, written):
    with pytest.raises(ConfigError, match=r"data\.num_buckets"):
        load_config(write(tmp_path, f"data:\n  num_buckets: {written}\n"))


def test_flags_win_over_the_file(tmp_path):
    path = write(tmp_path, "data:\n  batch_size: 8\n  n_mels: 40\n")
    config = load_config(path, {"data.batch_size": 4})
    assert (config.data.batch_size, config.data.n_mels) == (4, 40)


def test_a_saved_configuration_reads_back_equal():
    config = parse_config({"data": {"batch_size": "auto"}, "training": {"enable_xla_compilation": True}})
    assert parse_config(config_to_dict(config)) == config


def test_a_configuration_cannot_be_changed_afterwards():
    with pytest.raises(dataclasses.FrozenInstanceError):
        XTTSConfig().data.batch_size = 3


@pytest.mark.parametrize("content", ["- a\n- b\n", "data: [1, 2]\n", "data: {a: [}\n", "just text"])
def test_a_file_that_is_no_configuration_is_one_clear_error(tmp_path, content):
    with pytest.raises(ConfigError):
        load_config(write(tmp_path, content))


def test_a_missing_file_is_one_clear_error(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "nothing.yaml")


@pytest.mark.parametrize("device", ["auto", "cpu", "gpu", "gpu:3"])
def test_devices_are_named_as_documented(device):
    assert parse_config({"training": {"device": device}}).training.device == device


@pytest.mark.parametrize(
    ("section", "field", "value", "expected"),
    [
        ("training", "device", "tpu", r"must be auto, cpu, gpu or gpu:N\. Received: 'tpu'\."),
        ("data", "language", "e", r"must be a text of at least 2 characters\. Received: 'e'\."),
        ("data", "num_workers", 99999, r"must be 'auto' or less than or equal to 256\. Received: 99999\."),
        ("data", "gap_tokens", 0, r"must be greater than or equal to 1\. Received: 0\."),
    ],
)
def test_a_value_out_of_range_is_told_with_what_is_expected(section, field, value, expected):
    with pytest.raises(ConfigError, match=rf"{section}\.{field}: {expected}"):
        parse_config({section: {field: value}})


def refusal(path: Path) -> str:
    """The message for a file that is no configuration: short, whatever the file holds."""
    with pytest.raises(ConfigError) as caught:
        load_config(path, {"data.batch_size": 4})
    message = str(caught.value)
    assert len(message) < 6000
    assert len(message.splitlines()) <= 22
    return message


@pytest.mark.parametrize("key", ["1", "null", "yes", "1.5"])
def test_a_key_that_is_not_a_name_is_refused(tmp_path, key):
    assert "data: keys must be names of fields. Received: " in refusal(write(tmp_path, f"data:\n  {key}: 3\n"))
    assert "unknown section" in refusal(write(tmp_path, f"{key}: 3\n"))


def test_a_date_is_a_value_of_the_wrong_type(tmp_path):
    message = refusal(write(tmp_path, "data:\n  n_mels: 2020-13-45\n"))
    assert "data.n_mels: must be a valid integer. Received: '2020-13-45'." in message


@pytest.mark.parametrize("number", ["1" * 5000, "0x" + "f" * 5000, "-" + "9" * 200])
def test_an_integer_of_thousands_of_digits_is_refused_by_its_length(tmp_path, number):
    assert "characters; expected at most 100" in refusal(write(tmp_path, f"training:\n  seed: {number}\n"))


@pytest.mark.parametrize(
    "text", ["[" * 3000, "{a: " * 3000, "".join(" " * n + "a:\n" for n in range(200)), "- " * 3000]
)
def test_deep_nesting_is_refused_by_its_depth(tmp_path, text):
    assert "nested more than 8 levels" in refusal(
        write(tmp_path, f"data:\n  n_mels: {text}" if text[0] == "[" else text)
    )


@pytest.mark.parametrize("place", ["foo", "data", "data:\n  n_mels", "data:\n  foo"])
def test_an_alias_of_a_list_is_refused_so_that_a_small_file_stays_small(tmp_path, place):
    lists = ["a0: &a0 [1, 1]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    message = refusal(write(tmp_path, "\n".join([*lists, f"{place}: *a11\n"])))
    assert "the alias *a0 stands for a list or section; write its values out" in message


def test_an_alias_of_one_value_is_that_value(tmp_path):
    path = write(tmp_path, "data:\n  batch_size: &size 8\ntraining:\n  gradient_accumulation_steps: *size\n")
    assert load_config(path).training.gradient_accumulation_steps == 8


def test_a_list_that_contains_itself_is_refused(tmp_path):
    assert "the alias *a" in refusal(write(tmp_path, "data: &a\n  n_mels: [*a]\n"))


@pytest.mark.parametrize("tagged", ["!!timestamp x", "!!bool x", "!!int ''", "!!python/object:os.system x", "!x y"])
def test_tags_are_refused(tmp_path, tagged):
    assert "is not supported" in refusal(write(tmp_path, f"data:\n  n_mels: {tagged}\n"))


def test_of_many_unknown_names_the_first_are_listed(tmp_path):
    message = refusal(write(tmp_path, "data:\n" + "".join(f"  unknown{n}: 1\n" for n in range(4000))))
    assert message.startswith("4,000 problems in")
    assert message.endswith("and 3,980 more")


def test_a_file_of_50000_names_is_refused_before_it_is_read_whole(tmp_path):
    message = refusal(write(tmp_path, "data:\n" + "".join(f"  unknown{n}: 1\n" for n in range(50_000))))
    assert "more than 10,000 keys and values" in message


def test_long_names_and_values_are_shortened(tmp_path):
    names = f"? {'x' * 200_000}\n: 1\ndata:\n  ? {'y' * 200_000}\n  : 1\n  language: {'z' * 200_000}\n"
    refusal(write(tmp_path, names))


def test_a_section_that_is_a_value_is_reported_also_when_flags_are_given(tmp_path):
    assert "data: must be a section of `key: value` lines. Received: [1, 2]." in refusal(
        write(tmp_path, "data: [1, 2]\n")
    )


def test_pipes_and_devices_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "it is a pipe, not a regular file" in refusal(tmp_path / "pipe")
    assert "it is a device, not a regular file" in refusal(Path("/dev/zero"))


def test_an_enormous_file_is_not_read(tmp_path):
    path = tmp_path / "config.yaml"
    with path.open("wb") as file:
        file.truncate(1 << 33)  # sparse
    assert "it is larger than 1 MiB" in refusal(path)


def test_a_file_name_with_a_nul_character_is_refused():
    assert "NUL" in refusal(Path("a\0b"))


FLOATS = [
    (section.name, field.name)
    for section in dataclasses.fields(XTTSConfig)
    for field in dataclasses.fields(section.default_factory)
    if "float" in str(field.type) or "Float" in str(field.type) or "Fraction" in str(field.type)
]


def test_every_float_is_checked():
    assert {("data", "mel_f_min"), ("data", "log_floor"), ("training", "learning_rate")} < set(FLOATS)


@pytest.mark.parametrize("written", [".inf", "-.inf", ".nan", "1e400"])
@pytest.mark.parametrize(("section", "field"), FLOATS)
def test_a_float_that_is_not_finite_is_refused(tmp_path, section, field, written):
    with pytest.raises(ConfigError, match=rf"{section}\.{field}: must be"):
        load_config(write(tmp_path, f"{section}:\n  {field}: {written}\n"))


@pytest.mark.parametrize("seed", [2**31, 2**63, 2**200])
def test_a_seed_that_random_generators_cannot_take_is_refused(seed):
    with pytest.raises(ConfigError, match=r"training\.seed: must be less than or equal to 2147483647\."):
        parse_config({"training": {"seed": seed}})


def test_the_largest_seed_orders_clips():
    from myxtts.batches.order import shuffled

    seed = parse_config({"training": {"seed": 2**31 - 1}}).training.seed
    assert sorted(shuffled(5, seed, 0).tolist()) == [0, 1, 2, 3, 4]
