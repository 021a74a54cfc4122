"""A worker for the tests of `WorkerPool`: jobs on texts, some of which fail."""

import os
import sys
import time
from pathlib import Path

from myxtts.runtime.worker_process import serve_jobs


def build_jobs(setup):
    def length(text):
        sys.stdout.write("a library that prints\n")
        return {"length": len(text), "scale": setup["scale"]}, text.encode()

    def die_once(path):
        """The first process that is given this path is killed; the next one finds the file."""
        if not Path(path).exists():
            Path(path).touch()
            os.kill(os.getpid(), 9)
        return {"survived": True}, b""

    def fail_once(path):
        is_first = not Path(path).exists()
        Path(path).touch()
        return {"transient": is_first}, b""

    def divide(number):
        return {"result": 1 / number}, b""

    def nap(seconds):
        time.sleep(seconds)
        return {}, b""

    return {"length": length, "die_once": die_once, "fail_once": fail_once, "divide": divide, "nap": nap}


if __name__ == "__main__":
    sys.exit(serve_jobs(build_jobs))
