"""The settings: complete, bounded, frozen, documented, and without TensorFlow."""

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest

from myxtts.config.__main__ import render_config_yaml
from myxtts.config.config import SECTIONS, XTTSConfig, field_descriptions
from myxtts.config.load import load_config, parse_config
from myxtts.errors import ConfigError

CONFIG_FILE = Path(__file__).parents[2] / "configs" / "config.yaml"


def write(folder: Path, text: str) -> Path:
    path = folder / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_shipped_file_contains_every_key_with_its_default():
    assert CONFIG_FILE.read_text(encoding="utf-8") == render_config_yaml()
    assert load_config(CONFIG_FILE) == XTTSConfig()


def test_every_shipped_file_can_be_read():
    for path in CONFIG_FILE.parent.glob("*.yaml"):
        load_config(path)


def test_the_file_can_be_written_by_the_module(tmp_path):
    command = [sys.executable, "-m", "myxtts.config", str(tmp_path / "written.yaml")]
    subprocess.run(command, cwd=CONFIG_FILE.parents[1], check=True)
    assert (tmp_path / "written.yaml").read_text(encoding="utf-8") == render_config_yaml()


def test_every_field_has_a_description_and_every_section_is_one_of_the_configuration():
    assert list(SECTIONS) == [field.name for field in dataclasses.fields(XTTSConfig)]
    for section, section_type in SECTIONS.items():
        assert set(field_descriptions(section)) == {field.name for field in dataclasses.fields(section_type)}


def test_importing_the_configuration_does_not_import_tensorflow():
    code = "import sys, myxtts.config.config, myxtts.config.load; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_configuration_cannot_be_changed_afterwards():
    with pytest.raises(dataclasses.FrozenInstanceError):
        XTTSConfig().data.batch_size = 3


def test_contradictory_values_are_all_listed(tmp_path):
    text = "data:\n  win_length: 1024\n  hop_length: 2048\n  pad_to_fixed_length: true\n  plan: packed\n  min_seconds: 40.0\n"
    with pytest.raises(ConfigError, match="3 problems"):
        load_config(write(tmp_path, text))


def test_a_hop_too_small_for_a_voice_is_rejected_before_training():
    with pytest.raises(ConfigError, match=r"hop_length.*64th of data\.n_fft"):
        parse_config({"data": {"n_fft": 4096, "hop_length": 32}})


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
def test_a_value_out_of_range_is_rejected_with_what_is_expected(section, field, value, expected):
    with pytest.raises(ConfigError, match=rf"{section}\.{field}: {expected}"):
        parse_config({section: {field: value}})


FLOATS = [
    (section, field.name)
    for section, section_type in SECTIONS.items()
    for field in dataclasses.fields(section_type)
    if re.search(r"\b(float|PositiveFloat|Fraction)\b", str(field.type))
]


FLOAT_GROUPS = [
    (section, [field for name, field in FLOATS if name == section][part::2]) for section in SECTIONS for part in (0, 1)
]
"""In halves, because a message lists at most 20 problems."""


def test_all_floats_are_found():
    assert {("data", "mel_f_min"), ("data", "log_floor"), ("training", "learning_rate")} < set(FLOATS)


@pytest.mark.parametrize("written", [".inf", "-.inf", ".nan", "1e400"])
def test_a_float_that_is_not_finite_is_rejected_in_every_field(tmp_path, written):
    for section, fields in FLOAT_GROUPS:
        with pytest.raises(ConfigError) as caught:
            load_config(write(tmp_path, f"{section}:\n" + "".join(f"  {field}: {written}\n" for field in fields)))
        assert all(f"{section}.{field}: must be a finite number." in str(caught.value) for field in fields)


def test_every_float_has_a_largest_value():
    """1e30 is finite here, and infinite after a few operations in float32."""
    for section, fields in FLOAT_GROUPS:
        with pytest.raises(ConfigError) as caught:
            parse_config({section: dict.fromkeys(fields, 1e30)})
        assert all(f"{section}.{field}: must be less than" in str(caught.value) for field in fields)


@pytest.mark.parametrize("seed", [2**31, 2**63, 2**200])
def test_a_seed_that_random_generators_cannot_take_is_rejected(seed):
    with pytest.raises(ConfigError, match=r"training\.seed: must be less than or equal to 2147483647\."):
        parse_config({"training": {"seed": seed}})


def test_the_largest_seed_orders_clips():
    from myxtts.batches.order import shuffled

    seed = parse_config({"training": {"seed": 2**31 - 1}}).training.seed
    assert sorted(shuffled(5, seed, 0).tolist()) == [0, 1, 2, 3, 4]
