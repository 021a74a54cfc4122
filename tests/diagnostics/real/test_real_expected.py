"""The public scripts are described as the benchmark reads them, and their generated data is what Keras expects."""

from pathlib import Path

import keras
import pytest
import yaml

from myxtts.diagnostics.observe.issues import Issue
from tests.diagnostics.real.generated_data import write_keras_home

SCRIPTS = yaml.safe_load((Path(__file__).parent / "expected.yaml").read_text(encoding="utf-8"))["scripts"]
SLUGS = {issue.value for issue in Issue}


def test_there_are_scripts_and_notebooks_of_three_repositories():
    assert len(SCRIPTS) >= 12
    assert {name.split("/")[0] for name in SCRIPTS} == {"keras-io", "docs", "models"}


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_script_is_well_described(name):
    truth = SCRIPTS[name]
    assert not (truth["healthy"] and truth["findings"])
    named = [finding["disease"] for finding in truth["findings"]] + truth.get("also_acceptable", [])
    assert set(named) <= SLUGS
    assert set(truth) <= {
        "healthy", "verdict", "findings", "also_acceptable", "arguments", "environment", "seconds",
    }  # fmt: skip


def test_keras_reads_the_generated_data(tmp_path, monkeypatch):
    write_keras_home(tmp_path)
    monkeypatch.setattr("keras.src.utils.file_utils.validate_file", lambda *arguments, **keywords: True)
    monkeypatch.setattr("keras.src.backend.config.keras_home", lambda: str(tmp_path))
    (images, labels), _ = keras.datasets.mnist.load_data()
    assert images.shape == (1280, 28, 28)
    assert set(labels.tolist()) == set(range(10))
    (images, _), (_, test_labels) = keras.datasets.fashion_mnist.load_data()
    assert images.shape == (640, 28, 28)
    assert len(test_labels) == 128
    (reviews, _), _ = keras.datasets.imdb.load_data(num_words=20_000)
    assert len(reviews) == 640
