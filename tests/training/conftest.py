"""What the tests of the trainer share."""

import pytest

from myxtts.data.prepare import prepare_corpus
from tests.data.tiny_corpus import make_corpus
from tests.training.small_runs import small_config


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A dozen tones, prepared: two runs that start at once cannot both prepare them."""
    folder = tmp_path_factory.mktemp("corpus")
    make_corpus(folder, 12)
    prepare_corpus(small_config(folder, folder).data)
    return folder
