"""What tests that need PyAV share. Its wheels hold GPL codecs, and `make train` and `make test` do not install it."""

import importlib.util

import pytest

WITHOUT_PYAV = "PyAV is not installed: pip install '.[aac]' (its wheels hold GPL codecs); `make test-slow` installs it"
needs_pyav = pytest.mark.skipif(importlib.util.find_spec("av") is None, reason=WITHOUT_PYAV)
