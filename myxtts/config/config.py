"""Every setting of MyXTTS: its type, range, default and reason, in one place.

In: a YAML file and flags (flags win). Out: a frozen `XTTSConfig`, or one `ConfigError` that lists all that is wrong.
`configs/config.yaml` is written from this module (`myxtts.config.yaml_file`), so the two cannot disagree. No TensorFlow here.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field
from pydantic.dataclasses import dataclass
from pydantic_core import PydanticCustomError

STRICT = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True, allow_inf_nan=False)

LARGEST_INT = 2**31 - 1
"""What TensorFlow's and NumPy's 32-bit integers hold: sizes, steps and seeds become such numbers."""
LARGEST_FLOAT = 1e9
"""Far above every useful value, and far below the overflow of the float32 that these settings become."""
PositiveInt = Annotated[int, Field(ge=1, le=LARGEST_INT)]
NaturalInt = Annotated[int, Field(ge=0, le=LARGEST_INT)]
PositiveFloat = Annotated[float, Field(gt=0, le=LARGEST_FLOAT)]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Auto = Literal["auto"]


def _device_name(name: str) -> str:
    if re.fullmatch(r"auto|cpu|gpu(:\d+)?", name) is None:
        raise PydanticCustomError("device", "auto, cpu, gpu or gpu:N")
    return name


DEFAULT_LANGUAGE = "en"
DEFAULT_SIZE = "tiny"


@dataclass(frozen=True, config=STRICT, kw_only=True)
class DataConfig:
    """Recordings, texts, the cache, and how batches are shaped and delivered."""

    train_data: str | None = None
    """Folder of recordings with metadata.csv. Null: the bundled English prompts."""
    val_data: str | None = None
    """Folder of validation recordings. Null: metadata_eval.csv of train_data, or a split by clip id that never moves."""
    validation_share: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    """Share of the clips held out when there is no validation set."""
    cache_dir: str | None = None
    """Where prepared clips are kept. Null: `.myxtts/cache` beside the recordings, or below the user's cache folder."""
    cache_memory_mb: PositiveInt = 4096
    """Prepared clips up to this size (MB) are held in memory; larger corpora are read through a memory map."""
    language: Annotated[str, Field(min_length=2, max_length=20)] | None = None
    """Language of clips whose metadata names none. Null: that of init_from, or the one that the corpus was prepared in, or en."""
    text_symbols: Literal["auto", "phonemes", "espeak", "graphemes"] = "auto"
    """Phonemes of English and Persian come from our own G2P, of other languages from espeak-ng (the extra `phonemes`, GPL);
    espeak: all from espeak-ng. Auto: those of init_from; otherwise phonemes where possible, or graphemes."""
    lexicon: str | None = None
    """Text file of `word<TAB>phonemes` lines; its words win over espeak-ng's."""
    sample_rate: Auto | Annotated[int, Field(ge=8000, le=48000)] = "auto"
    """Hz of the voice; recordings at other rates are resampled. Auto: the rate of init_from; otherwise 24000 for recordings at
    22050 Hz and above, and the rate of the recordings below that (docs/data.md)."""
    n_fft: Auto | Annotated[int, Field(ge=128, le=8192)] = "auto"
    """Samples of one Fourier transform. Auto: by the sample rate (1024 at 16 and 24 kHz)."""
    win_length: Auto | Annotated[int, Field(ge=64, le=8192)] = "auto"
    """Samples of the Hann window, at most n_fft. Auto: by the sample rate, 43 to 64 ms."""
    hop_length: Auto | Annotated[int, Field(ge=32, le=4096)] = "auto"
    """Samples from one frame to the next. Auto: by the sample rate, 15 to 16 ms (256 at 16 kHz, 384 at 24 kHz)."""
    n_mels: Annotated[int, Field(ge=20, le=256)] = 80
    """Mel bands. 80 follows init_from where that has another number."""
    mel_f_min: Annotated[float, Field(ge=0, le=24000)] = 0.0
    """Hz, lower edge of the lowest band. 0 follows init_from where that has another edge."""
    mel_f_max: Annotated[float, Field(gt=0, le=24000)] | None = None
    """Hz, upper edge of the highest band. Null: that of init_from, or half the sample rate."""
    log_floor: Annotated[float, Field(ge=1e-7, lt=1)] = 1e-5
    """Smallest mel magnitude before the logarithm. 1e-5 follows init_from where that has another floor."""
    trim_silence_db: Annotated[float, Field(ge=10, le=120)] | None = 45.0
    """Leading and trailing parts this far (dB) below the clip's peak are cut off. Null: nothing is cut."""
    loudness_db: Annotated[float, Field(ge=-60, le=-5)] | None = -23.0
    """Level (dB relative to full scale, RMS of the spoken parts) that every clip is brought to. Null: left as recorded."""
    min_seconds: PositiveFloat = 0.3
    """Shorter clips are set aside."""
    max_seconds: PositiveFloat = 30.0
    """Longer clips are set aside."""
    plan: Literal["auto", "fixed", "buckets", "packed", "dynamic"] = "auto"
    """Shape of the batches (docs/data.md). Auto: packed, the fastest static plan by benchmarks/training.py."""
    pad_to_fixed_length: bool = False
    """True is the plan `fixed`: one clip a row, exactly max_text_length symbols and max_mel_frames frames."""
    max_text_length: PositiveInt = 200
    """Symbols of the longest text; longer clips are set aside (counted before blanks are inserted)."""
    max_mel_frames: Auto | PositiveInt = 800
    """Frames of the longest clip, and of a packed row; longer clips are skipped. 800 frames of 16 ms hold
    12.8 seconds. Auto: from the corpus's statistics."""
    batch_size: Auto | PositiveInt = 32
    """Clips a batch. Under `packed` the mean number of clips that the rows hold. 32 gives a CPU a sixth more frames a second
    than 16 (docs/training.md). Auto: measured with auto_tune_performance: true, else 32."""
    num_buckets: Annotated[int, Field(ge=1, le=64)] = 8
    """Shapes of the plan `buckets`."""
    gap_frames: PositiveInt = 4
    """Empty frames between two clips of a packed row; at least the reach of the widest convolution."""
    gap_tokens: PositiveInt = 1
    """Empty symbols between two texts of a packed row; one is what the convolutions over symbols reach."""
    reference_frames: Annotated[int, Field(ge=16, le=1024)] = 128
    """Frames of the reference clip that tells the speaker, in corpora of several speakers."""
    num_workers: Auto | Annotated[int, Field(ge=1, le=256)] = "auto"
    """Threads of the loader and processes of `prepare`. Auto: as many as there are cores. At most 256, the cores of a large
    machine: each process takes memory, and more of them than cores gain nothing."""
    prefetch_buffer_size: Auto | PositiveInt = "auto"
    """Batches kept ready. Auto: tf.data decides on the host, 2 on the device."""
    preprocessing_mode: Literal["auto", "precompute", "runtime"] = "auto"
    """Precompute: from the cache. Runtime: 16-bit WAV decoded by TensorFlow while training. Auto: precompute."""
    use_tf_native_loading: bool = True
    """False: a Python loader, one clip at a time through numpy_function. Slow; the baseline of the benchmarks."""
    prefetch_to_gpu: bool = True
    """Batches are on the device before the step asks for them."""
    enhanced_gpu_prefetch: bool = True
    """A device buffer of prefetch_buffer_size batches instead of one."""
    optimize_cpu_gpu_overlap: bool = True
    """The loader has threads of its own, and logging never waits for the device."""
    auto_tune_performance: bool = False
    """Measure loader threads and prefetch depth (and rows, with batch_size: auto) at the start; the choice is reused."""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class ModelConfig:
    """The network. `size` sets every dimension that is left null (`myxtts.models.spec.SIZES`)."""

    size: Literal["auto", "tiny", "small", "normal", "big"] = "auto"
    """Tiny: at most 4 M parameters, trains on a CPU. Small: about 10 M. Normal: about 20 M. Big: about 60 M. Auto: the size
    of init_from, or tiny."""
    text_channels: PositiveInt | None = None
    """Width of the text encoder."""
    text_layers: PositiveInt | None = None
    """Attention blocks of the text encoder."""
    text_heads: PositiveInt | None = None
    """Attention heads of the text encoder."""
    decoder_channels: PositiveInt | None = None
    """Width of the flow-matching decoder."""
    decoder_layers: PositiveInt | None = None
    """Convolution blocks of the flow-matching decoder."""
    speaker_channels: PositiveInt | None = None
    """Width of the speaker vector."""
    dropout: Fraction = 0.1
    """Share of text features dropped in training."""
    decoder_dropout: Fraction = 0.0
    """Share of the decoder's channels dropped in training, each for a whole clip."""
    condition_dropout: Fraction = 0.1
    """Share of clips whose speaker and language are hidden in training, so that both can be left out or guided."""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class TrainingConfig:
    """The optimisation, the compiled steps, checkpoints and what is shown."""

    checkpoint_dir: str = "./checkpointsmain"
    """Folder of checkpoints, logs and samples; a run found there is resumed."""
    epochs: PositiveInt = 500
    """Passes over the training clips."""
    max_steps: PositiveInt | None = None
    """Stop after this many steps, if that comes first."""
    max_minutes: PositiveFloat | None = None
    """Stop after this many minutes of training in this process, if that comes first."""
    optimization_level: Literal["basic", "enhanced", "experimental", "plateau_breaker"] = "enhanced"
    """Sets the defaults of the fields below that are null (docs/training.md); a value given here wins."""
    learning_rate: PositiveFloat | None = None
    """Peak learning rate. Null: by optimization_level and model size."""
    warmup_steps: NaturalInt | None = None
    """Steps of linear warm-up. Null: by optimization_level."""
    schedule_steps: PositiveInt | None = None
    """Step at which the schedule reaches its floor. Null: the length of the run."""
    weight_decay: Annotated[float, Field(ge=0, le=LARGEST_FLOAT)] | None = None
    """AdamW's decay of matrices. Null: by optimization_level."""
    clip_norm: PositiveFloat | None = None
    """Largest norm of the whole gradient. Null: by optimization_level."""
    ema_decay: Fraction | None = None
    """Decay of the averaged weights that voices use; 0 keeps no average. Null: by optimization_level."""
    gradient_accumulation_steps: PositiveInt = 1
    """Batches whose gradients are summed in the graph before one update."""
    seed: NaturalInt = 1234
    """Order of the clips, initial weights and every random number follow from it."""
    deterministic: bool = False
    """True: the same machine, threads and seed give bit-identical losses, also across a resume."""
    enable_graph_mode: bool = True
    """False: eager steps."""
    enable_xla_compilation: Literal["auto"] | bool = "auto"
    """Compile steps by XLA. Auto: all on a GPU, on a CPU only what gains by it (docs/training.md). False: nothing."""
    enable_eager_debug: bool = False
    """Eager steps with numeric checks: slow, for finding a fault."""
    mixed_precision: Literal["off", "auto", "bfloat16", "float16"] = "auto"
    """Auto: bfloat16 or float16 where the device is faster with it, else off."""
    device: Annotated[str, AfterValidator(_device_name)] = "auto"
    """auto: every local GPU, or the CPU; cpu; gpu; gpu:N."""
    threads: Auto | PositiveInt = "auto"
    """Threads of one operation. Auto: TensorFlow's choice."""
    gpu_memory_growth: bool = True
    """Take GPU memory as it is needed instead of all at once."""
    on_retrace: Literal["warn", "fail"] = "warn"
    """What happens when something is traced or compiled again after the warm-up."""
    nonfinite_limit: PositiveInt = 20
    """Skipped steps (loss or gradient not finite) among the last 1,000 after which the run stops with advice."""
    log_interval: PositiveInt = 20
    """Steps between two log entries."""
    validation_interval: PositiveInt = 500
    """Steps between two validations over every held-out clip."""
    checkpoint_interval: PositiveInt = 500
    """Steps between two checkpoints."""
    keep_checkpoints: PositiveInt = 2
    """Newest checkpoints kept, beside the best by validation."""
    early_stopping_patience: PositiveInt | None = None
    """Validations without improvement after which the run ends. Null: never."""
    sample_interval: PositiveInt = 2000
    """Steps between two sets of pictures and spoken sentences in the log."""
    enable_evaluation: bool = False
    """Measure the voice (myxtts evaluate) while training, and keep the best checkpoint by it."""
    evaluation_interval: PositiveInt = 5000
    """Steps between two evaluations."""
    tensorboard_log_dir: str | None = None
    """Folder of TensorBoard's files. Null: `tensorboard` below checkpoint_dir."""
    init_from: str | None = None
    """Voice, checkpoint or `bundled` whose weights are the start; speakers, symbols and languages are mapped by name. Settings
    of its mel, symbols, language and network that are left at their default are taken from it (docs/training.md)."""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class XTTSConfig:
    """The whole configuration of a run."""

    data: DataConfig = dataclasses.field(default_factory=DataConfig)
    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    training: TrainingConfig = dataclasses.field(default_factory=TrainingConfig)


def frame_contradictions(n_fft: int | Auto, win_length: int | Auto, hop_length: int | Auto) -> list[str]:
    """What cannot be true of a frame at the same time, one sentence each; `auto` contradicts nothing."""
    found = []
    if "auto" not in (win_length, n_fft) and win_length > n_fft:
        found.append(f"data.win_length ({win_length}) is longer than data.n_fft ({n_fft}). Lower win_length.")
    if "auto" not in (hop_length, win_length) and hop_length > win_length:
        found.append(
            f"data.hop_length ({hop_length}) is longer than data.win_length ({win_length}): samples would be skipped. Lower "
            "hop_length."
        )
    if "auto" not in (hop_length, n_fft) and n_fft > 64 * hop_length:
        found.append(
            f"data.hop_length ({hop_length}) is less than a 64th of data.n_fft ({n_fft}), and no voice is made of such frames. "
            "Raise hop_length."
        )
    return found


def contradictions(config: XTTSConfig) -> list[str]:
    """What cannot be true at the same time, one sentence each."""
    data, training = config.data, config.training
    found = [
        f"{section}.{name} contains a NUL character, which no file name can have. Remove it."
        for section in ("data", "model", "training")
        for name, value in dataclasses.asdict(getattr(config, section)).items()
        if isinstance(value, str) and "\0" in value
    ]
    found += frame_contradictions(data.n_fft, data.win_length, data.hop_length)
    if data.sample_rate != "auto" and data.mel_f_max is not None and data.mel_f_max > data.sample_rate / 2:
        found.append(
            f"data.mel_f_max ({data.mel_f_max:g} Hz) is above half of data.sample_rate ({data.sample_rate} Hz). "
            f"Try {data.sample_rate / 2:g} or null."
        )
    if data.mel_f_max is not None and data.mel_f_min >= data.mel_f_max:
        found.append(f"data.mel_f_min ({data.mel_f_min:g}) must lie below data.mel_f_max ({data.mel_f_max:g}).")
    if data.min_seconds >= data.max_seconds:
        found.append(
            f"data.min_seconds ({data.min_seconds:g}) must be less than data.max_seconds ({data.max_seconds:g})."
        )
    if data.pad_to_fixed_length and data.plan not in ("auto", "fixed"):
        found.append(
            f"data.pad_to_fixed_length: true is the plan 'fixed', but data.plan is '{data.plan}'. Set one of the two."
        )
    if data.preprocessing_mode == "runtime" and data.plan in ("buckets", "packed"):
        found.append(
            f"data.preprocessing_mode: runtime learns a clip's length while it is read, but data.plan '{data.plan}' must "
            "know it before. Use preprocessing_mode: precompute, or plan: fixed or dynamic."
        )
    if not data.use_tf_native_loading and data.preprocessing_mode == "runtime":
        found.append(
            "data.preprocessing_mode: runtime decodes with TensorFlow, and data.use_tf_native_loading: false forbids that. "
            "Set one of the two."
        )
    if training.enable_eager_debug and training.enable_xla_compilation is True:
        found.append("training.enable_eager_debug runs nothing compiled, but training.enable_xla_compilation is true.")
    if not training.enable_graph_mode and training.enable_xla_compilation is True:
        found.append(
            "training.enable_graph_mode: false runs nothing compiled, but training.enable_xla_compilation is true."
        )
    return found
