"""Loading, shapes and XLA, before and after. Runs `myxtts benchmark` with the same arguments."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from myxtts.cli import main

if __name__ == "__main__":
    sys.exit(main(["benchmark", *sys.argv[1:]]))
