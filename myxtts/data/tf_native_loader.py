"""The public import path of `TFNativeDataLoader`; the loader itself is in `myxtts.batches`."""

from myxtts.batches.on_the_fly import TFNativeDataLoader

__all__ = ["TFNativeDataLoader"]
