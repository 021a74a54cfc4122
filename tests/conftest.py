"""What several test modules share."""

import signal

import hypothesis
import pytest

# A busy machine is no failure; pytest-timeout ends what hangs.
hypothesis.settings.register_profile("project", deadline=None)
hypothesis.settings.load_profile("project")

# A shell starts background jobs with SIGINT ignored, and children inherit that: tests that interrupt them would wait in vain.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def usual_hangup():
    """SIGHUP as a terminal's processes have it; `nohup` hands its own on."""
    previous = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, previous)


@pytest.fixture(scope="session")
def bundled_cache(tmp_path_factory):
    """The bundled corpus, prepared once for all tests."""
    from myxtts.cache.format import open_cache
    from myxtts.cache.prepare import prepare_corpus
    from myxtts.config.config import DataConfig

    folder = tmp_path_factory.mktemp("bundled-cache")
    report = prepare_corpus(DataConfig(cache_dir=str(folder)))
    return open_cache(report.folder)


@pytest.fixture(scope="session")
def tone_corpus(tmp_path_factory):
    """A dozen tones of five lengths, prepared; a configuration for it comes from `small_config`."""
    from myxtts.cache.prepare import prepare_corpus
    from tests.corpus.tiny_corpus import make_corpus
    from tests.training.small_runs import small_config

    folder = tmp_path_factory.mktemp("tones")
    make_corpus(folder, 12)
    prepare_corpus(small_config(folder, folder).data)
    return folder
