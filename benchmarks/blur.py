"""How blurred is the mel of a voice? `python benchmarks/blur.py VOICE DATA [--speaker NAME] [--json FILE]`.

The harmonics of a voice are ripples over the bands of its mel. The standard deviation of the difference between neighboring bands
shows how deep they are; a mel that is an average over several likely pitches has shallow ones. The held-out texts of a corpus are
spoken, and the deviations are compared with those of the recordings, in groups of ten bands from the lowest.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as a script, Python searches the folder benchmarks/ only

from benchmarks.harness import print_table, write_json
from myxtts.audio.clips import condition
from myxtts.audio.files import read_audio, resample
from myxtts.audio.mel import mel_numpy
from myxtts.config.config import DataConfig
from myxtts.corpus.corpus import read_corpus
from myxtts.synthesis.bundled import find_voice
from myxtts.synthesis.options import SpeechOptions
from myxtts.synthesis.voice import Voice

GROUP = 10
"""Bands that are averaged."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("voice", help="a voice folder, or the name of a bundled voice")
    parser.add_argument("data", type=Path, help="a corpus of the speaker")
    parser.add_argument("--speaker", help="speaker of the voice, and of the corpus if it has several")
    parser.add_argument("--sentences", type=int, default=40, help="held-out sentences (default: %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="write the figures as one flat JSON object")
    arguments = parser.parse_args()
    voice = Voice.load(find_voice(arguments.voice))
    corpus = read_corpus(DataConfig(train_data=str(arguments.data)))
    held_out = list(itertools.compress(corpus.utterances, corpus.is_validation))
    own = [one for one in held_out if arguments.speaker in (None, one.speaker)] or held_out
    chosen = own[: arguments.sentences]
    recorded = deviations([recorded_mel(voice, one.path) for one in chosen])
    spoken = deviations(
        [
            mel
            for seed, one in enumerate(chosen)
            for mel in spoken_mels(
                voice, one.text, SpeechOptions(language=one.language, speaker=arguments.speaker, seed=seed)
            )
        ]
    )
    edges = range(0, len(recorded), GROUP)
    rows = [
        (f"{first + 1} to {first + GROUP}", f"{one:.2f}", f"{other:.2f}", f"{other / one:.0%}")
        for first, one, other in zip(edges, grouped(recorded), grouped(spoken), strict=True)
    ]
    title = f"{arguments.voice}: difference of neighboring mel bands, {len(chosen)} sentences"
    print_table(title, ("bands", "recordings", "spoken", "ratio"), rows)
    ratios = np.array(grouped(spoken)) / np.array(grouped(recorded))
    write_json(
        arguments.json, {f"ratio_band_{first + 1}": float(ratio) for first, ratio in zip(edges, ratios, strict=True)}
    )
    return 0


def recorded_mel(voice: Voice, path: Path) -> np.ndarray:
    """The log-mel of a recording, trimmed and leveled as in training."""
    samples, rate = read_audio(path)
    samples = resample(samples, rate, voice.sample_rate)
    samples = condition(samples, voice.sample_rate, voice.trim_silence_db, voice.loudness_db, voice.trim_noise_db)
    return mel_numpy(samples, voice.mel)


def spoken_mels(voice: Voice, text: str, options: SpeechOptions) -> list[np.ndarray]:
    """The log-mels that the decoder makes of a text, before the vocoder."""
    sampling = voice.sampling(options)
    return [
        mel
        for piece in voice.pieces(text, options, options.seed)
        if piece.ids
        for mel in voice.mels(piece, voice.engine.encode(piece.ids, sampling), sampling)
    ]


def deviations(mels: list[np.ndarray]) -> np.ndarray:
    """Standard deviation of the difference between each band and the next, over all frames: (n_mels - 1,)."""
    return np.concatenate([np.diff(mel, axis=1) for mel in mels]).std(axis=0)


def grouped(values: np.ndarray) -> list[float]:
    """Means of `GROUP` neighboring values."""
    return [float(values[first : first + GROUP].mean()) for first in range(0, len(values), GROUP)]


if __name__ == "__main__":
    raise SystemExit(main())
