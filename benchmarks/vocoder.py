"""Copy synthesis: how much of a recording does a vocoder keep? `python benchmarks/vocoder.py VOCODER DATA... [--json FILE]`.

Recordings that the vocoder was not trained on (held-out clips, and every clip of the held-out speakers of configs/base.yaml)
become mels and return through the vocoder and through Griffin-Lim. For each speaker: DNSMOS and character error of recording and
copies, PESQ of the copies, and the CPU time of both vocoders. Needs the extra `evaluate`; character errors of a language other
than English need --recognizer whisper:FOLDER.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as a script, Python searches the folder benchmarks/ only

from benchmarks.cloning import HELD_OUT
from benchmarks.harness import print_table, write_json
from myxtts.audio.clips import condition
from myxtts.audio.files import read_audio, resample
from myxtts.config.config import DataConfig
from myxtts.corpus.corpus import read_corpus
from myxtts.corpus.utterance import Utterance
from myxtts.errors import AudioError, EvaluationError
from myxtts.evaluation.clip_metrics import NaturalnessJudge, count_errors, measure_pesq, sum_errors
from myxtts.evaluation.evaluate import copy_recording
from myxtts.evaluation.recognizers import Recognizer, open_recognizer
from myxtts.synthesis.onnx_file import read_model
from myxtts.synthesis.vocoder import VOCODER_TENSORS, GriffinLim, Vocoder, open_vocoder_file, vocoder_spec

KINDS = ("recording", "vocoder", "Griffin-Lim")
SHORTEST_SECONDS = 1.5
"""PESQ and recognizers need a few words."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("vocoder", type=Path)
    parser.add_argument("data", type=Path, nargs="+", help="corpora as the vocoder was trained on")
    parser.add_argument("--speakers", help="comma-separated (default: every speaker with enough held-out clips)")
    parser.add_argument("--clips", type=int, default=12, help="of each speaker (default: %(default)s)")
    parser.add_argument("--recognizer", help="as in myxtts evaluate (default: Moonshine, for English)")
    parser.add_argument("--json", metavar="FILE", help="write the metrics as one flat JSON object")
    arguments = parser.parse_args()
    mel = vocoder_spec(read_model(arguments.vocoder, *VOCODER_TENSORS), arguments.vocoder).mel
    vocoders: dict[str, Vocoder] = {
        "vocoder": open_vocoder_file(arguments.vocoder, mel),
        "Griffin-Lim": GriffinLim(mel),
    }
    judge, metrics, rows = NaturalnessJudge.load(), {}, []
    for speaker, utterances in chosen_clips(arguments.data, arguments.speakers, arguments.clips).items():
        clips = {"recording": [recorded(one, mel.sample_rate) for one in utterances]}
        seconds, cpu_times = (
            sum(len(clip) for clip in clips["recording"]) / mel.sample_rate,
            dict.fromkeys(vocoders, 0.0),
        )
        for kind, vocoder in vocoders.items():
            clips[kind] = []
            for clip in clips["recording"]:
                clips[kind].append(copy_recording(clip, mel, timed(vocoder, cpu_times, kind)))
        found = {f"dnsmos_{kind}": mean([judge.score(clip, mel.sample_rate) for clip in clips[kind]]) for kind in KINDS}
        for kind in vocoders:
            pairs = zip(clips[kind], clips["recording"], strict=True)
            scores = [measure_pesq(copied, clip, mel.sample_rate) for copied, clip in pairs]
            found[f"pesq_{kind}"] = mean([score for score in scores if score is not None])
            found[f"cpu_{kind}"] = cpu_times[kind] / seconds
        recognizer = recognizer_for(arguments.recognizer, utterances[0].language)
        for kind in KINDS if recognizer is not None else ():
            found[f"cer_{kind}"] = character_error(recognizer, clips[kind], utterances, mel.sample_rate)
        metrics |= {f"{speaker}_{name}": value for name, value in found.items()}
        rows.append(row_of(speaker, utterances, found))
    print_table(
        f"Copy synthesis of {arguments.vocoder.name}; in each cell recording / vocoder / Griffin-Lim",
        ("speaker", "clips", "DNSMOS", "character error %", "PESQ-WB", "CPU, vocoder / Griffin-Lim"),
        rows,
    )
    print(f"* never trained on: {', '.join(HELD_OUT)}")
    write_json(arguments.json, metrics)
    return 0


def chosen_clips(folders: list[Path], speakers: str | None, count: int) -> dict[str, list[Utterance]]:
    """Up to `count` clips of each speaker that were not trained on, spread evenly."""
    wanted = None if speakers is None else set(speakers.split(","))
    found: dict[str, list[Utterance]] = {}
    for folder in folders:
        corpus = read_corpus(DataConfig(train_data=str(folder)))
        for one, is_held_out in zip(corpus.utterances, corpus.is_validation, strict=True):
            if (is_held_out or one.speaker in HELD_OUT) and (wanted is None or one.speaker in wanted):
                found.setdefault(one.speaker, []).append(one)
    enough = {speaker: long_enough(listed) for speaker, listed in sorted(found.items())}
    return {
        speaker: listed[:: max(1, len(listed) // count)][:count]
        for speaker, listed in enough.items()
        if len(listed) >= min(count, 4)
    }


def timed(vocoder: Vocoder, cpu_times: dict[str, float], kind: str) -> Vocoder:
    """The vocoder, adding the processor time of each call to `cpu_times[kind]`."""

    def vocode(log_mel: np.ndarray) -> np.ndarray:
        started = time.process_time()
        samples = vocoder(log_mel)
        cpu_times[kind] += time.process_time() - started
        return samples

    return vocode


def long_enough(utterances: list[Utterance]) -> list[Utterance]:
    kept = []
    for one in utterances:
        try:
            samples, rate = read_audio(one.path)
        except AudioError:
            continue
        if len(samples) >= SHORTEST_SECONDS * rate:
            kept.append(one)
    return kept


def recorded(utterance: Utterance, rate: int) -> np.ndarray:
    """The recording as training prepares it."""
    samples, own_rate = read_audio(utterance.path)
    defaults = DataConfig()
    samples = resample(samples, own_rate, rate)
    return condition(samples, rate, defaults.trim_silence_db, defaults.loudness_db, defaults.trim_noise_db)


def recognizer_for(name: str | None, language: str) -> Recognizer | None:
    try:
        return open_recognizer(name, [language])
    except EvaluationError:
        return None


def character_error(recognizer: Recognizer, clips: list[np.ndarray], utterances: list[Utterance], rate: int) -> float:
    texts = recognizer.recognize(clips, rate, [one.language for one in utterances])
    counts = [count_errors(one.text, text, one.language) for one, text in zip(utterances, texts, strict=True)]
    return sum_errors(counts).character_error


def mean(values: list[float]) -> float:
    return statistics.fmean(values) if values else float("nan")


def row_of(speaker: str, utterances: list[Utterance], found: dict[str, float]) -> tuple[object, ...]:
    def cell(name: str, form: Callable[[float], str], kinds: tuple[str, ...] = KINDS) -> str:
        return " / ".join(form(found[f"{name}_{kind}"]) for kind in kinds) if f"{name}_{kinds[-1]}" in found else "–"

    return (
        f"{speaker}{'*' if speaker in HELD_OUT else ''} ({utterances[0].language})",
        len(utterances),
        cell("dnsmos", lambda value: f"{value:.2f}"),
        cell("cer", lambda value: f"{100 * value:.1f}"),
        cell("pesq", lambda value: f"{value:.2f}", KINDS[1:]),
        f"{found['cpu_vocoder'] / found['cpu_Griffin-Lim']:.2f}",
    )


if __name__ == "__main__":
    sys.exit(main())
