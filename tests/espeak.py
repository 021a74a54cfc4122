"""What tests that speak with espeak-ng share. It is GPL, and `make` does not install it."""

import pytest

from myxtts.text import phonemes

needs_espeak = pytest.mark.skipif(
    not phonemes.is_installed(), reason="espeak-ng is not installed: pip install '.[phonemes]' (GPL)"
)
