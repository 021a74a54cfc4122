"""MyXTTS: text-to-speech training in TensorFlow, and voices that speak."""

from myxtts.runtime.startup import set_environment_defaults

__version__ = "0.2.0.dev0"

set_environment_defaults()
