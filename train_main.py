"""Train a voice: `python train_main.py --train-data FOLDER`. Runs `myxtts train` with the same flags."""

import sys

from myxtts.cli import main

if __name__ == "__main__":
    sys.exit(main(["train", *sys.argv[1:]]))
