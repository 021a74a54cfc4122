"""The type of every --language flag."""

from __future__ import annotations

import argparse

from myxtts.errors import TextError
from myxtts.text.languages import resolve_language


def language_code(name: str) -> str:
    """The code of a language given by code or name; argparse prints what is wrong with it."""
    try:
        return resolve_language(name)
    except TextError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
