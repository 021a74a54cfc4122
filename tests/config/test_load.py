"""Reading a configuration: everything that is wrong is one short ConfigError, whatever the file contains."""

import os
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from myxtts.config.config import SECTIONS
from myxtts.config.load import config_to_dict, load_config, parse_config
from myxtts.errors import ConfigError

FIELD_NAMES = sorted({name for section in SECTIONS.values() for name in section.__dataclass_fields__})


def write(folder: Path, text: str) -> Path:
    path = folder / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_an_unknown_key_is_rejected_with_the_nearest_name(tmp_path):
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


@pytest.mark.parametrize("name", ["data.train_data", "data.val_data", "data.cache_dir", "training.checkpoint_dir"])
def test_an_empty_name_is_not_the_current_folder(name):
    with pytest.raises(ConfigError, match=rf"{name}: must be a text of at least 1 character\. Received: ''\."):
        load_config(overrides={name: ""})


@pytest.mark.parametrize(
    "text", ["data: {n_mels: 80}\nmodel: {}\ndata: {batch_size: 8}\n", "data:\n  n_mels: 80\n  n_mels: 40\n"]
)
def test_a_section_or_field_that_is_there_twice_is_rejected(tmp_path, text):
    with pytest.raises(ConfigError, match="is there twice"):
        load_config(write(tmp_path, text))


def test_a_nul_character_in_a_name_is_rejected(tmp_path):
    with pytest.raises(ConfigError, match=r"data\.cache_dir contains a NUL character"):
        load_config(write(tmp_path, 'data:\n  cache_dir: "a\\0b"\n'))


@pytest.mark.parametrize("written", ["1e-4", "1.0e-4", "1E-04", "0.0001", "+1e-4", ".1e-3"])
def test_every_way_of_writing_a_number_is_a_number(tmp_path, written):
    assert load_config(write(tmp_path, f"training:\n  learning_rate: {written}\n")).training.learning_rate == 1e-4


@pytest.mark.parametrize("written", ["true", "'16'", "16.0", "[16]"])
def test_a_wrong_type_is_rejected_not_converted(tmp_path, written):
    with pytest.raises(ConfigError, match=r"data\.num_buckets"):
        load_config(write(tmp_path, f"data:\n  num_buckets: {written}\n"))


def test_flags_win_over_the_file(tmp_path):
    path = write(tmp_path, "data:\n  batch_size: 8\n  n_mels: 40\n")
    config = load_config(path, {"data.batch_size": 4})
    assert (config.data.batch_size, config.data.n_mels) == (4, 40)


def test_a_saved_configuration_reads_back_equal():
    config = parse_config({"data": {"batch_size": "auto"}, "training": {"enable_xla_compilation": True}})
    assert parse_config(config_to_dict(config)) == config


@pytest.mark.parametrize("content", ["- a\n- b\n", "data: [1, 2]\n", "data: {a: [}\n", "just text"])
def test_a_file_that_is_not_a_configuration_is_one_clear_error(tmp_path, content):
    with pytest.raises(ConfigError):
        load_config(write(tmp_path, content))


def test_a_missing_file_is_one_clear_error(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "nothing.yaml")


def rejection(path: Path) -> str:
    """The error message for a bad file, which is short whatever the file contains."""
    with pytest.raises(ConfigError) as caught:
        load_config(path, {"data.batch_size": 4})
    message = str(caught.value)
    assert len(message) < 6000
    assert len(message.splitlines()) <= 22
    return message


@pytest.mark.parametrize("key", ["1", "null", "yes", "1.5"])
def test_a_key_that_is_not_a_name_is_rejected(tmp_path, key):
    assert "data: keys must be names of fields. Received: " in rejection(write(tmp_path, f"data:\n  {key}: 3\n"))
    assert "unknown section" in rejection(write(tmp_path, f"{key}: 3\n"))


def test_a_date_is_a_value_of_the_wrong_type(tmp_path):
    message = rejection(write(tmp_path, "data:\n  n_mels: 2020-13-45\n"))
    assert "data.n_mels: must be a valid integer. Received: '2020-13-45'." in message


@pytest.mark.parametrize("number", ["1" * 5000, "0x" + "f" * 5000, "-" + "9" * 200])
def test_an_integer_of_thousands_of_digits_is_rejected_by_its_length(tmp_path, number):
    assert "characters; expected at most 100" in rejection(write(tmp_path, f"training:\n  seed: {number}\n"))


@pytest.mark.parametrize(
    "text", ["[" * 3000, "{a: " * 3000, "".join(" " * n + "a:\n" for n in range(200)), "- " * 3000]
)
def test_deep_nesting_is_rejected_by_its_depth(tmp_path, text):
    assert "nested more than 8 levels" in rejection(
        write(tmp_path, f"data:\n  n_mels: {text}" if text[0] == "[" else text)
    )


@pytest.mark.parametrize("place", ["foo", "data", "data:\n  n_mels", "data:\n  foo"])
def test_an_alias_of_a_list_is_rejected_so_that_a_small_file_stays_small(tmp_path, place):
    lists = ["a0: &a0 [1, 1]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    message = rejection(write(tmp_path, "\n".join([*lists, f"{place}: *a11\n"])))
    assert "the alias *a0 stands for a list or section; write its values out" in message


def test_an_alias_of_one_value_is_that_value(tmp_path):
    path = write(tmp_path, "data:\n  batch_size: &size 8\ntraining:\n  gradient_accumulation_steps: *size\n")
    assert load_config(path).training.gradient_accumulation_steps == 8


def test_a_list_that_contains_itself_is_rejected(tmp_path):
    assert "the alias *a" in rejection(write(tmp_path, "data: &a\n  n_mels: [*a]\n"))


@pytest.mark.parametrize("tagged", ["!!timestamp x", "!!bool x", "!!int ''", "!!python/object:os.system x", "!x y"])
def test_tags_are_rejected(tmp_path, tagged):
    assert "is not supported" in rejection(write(tmp_path, f"data:\n  n_mels: {tagged}\n"))


def test_only_the_first_of_many_unknown_names_are_listed(tmp_path):
    message = rejection(write(tmp_path, "data:\n" + "".join(f"  unknown{n}: 1\n" for n in range(4000))))
    assert message.startswith("4,000 problems in")
    assert message.endswith("and 3,980 more")


def test_an_unknown_key_of_a_corpus_is_rejected_with_the_nearest_name_or_all_of_them(tmp_path):
    text = "data:\n  corpora:\n    - folder: one\n      wieght: 2\n    - {folder: two, zzz: 1}\n"
    message = rejection(write(tmp_path, text))
    assert "data.corpora[1].wieght: unknown name. Did you mean weight?" in message
    assert "data.corpora[2].zzz: unknown name. Expected: folder, name, language, weight." in message


def test_a_file_of_50000_names_is_rejected_before_it_is_read_whole(tmp_path):
    message = rejection(write(tmp_path, "data:\n" + "".join(f"  unknown{n}: 1\n" for n in range(50_000))))
    assert "more than 10,000 keys and values" in message


def test_long_names_and_values_are_shortened(tmp_path):
    names = f"? {'x' * 200_000}\n: 1\ndata:\n  ? {'y' * 200_000}\n  : 1\n  language: {'z' * 200_000}\n"
    rejection(write(tmp_path, names))


def test_a_section_that_is_a_value_is_reported_also_when_flags_are_given(tmp_path):
    assert "data: must be a section of `key: value` lines. Received: [1, 2]." in rejection(
        write(tmp_path, "data: [1, 2]\n")
    )


def test_pipes_and_devices_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "it is a pipe, not a regular file" in rejection(tmp_path / "pipe")
    assert "it is a device, not a regular file" in rejection(Path("/dev/zero"))


def test_an_enormous_file_is_not_read(tmp_path):
    path = tmp_path / "config.yaml"
    with path.open("wb") as file:
        file.truncate(1 << 33)  # sparse
    assert "it is larger than 1 MiB" in rejection(path)


def test_a_file_name_with_a_nul_character_is_rejected():
    assert "NUL" in rejection(Path("a\0b"))


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["auto", "null"])
)
VALUES = st.recursive(
    SCALARS, lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=5), part, max_size=3)
)
NAMES = st.sampled_from(FIELD_NAMES) | st.text(max_size=8)
CONTENTS = st.dictionaries(
    st.sampled_from(sorted(SECTIONS)) | st.text(max_size=5), st.dictionaries(NAMES, VALUES) | VALUES
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.text() | st.binary() | CONTENTS.map(lambda content: yaml.safe_dump(content, allow_unicode=True)))
def test_any_file_is_a_configuration_or_one_short_error(tmp_path, content):
    path = tmp_path / "config.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    try:
        config, message = load_config(path), ""
    except ConfigError as error:
        config, message = None, str(error)
    assert len(message) < 6000
    assert config is None or parse_config(config_to_dict(config)) == config
