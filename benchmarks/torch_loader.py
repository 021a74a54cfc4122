"""PyTorch's DataLoader over clips in memory, in a process of its own (it shares neither threads nor allocators with TensorFlow).

Started with the path of an .npz file (frames, frame_starts, frame_counts, tokens, token_starts, token_counts, batch_size,
max_frames, max_tokens). Then, for each line `workers seconds` on standard input, one line with clips/s on standard output.
"""

from __future__ import annotations

import sys
import time
from collections import deque

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Clips(Dataset):
    """Tokens and mel of each clip, as views of the arrays in memory."""

    def __init__(self, path: str):
        with np.load(path) as arrays:
            self.arrays = {name: arrays[name] for name in arrays.files}
        self.arrays["frames"] = torch.from_numpy(self.arrays["frames"])
        self.arrays["tokens"] = torch.from_numpy(self.arrays["tokens"])

    def __len__(self) -> int:
        return len(self.arrays["frame_starts"])

    def __getitem__(self, clip: int) -> tuple[torch.Tensor, torch.Tensor]:
        arrays = self.arrays
        token, frame = int(arrays["token_starts"][clip]), int(arrays["frame_starts"][clip])
        return (
            arrays["tokens"][token : token + int(arrays["token_counts"][clip])],
            arrays["frames"][frame : frame + int(arrays["frame_counts"][clip])],
        )


class Padding:
    """Copies clips into zeros of the fixed shape."""

    def __init__(self, max_tokens: int, max_frames: int):
        self.max_tokens, self.max_frames = max_tokens, max_frames

    def __call__(self, clips: list[tuple[torch.Tensor, torch.Tensor]]) -> tuple[torch.Tensor, ...]:
        tokens = torch.zeros((len(clips), self.max_tokens), dtype=torch.int32)
        mel = torch.zeros((len(clips), self.max_frames, clips[0][1].shape[1]))
        for row, (clip_tokens, clip_mel) in enumerate(clips):
            tokens[row, : len(clip_tokens)] = clip_tokens
            mel[row, : len(clip_mel)] = clip_mel
        text_lengths = torch.tensor([len(clip_tokens) for clip_tokens, _ in clips], dtype=torch.int32)
        mel_lengths = torch.tensor([len(clip_mel) for _, clip_mel in clips], dtype=torch.int32)
        return tokens, mel, text_lengths, mel_lengths


def endless(loader: DataLoader):
    while True:
        yield from loader


def main() -> None:
    dataset = Clips(sys.argv[1])
    batch_size = int(dataset.arrays["batch_size"])
    padding = Padding(int(dataset.arrays["max_tokens"]), int(dataset.arrays["max_frames"]))
    streams = {}
    for workers in (0, 1, 2):
        loader = DataLoader(
            dataset,
            batch_size,
            shuffle=True,
            drop_last=True,
            collate_fn=padding,
            num_workers=workers,
            persistent_workers=workers > 0,
        )
        streams[workers] = endless(loader)
        next(streams[workers])
    print("ready", flush=True)
    for line in sys.stdin:
        workers, seconds = int(line.split()[0]), float(line.split()[1])
        alive = deque(maxlen=2)
        clips = 0
        started = time.perf_counter()
        while time.perf_counter() - started < seconds:
            alive.append(next(streams[workers]))
            clips += batch_size
        print(clips / (time.perf_counter() - started), flush=True)


if __name__ == "__main__":
    main()
