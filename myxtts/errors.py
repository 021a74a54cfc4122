"""The errors that a user can cause and can fix. Each message says what was received, what was expected, and what to do.

The command line prints them as one message without a traceback. Any other exception that escapes is a bug in MyXTTS.
"""


def install_line(extra: str) -> str:
    """The command that installs an extra of pyproject.toml, for messages about a missing package.

    From the sources: the registry's `myxtts`, if there is one, may be somebody else's package.
    """
    return f"`pip install '.[{extra}]'` in the project folder"


class MyXTTSError(Exception):
    """Base class of every error that is explained to the user instead of shown as a traceback."""


class ConfigError(MyXTTSError):
    """A configuration file, flag or value cannot be used; lists every problem found."""


class CorpusError(MyXTTSError):
    """A folder of recordings cannot be used at all (single unusable clips are skipped and reported instead)."""


class AudioError(MyXTTSError):
    """An audio file cannot be read or written; `reason` is the short cause used in reports."""

    def __init__(self, message: str, reason: str = "unreadable audio"):
        super().__init__(message)
        self.reason = reason


class TextError(MyXTTSError):
    """A text cannot be spoken, or a language or phonemizer is not available."""


class CacheError(MyXTTSError):
    """A prepared cache is missing, outdated, damaged, or could not be written."""


class PlanError(MyXTTSError):
    """A corpus does not fit the static shapes that were requested."""


class CheckpointError(MyXTTSError):
    """A checkpoint is missing, damaged, or does not belong to this configuration."""


class TrainingError(MyXTTSError):
    """Training cannot continue: it diverged, retraced with `on_retrace: fail`, ran out of memory, or lost a worker."""


class VoiceError(MyXTTSError):
    """A voice folder is missing, damaged, in another format, or lacks what was requested."""


class EvaluationError(MyXTTSError):
    """A voice cannot be measured, for example because the package of a metric or a recognizer is missing."""


class DiagnosisError(MyXTTSError):
    """Something could not be measured."""
