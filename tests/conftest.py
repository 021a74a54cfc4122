"""What several test modules share."""

import gc
import signal
import sys

import pytest
from hypothesis import settings

# The time of a case says nothing on a busy machine. The same examples in every run: a failure then comes from the change.
settings.register_profile("myxtts", deadline=None, derandomize=True)
settings.load_profile("myxtts")

# A shell starts background jobs with SIGINT ignored, and children inherit that: tests that interrupt them would time out.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def freed_graphs():
    """After each test, free the graphs that it traced.

    TensorFlow registers the gradient of every call of a `tf.custom_gradient` function in a graph forever, and that gradient
    holds the whole graph: 45 MB for each step of a small network. Nobody asks for these gradients after the test.
    """
    known = set(_custom_gradients())
    yield
    registry = _custom_gradients()
    traced = [name for name in registry if name not in known and name.startswith("CustomGradient-")]
    for name in traced:
        del registry[name]
    if traced:
        gc.collect()


def _custom_gradients() -> dict:
    """TensorFlow's register of gradients by name; empty before TensorFlow is imported."""
    ops = sys.modules.get("tensorflow.python.framework.ops")
    return {} if ops is None else ops.gradient_registry._registry


@pytest.fixture
def usual_hangup():
    """SIGHUP as a terminal's processes have it; `nohup` hands its own on."""
    previous = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, previous)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty current folder."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(scope="session")
def bundled_cache(tmp_path_factory):
    """The bundled corpus, prepared once for all tests."""
    from myxtts.cache.prepare import prepare_cache
    from myxtts.config.config import DataConfig

    folder = tmp_path_factory.mktemp("bundled-cache")
    return prepare_cache(DataConfig(cache_dir=str(folder)))


@pytest.fixture(scope="session")
def tone_corpus(tmp_path_factory):
    """A dozen tones of five lengths, prepared; a configuration for it comes from `small_config`."""
    from myxtts.cache.prepare import prepare_cache
    from tests.corpus.tiny_corpus import make_corpus
    from tests.training.small_runs import small_config

    folder = tmp_path_factory.mktemp("tones")
    make_corpus(folder, 12)
    prepare_cache(small_config(folder, folder).data)
    return folder
