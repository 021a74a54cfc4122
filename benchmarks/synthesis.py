"""How fast a voice speaks, starts, and forgets: `python benchmarks/synthesis.py [--voice DIR] [--vocoder] [--json FILE]`.

Without a voice to measure (none given, none bundled) a network of the size `tiny` with random weights is measured: it costs the
same. `--vocoder` also compares the vocoder with librosa's Griffin-Lim (60 iterations) on all bundled recordings of at least four
words: character errors of a recognizer (needs the extras `evaluate` and `benchmark`). Nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as a script, Python searches the folder benchmarks/ only

from benchmarks.harness import print_table, write_json
from myxtts.audio.clips import load_clip
from myxtts.audio.mel import MelSpec, mel_numpy
from myxtts.config.config import DataConfig, ModelConfig
from myxtts.corpus.recipes import bundled_corpus
from myxtts.errors import AudioError, VoiceError
from myxtts.models.spec import ModelSpec
from myxtts.synthesis.voice import Voice
from myxtts.synthesis.voice_folder import VoiceDescription, bundled_voice, save_voice
from myxtts.text.tokenizer import FrontEnd, SymbolTable

FEWEST_WORDS = 4
"""Of a prompt whose errors are counted: shorter ones are names and letters, which a recognizer guesses."""
SETTLED_AFTER = 100
"""Sentences after which memory is compared: by then every shape has been used."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--voice", metavar="DIR", help="default: the bundled voice, or random weights")
    parser.add_argument("--json", metavar="FILE", help="write the figures as one flat JSON object")
    parser.add_argument("--sentences", type=int, default=1000, help="sentences over which memory must stay flat")
    parser.add_argument("--rounds", type=int, default=5, help="repetitions of everything that starts a process")
    parser.add_argument("--vocoder", action="store_true", help="character errors against librosa's Griffin-Lim")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="myxtts-benchmark-") as name:
        folder = voice_folder(arguments.voice, Path(name))
        figures = starting(folder, Path(name), arguments.rounds)
        voice = Voice.load(folder)
        started = time.perf_counter()
        voice.warm_up()
        figures["warm_up_seconds"] = time.perf_counter() - started
        figures |= speaking(voice)
        figures |= lasting(voice, arguments.sentences)
        if arguments.vocoder:
            figures |= vocoding(voice)
    rows = [(key, f"{value:.3f}" if isinstance(value, float) else str(value)) for key, value in figures.items()]
    print_table(f"Synthesis with {arguments.voice or 'the bundled voice or random weights'}", ("", "measured"), rows)
    write_json(arguments.json, figures)
    return 0


def voice_folder(given: str | None, place: Path) -> Path:
    """The voice to measure."""
    if given is not None:
        return Path(given)
    try:
        return bundled_voice()
    except VoiceError:
        return random_voice(place / "random-voice")


def random_voice(folder: Path) -> Path:
    """A tiny voice that speaks nonsense at the usual pace."""
    from myxtts.models.xtts import XTTS

    symbols = SymbolTable().extended_with("abcdefghijklmnopqrstuvwxyz'")
    mel = MelSpec(16000)
    model = ModelSpec.from_config(
        ModelConfig(), num_symbols=len(symbols), num_languages=1, num_speakers=1, n_mels=mel.n_mels
    )
    network = XTTS(model)
    network.build()
    weights = {name: np.asarray(variable.value) for name, variable in network.weights_by_name().items()}
    weights["duration_predictor/output/kernel"] *= 0
    weights["duration_predictor/output/bias"] += np.log(2.3)  # frames a symbol or blank: 13.6 letters a second
    weights["mel_mean"] -= 4
    description = VoiceDescription(
        model=model.to_dict(),
        mel=mel.to_dict(),
        symbols=symbols.to_list(),
        front_end=FrontEnd("graphemes").to_dict(),
        languages=["en"],
        speakers=["random"],
    )
    return save_voice(folder, description, weights)


def starting(folder: Path, place: Path, rounds: int) -> dict[str, float]:
    """Seconds of TensorFlow's import and of a whole `myxtts say`, each in new processes that take turns."""
    say = [sys.executable, "-m", "myxtts.cli", "say", "Please enter your password, followed by the pound key."]
    commands = {
        "import_seconds": [sys.executable, "-c", "import tensorflow"],
        "say_seconds": [*say, "--voice", str(folder), "-o", str(place / "said.wav")],
    }
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            started = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in seconds.items()}


def speaking(voice: Voice) -> dict[str, float]:
    """Real-time factors over the held-out sentences, and the wait for the first sound of a long text; after `warm_up`."""
    texts = sentences()[:60]
    figures = {}
    ways: dict[str, Callable[[], float]] = {
        "rtf": lambda: sum(voice.synthesize(text, seed=number).seconds for number, text in enumerate(texts)),
        "rtf_batched": lambda: sum(audio.seconds for audio in voice.synthesize_many(texts)),
    }
    voice.synthesize_many(texts)  # compiles the functions of batches
    for name, speak in ways.items():
        started = time.perf_counter()
        spoken_seconds = speak()
        figures[name] = (time.perf_counter() - started) / spoken_seconds
    waits = []
    for start in range(0, 50, 10):
        long_text = " ".join(texts[start : start + 10] * 10)
        started = time.perf_counter()
        next(iter(voice.say(long_text)))
        waits.append(time.perf_counter() - started)
    return figures | {"first_audio_seconds": statistics.median(waits), "first_audio_seconds_worst": max(waits)}


def lasting(voice: Voice, count: int) -> dict[str, float]:
    """Growth of the process's memory (share of its size) over many different sentences, and functions compiled in all."""
    process = psutil.Process()
    known = sentences()
    generator = np.random.default_rng(1)
    settled = 0
    for number in range(count):
        first, second = generator.integers(len(known), size=2)
        voice.synthesize(f"{known[first]} {known[second]}" if number % 3 == 0 else known[first], seed=number)
        if number + 1 == min(SETTLED_AFTER, count // 2):
            settled = process.memory_info().rss
    return {
        "rss_growth": process.memory_info().rss / settled - 1,
        "functions_compiled": voice.counts().traces,
        "sentences": count,
    }


def vocoding(voice: Voice) -> dict[str, float]:
    """Character errors on recordings: as they are, through our vocoder, through librosa's with 60 iterations."""
    import librosa

    from myxtts.evaluation.estimates import Ratio, estimate
    from myxtts.evaluation.recognizers import RECOGNIZER_RATE, open_recognizer
    from myxtts.evaluation.text_errors import count_errors, sum_errors

    mel = MelSpec(RECOGNIZER_RATE)
    if voice.mel != mel:
        raise VoiceError(f"The vocoder is compared at {mel}. Received: a voice of {voice.mel}.")
    texts, clips = [], []
    for clip_id, text, *_ in metadata("metadata_eval.csv") + metadata("metadata_train.csv"):
        if len(text.split()) >= FEWEST_WORDS:
            with contextlib.suppress(AudioError):  # silence and what is too long, as in `prepare`
                clips.append(load_clip(recording(clip_id), DataConfig(), mel.sample_rate))
                texts.append(text)
    mels = [mel_numpy(clip, mel) for clip in clips]

    def by_librosa(frames: np.ndarray) -> np.ndarray:
        magnitude = librosa.feature.inverse.mel_to_stft(
            np.exp(frames.T), sr=mel.sample_rate, n_fft=mel.n_fft, power=1.0
        )
        return librosa.griffinlim(magnitude, n_iter=60, hop_length=mel.hop_length, n_fft=mel.n_fft, random_state=0)

    contenders = {
        "cer_recordings": lambda: clips,
        "cer_vocoder": lambda: [voice.vocode(frames).samples for frames in mels],
        "cer_librosa_60": lambda: [by_librosa(frames) for frames in mels],
    }
    figures, counts = {"vocoded_clips": len(clips)}, {}
    for name, sounds in contenders.items():
        started = time.perf_counter()
        audios = sounds()
        figures[name.replace("cer", "seconds")] = time.perf_counter() - started
        heard = open_recognizer("pocketsphinx", ["en"]).recognize(audios, mel.sample_rate, ["en"] * len(audios))
        counts[name] = [count_errors(said, what, "en") for said, what in zip(texts, heard, strict=True)]
        figures[name] = sum_errors(counts[name]).character_error
    difference = estimate(
        [
            [Ratio(ours.character_edits - theirs.character_edits, ours.characters)]
            for ours, theirs in zip(counts["cer_vocoder"], counts["cer_librosa_60"], strict=True)
        ]
    )
    return figures | {f"vocoder_minus_librosa_{name}": value for name, value in vars(difference).items()}


def metadata(name: str) -> list[list[str]]:
    """Lines of one of the bundled corpus's lists, without its heading."""
    lines = (bundled_corpus() / name).read_text(encoding="utf-8").splitlines()
    return [line.split("|") for line in lines[1:]]


def recording(clip_id: str) -> Path:
    """The file of a bundled clip."""
    return next((bundled_corpus() / "wavs").glob(f"{clip_id}.*"))


def sentences() -> list[str]:
    """Texts of the bundled corpus, held-out ones first."""
    return [line[1] for name in ("metadata_eval.csv", "metadata_train.csv") for line in metadata(name)]


if __name__ == "__main__":
    sys.exit(main())
