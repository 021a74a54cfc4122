"""What the tests of the trainer share."""

import gc
import sys

import pytest

from myxtts.cache.prepare import prepare_cache
from tests.corpus.tiny_corpus import make_corpus
from tests.training.small_runs import quiet_display, small_config


@pytest.fixture(autouse=True)
def freed_memory():
    """After each test the networks of its trainers are freed: they are cycles that hold much memory."""
    yield
    if "tensorflow" in sys.modules:
        gc.collect()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A dozen tones, prepared."""
    folder = tmp_path_factory.mktemp("corpus")
    make_corpus(folder, 12)
    prepare_cache(small_config(folder, folder).data)
    return folder


@pytest.fixture
def make_trainer(corpus, tmp_path):
    """Trainers on that corpus, closed at the end of the test."""
    from myxtts.training.trainer import XTTSTrainer  # not for every test: it loads TensorFlow

    made = []

    def make(data=None, **training):
        trainer = XTTSTrainer(small_config(corpus, tmp_path / "run", data, **training), display=quiet_display())
        made.append(trainer)
        trainer.open()
        return trainer

    yield make
    for trainer in made:
        trainer.close()
