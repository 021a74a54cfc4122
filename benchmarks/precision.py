"""float16, float32 and int8 weights of a voice: size, speed and difference: `python benchmarks/precision.py [--json FILE]`.

float16 is what a voice folder has: it is widened when the file is loaded. int8 is ONNX Runtime's dynamic quantization of all
matrix products. Processor time is that of the networks without vocoder, in turns on the same sentences, as a ratio to float32;
the difference is that of the mel (RMS, natural logarithm) and of the durations, with the durations of float32 for the mel.
`--recognizer NAME` adds the character error of each. Needs the extra `evaluate` for that alone.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnxruntime.quantization import QuantType, quantize_dynamic

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as a script, Python searches the folder benchmarks/ only

from benchmarks.harness import add_voice_argument, interleaved, print_table, ratio, write_json
from benchmarks.synthesis import sentences
from myxtts.synthesis.engine import EncodedText, Engine, Session, noise_of
from myxtts.synthesis.onnx_file import cut_model, read_model
from myxtts.synthesis.options import SpeechOptions
from myxtts.synthesis.voice import Voice
from myxtts.synthesis.voice_folder import (
    FEATURES,
    FRAMES_PER_SYMBOL,
    LONGEST_SYMBOL_SECONDS,
    MEL,
    VOICE_MODEL_NAME,
    voice_tensors,
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_voice_argument(parser)
    parser.add_argument("--sentences", type=int, default=20, help="sentences of one turn")
    parser.add_argument("--rounds", type=int, default=5, help="turns of every precision")
    parser.add_argument("--recognizer", help="also measure character errors, as in `myxtts evaluate`")
    parser.add_argument("--json", metavar="FILE", help="write the metrics as one flat JSON object")
    arguments = parser.parse_args()
    voice = Voice.load(arguments.voice)
    texts = sentences()[: arguments.sentences]
    with tempfile.TemporaryDirectory(prefix="myxtts-precision-") as name:
        files = model_files(arguments.voice, voice, Path(name))
        engines = {precision: load(voice, paths) for precision, paths in files.items()}
        sizes = {precision: sum(path.stat().st_size for path in paths) / 1e6 for precision, paths in files.items()}
    metrics: dict[str, float] = {}
    spoken = {precision: speak(voice, engine, texts) for precision, engine in engines.items()}
    rates = interleaved({name: _timed(voice, engine, texts) for name, engine in engines.items()}, arguments.rounds)
    rows = []
    for precision, engine in engines.items():
        metrics[f"megabytes_{precision}"] = sizes[precision]
        metrics[f"cpu_vs_float32_{precision}"] = 1 / ratio(rates, precision, "float32").median
        metrics |= {
            f"{key}_{precision}": value for key, value in difference(voice, engines["float32"], engine, texts).items()
        }
        if arguments.recognizer is not None:
            metrics[f"cer_{precision}"] = character_error(voice, spoken[precision], texts, arguments.recognizer)
        rows.append([precision, *(f"{value:.4g}" for key, value in metrics.items() if key.endswith(f"_{precision}"))])
    columns = [key.removesuffix(f"_{precision}") for key in metrics if key.endswith(f"_{precision}")]
    print_table(f"Precision of {arguments.voice}", ("", *columns), rows)
    write_json(arguments.json, metrics)
    return 0


def model_files(folder: Path, voice: Voice, place: Path) -> dict[str, list[Path]]:
    """Encoder and decoder of a voice in each precision, as files."""
    inputs, outputs = voice_tensors(voice.description)
    whole = read_model(folder / VOICE_MODEL_NAME, inputs, outputs)
    parts = {
        "encoder": cut_model(whole, inputs, (FEATURES, FRAMES_PER_SYMBOL)),
        "decoder": cut_model(whole, (*inputs, FEATURES, FRAMES_PER_SYMBOL), (MEL,)),
    }
    files: dict[str, list[Path]] = {"float16": [], "float32": [], "int8": []}
    for name, model in parts.items():
        paths = {precision: place / f"{name}-{precision}.onnx" for precision in files}
        onnx.save(model, paths["float16"])
        _fold(paths["float16"], paths["float32"])
        logging.getLogger().setLevel(logging.ERROR)  # it advises to simplify the graph first, which `_fold` did
        # Weights of the decoder are outside the loop that uses them.
        quantize_dynamic(
            paths["float32"], paths["int8"], weight_type=QuantType.QInt8, extra_options={"EnableSubgraph": True}
        )
        for precision, path in paths.items():
            files[precision].append(path)
    return files


def _fold(source: Path, target: Path) -> None:
    """Write the graph as ONNX Runtime simplifies it: weights are float32 there."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(target)
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def load(voice: Voice, paths: list[Path]) -> Engine:
    """An engine of two files."""
    encoder, decoder = (Session(onnx.load(path)) for path in paths)
    return Engine(encoder, decoder, None, LONGEST_SYMBOL_SECONDS * voice.mel.frames_per_second)


def speak(voice: Voice, engine: Engine, texts: list[str]) -> list[np.ndarray]:
    """Log-mels of the texts."""
    sampling, mels = voice.sampling(SpeechOptions()), []
    for text in texts:
        encoded = engine.encode(voice.tokenizer.encode(text, voice.languages[0]).ids, sampling)
        mels.append(engine.decode(encoded, _noise(voice, encoded), sampling))
    return mels


def _timed(voice: Voice, engine: Engine, texts: list[str]) -> Callable[[], float]:
    def rate() -> float:
        before = os.times()
        frames = sum(map(len, speak(voice, engine, texts)))
        after = os.times()
        return frames / (after.user + after.system - before.user - before.system)

    return rate


def difference(voice: Voice, reference: Engine, engine: Engine, texts: list[str]) -> dict[str, float]:
    """RMS and largest difference of the mel with the same durations, and the fraction of symbols of another duration."""
    sampling = voice.sampling(SpeechOptions())
    squares = count = largest = changed = symbols = 0.0
    for text in texts:
        ids = voice.tokenizer.encode(text, voice.languages[0]).ids
        expected, found = reference.encode(ids, sampling), engine.encode(ids, sampling)
        noise = _noise(voice, expected)
        mels = (
            reference.decode(expected, noise, sampling),
            engine.decode(found._replace(frames=expected.frames), noise, sampling),
        )
        gap = np.abs(mels[0] - mels[1])
        squares, count, largest = squares + float((gap**2).sum()), count + gap.size, max(largest, float(gap.max()))
        changed, symbols = changed + float((expected.frames != found.frames).sum()), symbols + len(expected.frames)
    return {"mel_rms": (squares / count) ** 0.5, "mel_largest": largest, "durations_changed": changed / symbols}


def _noise(voice: Voice, encoded: EncodedText) -> np.ndarray:
    return noise_of(0, 0, int(encoded.frames.sum()), voice.mel.n_mels)


def character_error(voice: Voice, mels: list[np.ndarray], texts: list[str], recognizer: str) -> float:
    """What a recognizer makes of the sounds."""
    from myxtts.evaluation.clip_metrics import count_errors, sum_errors
    from myxtts.evaluation.recognizers import open_recognizer

    language, sounds = voice.languages[0], [voice.vocode(mel).samples for mel in mels]
    heard = open_recognizer(recognizer, [language]).recognize(sounds, voice.sample_rate, [language] * len(sounds))
    return sum_errors([count_errors(*pair, language) for pair in zip(texts, heard, strict=True)]).character_error


if __name__ == "__main__":
    sys.exit(main())
