"""From a checkpoint to a voice: what it records about its corpus, and the voice folder; pictures of alignments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.audio.mel import MelSpec
from myxtts.cache.clip_table import ClipTable
from myxtts.config.config import DEFAULT_LANGUAGE, DataConfig
from myxtts.config.load import parse_config
from myxtts.corpus.corpus import SAME_ID_PREFIX, license_name
from myxtts.errors import CheckpointError, CorpusError
from myxtts.export.voice_writer import save_voice
from myxtts.models.spec import ModelSpec
from myxtts.models.xtts import HEADS_PREFIX, XTTS
from myxtts.runtime.progress import ignore_line
from myxtts.synthesis.training_split import TrainingSplit
from myxtts.synthesis.vocoder import universal_vocoder
from myxtts.synthesis.voice_folder import (
    DESCRIPTION_NAME,
    Defaults,
    VocoderReference,
    VoiceDescription,
    read_description,
)
from myxtts.training.checkpoint import Checkpoint, read_state
from myxtts.training.starting_config import locate_origin
from myxtts.training.training_corpus import TrainingCorpus, open_training_corpus
from myxtts.training.weight_mapping import LANGUAGE_TABLE, average_weights

VOICE_NAME = "voice"
GUIDANCE = 0.5
"""Of the decoder of a voice of several speakers (`Defaults.guidance`); chosen by measurement (docs/voices.md)."""
SENTENCE_CHARACTERS = (10, 180)
"""Shortest and longest limit at which a voice splits its sentences. Chosen; not measured."""
SPARE_SYMBOLS = 20
"""A sentence has a few more symbols than characters, and none over `max_text_length` is trained on. Chosen; not measured."""
REFERENCES_PER_SPEAKER = 8
"""Clips whose vectors are averaged for a speaker of the corpus. Chosen; not measured."""
REFERENCES_PER_BATCH = 64
"""Clips that go through the speaker encoder together. Chosen; not measured."""


def corpus_facts(spec: ModelSpec, cache: ClipTable, config: DataConfig) -> dict[str, Any]:
    """Everything that a voice must know of its corpus; saved with every checkpoint."""
    return {
        "model": spec.to_dict(),
        "mel": cache.mel.to_dict(),
        "symbols": cache.symbols.to_list(),
        "front_end": cache.front_end.to_dict(),
        "languages": list(cache.languages),
        "speakers": list(cache.speakers),
        "reference_frames": config.reference_frames if spec.has_speakers else 0,
        "trim_silence_db": config.trim_silence_db,
        "trim_noise_db": config.trim_noise_db,
        "loudness_db": config.loudness_db,
        "max_characters": max(
            SENTENCE_CHARACTERS[0], min(SENTENCE_CHARACTERS[1], config.max_text_length - SPARE_SYMBOLS)
        ),
        "licence": cache.license,
        "attribution": cache.attribution,
        "content_id": cache.content_id,
        "training_split": asdict(_split_of(cache, has_own_folder=config.val_data is not None)),
    }


def _split_of(cache: ClipTable, has_own_folder: bool) -> TrainingSplit:
    """The split of a corpus; held-out clips from a folder of their own (`data.val_data`) are recorded by their ids there."""
    training, held_out = np.flatnonzero(~cache.is_validation).tolist(), np.flatnonzero(cache.is_validation).tolist()
    taken = {cache.ids[clip] for clip in training} if has_own_folder else set()

    def original_id(clip: int) -> str:
        original = cache.ids[clip].removeprefix(SAME_ID_PREFIX)
        return original if original in taken else cache.ids[clip]

    return TrainingSplit.of(
        cache.content_id,
        (cache.texts[clip] for clip in training),
        ((original_id(clip), cache.texts[clip]) for clip in held_out),
    )


def add_earlier_training(facts: dict[str, Any], saved: Checkpoint | None, init_from: str | None) -> dict[str, Any]:
    """`facts` that also record the training texts of the checkpoint that is resumed, or of the voice that a run starts from."""
    if saved is not None:
        before = _recorded_split(saved.corpus)
    elif init_from is not None:
        before = _split_of_source(init_from)
    else:
        return facts
    split = TrainingSplit(**facts["training_split"]).after(before)
    return facts | {"training_split": asdict(split)}


def _split_of_source(init_from: str) -> TrainingSplit | None:
    path = locate_origin(init_from)
    if (path / DESCRIPTION_NAME).is_file():
        return read_description(path).training_split
    return _recorded_split(read_state(path)["corpus"])


def _recorded_split(facts: Mapping[str, Any]) -> TrainingSplit | None:
    if "training_split" not in facts:  # checkpoints of 0.1.0 have none
        return None
    return TrainingSplit(**facts["training_split"])


def export_voice(
    checkpoint: Checkpoint,
    folder: Path,
    license_terms: str = "",
    attribution: str = "",
    *,
    corpus: TrainingCorpus | None = None,
    announce: Callable[[str], None] = ignore_line,
    copies_assets: bool = True,
    vocoder: str | None = None,
    given_speakers: Mapping[str, str] | None = None,
    average_with: tuple[str, float] | None = None,
    steps: int | None = None,
    guidance: float | None = None,
    decoder_emphasis: float | None = None,
    clone_emphasis: float | None = None,
    clone_decoder_emphasis: float | None = None,
) -> Path:
    """Write the voice of a checkpoint, with the EMA of its weights where there is one.

    Args:
        folder: the voice folder to write.
        license_terms, attribution: replace those of the corpus.
        corpus: of the recordings that a voice of several speakers needs; by default the one of the training is opened again.
        announce: prints a line.
        copies_assets: whether the vocoder and the pronunciation models are copied into the folder.
        vocoder: file or name of its vocoder; None: the universal one if it fits the mels, otherwise Griffin-Lim.
        given_speakers: language → who speaks it by default, instead of the speaker with most speech in it.
        average_with: a voice or checkpoint that the training came from, and its fraction of the mean (`average_weights`).
        steps: of the decoder by default; None: 10, or what it was distilled to.
        guidance: see `Defaults`; None: `GUIDANCE`, or none for one speaker or a distilled decoder.
        decoder_emphasis, clone_emphasis: see `Defaults`; None: 1.
        clone_decoder_emphasis: see `Defaults`; None: `clone_emphasis`.
    """
    facts = {name: value for name, value in checkpoint.corpus.items() if name != "content_id"}
    facts |= {name: text for name, text in (("licence", license_terms), ("attribution", attribution)) if text}
    stated_terms = facts["licence"]
    facts["licence"] = license_name(stated_terms, facts["attribution"])
    trained = ModelSpec.from_dict(facts["model"])
    facts["model"] = trained.without_heads.to_dict()
    scale = float(np.clip(checkpoint.progress["duration_scale"], 0.5, 2.0))
    split = _recorded_split(facts)
    weights = checkpoint.named_weights(prefers_ema=True)
    weights = {name: value for name, value in weights.items() if not name.startswith(HEADS_PREFIX)}
    about: dict[str, Any] = {"training steps": checkpoint.step}
    if average_with is not None:
        weights = average_weights(weights, facts["symbols"], facts["languages"], *average_with)
        split = split and split.after(_split_of_source(average_with[0]))
        about["averaged with"] = (
            f"{Path(average_with[0]).name} ({average_with[1]:g})"  # not the folders of this machine
        )
    if split is not None:
        facts["training_split"] = split
    order = default_first(facts["languages"])
    facts["languages"] = [facts["languages"][index] for index in order]
    weights[LANGUAGE_TABLE] = weights[LANGUAGE_TABLE][[0, *(index + 1 for index in order)]]
    vectors = checkpoint.arrays.get("speaker_vectors")  # only checkpoints of 0.1.0 hold them
    spec = ModelSpec.from_dict(facts["model"])
    if spec.has_speakers and vectors is None:
        corpus = corpus or _corpus_of(checkpoint, announce)
        model = network_with(spec, weights)
        vectors = speaker_vectors(model, corpus.cache, corpus.plan.clips, facts["reference_frames"])
        facts["default_speakers"] = default_speakers(corpus.cache, corpus.plan.clips) | dict(given_speakers or {})
    description = VoiceDescription(
        **facts,
        defaults=Defaults(
            duration_scale=scale,
            steps=steps or trained.distill_steps or Defaults.steps,
            guidance=_guidance_of(trained) if guidance is None else guidance,
            decoder_emphasis=Defaults.decoder_emphasis if decoder_emphasis is None else decoder_emphasis,
            clone_emphasis=Defaults.clone_emphasis if clone_emphasis is None else clone_emphasis,
            clone_decoder_emphasis=clone_decoder_emphasis,
        ),
        about=about,
        vocoder=universal_vocoder(MelSpec.from_dict(facts["mel"])) or VocoderReference(),
    )
    return save_voice(
        folder,
        description,
        weights,
        vectors,
        license_text=stated_terms if stated_terms.strip() != facts["licence"] else "",
        copies_assets=copies_assets,
        vocoder=vocoder,
    )


def _guidance_of(spec: ModelSpec) -> float:
    """Guidance doubles the time of a decoder that was distilled to be fast; one speaker alone was understood less with it."""
    return GUIDANCE if spec.has_speakers and not spec.distill_steps else 0.0


def default_first(languages: Sequence[str]) -> list[int]:
    """Indices of the languages, `DEFAULT_LANGUAGE` first: a voice speaks its first language unless another is asked for."""
    return sorted(range(len(languages)), key=lambda index: languages[index].split("-")[0] != DEFAULT_LANGUAGE)


def default_speakers(table: ClipTable, clips: np.ndarray) -> dict[str, str]:
    """Language → the speaker with most training speech in it."""
    speakers, languages, frames = (
        column[clips] for column in (table.speaker_numbers, table.language_numbers, table.frame_counts)
    )
    return {
        language: table.speakers[int(np.bincount(speakers[own], frames[own]).argmax())]
        for language, own in ((each, languages == index) for index, each in enumerate(table.languages))
        if own.any()
    }


def speaker_vectors(model: XTTS, cache: ClipTable, clips: np.ndarray, reference_frames: int) -> np.ndarray:
    """One vector for every speaker, the mean over references from the given clips: float32 (speakers, speaker_channels)."""
    chosen = reference_clips(cache.speaker_numbers[clips], cache.frame_counts[clips])
    clips = np.asarray(clips)[chosen]
    speakers = cache.speaker_numbers[clips]
    sums = np.zeros((len(cache.speakers), model.spec.speaker_channels), np.float32)
    batch = np.zeros((REFERENCES_PER_BATCH, reference_frames, cache.mel.n_mels), np.float32)
    for start in range(0, len(clips), REFERENCES_PER_BATCH):
        part = slice(start, min(start + REFERENCES_PER_BATCH, len(clips)))
        count = part.stop - start
        for row, clip in enumerate(clips[part].tolist()):
            batch[row] = _reference(cache.clip_frames(clip), reference_frames)
        np.add.at(sums, speakers[part], model.speaker_vectors(tf.constant(batch)).numpy()[:count])
    counts = np.bincount(speakers, minlength=len(sums))
    return sums / np.maximum(counts, 1)[:, None].astype(np.float32)


def reference_clips(speakers: np.ndarray, frame_counts: np.ndarray) -> np.ndarray:
    """Indices of the longest `REFERENCES_PER_SPEAKER` clips of each speaker: short ones would have to be repeated."""
    order = np.lexsort((-frame_counts.astype(np.int64), speakers))
    of_order = speakers[order]
    rank = np.arange(len(order)) - np.searchsorted(of_order, of_order)
    return order[rank < REFERENCES_PER_SPEAKER]


def _corpus_of(checkpoint: Checkpoint, announce: Callable[[str], None]) -> TrainingCorpus:
    """The corpus that a checkpoint was trained on, opened again (and prepared again if its cache is gone)."""
    config = parse_config(checkpoint.config)
    speakers = checkpoint.corpus["speakers"]
    try:
        corpus = open_training_corpus(config.data, config.training, announce=announce)
    except CorpusError as error:
        raise CheckpointError(
            f"A voice of {len(speakers)} speakers needs the recordings that it was trained on: {error} Run the export where "
            f"{config.data.train_data} is, or copy the voice/ folder of the run."
        ) from error
    if list(corpus.cache.speakers) != speakers:
        raise CheckpointError(
            f"The corpus {corpus.data_folder} has different speakers than the checkpoint. Received: {len(corpus.cache.speakers)} "
            f"speakers. Expected: the {len(speakers)} of the training. Restore the corpus, or copy the voice/ folder of the run."
        )
    return corpus


def network_with(spec: ModelSpec, weights: Mapping[str, np.ndarray]) -> XTTS:
    """A network with the given weights by name."""
    model = XTTS(spec)
    model.build()
    for name, variable in model.weights_by_name().items():
        variable.assign(weights[name])
    return model


def _reference(frames: np.ndarray, reference_frames: int) -> np.ndarray:
    """The middle of a clip; a short one is repeated."""
    repeated = np.tile(frames, (-(-reference_frames // len(frames)), 1))
    start = (len(repeated) - reference_frames) // 2
    return repeated[start : start + reference_frames]


def alignment_picture(path: np.ndarray, mel: np.ndarray) -> np.ndarray:
    """One row of a batch as an RGB picture, uint8 (height, width, 3): its mel, and below it the symbol of each frame.

    Args:
        path: symbol of each frame, int32 (frames,).
        mel: float32 (frames, n_mels).
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6), dpi=80)
    canvas = FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1, sharex=True)
    above.imshow(mel.T, origin="lower", aspect="auto", interpolation="none")
    above.set_ylabel("mel band")
    below.plot(path, drawstyle="steps-mid", linewidth=1)
    below.set_ylabel("symbol (with blanks)")
    below.set_xlabel("frame")
    figure.tight_layout()
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()
