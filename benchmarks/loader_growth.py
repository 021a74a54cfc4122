"""Opening, planning an epoch and drawing the first batch of a made-up cache, in a fresh process with TensorFlow imported.

Started with a cache folder; prints one JSON object: seconds of each stage and of all, and megabytes of memory at the peak.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

import psutil
import tensorflow as tf

from myxtts.batches.feed import open_feed
from myxtts.batches.plan import build_plan
from myxtts.cache.clip_table import open_cache
from myxtts.config.config import DataConfig


class PeakMemory:
    """The largest resident memory while it watches."""

    def __init__(self):
        self._process = psutil.Process()
        self.start_bytes = self.peak_bytes = self._process.memory_info().rss
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._is_over.wait(0.005):
            self.peak_bytes = max(self.peak_bytes, self._process.memory_info().rss)

    def stop(self) -> float:
        """Megabytes above the start."""
        self._is_over.set()
        self._thread.join()
        self.peak_bytes = max(self.peak_bytes, self._process.memory_info().rss)
        return (self.peak_bytes - self.start_bytes) / 1e6


def main() -> None:
    folder = Path(sys.argv[1])
    tf.constant(0)
    memory = PeakMemory()
    started = time.perf_counter()
    cache = open_cache(folder)
    opened = time.perf_counter()
    plan = build_plan("packed", cache.frame_counts, cache.token_counts, batch_size=16)
    with open_feed(cache, plan, DataConfig()) as feed:
        next(feed)
        finished = time.perf_counter()
        megabytes = memory.stop()
    result = {
        "clips": cache.num_clips,
        "open_seconds": opened - started,
        "plan_and_batch_seconds": finished - opened,
        "seconds": finished - started,
        "megabytes": megabytes,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
