"""Mels of a voice's decoder for training a vocoder, frame by frame aligned with the recordings.

A vocoder trained only on mels of recordings sounds worse on those of a decoder, which are smoother. `decoded_again` makes
mels that differ from the recordings as the decoder's own do, and still belong to their samples. What is kept is the difference of
the log-mels, which does not depend on the level: a file next to the cache, made once for a voice and a corpus.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import tensorflow as tf

from myxtts.batch import NO_CLIP
from myxtts.batches.feed import validation_batches
from myxtts.batches.plan import plan_corpus
from myxtts.cache.clip_table import Cache
from myxtts.config.config import XTTSConfig
from myxtts.errors import ConfigError
from myxtts.models.flow_matching import decoded_again
from myxtts.models.layout import ClipRandomness
from myxtts.models.xtts import XTTS
from myxtts.runtime.progress import ProgressCallback
from myxtts.runtime.safe_files import replacing
from myxtts.training.starting_config import read_origin
from myxtts.training.starting_state import for_one_speaker
from myxtts.training.weight_mapping import map_weights, read_source

DECODER_STEPS = 5
"""Steps for the part of the flow that is left; a voice takes 10 for all of it."""
LARGEST_DEVIATION = 3.0
"""Natural logarithm. Larger differences are sounds that the decoder put elsewhere. Chosen; not measured."""


def mel_deviations(
    cache: Cache,
    config: XTTSConfig,
    voice: str,
    progress: ProgressCallback,
    announce: Callable[[str], None],
) -> np.ndarray:
    """The decoder's log-mels minus those of the recordings, float16 (rows of the cache's frames, n_mels), mapped from a file.

    Args:
        cache: the clips of the vocoder, with their symbols.
        voice: a voice or checkpoint with the mels of the cache.
        progress: called with what is done, how much of it, and of how much.
        announce: prints a line.
    """
    origin = read_origin(voice)
    if origin.mel != cache.mel:
        raise ConfigError(
            f"{voice} has different mel settings than the vocoder: {origin.mel.sample_rate} Hz, hop {origin.mel.hop_length}. "
            f"Expected: {cache.mel.sample_rate} Hz, hop {cache.mel.hop_length}. Name a voice with these settings."
        )
    model = _network_for(cache, voice)
    path = cache.folder / f"decoded-{_identity(model, cache, config.training.seed)}.npy"
    if not path.is_file():
        announce(f"Computing the mels of {voice} for {cache.num_clips} clips")
        _write(path, model, cache, config, progress)
    return np.load(path, mmap_mode="r")


def _network_for(cache: Cache, voice: str) -> XTTS:
    """The network of a voice with the symbols and languages of the cache."""
    origin = read_origin(voice)
    symbols, weights = read_source(voice)
    spec = origin.model.without_heads
    if spec.has_speakers and len(cache.speakers) == 1:
        clips = np.flatnonzero(~cache.is_validation)
        weights = for_one_speaker(spec, weights, cache, clips)
    spec = dataclasses.replace(
        spec,
        num_symbols=len(cache.symbols),
        num_languages=len(cache.languages),
        num_speakers=spec.num_speakers if len(cache.speakers) > 1 else 1,
    )
    model = XTTS(spec)
    model.build()
    variables = model.weights_by_name()
    initial = {name: variable.numpy() for name, variable in variables.items()}
    mapped = map_weights(weights, initial, symbols, cache.symbols.to_list(), origin.languages, cache.languages)
    for name, variable in variables.items():
        variable.assign(mapped.weights[name])
    return model


def _identity(model: XTTS, cache: Cache, seed: int) -> str:
    """Sixteen hex digits of the weights and the corpus."""
    digest = hashlib.sha256(f"{cache.content_id} {seed}".encode())
    for _, variable in sorted(model.weights_by_name().items()):
        digest.update(np.ascontiguousarray(variable.numpy()).tobytes())
    return digest.hexdigest()[:16]


def _write(path: Path, model: XTTS, cache: Cache, config: XTTSConfig, progress: ProgressCallback) -> None:
    """Decode every training clip; a reader sees no file or the whole one."""
    plan = plan_corpus(cache, config.data, seed=config.training.seed, has_pitch=model.spec.pitch).training
    decode = tf.function(
        lambda batch: decoded_again(
            model, batch, ClipRandomness(config.training.seed, 0, batch.clips, drops=False), DECODER_STEPS
        ),
        autograph=False,
    )
    with replacing(path) as temporary:
        table = np.lib.format.open_memmap(temporary, "w+", np.float16, (cache.num_rows, cache.mel.n_mels))
        done = 0
        for batch in validation_batches(cache, plan, config.data):
            change = (decode(batch) - batch.mel).numpy().clip(-LARGEST_DEVIATION, LARGEST_DEVIATION)
            for clip, row, start, length in _clips_of(batch):
                first = int(cache.frame_starts[clip])
                table[first : first + length] = change[row, start : start + length]
                done += 1
            progress("decoding mels", done, len(plan.clips))
        table.flush()
        del table


def _clips_of(batch) -> Iterable[tuple[int, int, int, int]]:
    """Clip, row, first frame and frames of every slot that holds a clip."""
    clips, starts, lengths = batch.clips.numpy(), batch.frame_starts.numpy(), batch.mel_lengths.numpy()
    for row, slot in zip(*np.nonzero(clips != NO_CLIP), strict=True):
        yield int(clips[row, slot]), int(row), int(starts[row, slot]), int(lengths[row, slot])
