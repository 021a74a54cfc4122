"""Every setting of MyXTTS with its type, range, default and reason.

`configs/config.yaml` (`python -m myxtts.config`) and the flags of the commands (`myxtts.commands.config_flags`) are generated
from these dataclasses; `myxtts.config.load` reads them from a file. Importing this module does not import TensorFlow.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass
from pydantic_core import PydanticCustomError

STRICT = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True, allow_inf_nan=False)

LARGEST_INT = 2**31 - 1
"""Sizes, steps and seeds become 32-bit integers in TensorFlow and NumPy."""
LARGEST_FLOAT = 1e9
"""Far above every useful value, and far below the overflow of float32, which these settings become."""
PositiveInt = Annotated[int, Field(ge=1, le=LARGEST_INT)]
NaturalInt = Annotated[int, Field(ge=0, le=LARGEST_INT)]
PositiveFloat = Annotated[float, Field(gt=0, le=LARGEST_FLOAT)]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Name = Annotated[str, Field(min_length=1)]
"""Of a file, folder or voice. An empty one, as of an unset variable of a shell, would be the current folder."""
Auto = Literal["auto"]


def _device_name(name: str) -> str:
    if re.fullmatch(r"auto|cpu|gpu(:\d+)?", name) is None:
        raise PydanticCustomError("device", "auto, cpu, gpu or gpu:N")
    return name


DEFAULT_LANGUAGE = "en"
"""Language where neither the user, nor init_from, nor the prepared corpus names one."""
DEFAULT_SIZE = "tiny"
"""Size of the network where neither the user nor init_from names one."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid", use_attribute_docstrings=True), kw_only=True)
class CorpusConfig:
    """One of several corpora that are trained on together."""

    folder: Name
    """Folder of recordings, as for train_data."""
    name: Annotated[str, Field(min_length=1, max_length=60)] | None = None
    """Short name, used where two corpora have a speaker of the same name. Null: the name of the folder."""
    language: Annotated[str, Field(min_length=2, max_length=20)] | None = None
    """Language of clips whose metadata names none. Null: data.language, or the one that the corpus was prepared with."""
    weight: Annotated[float, Field(gt=0, le=100)] = 1.0
    """Factor of how often its clips are used in an epoch."""


def _listed_corpus(value: Any) -> Any:
    return {"folder": value} if isinstance(value, str) else value


ListedCorpus = Annotated[CorpusConfig, BeforeValidator(_listed_corpus)]
"""A corpus in a list, where a text is the folder."""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class DataConfig:
    """Recordings, texts, the cache, and how batches are shaped and loaded."""

    train_data: Name | None = None
    """Folder of recordings with metadata.csv. Null: the bundled English prompts."""
    corpora: Annotated[tuple[ListedCorpus, ...], Field(strict=False, max_length=100)] = ()
    """Several corpora that are trained on together, instead of train_data: a list of folders, or of folder, weight, language and
    name (docs/data.md)."""
    balance: Annotated[float, Field(ge=0, le=1)] = 1.0
    """How often a speaker is used: in proportion to the minutes of the speaker's clips raised to this power. 1: as recorded;
    0.5: a speaker with a hundredth of the minutes is used a tenth as often (docs/data.md)."""
    held_out_speakers: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Speakers whose clips are neither trained on nor validated on, by name or as corpus/name."""
    bandwidth_aware: bool | Literal["always"] = True
    """Mask the losses above the true bandwidth of a recording. True: where enough other recordings reach higher. Always: also
    where none does, for a run that starts from a voice with these bands (the default with init_from)."""
    val_data: Name | None = None
    """Folder of validation recordings. Null: metadata_eval.csv of train_data, or a fixed split by clip id."""
    validation_share: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    """Fraction of the clips that are held out if there is no validation set."""
    cache_dir: Name | None = None
    """Folder for prepared clips. Null: `.myxtts/cache` next to the recordings, or the user's cache folder."""
    cache_memory_mb: PositiveInt = 4096
    """Prepared corpora up to this size (MB) are loaded into memory; larger ones are memory-mapped."""
    language: Annotated[str, Field(min_length=2, max_length=20)] | None = None
    """Language of clips whose metadata names none, by code or name. Null: that of init_from, or the one that the corpus was
    prepared with, or en."""
    text_symbols: Literal["auto", "phonemes", "espeak", "graphemes"] = "auto"
    """Symbols of the texts. Phonemes of English and Persian come from our own G2P, those of other languages from espeak-ng (the
    extra `phonemes`, GPL); espeak: all from espeak-ng. Auto: those of init_from, or phonemes where possible, or graphemes."""
    lexicon: Name | None = None
    """Text file of `word<TAB>phonemes` lines; they take precedence over the G2P and espeak-ng."""
    sample_rate: Auto | Annotated[int, Field(ge=8000, le=48000)] = "auto"
    """Sample rate of the voice in Hz; recordings at other rates are resampled. Auto: the rate of init_from; otherwise 24000 for
    recordings at 22050 Hz and above, and the rate of the recordings below that (docs/data.md)."""
    n_fft: Auto | Annotated[int, Field(ge=128, le=8192)] = "auto"
    """Samples per Fourier transform. Auto: by the sample rate (1024 at 16 and 24 kHz)."""
    win_length: Auto | Annotated[int, Field(ge=64, le=8192)] = "auto"
    """Samples of the Hann window, at most n_fft. Auto: by the sample rate, 43 to 64 ms."""
    hop_length: Auto | Annotated[int, Field(ge=32, le=4096)] = "auto"
    """Samples from one frame to the next. Auto: by the sample rate, 15 to 16 ms (256 at 16 kHz, 384 at 24 kHz)."""
    n_mels: Annotated[int, Field(ge=20, le=256)] = 80
    """Mel bands. The default follows init_from if that has another number."""
    mel_f_min: Annotated[float, Field(ge=0, le=24000)] = 0.0
    """Lower edge of the lowest mel band in Hz. The default follows init_from if that has another edge."""
    mel_f_max: Annotated[float, Field(gt=0, le=24000)] | None = None
    """Upper edge of the highest mel band in Hz. Null: that of init_from, or half the sample rate."""
    log_floor: Annotated[float, Field(ge=1e-7, lt=1)] = 1e-5
    """Smallest mel magnitude before the logarithm. The default follows init_from if that has another floor."""
    trim_silence_db: Annotated[float, Field(ge=10, le=120)] | None = 45.0
    """Leading and trailing parts that are this far (dB) below the clip's peak are trimmed. Null: nothing is trimmed."""
    trim_noise_db: Annotated[float, Field(ge=0, le=40)] | None = 10.0
    """Leading and trailing parts that are less than this (dB) above a clip's own noise are trimmed as well, unless they are
    within 25 dB of its peak: home recordings often have a second of noise (docs/data.md). Null: only trim_silence_db."""
    loudness_db: Annotated[float, Field(ge=-60, le=-5)] | None = -23.0
    """Level (dB relative to full scale, RMS of the spoken parts) to which every clip is normalized. Null: as recorded."""
    min_seconds: PositiveFloat = 0.3
    """Shorter clips are skipped."""
    max_seconds: PositiveFloat = 30.0
    """Longer clips are skipped."""
    plan: Literal["auto", "fixed", "buckets", "packed", "dynamic"] = "auto"
    """Shape of the batches (docs/data.md). Auto: packed, the fastest static plan by benchmarks/training.py."""
    pad_to_fixed_length: bool = False
    """True is the plan `fixed`: one clip per row, exactly max_text_length symbols and max_mel_frames frames."""
    max_text_length: PositiveInt = 200
    """Symbols of the longest text, counted before blanks are inserted; clips with longer texts are skipped."""
    max_mel_frames: Auto | PositiveInt = 800
    """Frames of the longest clip, and of a packed row; longer clips are skipped. 800 frames of 16 ms are 12.8 seconds. Auto: from
    the statistics of the corpus."""
    batch_size: Auto | PositiveInt = 32
    """Clips per batch; with plan `packed`, the mean number of clips in its rows. 32 gives a CPU a sixth more frames per second
    than 16 (docs/training.md). Auto: measured if auto_tune_performance is true, otherwise 32."""
    num_buckets: Annotated[int, Field(ge=1, le=64)] = 8
    """Number of shapes of the plan `buckets`."""
    gap_frames: PositiveInt = 4
    """Empty frames between two clips of a packed row; at least as many as the widest convolution reaches to one side."""
    gap_tokens: PositiveInt = 1
    """Empty symbols between two texts of a packed row; one is as far as the convolutions over symbols reach."""
    reference_frames: Annotated[int, Field(ge=16, le=1024)] = 128
    """Frames of the reference clip that conditions the model on a speaker, in corpora with several speakers."""
    num_workers: Auto | Annotated[int, Field(ge=1, le=256)] = "auto"
    """Threads of the loader and processes of `prepare`. Auto: one per core. At most 256, the cores of a large machine: each
    process takes memory, and more processes than cores gain nothing."""
    prefetch_buffer_size: Auto | PositiveInt = "auto"
    """Prefetched batches. Auto: tf.data decides on the host, 2 on the device."""
    preprocessing_mode: Literal["auto", "precompute", "runtime"] = "auto"
    """When clips are decoded: once, into the cache (precompute), or by TensorFlow during training (runtime; 16-bit WAV only).
    Auto: precompute."""
    use_tf_native_loading: bool = True
    """False: load clips one at a time in Python through numpy_function. Slow; the baseline of the benchmarks."""
    prefetch_to_gpu: bool = True
    """Copy batches to the device before the step needs them."""
    enhanced_gpu_prefetch: bool = True
    """Keep prefetch_buffer_size batches on the device instead of one."""
    optimize_cpu_gpu_overlap: bool = True
    """Give the loader its own threads, and never let logging wait for the device."""
    auto_tune_performance: bool = False
    """Measure the best loader threads and prefetch depth (and the batch size, with batch_size: auto) at the start; later runs
    reuse the result."""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class ModelConfig:
    """The network. `size` sets every dimension that is left null (`myxtts.models.spec.SIZES`)."""

    size: Literal["auto", "tiny", "small", "normal", "big"] = "auto"
    """Number of parameters: tiny has at most 4 M and trains on a CPU, small about 10 M, normal about 20 M, big about 60 M. Auto:
    the size of init_from, or tiny."""
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
    """Fraction of text features dropped in training."""
    decoder_dropout: Fraction = 0.0
    """Fraction of the decoder's channels dropped in training, each for a whole clip."""
    condition_dropout: Fraction = 0.1
    """Fraction of clips whose speaker, language or recording is hidden in training, so that each is optional."""
    recording_condition: bool = False
    """Give the decoder the bandwidth and the noise of each recording; the voice then speaks like a wide and clean one. For
    corpora of mixed quality."""
    pitch: bool = False
    """Give the decoder the pitch of every frame: of the recording in training, predicted when the voice speaks. The harmonics of
    the mel, and with them the sound, become clearer (docs/voices.md). The prepared corpus then takes three times the disk."""
    reference_lowpass: Fraction = 0.0
    """Fraction of references that are low-passed at a random frequency in training, so that a narrow recording gives the same
    speaker."""
    virtual_speakers: Fraction = 0.0
    """Fraction of clips whose pitch and formants are shifted in training, with those of their reference, as if another speaker
    said them."""
    speaker_loss: Annotated[float, Field(ge=0, le=10)] = 0.0
    """Weight of a classifier that recognizes the speakers of the corpus by the speaker vector. 0: none."""
    language_adversary: Annotated[float, Field(ge=0, le=10)] = 0.0
    """Weight of a classifier that recognizes the language by the speaker vector, with its gradient reversed, so that the vector
    does not depend on the language. 0: none."""
    distill_steps: Annotated[int, Field(ge=1, le=10)] | None = None
    """Train only the decoder, so that this many steps replace five times as many of the voice of init_from; the exported voice
    then uses this many (docs/training.md). Null: no distillation."""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class TrainingConfig:
    """Optimization, compiled steps, checkpoints and logging."""

    checkpoint_dir: Name = "./checkpointsmain"
    """Folder of the run: checkpoints, logs and samples. A run found there is resumed."""
    epochs: PositiveInt = 500
    """Number of times that every training clip is used."""
    max_steps: PositiveInt | None = None
    """Stop after this many steps, even if the epochs are not finished."""
    max_minutes: PositiveFloat | None = None
    """Stop after this many minutes of training in this process, even if the epochs are not finished."""
    optimization_level: Literal["basic", "enhanced", "experimental", "plateau_breaker"] = "enhanced"
    """Preset for learning rate and schedule, weight decay, gradient clipping and EMA (docs/training.md). Values that are
    given take precedence."""
    learning_rate: PositiveFloat | None = None
    """Peak learning rate. Null: by optimization_level and model size."""
    warmup_steps: NaturalInt | None = None
    """Steps of linear warm-up. Null: by optimization_level."""
    schedule_steps: PositiveInt | None = None
    """Step at which the schedule reaches its floor. Null: the length of the run."""
    weight_decay: Annotated[float, Field(ge=0, le=LARGEST_FLOAT)] | None = None
    """AdamW's weight decay of matrices. Null: by optimization_level."""
    clip_norm: PositiveFloat | None = None
    """Largest norm of the whole gradient. Null: by optimization_level."""
    ema_decay: Fraction | None = None
    """Decay of the exponential moving average (EMA) of the weights, which voices use; 0: no EMA. Null: by optimization_level."""
    gradient_accumulation_steps: PositiveInt = 1
    """Batches whose gradients are summed in the graph before one update."""
    seed: NaturalInt = 1234
    """Seed of the clip order, the initial weights and every other random number."""
    deterministic: bool = False
    """True: the same machine, threads and seed give bit-identical losses, also after resuming."""
    enable_graph_mode: bool = True
    """False: run the steps eagerly, which is slow."""
    enable_xla_compilation: Literal["auto"] | bool = "auto"
    """Compile the steps with XLA. Auto: whole steps on a GPU, on a CPU only the parts that gain from it (docs/training.md)."""
    enable_eager_debug: bool = False
    """Run the steps eagerly with numeric checks: slow, for debugging."""
    mixed_precision: Literal["off", "auto", "bfloat16", "float16"] = "auto"
    """Auto: bfloat16 or float16 if the device is faster with it, otherwise off."""
    device: Annotated[str, AfterValidator(_device_name)] = "auto"
    """cpu, gpu or gpu:N. Auto: every local GPU, or the CPU if there is none."""
    threads: Auto | PositiveInt = "auto"
    """Threads per operation. Auto: TensorFlow decides."""
    gpu_memory_growth: bool = True
    """Allocate GPU memory as needed instead of all at once."""
    on_retrace: Literal["warn", "fail"] = "warn"
    """What to do if a function is traced or compiled again after the warm-up."""
    nonfinite_limit: PositiveInt = 20
    """Stop after this many skipped steps (loss or gradient not finite) among the last 1,000."""
    log_interval: PositiveInt = 20
    """Steps between log entries."""
    validation_interval: PositiveInt = 500
    """Steps between validations on all held-out clips."""
    checkpoint_interval: PositiveInt = 500
    """Steps between checkpoints."""
    keep_checkpoints: PositiveInt = 2
    """Number of newest checkpoints to keep, in addition to the best one."""
    early_stopping_patience: PositiveInt | None = None
    """Stop after this many validations without improvement. Null: never."""
    sample_interval: PositiveInt = 2000
    """Steps between sets of pictures and spoken sentences in the log."""
    enable_evaluation: bool = False
    """Evaluate the voice during training (myxtts evaluate), and choose the best checkpoint by it."""
    evaluation_interval: PositiveInt = 5000
    """Steps between evaluations."""
    evaluation_recognizer: Name | None = None
    """Speech recognizer of the evaluation, as in `myxtts evaluate --recognizer`. Null: by the language."""
    tensorboard_log_dir: Name | None = None
    """Folder of TensorBoard's files. Null: `tensorboard` in checkpoint_dir."""
    init_from: Name | None = None
    """Start from the weights of this voice or checkpoint (or the name of a bundled voice; `bundled`: the one for the language);
    speakers, symbols and languages are mapped by name. Settings of mel, symbols, language and network that are not given
    follow it (docs/training.md)."""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class VocoderConfig:
    """The vocoder and its training (myxtts train-vocoder). Seed, device, intervals and limits of time are those of `training`."""

    checkpoint_dir: Name = "./runs/vocoder"
    """Folder of the run: checkpoints, logs, samples and vocoder.onnx. A run found there is resumed."""
    init_from: Name | None = None
    """Start from the weights of this vocoder (its .onnx file, or the folder of a run), to adapt it to a voice."""
    mels_of: Name | None = None
    """Voice or checkpoint whose decoder produces a part of the training mels, so that the vocoder learns the mels that it will
    receive (docs/vocoder.md). Null: only mels of the recordings."""
    mels_fraction: Fraction = 0.33
    """Fraction of the crops whose mel comes from that decoder. A choice; not measured."""
    max_steps: PositiveInt | None = None
    """Steps of the run. Null: 20000, or 1500 with init_from."""
    adversarial_start: NaturalInt | None = None
    """Step after which discriminators join the spectral losses. Null: never (docs/vocoder.md)."""
    batch_size: PositiveInt = 16
    """Crops per batch."""
    crop_frames: Annotated[int, Field(ge=16, le=512)] = 36
    """Frames of a crop; 36 frames of 16 ms are 0.58 seconds. Shorter clips are skipped."""
    channels: PositiveInt = 256
    """Width of the trunk."""
    blocks: PositiveInt = 8
    """Blocks of the trunk."""
    learning_rate: PositiveFloat | None = None
    """Peak learning rate of the spectral phase. Null: 1e-3, or 2e-4 with init_from."""
    adversarial_learning_rate: PositiveFloat | None = None
    """Peak learning rate of the adversarial phase. Null: 2e-4."""
    discriminator_learning_rate: PositiveFloat = 2e-4
    """Learning rate of the discriminators; constant."""
    warmup_steps: NaturalInt = 200
    """Steps of linear warm-up at the start of each phase."""
    final_rate_fraction: Fraction = 0.05
    """Each phase ends with this fraction of its peak learning rate, along a half cosine."""
    weight_decay: Annotated[float, Field(ge=0, le=LARGEST_FLOAT)] = 0.01
    """AdamW's weight decay of matrices."""
    ema_decay: Fraction = 0.999
    """Decay of the exponential moving average of the weights, which vocoder.onnx gets."""
    clip_norm: PositiveFloat = 5.0
    """Largest norm of the gradient in the spectral phase."""
    adversarial_clip_norm: PositiveFloat = 20.0
    """Largest norm of the gradient in the adversarial phase."""
    discriminator_clip_norm: PositiveFloat = 10.0
    """Largest norm of the gradient of a discriminator."""
    lowest_gain_db: Annotated[float, Field(ge=-60, le=0)] = -12.0
    """Crops are made quieter or louder by a random gain; its lower end in dB."""
    highest_gain_db: Annotated[float, Field(ge=0, le=20)] = 4.0
    """Upper end of the random gain in dB; no sample exceeds full scale."""
    mel_weight: Annotated[float, Field(ge=0, le=LARGEST_FLOAT)] = 5.0
    """Weight of the distance of log-mels."""
    magnitude_weight: Annotated[float, Field(ge=0, le=LARGEST_FLOAT)] = 10.0
    """Weight of the distance of log magnitudes at several resolutions."""
    relative_weight: Annotated[float, Field(ge=0, le=LARGEST_FLOAT)] = 4.0
    """Weight of the relative error of magnitudes at several resolutions."""
    repulsion: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Reward for a difference between two outputs with different noise. 0 leaves noise out, 1 matches its distribution; between
    them, a little less noise than recorded sounds better (docs/vocoder.md)."""
    noise_db: Annotated[float, Field(ge=-60, le=20)] = -6.0
    """Level of the noise in vocoder.onnx relative to what was learned, in dB: less noise than recorded sounds better
    (docs/vocoder.md)."""
    pitch_weight: Annotated[float, Field(ge=0, le=LARGEST_FLOAT)] = 0.5
    """Weight of the cross entropy of the pitch of voiced frames."""
    spectral_factor: Annotated[float, Field(ge=0, le=LARGEST_FLOAT)] = 1.0
    """Factor of all losses above in the adversarial phase."""
    adversarial_weight: Annotated[float, Field(ge=0, le=LARGEST_FLOAT)] = 1.0
    """Weight of the discriminators' scores."""
    feature_weight: Annotated[float, Field(ge=0, le=LARGEST_FLOAT)] = 2.0
    """Weight of the distance of the discriminators' features."""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class XTTSConfig:
    """The whole configuration of a run."""

    data: DataConfig = dataclasses.field(default_factory=DataConfig)
    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    training: TrainingConfig = dataclasses.field(default_factory=TrainingConfig)
    vocoder: VocoderConfig = dataclasses.field(default_factory=VocoderConfig)


SECTIONS: dict[str, type] = {
    "data": DataConfig,
    "model": ModelConfig,
    "training": TrainingConfig,
    "vocoder": VocoderConfig,
}
"""Section of the configuration file → its dataclass."""


def field_descriptions(section: str) -> dict[str, str]:
    """Field → its docstring on one line, for the configuration file and the help of flags."""
    properties = TypeAdapter(SECTIONS[section]).json_schema()["properties"]
    return {name: " ".join(properties[name]["description"].split()) for name in properties}


def frame_contradictions(n_fft: int | Auto, win_length: int | Auto, hop_length: int | Auto) -> list[str]:
    """One sentence for each contradiction between the settings of a frame; `auto` contradicts nothing."""
    found = []
    if win_length != "auto" and n_fft != "auto" and win_length > n_fft:
        found.append(f"data.win_length ({win_length}) is longer than data.n_fft ({n_fft}). Lower win_length.")
    if hop_length != "auto" and win_length != "auto" and hop_length > win_length:
        found.append(
            f"data.hop_length ({hop_length}) is longer than data.win_length ({win_length}): samples would be skipped. Lower "
            "hop_length."
        )
    if hop_length != "auto" and n_fft != "auto" and n_fft > 64 * hop_length:
        found.append(
            f"data.hop_length ({hop_length}) is less than a 64th of data.n_fft ({n_fft}), which is not supported. "
            "Raise hop_length."
        )
    return found


def corpus_name(corpus: CorpusConfig) -> str:
    """The name of a corpus: as given, or that of its folder."""
    return corpus.name or re.split(r"[/\\]", corpus.folder.rstrip("/\\"))[-1] or "corpus"
