"""What the tests of the command line share."""

import io

from myxtts.cli import EXIT_USER_ERROR, main


class PipedInput:
    """Standard input that comes through a pipe."""

    def __init__(self, content: bytes):
        self.buffer = io.BytesIO(content)

    def isatty(self):
        return False


def failure_of(capsys, *words: str) -> str:
    """The only line that a failing command prints."""
    assert main([*words]) == EXIT_USER_ERROR
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())
