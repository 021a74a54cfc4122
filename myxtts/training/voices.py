"""From training to speaking: what a checkpoint says about its corpus, and the voice folder that is made of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.audio.files import write_audio
from myxtts.batches.recordings import RecordingTable
from myxtts.cache.corpus_state import SAME_ID_PREFIX
from myxtts.cache.format import Cache
from myxtts.config.config import DataConfig
from myxtts.config.load import parse_config
from myxtts.corpus.manifest import read_notices
from myxtts.errors import CheckpointError, CorpusError
from myxtts.models.spec import ModelSpec
from myxtts.models.xtts import XTTS
from myxtts.synthesis.training_split import TrainingSplit
from myxtts.synthesis.voice import Voice
from myxtts.synthesis.voice_folder import DESCRIPTION_NAME, Defaults, VoiceDescription, read_description, save_voice
from myxtts.text.tokenizer import build_front_end
from myxtts.training.checkpoint import Checkpoint, load_checkpoint
from myxtts.training.corpus import TrainingCorpus, open_corpus
from myxtts.training.initial_weights import locate_origin
from myxtts.training.run_log import Logbook

# MERGED: Pictures and sound of a run: alignments, mels and spoken sentences, made in the logbook's thread.

SENTENCES = {
    "en": (
        "Thank you for calling. Please leave your message after the tone.",
        "The quick brown fox jumps over the lazy dog.",
    ),
    "es": ("Gracias por llamar. Por favor, deje su mensaje.",),
    "fr": ("Merci de votre appel. Veuillez laisser un message.",),
    "it": ("Grazie per la chiamata. Lasciate un messaggio.",),
    "ru": ("Спасибо за звонок. Пожалуйста, оставьте сообщение.",),
    "fa": ("سلام، حال شما چطور است؟",),
    "de": ("Vielen Dank für Ihren Anruf. Bitte hinterlassen Sie eine Nachricht.",),
}
"""Fixed sentences, so that samples of different steps can be compared; a language without any is not sampled."""


def speak_samples(voice_folder: Path, out: Path, step: int, logbook: Logbook | None = None) -> list[Path]:
    """Speak the fixed sentences of every language of a voice into `out`, by its own speaker where it has several."""
    voice = Voice.load(voice_folder)
    written = []
    for language in voice.languages:
        for number, sentence in enumerate(SENTENCES.get(language.split("-")[0], ())):
            audio = voice.synthesize(sentence, language=language)
            path = out / f"step-{step:08d}-{language}-{number}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_audio(path, audio.samples, audio.sample_rate)
            written.append(path)
            if logbook is not None:
                logbook.audio(f"sample/{language}-{number}", step, audio.samples, audio.sample_rate)
    return written


def alignment_picture(path: np.ndarray, mel: np.ndarray) -> np.ndarray:
    """One row of a batch as an RGB picture: its mel (frames, bands), and below it the symbol of each frame (frames,)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6), dpi=80)
    canvas = FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1, sharex=True)
    above.imshow(mel.T, origin="lower", aspect="auto", interpolation="none")
    above.set_ylabel("mel band")
    below.plot(path, drawstyle="steps-mid", linewidth=1)
    below.set_ylabel("symbol, blanks among them")
    below.set_xlabel("frame")
    figure.tight_layout()
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


VOICE_NAME = "voice"
LONGEST_LICENCE_NAME = 200
_DECLARED_LICENCE = re.compile(r"^(?:License|SPDX-License-Identifier): *(\S.*?) *$", re.MULTILINE)
REFERENCES_PER_SPEAKER = 8
"""Clips whose vectors are averaged for a speaker who is asked for by name."""
REFERENCES_PER_BATCH = 64
"""Clips that go through the speaker encoder together."""


def corpus_facts(spec: ModelSpec, cache: Cache, config: DataConfig, data_folder: Path) -> dict[str, Any]:
    """Everything that a voice needs to know of its corpus; saved with every checkpoint."""
    licence, attribution = read_notices(data_folder)
    return {
        "model": spec.to_dict(),
        "mel": cache.mel.to_dict(),
        "symbols": cache.symbols.to_list(),
        "front_end": build_front_end(config.text_symbols, config.lexicon, config.language).to_dict(),
        "languages": list(cache.languages),
        "speakers": list(cache.speakers),
        "reference_frames": config.reference_frames if spec.has_speakers else 0,
        "trim_silence_db": config.trim_silence_db,
        "loudness_db": config.loudness_db,
        # Sentences as long as those of training, and no longer than is pleasant; symbols are a little more than characters.
        "max_characters": max(10, min(180, config.max_text_length - 20)),
        "licence": licence,
        "attribution": attribution,
        "content_id": cache.content_id,
        "training_split": asdict(_split_of(cache, has_own_folder=config.val_data is not None)),
    }


def _split_of(cache: Cache, has_own_folder: bool) -> TrainingSplit:
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
    if saved is None and init_from is None:
        return facts
    split = TrainingSplit(**facts["training_split"]).after(_split_before(saved, init_from))
    return facts | {"training_split": asdict(split)}


def _split_before(saved: Checkpoint | None, init_from: str | None) -> TrainingSplit | None:
    if saved is None:
        path = locate_origin(init_from)
        if (path / DESCRIPTION_NAME).is_file():
            return read_description(path).training_split
        saved = load_checkpoint(path)
    if "training_split" not in saved.corpus:  # checkpoints of 0.1.0 have none
        return None
    return TrainingSplit(**saved.corpus["training_split"])


def export_voice(
    checkpoint: Checkpoint,
    folder: Path,
    licence: str = "",
    attribution: str = "",
    *,
    corpus: TrainingCorpus | None = None,
    announce: Callable[[str], None] | None = None,
) -> Path:
    """Write the voice of a checkpoint: its averaged weights where there are any. The corpus's own terms hold unless given.

    A voice of several speakers needs their recordings: those of `corpus`, or the corpus that the checkpoint was trained on.
    """
    facts = {name: value for name, value in checkpoint.corpus.items() if name != "content_id"}
    facts |= {name: text for name, text in (("licence", licence), ("attribution", attribution)) if text}
    licence_text = facts["licence"]
    facts["licence"] = licence_name(licence_text, facts["attribution"])
    scale = float(np.clip(checkpoint.progress["duration_scale"], 0.5, 2.0))
    if "training_split" in facts:  # checkpoints of 0.1.0 have none
        facts["training_split"] = TrainingSplit(**facts["training_split"])
    description = VoiceDescription(
        **facts, defaults=Defaults(duration_scale=scale), about={"training steps": checkpoint.step}
    )
    weights = checkpoint.named_weights("average" if "average" in checkpoint.arrays else "weights")
    vectors = checkpoint.arrays.get("speaker_vectors")  # only checkpoints of 0.1.0 hold them
    spec = ModelSpec.from_dict(facts["model"])
    if spec.has_speakers and vectors is None:
        corpus = corpus or _corpus_of(checkpoint, announce)
        model = _network(spec, weights)
        vectors = speaker_vectors(model, corpus.cache, corpus.plan.clips, facts["reference_frames"])
    return save_voice(
        folder,
        description,
        weights,
        vectors,
        licence_text=licence_text if licence_text.strip() != facts["licence"] else "",
    )


def licence_name(licence: str, attribution: str) -> str:
    """What a licence file is called: one line as it is; of several the names that it declares, else the first line.

    A Debian copyright file declares every licence of a whole package (`License: NAME`): of those, the ones that the attribution
    names, because it was written for these recordings.
    """
    lines = [line.strip() for line in licence.splitlines() if line.strip()]
    if len(lines) <= 1:
        return "".join(lines)[:LONGEST_LICENCE_NAME]
    declared = dict.fromkeys(_DECLARED_LICENCE.findall(licence))
    own = [name for name in declared if re.search(rf"(?<![\w.+-]){re.escape(name)}(?![\w+-])", attribution)]
    return (", ".join(own or declared) or lines[0])[:LONGEST_LICENCE_NAME]


def speaker_vectors(model: XTTS, cache: Cache | RecordingTable, clips: np.ndarray, reference_frames: int) -> np.ndarray:
    """One vector for every speaker, the mean over references from the given clips: float32 (speakers, speaker_channels)."""
    chosen = reference_clips(cache.speaker_numbers[clips], cache.frame_counts[clips])
    clips = np.asarray(clips)[chosen]
    speakers = cache.speaker_numbers[clips]
    sums = np.zeros((len(cache.speakers), model.spec.speaker_channels), np.float32)
    batch = np.zeros((REFERENCES_PER_BATCH, reference_frames, cache.mel.n_mels), np.float32)
    for start in range(0, len(clips), REFERENCES_PER_BATCH):
        part = slice(start, min(start + REFERENCES_PER_BATCH, len(clips)))
        count = part.stop - start
        for place, clip in enumerate(clips[part].tolist()):
            batch[place] = _reference(cache.clip_frames(clip), reference_frames)
        np.add.at(sums, speakers[part], model.speaker_vectors(tf.constant(batch)).numpy()[:count])
    counts = np.bincount(speakers, minlength=len(sums))
    return sums / np.maximum(counts, 1)[:, None].astype(np.float32)


def reference_clips(speakers: np.ndarray, frame_counts: np.ndarray) -> np.ndarray:
    """Indices of the longest `REFERENCES_PER_SPEAKER` clips of each speaker: short ones have to be repeated."""
    order = np.lexsort((-frame_counts.astype(np.int64), speakers))
    of_order = speakers[order]
    rank = np.arange(len(order)) - np.searchsorted(of_order, of_order)
    return order[rank < REFERENCES_PER_SPEAKER]


def _corpus_of(checkpoint: Checkpoint, announce: Callable[[str], None] | None) -> TrainingCorpus:
    """The corpus that a checkpoint was trained on, opened again (and prepared again if its cache is gone)."""
    config = parse_config(checkpoint.config)
    speakers = checkpoint.corpus["speakers"]
    try:
        corpus = open_corpus(config.data, config.training, announce=announce)
    except CorpusError as error:
        raise CheckpointError(
            f"A voice of {len(speakers)} speakers needs the recordings that it was trained on: {error} Run the export where "
            f"{config.data.train_data} is, or copy the voice/ folder of the run."
        ) from error
    if list(corpus.cache.speakers) != speakers:
        raise CheckpointError(
            f"The corpus {corpus.data_folder} has other speakers than the checkpoint. Received: {len(corpus.cache.speakers)} "
            f"speakers. Expected: the {len(speakers)} of the training. Restore the corpus, or copy the voice/ folder of the run."
        )
    return corpus


def _network(spec: ModelSpec, weights: dict[str, np.ndarray]) -> XTTS:
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
