"""Watch the device and a running training. Runs `myxtts monitor` with the same arguments."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from myxtts.cli import main

if __name__ == "__main__":
    sys.exit(main(["monitor", *sys.argv[1:]]))
