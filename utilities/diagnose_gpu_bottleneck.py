"""Where does a training step spend its time? Runs `myxtts diagnose bottleneck` with the same arguments."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from myxtts.cli import main

if __name__ == "__main__":
    sys.exit(main(["diagnose", "bottleneck", *sys.argv[1:]]))
