"""Draw what the documentation shows: a run's losses, the alignment of held-out clips, and a sentence of the bundled voice.

python benchmarks/voice_pictures.py OUT_FOLDER [RUN_FOLDER]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

CLIPS = 3
SENTENCE = "Good morning. The train leaves at nine."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="folder for the pictures")
    parser.add_argument("run", type=Path, nargs="?", help="a run's folder, with log.jsonl and checkpoints")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    draw_sentence(arguments.out / "spoken.png")
    if arguments.run is not None:
        draw_losses(arguments.run / "log.jsonl", arguments.out / "training.png")
        draw_alignments(arguments.run, arguments.out / "alignment.png")


def draw_sentence(out: Path) -> None:
    """Waveform and log-mel of what `myxtts say` writes."""
    from matplotlib.figure import Figure

    from myxtts.audio.mel import mel_numpy
    from myxtts.synthesis.bundled import bundled_voice
    from myxtts.synthesis.voice import Voice

    voice = Voice.load(bundled_voice())
    audio = voice.synthesize(SENTENCE)
    figure = Figure(figsize=(9, 3.2), dpi=100)
    wave, mel = figure.subplots(2, 1, sharex=True, height_ratios=(1, 3))
    wave.plot(np.arange(len(audio.samples)) / audio.sample_rate, audio.samples, linewidth=0.4)
    wave.set_axis_off()
    mel.imshow(
        mel_numpy(audio.samples, voice.mel).T,
        origin="lower", aspect="auto", extent=(0, audio.seconds, 0, voice.mel.n_mels),
    )  # fmt: skip
    mel.set_xlabel("seconds")
    mel.set_ylabel("mel band")
    figure.tight_layout()
    figure.savefig(out)


def draw_losses(log: Path, out: Path) -> None:
    """Training (mean of 10 entries) and validation losses over the steps."""
    from matplotlib.figure import Figure

    entries = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    figure = Figure(figsize=(9, 3), dpi=100)
    for axes, term in zip(figure.subplots(1, 3), ("flow", "prior", "duration"), strict=True):
        for kind in ("train", "validation"):
            points = np.array([(entry["step"], entry[term]) for entry in entries if entry["kind"] == kind])
            if kind == "train":
                points = points[: len(points) // 10 * 10].reshape(-1, 10, 2).mean(axis=1)
            axes.plot(*points.T, label=kind)
        axes.set_title(term)
        axes.set_xlabel("step")
        axes.set_ylim(0, np.percentile(points[:, 1], 90) * 1.5)
    axes.legend()
    figure.tight_layout()
    figure.savefig(out)


def draw_alignments(run: Path, out: Path) -> None:
    """Mel and path of a few held-out clips, by the averaged weights of the newest checkpoint."""
    from matplotlib.figure import Figure

    from myxtts.config.load import parse_config
    from myxtts.training.checkpoint import load_checkpoint, newest_checkpoint
    from myxtts.training.trainer import XTTSTrainer

    config = parse_config(load_checkpoint(newest_checkpoint(run)).config)
    trainer = XTTSTrainer(config)
    batch = next(iter(trainer.task.validation_batches()))
    with trainer.task.state.with_ema_weights():
        path = trainer.task.steps.align(batch)[0].numpy()
    trainer.close()
    figure = Figure(figsize=(9, 4), dpi=100)
    for slot, axes in enumerate(figure.subplots(2, CLIPS).T):
        start, frames = int(batch.frame_starts[0, slot]), int(batch.mel_lengths[0, slot])
        first, symbols = 2 * int(batch.token_starts[0, slot]), 2 * int(batch.text_lengths[0, slot]) + 1
        axes[0].imshow(batch.mel[0, start : start + frames].numpy().T, origin="lower", aspect="auto")
        axes[0].set_title(trainer.task.corpus.cache.ids[int(batch.clips[0, slot])], fontsize=8)
        matrix = np.zeros((symbols, frames))
        matrix[path[start : start + frames] - first, np.arange(frames)] = 1
        axes[1].imshow(matrix, origin="lower", aspect="auto", interpolation="none", cmap="Greys")
        axes[1].set_xlabel("frame")
    figure.tight_layout()
    figure.savefig(out)


if __name__ == "__main__":
    main()
