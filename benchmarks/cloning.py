"""Does a clone sound like its reference? `python benchmarks/cloning.py VOICE DATA [--json FILE]` (extra `evaluate`).

For each speaker of the corpus, one held-out recording is the reference; the voice speaks held-out sentences with it, in the
speaker's own language and in the others. An embedding that this package did not train (resemblyzer) compares each result with the
mean of other recordings of every speaker. `nearest`: the share of sentences that are nearest to their own speaker.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as a script, Python searches the folder benchmarks/ only

from benchmarks.harness import print_table, write_json
from myxtts.audio.files import read_audio
from myxtts.config.config import DataConfig
from myxtts.corpus.corpus import read_corpus
from myxtts.corpus.utterance import Utterance
from myxtts.errors import AudioError
from myxtts.evaluation.clip_metrics import SpeakerEmbedder
from myxtts.synthesis.voice import Voice

SENTENCES = 12
RECORDINGS = 25
"""Of each speaker: what the results are compared with. The reference is not among them."""
REFERENCE_SECONDS = (2.0, 15.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("voice", type=Path)
    parser.add_argument("data", type=Path, help="the corpus that the voice was trained on")
    parser.add_argument("--json", metavar="FILE", help="write the figures as one flat JSON object")
    arguments = parser.parse_args()
    voice, encoder = Voice.load(arguments.voice), SpeakerEmbedder.load()
    source = read_corpus(DataConfig(train_data=str(arguments.data)))
    held_out = [one for one, is_held in zip(source.utterances, source.is_validation, strict=True) if is_held]
    speakers = sorted({one.speaker for one in held_out})
    references = {name: pick_reference([one for one in held_out if one.speaker == name]) for name in speakers}
    recorded = {
        name: embed_recordings(encoder, [one for one in source.utterances if one.speaker == name], references[name])
        for name in speakers
    }
    figures = show("Recordings", {name: similarities(recorded[name], name, recorded) for name in speakers}, speakers)
    figures = {f"{key}_recordings": value for key, value in figures.items()}
    texts = {
        language: [one.text for one in held_out if one.language == language and len(one.text.split()) >= 4][:SENTENCES]
        for language in voice.languages
    }
    own, other = {}, {}
    for name in speakers:
        speaker = voice.clone(references[name].path)
        native = {one.language for one in source.utterances if one.speaker == name}
        for language in voice.languages:
            audios = voice.synthesize_many(texts[language], speaker=speaker, language=language)
            embedded = [encoder.embed(audio.samples, audio.sample_rate) for audio in audios]
            found = similarities([one for one in embedded if one is not None], name, recorded)
            group = own if language in native else other
            group[name] = [*group.get(name, []), *found]
    figures |= show("Clones in the speaker's own languages", own, speakers)
    figures |= {
        f"{key}_other_languages": value for key, value in show("Clones in other languages", other, speakers).items()
    }
    write_json(arguments.json, figures)
    return 0


def pick_reference(utterances: list[Utterance]) -> Utterance:
    """The longest held-out recording that is not too long."""
    seconds = {}
    for one in utterances:
        samples, rate = read_audio(one.path)
        if REFERENCE_SECONDS[0] <= len(samples) / rate <= REFERENCE_SECONDS[1]:
            seconds[len(samples) / rate] = one
    return seconds[max(seconds)]


def embed_recordings(encoder: SpeakerEmbedder, utterances: list[Utterance], reference: Utterance) -> list[np.ndarray]:
    """Embeddings of recordings spread evenly over the corpus."""
    embedded = []
    for one in utterances[:: max(1, len(utterances) // (2 * RECORDINGS))]:
        try:
            samples, rate = read_audio(one.path)
        except AudioError:
            continue
        if one.id == reference.id or len(samples) < 1.5 * rate:
            continue
        vector = encoder.embed(samples, rate)
        if vector is not None:
            embedded.append(vector)
    return embedded[:RECORDINGS]


def similarities(
    embedded: list[np.ndarray], speaker: str, recorded: dict[str, list[np.ndarray]]
) -> list[dict[str, float]]:
    """Cosine of each clip with the mean of every speaker's recordings; a recording is left out of its own mean."""
    found = []
    for vector in embedded:
        cosines = {}
        for name, vectors in recorded.items():
            total = np.sum([one for one in vectors if name != speaker or one is not vector], axis=0)
            cosines[name] = float(vector @ total / np.linalg.norm(total))
        found.append(cosines)
    return found


def show(title: str, clips: dict[str, list[dict[str, float]]], speakers: list[str]) -> dict[str, float]:
    """A table of mean cosines, and the figures of all speakers: the least mean similarity, margin and share of nearest."""
    rows, least = [], {"similarity": 1.0, "margin": 1.0, "nearest": 1.0}
    for name in speakers:
        means = {other: float(np.mean([one[other] for one in clips[name]])) for other in speakers}
        nearest = float(np.mean([max(one, key=one.get) == name for one in clips[name]]))
        margin = means[name] - max(value for other, value in means.items() if other != name)
        rows.append(
            (name, *(f"{means[other]:.3f}" for other in speakers), f"{margin:+.3f}", f"{nearest:.0%}", len(clips[name]))
        )
        for key, value in (("similarity", means[name]), ("margin", margin), ("nearest", nearest)):
            least[key] = min(least[key], value)
    print_table(title, ("speaker", *(f"to {name}" for name in speakers), "margin", "nearest", "clips"), rows)
    return {f"least_{key}": value for key, value in least.items()}


if __name__ == "__main__":
    sys.exit(main())
