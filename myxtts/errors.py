"""The errors that a user can cause and can mend: what was received, what was expected, what to do.

The command line prints them as one message without a traceback. Anything else that escapes is a defect of ours.
"""


class MyXTTSError(Exception):
    """Base of every error that is explained to the user instead of shown as a traceback."""


class ConfigError(MyXTTSError):
    """A configuration file, flag or value cannot be used; lists every problem found."""


class CorpusError(MyXTTSError):
    """A folder of recordings cannot be used at all (single bad clips are set aside, not raised)."""


class AudioError(MyXTTSError):
    """An audio file cannot be read or written; `reason` is the short cause used in reports."""

    def __init__(self, message: str, reason: str = "unreadable audio"):
        super().__init__(message)
        self.reason = reason


class TextError(MyXTTSError):
    """A text cannot be spoken, or a language or phonemizer is not available."""


class CacheError(MyXTTSError):
    """A prepared cache is missing, stale, damaged, or could not be written."""


class PlanError(MyXTTSError):
    """A corpus does not fit the static shapes that were asked for."""


class CheckpointError(MyXTTSError):
    """A checkpoint is missing, damaged, or does not belong to this configuration."""


class TrainingError(MyXTTSError):
    """Training cannot go on: diverged, retraced with `on_retrace: fail`, out of memory, a worker was lost."""


class VoiceError(MyXTTSError):
    """A voice folder is missing, damaged, foreign, or lacks what was asked of it."""


class EvaluationError(MyXTTSError):
    """A voice cannot be measured: a metric's package or a recogniser is missing."""


class DiagnosisError(MyXTTSError):
    """Something could not be measured."""
