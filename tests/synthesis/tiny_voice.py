"""Voices made by code: a real network of a few thousand random weights, written as a voice folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from myxtts.audio.files import write_audio
from myxtts.audio.mel import MelSpec
from myxtts.export.voice_writer import save_voice
from myxtts.models.spec import ModelSpec
from myxtts.synthesis.voice_folder import VoiceDescription
from myxtts.text.tokenizer import FrontEnd, SymbolTable

MEL = MelSpec(sample_rate=8000, n_fft=256, win_length=256, hop_length=64, n_mels=20, f_max=4000.0)
SPEAKER_CHANNELS = 8


def describe(
    speakers: tuple[str, ...] = ("anna",), languages: tuple[str, ...] = ("en",), **changes
) -> VoiceDescription:
    """The description of a tiny voice of English letters."""
    symbols = SymbolTable().extended_with("abcdefghijklmnopqrstuvwxyz'")
    model = ModelSpec(
        num_symbols=len(symbols),
        num_languages=len(languages),
        num_speakers=len(speakers),
        n_mels=MEL.n_mels,
        text_channels=16,
        text_layers=1,
        text_heads=2,
        decoder_channels=16,
        decoder_layers=2,
        speaker_channels=SPEAKER_CHANNELS,
    )
    values = {
        "model": model.to_dict(),
        "mel": MEL.to_dict(),
        "symbols": symbols.to_list(),
        "front_end": FrontEnd("graphemes").to_dict(),
        "languages": list(languages),
        "speakers": list(speakers),
        "reference_frames": 64 if len(speakers) > 1 else 0,
        "trim_silence_db": 45.0,
        "loudness_db": -23.0,
        "licence": "CC0",
        "attribution": "made by code",
    }
    return VoiceDescription(**values | changes)


def random_weights(description: VoiceDescription) -> dict[str, np.ndarray]:
    """Weights of which every part does something: layers that start at zero also get random values."""
    import keras

    from myxtts.models.xtts import XTTS

    keras.utils.set_random_seed(3)
    network = XTTS(description.model_spec())
    network.build()
    generator = np.random.default_rng(3)
    weights = {}
    for name, variable in network.weights_by_name().items():
        initial = np.asarray(variable.value, np.float32)
        weights[name] = initial + generator.normal(0, 0.15, initial.shape).astype(np.float32)
    weights["mel_mean"] = np.full(MEL.n_mels, -4.0, np.float32)
    weights["mel_deviation"] = np.ones(MEL.n_mels, np.float32)
    # Symbols of one to a few frames, as in speech.
    weights["duration_predictor/output/bias"] = weights["duration_predictor/output/bias"] * 0 + 0.7
    if description.model_spec().pitch:  # mostly voiced, at pitches of voices
        weights["pitch_predictor/output/kernel"] = weights["pitch_predictor/output/kernel"] * np.float32(0.3)
        weights["pitch_predictor/output/bias"] = np.array([0.0, 0.5], np.float32)
    return weights


def write_voice(folder: Path, speakers: tuple[str, ...] = ("anna",), **changes) -> Path:
    """A voice folder; with several speakers it can clone."""
    description = describe(speakers, **changes)
    vectors = np.random.default_rng(4).normal(size=(len(speakers), SPEAKER_CHANNELS)) if len(speakers) > 1 else None
    return save_voice(folder, description, random_weights(description), vectors)


def write_recording(path: Path, pitch_hz: float = 120.0, seconds: float = 1.5, sample_rate: int = 16000) -> Path:
    """A buzz with a syllable rhythm: what a reference recording needs to be accepted."""
    time = np.arange(round(seconds * sample_rate)) / sample_rate
    buzz = sum(np.sin(2 * np.pi * pitch_hz * harmonic * time) / harmonic for harmonic in range(1, 12))
    write_audio(path, (0.2 * buzz * (0.6 + 0.4 * np.sin(2 * np.pi * 4 * time))).astype(np.float32), sample_rate)
    return path
