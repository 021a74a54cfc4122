"""Is every step compiled once? Runs `myxtts diagnose retracing` with the same arguments."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from myxtts.cli import main

if __name__ == "__main__":
    sys.exit(main(["diagnose", "retracing", *sys.argv[1:]]))
