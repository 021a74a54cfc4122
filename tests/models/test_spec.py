"""The dimensions of a network: sizes, JSON, and dimensions that do not fit each other."""

import numpy as np
import pytest

from myxtts.config.config import ModelConfig
from myxtts.errors import ConfigError
from myxtts.models.spec import ModelSpec
from myxtts.models.xtts import XTTS
from tests.models.clips import tiny_spec

SIZES_IN_MILLIONS = {"tiny": (3.0, 4.0), "small": (9.0, 11.5), "normal": (18.0, 23.0), "big": (54.0, 66.0)}


@pytest.mark.parametrize(("size", "bounds"), SIZES_IN_MILLIONS.items())
@pytest.mark.parametrize("num_speakers", [1, 4])
def test_each_size_has_the_promised_number_of_parameters(size, bounds, num_speakers):
    spec = ModelSpec.from_config(
        ModelConfig(size=size), num_symbols=90, num_languages=5, num_speakers=num_speakers, n_mels=80
    )
    model = XTTS(spec)
    model.build()
    millions = sum(int(np.prod(variable.shape)) for variable in model.trainable_variables) / 1e6
    assert bounds[0] <= millions <= bounds[1]


def test_a_spec_survives_json():
    spec = tiny_spec()
    assert ModelSpec.from_dict(spec.to_dict()) == spec


@pytest.mark.parametrize("change", [{"unknown": 1}, {"n_mels": None}])
def test_unknown_or_missing_names_are_refused(change):
    values = {name: value for name, value in (tiny_spec().to_dict() | change).items() if value is not None}
    with pytest.raises(TypeError):
        ModelSpec.from_dict(values)


def test_heads_that_do_not_divide_the_channels_come_with_a_suggestion_that_works():
    counts = {"num_symbols": 9, "num_languages": 1, "num_speakers": 1, "n_mels": 20}
    with pytest.raises(ConfigError, match=r"Try model\.text_channels: 24") as caught:
        ModelSpec.from_config(ModelConfig(text_channels=20, text_heads=3), **counts)
    assert "20 channels and 3 heads" in str(caught.value)
    assert ModelSpec.from_config(ModelConfig(text_channels=24, text_heads=3), **counts).text_heads == 3


@pytest.mark.parametrize(("layers", "reach"), [(1, 1), (2, 2), (4, 4)])
def test_the_reach_is_that_of_the_widest_dilation_in_use(layers, reach):
    spec = ModelSpec.from_dict(tiny_spec().to_dict() | {"decoder_layers": layers})
    assert spec.frame_reach == reach
