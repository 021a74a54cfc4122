"""What the tests of the commands share."""

import pytest

from tests.synthesis.tiny_voice import write_voice


@pytest.fixture(scope="module")
def voice(tmp_path_factory):
    return str(write_voice(tmp_path_factory.mktemp("one") / "voice"))


@pytest.fixture(scope="module")
def cloning_voice(tmp_path_factory):
    return str(write_voice(tmp_path_factory.mktemp("two") / "voice", ("anna", "ben")))
