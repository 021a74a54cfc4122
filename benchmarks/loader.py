"""How fast batches come, how full they are, and how this grows: `python benchmarks/loader.py [--quick] [--json FILE]`.

Everything is measured in one run on the bundled prompts, contenders take turns, and results are ratios (`harness.py`). Nothing
else should run meanwhile. `--quick` leaves out `prepare` and the largest index, and ends within a minute; `--prepare` measures
`prepare` alone.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as a script, Python searches the folder benchmarks/ only

from benchmarks.harness import Ratio, interleaved, paced, print_rates, print_table, ratio, write_json
from benchmarks.librosa_mel import bandwidth_of, mel_of, read_samples, snr_of
from myxtts.audio.files import read_audio, write_audio
from myxtts.audio.mel import MelSpec
from myxtts.batches.order import Plan
from myxtts.batches.plan import build_plan, fitting_clips
from myxtts.cache.clip_table import Cache
from myxtts.cache.format import CacheSettings, clip_key
from myxtts.cache.journal import open_records
from myxtts.cache.prepare import prepare_cache
from myxtts.cache.worker import open_workers
from myxtts.cache.writer import publish
from myxtts.config.config import DataConfig
from myxtts.corpus.corpus import bundled_corpus, read_corpus
from myxtts.runtime.machine import usable_cores
from myxtts.runtime.workers import WorkerPool
from myxtts.text.tokenizer import SymbolTable, build_front_end

BATCH_SIZE, MAX_TEXT_LENGTH, MAX_MEL_FRAMES = 16, 200, 800
GROWTH_CLIPS = (10_000, 100_000, 1_000_000)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write the metrics as one flat JSON object")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds, without the slow parts")
    parser.add_argument("--prepare", action="store_true", help="only `prepare` against librosa")
    arguments = parser.parse_args()
    metrics: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="myxtts-benchmark-") as name:
        folder = Path(name)
        config = DataConfig(
            train_data=str(wav_copy(folder / "corpus")), cache_dir=str(folder / "cache"), text_symbols="graphemes"
        )
        cache = prepare_cache(config)
        metrics |= useful_fractions(cache)
        if (
            arguments.prepare or not arguments.quick
        ):  # before TensorFlow is imported: `myxtts prepare` also runs without it
            metrics |= preparing_rates(config, folder, rounds=7)
        if not arguments.prepare:
            metrics |= loading_rates(
                cache, config, folder, rounds=3 if arguments.quick else 9, seconds=0.5 if arguments.quick else 1.5
            )
            metrics |= growth(cache, folder, GROWTH_CLIPS[:2] if arguments.quick else GROWTH_CLIPS)
    write_json(arguments.json, metrics)
    return 0


def wav_copy(folder: Path) -> Path:
    """The bundled prompts as 16-bit WAV, which every contender can read."""
    (folder / "wavs").mkdir(parents=True)
    source = bundled_corpus()
    for metadata in source.glob("metadata*.csv"):
        (folder / metadata.name).write_bytes(metadata.read_bytes())
    for recording in sorted((source / "wavs").iterdir()):
        samples, rate = read_audio(recording)
        write_audio(folder / "wavs" / f"{recording.stem}.wav", samples, rate)
    return folder


def planned(cache: Cache, kind: str, num_buckets: int = 8) -> Plan:
    """A plan of all clips, training and validation, that fit the promised shape."""
    fits = fitting_clips(cache.frame_counts, cache.token_counts, MAX_TEXT_LENGTH, MAX_MEL_FRAMES)
    return build_plan(
        kind,
        cache.frame_counts,
        cache.token_counts,
        clips=np.flatnonzero(fits),
        batch_size=BATCH_SIZE,
        max_text_length=MAX_TEXT_LENGTH,
        max_mel_frames=MAX_MEL_FRAMES,
        num_buckets=num_buckets,
    )


def useful_fractions(cache: Cache) -> dict[str, float]:
    """Frames of clips among all frames of the batches."""
    plans = {"fixed": planned(cache, "fixed"), "packed": planned(cache, "packed"), "dynamic": planned(cache, "dynamic")}
    plans |= {f"buckets{count}": planned(cache, "buckets", count) for count in (4, 8, 12)}
    fractions = {name: plan.useful_fraction(epochs=10) for name, plan in plans.items()}
    rows = [
        (name, f"{fraction:.1%}", len(plans[name].shapes))
        for name, fraction in sorted(fractions.items(), key=lambda one: one[1])
    ]
    print_table(f"Useful frames of {len(plans['fixed'].clips)} prompts", ("plan", "useful", "shapes"), rows)
    return {f"useful_{name}": fractions[name] for name in ("fixed", "buckets8", "packed")}


def loading_rates(cache: Cache, config: DataConfig, folder: Path, rounds: int, seconds: float) -> dict[str, float]:
    """Clips a second into batches of 16 clips (packed: rows that hold about 16)."""
    from benchmarks.loader_contenders import (
        TorchLoader,
        clips_per_batch,
        copy_contender,
        dataset_contender,
        feed_contender,
        on_the_fly_dataset,
    )
    from myxtts.batches.feed import open_feed

    fixed, packed = planned(cache, "fixed"), planned(cache, "packed")
    by_id = {one.id: str(one.path) for one in read_corpus(config).utterances}
    paths = [by_id[clip_id] for clip_id in cache.ids]
    torch_loader = TorchLoader(cache, fixed, folder)
    with open_feed(cache, fixed, config) as fixed_feed, open_feed(cache, packed, config) as packed_feed:
        takers = {
            "cached, fixed 16x200x800": feed_contender(fixed_feed, BATCH_SIZE),
            f"cached, packed {packed.shapes[0]}": feed_contender(packed_feed, clips_per_batch(packed)),
            "native on the fly": dataset_contender(on_the_fly_dataset(cache, fixed, paths, False), BATCH_SIZE),
            "librosa in numpy_function": dataset_contender(on_the_fly_dataset(cache, fixed, paths, True), BATCH_SIZE),
            "NumPy copy, one thread": copy_contender(fixed_feed, BATCH_SIZE),
        }
        contenders = {name: paced(take, seconds) for name, take in takers.items()}
        for workers in (0, 1, 2):
            contenders[f"PyTorch DataLoader, {workers} workers"] = torch_loader.contender(workers, seconds)
        for run in contenders.values():
            run()  # not counted: first use
        rates = interleaved(contenders, rounds)
    torch_loader.close()
    fixed_name, packed_name, native_name, python_name, copy_name, *torch_names = contenders
    best_torch = max(torch_names, key=lambda name: statistics.median(rates[name]))
    print_rates("Loading", "clips/s", rates)
    ratios = {
        "fixed_vs_numpy_function": ratio(rates, fixed_name, python_name),
        "packed_vs_numpy_function": ratio(rates, packed_name, python_name),
        "native_vs_numpy_function": ratio(rates, native_name, python_name),
        "fixed_vs_copy": ratio(rates, fixed_name, copy_name),
        "fixed_vs_torch": ratio(rates, fixed_name, best_torch),
    }
    return shown("Loading, as ratios", ratios)


def preparing_rates(config: DataConfig, folder: Path, rounds: int) -> dict[str, float]:
    """Decoding, mel, bandwidth, noise and writing of all prompts; worker processes are warm, texts are left out."""
    # No side cuts silence or noise, or levels loudness: the work is the same. Only `mel alone` measures no bandwidth and noise.
    config = dataclasses.replace(
        config, trim_silence_db=None, trim_noise_db=None, loudness_db=None, min_seconds=0.01, max_seconds=1000.0
    )
    utterances = read_corpus(config).utterances
    paths = [str(one.path) for one in utterances]
    _, sample_rate = read_audio(paths[0])
    spec = MelSpec.from_config(config, sample_rate)
    settings = CacheSettings(spec, None, None, None, config.min_seconds, config.max_seconds, "graphemes", "benchmark")
    no_tokens = np.zeros(0, np.int32)
    processes = usable_cores()
    runs = iter(range(10_000))

    def ours(pool: WorkerPool) -> float:
        target = folder / f"prepared-{next(runs)}"
        target.mkdir()
        started = time.perf_counter()
        with open_records(target, settings, None) as writer:
            writer.start(SymbolTable().to_list())
            for place, head, payload in pool.run("audio", [[path, sample_rate, None, False] for path in paths]):
                record = {
                    "key": clip_key(utterances[place].id),
                    "source_bytes": 0,
                    "source_mtime_ns": 0,
                    "source_hash": bytes.fromhex(head["hash"]),
                    "text_hash": 0,
                    "bandwidth": head["bandwidth"],
                    "snr": head["snr"],
                }
                writer.append(record, np.frombuffer(payload, "<f4").reshape(-1, spec.n_mels), no_tokens)
            writer.sync()
        elapsed = time.perf_counter() - started
        return len(paths) / elapsed

    def librosas(pool: ProcessPoolExecutor, with_quality: bool) -> float:
        target = folder / f"prepared-{next(runs)}.f32"
        started = time.perf_counter()
        with open(target, "wb") as file:
            for mel, quality in pool.map(librosa_job, [(path, spec, with_quality) for path in paths], chunksize=8):
                file.write(mel.tobytes())
                file.write(np.array(quality, np.float32).tobytes())
            file.flush()
            os.fsync(file.fileno())
        return len(paths) / (time.perf_counter() - started)

    front_end = build_front_end("graphemes")
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read by the other side's workers: as many processes as cores are enough
    with (
        open_workers(config, front_end, processes) as our_pool,
        ProcessPoolExecutor(processes, mp_context=get_context("forkserver")) as their_pool,
    ):
        contenders = {
            "myxtts prepare": lambda: ours(our_pool),
            "librosa + soundfile": lambda: librosas(their_pool, True),
            "librosa + soundfile, mel alone": lambda: librosas(their_pool, False),
        }
        for run in contenders.values():
            run()
        rates = interleaved(contenders, rounds)
    print_rates(f"Preparing on {processes} cores", "clips/s", rates)
    our_name, their_name, mel_name = contenders
    ratios = {
        "prepare_vs_librosa": ratio(rates, our_name, their_name),
        "prepare_vs_librosa_mel": ratio(rates, our_name, mel_name),
    }
    return shown("Preparing, as ratios", ratios)


def librosa_job(item: tuple[str, MelSpec, bool]) -> tuple[np.ndarray, tuple[float, ...]]:
    """Log-mel of a recording and, where its quality is wanted, its bandwidth (Hz) and SNR (dB)."""
    path, spec, with_quality = item
    rate = spec.sample_rate
    samples = read_samples(path, rate)
    mel = mel_of(samples, rate, spec.n_fft, spec.hop_length, spec.n_mels, spec.log_floor)
    return mel, (bandwidth_of(samples, rate), snr_of(samples, rate)) if with_quality else ()


def growth(cache: Cache, folder: Path, sizes: tuple[int, ...]) -> dict[str, float]:
    """Opening, planning and the first batch with made-up indexes over the frames of the bundled prompts."""
    results = {}
    for clips in sizes:
        made_up = made_up_cache(cache, folder / f"index-{clips}", clips)
        script = str(Path(__file__).with_name("loader_growth.py"))
        runs = [
            json.loads(subprocess.run([sys.executable, script, str(made_up)], check=True, capture_output=True).stdout)
            for _ in range(3 if len(sizes) == len(GROWTH_CLIPS) else 1)
        ]
        results[clips] = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    rows = [
        (
            f"{clips:,}",
            *(f"{result[name]:.2f}" for name in ("open_seconds", "plan_and_batch_seconds", "seconds")),
            f"{result['megabytes']:.0f}",
        )
        for clips, result in results.items()
    ]
    print_table("Growth", ("clips", "open, s", "plan and first batch, s", "together, s", "memory, MB"), rows)
    if GROWTH_CLIPS[-1] not in results:
        return {}
    large, small = results[GROWTH_CLIPS[-1]], results[GROWTH_CLIPS[-2]]
    return {
        "open_1m_seconds": large["seconds"],
        "open_1m_mb": large["megabytes"],
        "open_growth": max(large[name] / small[name] for name in ("seconds", "megabytes")),
    }


def made_up_cache(cache: Cache, folder: Path, clips: int) -> Path:
    """An index of many clips, all of them of the given cache, whose frames and tokens it shares."""
    folder.mkdir()
    fits = np.flatnonzero(fitting_clips(cache.frame_counts, cache.token_counts, MAX_TEXT_LENGTH, MAX_MEL_FRAMES))
    chosen = np.resize(fits, clips)
    columns = {
        name: getattr(cache, name)[chosen]
        for name in (
            "frame_starts",
            "token_starts",
            "frame_counts",
            "token_counts",
            "speaker_numbers",
            "language_numbers",
            "checksums",
        )
    }
    columns["is_validation"] = np.zeros(clips, bool)
    columns |= {name: np.zeros(clips, np.int64) for name in ("source_bytes", "source_mtimes_ns", "text_hashes")}
    columns["source_hashes"] = np.zeros(clips, "V16")
    for path in (cache.frames_path, cache.tokens_path):
        os.link(path, folder / path.name)
    tables = {
        "symbols": cache.symbols.to_list(),
        "speakers": list(cache.speakers),
        "languages": list(cache.languages),
        "generation": 1,
        "frames_file": cache.frames_path.name,
        "tokens_file": cache.tokens_path.name,
        "rows": cache.num_rows,
        "tokens": cache.num_tokens,
        "data_folder": str(folder),
        "config": {},
    }
    ids = [f"clip{number}" for number in range(clips)]
    publish(folder, cache.header["settings"], columns, ids, ["a text"] * clips, tables)
    return folder


def shown(title: str, ratios: dict[str, Ratio]) -> dict[str, float]:
    """Print ratios and return their medians."""
    rows = [(name, f"{one.median:.3g}", f"{one.low:.3g} – {one.high:.3g}") for name, one in ratios.items()]
    print_table(title, ("", "median", "all rounds"), rows)
    return {name: one.median for name, one in ratios.items()}


if __name__ == "__main__":
    sys.exit(main())
