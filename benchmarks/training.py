"""How fast the trainer trains, and whether its device waits: one run, interleaved, as ratios.

    python benchmarks/training.py [--steps N] [--json FILE]

On the bundled corpus with the tiny network. Nothing else should run meanwhile: the metrics compare parts of this run with each
other, but a busy machine widens their spread.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

STEPS = 2000
ROUNDS = 5
STEPS_PER_ROUND = 8
COLD_STARTS = 3
STEPS_BETWEEN_RETRACES = 5
MATRIX_SIZE = 4096

CHILD = """
import time, psutil
started = psutil.Process().create_time()
before = time.time()
import tensorflow
imported = time.time() - before
from myxtts.config.load import load_config
from myxtts.training.display import Display
from myxtts.training.trainer import XTTSTrainer
from rich.console import Console
import io, json
config = load_config(None, {{"training.checkpoint_dir": {folder!r}}})
trainer = XTTSTrainer(config, display=Display(Console(file=io.StringIO())))
trainer.warm_up_training()
trainer.task.steps.learn([next(trainer.task.feed)]).numpy()
seconds = time.time() - started
print(json.dumps({{"first_step_seconds": seconds, "import_seconds": imported}}))
import os
os._exit(0)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=STEPS, help=f"steps of the long run ({STEPS})")
    parser.add_argument("--json", type=Path, help="also write the metrics there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        metrics = measure_cold_starts(Path(folder))
        metrics |= measure_paths(Path(folder))
        metrics |= measure_plans(Path(folder))
        metrics |= measure_long_run(Path(folder), arguments.steps)
    print_table(metrics)
    if arguments.json:
        arguments.json.write_text(
            json.dumps({name: value for name, value in metrics.items() if name[0] != "_"}, indent=1)
        )


def measure_cold_starts(folder: Path) -> dict:
    """From the command to the end of step 1, the cache already there; the median of several new processes."""
    results = []
    for number in range(COLD_STARTS + 1):  # the first one prepares the cache and is not counted
        code = CHILD.format(folder=str(folder / f"cold-{number}"))
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        results.append(json.loads(done.stdout.splitlines()[-1]))
    first = [result["first_step_seconds"] for result in results[1:]]
    return {
        "first_step_seconds": statistics.median(first),
        "import_seconds": statistics.median(result["import_seconds"] for result in results[1:]),
        "_first_step_spread": (min(first), max(first)),
    }


def measure_paths(folder: Path) -> dict:
    """Useful frames per second with oneDNN and without it: two processes that take turns."""
    from benchmarks.harness import interleaved, ratio

    code = "import sys; from benchmarks.training import serve_rounds; serve_rounds(sys.argv[1])"
    children = {
        name: subprocess.Popen(
            [sys.executable, "-c", code, str(folder / f"onednn-{setting}")],
            env=os.environ | {"TF_ENABLE_ONEDNN_OPTS": setting},
            cwd=Path(__file__).parents[1],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name, setting in (("with oneDNN", "1"), ("without oneDNN", "0"))
    }
    facts = {name: json.loads(child.stdout.readline()) for name, child in children.items()}

    def ask(child: subprocess.Popen) -> float:
        child.stdin.write("round\n")
        child.stdin.flush()
        return float(child.stdout.readline())

    rates = interleaved({name: lambda child=child: ask(child) for name, child in children.items()}, ROUNDS)
    for child in children.values():
        child.stdin.close()
        child.wait()
    found = ratio(rates, "without oneDNN", "with oneDNN")
    return {
        "instruction_set": facts["with oneDNN"]["instruction_set"],
        "convolution": facts["with oneDNN"]["convolution"],
        "convolution_without_onednn": facts["without oneDNN"]["convolution"],
        "without_onednn_vs_with": found.median,
        "_paths": found,
    }


def serve_rounds(folder: str) -> None:
    """In a child process: print what the steps run on, then the rate of one round for every line that is read."""
    from myxtts.runtime.startup import start_tensorflow

    start_tensorflow()
    contender = Contender(Path(folder))
    print(json.dumps(contender.trainer.task.hardware.facts()), flush=True)
    for _ in sys.stdin:
        contender.run_round()
        print(contender.rates[-1], flush=True)
    contender.trainer.close()


def make_trainer(folder: Path, **overrides):
    import io

    from rich.console import Console

    from myxtts.config.load import load_config
    from myxtts.training.display import Display
    from myxtts.training.trainer import XTTSTrainer

    fields = {"training.checkpoint_dir": str(folder)} | {
        name.replace("__", "."): value for name, value in overrides.items()
    }
    return XTTSTrainer(load_config(None, fields), display=Display(Console(file=io.StringIO())))


class Contender:
    """One way of training: its own trainer and feed, timed a few steps at a time."""

    def __init__(self, folder: Path, retraces: bool = False, **overrides):
        self.trainer = make_trainer(folder, **overrides)
        self.retraces = retraces
        self.rates: list[float] = []
        self.busy_cores: list[float] = []
        self.trainer.warm_up_training()
        self.trainer.task.steps.learn([next(self.trainer.task.feed)]).numpy()

    def run_round(self) -> None:
        """Useful frames per second of a few steps; with `retraces`, the function is built again every few steps."""
        steps, frames, started = self.trainer.task.steps, 0.0, time.perf_counter()
        cpu_seconds = time.process_time()
        for number in range(STEPS_PER_ROUND):
            if self.retraces and number % STEPS_BETWEEN_RETRACES == 0:
                steps.functions.clear()
            batch = next(self.trainer.task.feed)
            steps.learn([batch]).numpy()
            frames += float(batch.mel_lengths.numpy().sum())
        seconds = time.perf_counter() - started
        self.rates.append(frames / seconds)
        self.busy_cores.append((time.process_time() - cpu_seconds) / seconds)


def measure_plans(folder: Path) -> dict:
    """The default plan against the promised fixed shape, and against building the function again; and the arithmetic."""
    import tensorflow as tf

    from benchmarks.flops import training_flops
    from myxtts.runtime.machine import usable_cores

    default = Contender(folder / "default")
    others = {
        "fixed": Contender(folder / "fixed", data__pad_to_fixed_length=True, data__batch_size=16),
        "buckets": Contender(folder / "buckets", data__plan="buckets"),
        "retracing": Contender(folder / "retracing", retraces=True),
        "float32": Contender(folder / "float32", training__mixed_precision="off"),
    }
    precision = default.trainer.task.hardware.dtype_policy
    matrix = tf.cast(tf.random.stateless_normal((MATRIX_SIZE, MATRIX_SIZE), (1, 2)), precision.removeprefix("mixed_"))
    product = tf.function(lambda: tf.reduce_sum(tf.matmul(matrix, matrix)))
    product().numpy()
    products, step_seconds = [], []
    for _ in range(ROUNDS):
        default.run_round()
        for contender in others.values():
            contender.run_round()
        started = time.perf_counter()
        product().numpy()
        products.append(2 * MATRIX_SIZE**3 / (time.perf_counter() - started))
        started = time.perf_counter()
        for _ in range(STEPS_PER_ROUND):
            default.trainer.task.steps.learn([next(default.trainer.task.feed)]).numpy()
        step_seconds.append((time.perf_counter() - started) / STEPS_PER_ROUND)

    trainer, plan = default.trainer, default.trainer.task.corpus.plan
    forward = tf.function(trainer.task.steps._validation_step, input_signature=[plan.shapes[0].signature()])
    flops = training_flops(forward.get_concrete_function())
    fractions = [flops / seconds / rate for seconds, rate in zip(step_seconds, products, strict=True)]
    useful = plan.useful_fraction()
    ratios = {
        name: [mine / theirs for mine, theirs in zip(default.rates, contender.rates, strict=True)]
        for name, contender in others.items()
    }
    for contender in (default, *others.values()):
        contender.trainer.close()
    return {
        "default_vs_fixed": statistics.median(ratios["fixed"]),
        "default_vs_buckets": statistics.median(ratios["buckets"]),
        "default_vs_retracing": statistics.median(ratios["retracing"]),
        "precision": precision,
        "default_vs_float32": statistics.median(ratios["float32"]),
        "promised_vs_fixed": useful / others["fixed"].trainer.task.corpus.plan.useful_fraction(),
        "flops_share_total": statistics.median(fractions),
        "flops_share_useful": statistics.median(fractions) * useful,
        "parameters": trainer.task.state.layout.size,
        "busy_cores": statistics.median(default.busy_cores),
        "cores": usable_cores(),
        "_busy_cores": default.busy_cores,
        "_ratios": ratios,
        "_gflops": (statistics.median(products) / 1e9, flops / 1e9),
        "_fractions": fractions,
    }


def measure_long_run(folder: Path, steps: int) -> dict:
    """The real trainer, with its log, validation and checkpoints, over many steps."""
    trainer = make_trainer(folder / "long", training__max_steps=steps, training__epochs=1_000_000)
    memory = {}
    advance = trainer.display.advance

    def watched(step: int) -> None:
        if step in (max(steps // 10, 1), steps):
            memory[step] = psutil.Process().memory_info().rss
        advance(step)

    trainer.display.advance = watched
    summary = trainer.train()
    early, late = memory[max(steps // 10, 1)], memory[steps]
    after = summary.counts_after_warmup
    return {
        "traces_after_warmup": after.traces,
        "compilations_after_warmup": after.compilations,
        "signatures_after_warmup": after.signatures,
        "wait_share": summary.steps.wait_fraction,
        "step_cv": summary.steps.step_cv,
        "step_std_over_mean": summary.steps.std_over_mean,
        "rss_growth": late / early - 1,
        "logging_share": summary.logging_fraction,
        "useful_frames_per_second": summary.useful_frames_per_second,
        "steps": steps,
        "step_seconds": summary.steps.mean_seconds,
    }


def print_table(metrics: dict) -> None:
    from rich.console import Console
    from rich.table import Table

    def spread(values: list[float]) -> str:
        return f"{min(values):.2f} – {max(values):.2f}"

    low, high = metrics["_first_step_spread"]
    product, step = metrics["_gflops"]
    ratios = metrics["_ratios"]
    rows = [
        ("instruction set", metrics["instruction_set"], f"convolution {metrics['convolution']}"),
        (
            "useful frames/s, without oneDNN against with it",
            f"{metrics['without_onednn_vs_with']:.2f}x",
            f"{metrics['_paths']}, convolution {metrics['convolution_without_onednn']}",
        ),
        ("busy cores", f"{metrics['busy_cores']:.2f} of {metrics['cores']}", spread(metrics["_busy_cores"])),
        ("useful frames/s, default against fixed", f"{metrics['default_vs_fixed']:.2f}x", spread(ratios["fixed"])),
        ("  what the useful fractions predict", f"{metrics['promised_vs_fixed']:.2f}x", ""),
        (
            "useful frames/s, default against 8 buckets",
            f"{metrics['default_vs_buckets']:.2f}x",
            spread(ratios["buckets"]),
        ),
        (
            "useful frames/s, default against retracing",
            f"{metrics['default_vs_retracing']:.1f}x",
            spread(ratios["retracing"]),
        ),
        (
            f"useful frames/s, default ({metrics['precision']}) against float32",
            f"{metrics['default_vs_float32']:.2f}x",
            spread(ratios["float32"]),
        ),
        ("first step, from the command", f"{metrics['first_step_seconds']:.1f} s", f"{low:.1f} – {high:.1f} s"),
        ("  TensorFlow's import in it", f"{metrics['import_seconds']:.1f} s", ""),
        ("arithmetic, of a large matrix product", f"{metrics['flops_share_total']:.0%}", spread(metrics["_fractions"])),
        ("  useful", f"{metrics['flops_share_useful']:.0%}", f"{step:.0f} GFLOP per step, {product:.0f} GFLOP/s"),
        ("steps of the long run", f"{metrics['steps']:,}", f"{metrics['step_seconds']:.3f} s each"),
        ("useful frames/s", f"{metrics['useful_frames_per_second']:,.0f}", ""),
        ("waiting for data", f"{metrics['wait_share']:.2%}", ""),
        (
            "robust spread of the step time",
            f"{metrics['step_cv']:.1%}",
            f"std/mean {metrics['step_std_over_mean']:.1%}",
        ),
        ("traces, compilations, signatures after warm-up", "", ""),
        (
            "",
            f"{metrics['traces_after_warmup']}, {metrics['compilations_after_warmup']}, {metrics['signatures_after_warmup']}",
            "",
        ),
        ("growth of resident memory", f"{metrics['rss_growth']:.1%}", "from a tenth of the steps to the end"),
        ("logging", f"{metrics['logging_share']:.2%}", "of the time"),
        ("parameters", f"{metrics['parameters']:,}", ""),
    ]
    table = Table("measured", "value", "spread", title="Training, tiny network, bundled corpus")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main()
