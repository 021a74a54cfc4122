"""What several test modules share."""

import signal

import pytest

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
    from myxtts.config.config import DataConfig
    from myxtts.data.cache import open_cache
    from myxtts.data.prepare import prepare_corpus

    folder = tmp_path_factory.mktemp("bundled-cache")
    report = prepare_corpus(DataConfig(cache_dir=str(folder)))
    return open_cache(report.folder)
