"""Does a clone sound like its reference? `python benchmarks/cloning.py VOICE DATA... [--json FILE]` (extra `evaluate`).

The leave-speakers-out protocol: speakers that the voice was never trained on (`HELD_OUT`, configs/base.yaml, or --speakers)
give a reference of 6 to 10 s; the voice speaks with it in the speaker's own language and in the others. An embedding that this
package did not train (resemblyzer) compares each result with the mean of other recordings of every such speaker. `nearest`: the
fraction of sentences that are nearest to their own speaker; chance is one of the number of speakers. DNSMOS shows whether noise
was copied. Without held-out speakers, those of held-out recordings are taken. Languages that need
espeak-ng are skipped where it is missing.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as a script, Python searches the folder benchmarks/ only

from benchmarks.harness import print_table, write_json
from myxtts.audio.files import probe_audio, read_audio
from myxtts.config.config import DataConfig
from myxtts.corpus.corpus import read_corpus
from myxtts.corpus.utterance import Utterance
from myxtts.errors import AudioError, TextError
from myxtts.evaluation.clip_metrics import NaturalnessJudge, SpeakerEmbedder
from myxtts.synthesis.options import check_front_end
from myxtts.synthesis.voice import Voice
from myxtts.text.tokenizer import FrontEnd

HELD_OUT = ("fa-2", "fa-4", "fa-5", "fa-6", "mnist-12", "mnist-26", "mnist-28", "mnist-35")
"""Never trained on by configs/base.yaml: cv-fa spk002, 004, 005 and 006; AudioMNIST 12, 26, 28 and 35."""
RECORDINGS = 25
"""Recordings of each speaker with which clones are compared. References are not among them."""
REFERENCE_SECONDS = (6.0, 10.0)
FEWEST_WORDS = 4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("voice", type=Path)
    parser.add_argument("data", type=Path, nargs="+", help="corpora that hold the speakers and the sentences")
    parser.add_argument(
        "--speakers", help="comma-separated (default: those of configs/base.yaml that the corpora have)"
    )
    parser.add_argument("--sentences", type=int, default=12, help="per speaker and language (default: %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="write the metrics as one flat JSON object")
    arguments = parser.parse_args()
    voice, encoder, judge = Voice.load(arguments.voice), SpeakerEmbedder.load(), NaturalnessJudge.load()
    corpora = [read_corpus(DataConfig(train_data=str(folder))) for folder in arguments.data]
    everything = [one for corpus in corpora for one in corpus.utterances]
    held_out = [
        one
        for corpus in corpora
        for one, is_held in zip(corpus.utterances, corpus.is_validation, strict=True)
        if is_held
    ]
    names = arguments.speakers.split(",") if arguments.speakers else HELD_OUT
    chosen = [one for one in everything if one.speaker in names]
    candidates = chosen if arguments.speakers or chosen else held_out
    speakers = sorted({one.speaker for one in candidates})
    if len(speakers) < 2:
        parser.error(f"at least two speakers are needed. Received: {', '.join(speakers) or 'none of them'}")
    references = {name: pick_references([one for one in candidates if one.speaker == name]) for name in speakers}
    recorded = {
        name: embed_recordings(encoder, [one for one in everything if one.speaker == name], references[name])
        for name in speakers
    }
    metrics = show(
        "Recordings", {name: similarities(recorded[name], name, recorded) for name in speakers}, "recordings"
    )
    texts = {language: sentences_of(held_out, language, arguments.sentences) for language in voice.languages}
    languages = speakable_languages([each for each in voice.languages if texts[each]], voice.tokenizer.front_end)
    groups: dict[str, dict[str, list[dict[str, float]]]] = {"same_language": {}, "other_language": {}}
    scores: dict[str, list[float]] = {group: [] for group in groups}
    for name in speakers:
        speaker = voice.clone([one.path for one in references[name]])
        native = {one.language for one in everything if one.speaker == name}
        for language in languages:
            audios = voice.synthesize_many(texts[language], speaker=speaker, language=language)
            embedded = [encoder.embed(audio.samples, audio.sample_rate) for audio in audios]
            group = "same_language" if language in native else "other_language"
            found = similarities([one for one in embedded if one is not None], name, recorded)
            groups[group].setdefault(name, []).extend(found)
            scores[group] += [judge.score(audio.samples, audio.sample_rate) for audio in audios]
    for group, clips in groups.items():
        if clips:
            metrics |= show(f"Clones, {group.replace('_', ' ')}", clips, group)
            metrics[f"dnsmos_{group}"] = float(np.mean(scores[group]))
            print(f"DNSMOS {metrics[f'dnsmos_{group}']:.2f}")
    write_json(arguments.json, metrics)
    return 0


def sentences_of(utterances: list[Utterance], language: str, count: int) -> list[str]:
    """Different held-out sentences of a language, spread evenly over the corpora."""
    texts = [one.text for one in utterances if one.language == language and len(one.text.split()) >= FEWEST_WORDS]
    texts = list(dict.fromkeys(texts))
    return texts[:: max(1, len(texts) // count)][:count]


def speakable_languages(languages: list[str], front_end: FrontEnd) -> list[str]:
    """Those that can be spoken here, with a line for each that needs espeak-ng (extra `phonemes`) where it is missing."""
    found = []
    for language in languages:
        try:
            check_front_end(front_end, language)
            found.append(language)
        except TextError as error:
            print(f"Skipped: {error}")
    return found


def pick_references(utterances: list[Utterance]) -> list[Utterance]:
    """The longest recordings that are 6 to 10 s together, or one of that length."""
    lowest, highest = REFERENCE_SECONDS
    seconds = {}
    for one in utterances:
        try:
            samples, rate = probe_audio(one.path)
        except AudioError:
            continue
        seconds[one.id] = samples / rate
    usable = [one for one in utterances if 1.0 <= seconds.get(one.id, 0.0) <= highest]
    picked, total = [], 0.0
    for one in sorted(usable, key=lambda each: -seconds[each.id]):
        if total < lowest and total + seconds[one.id] <= highest:
            picked.append(one)
            total += seconds[one.id]
    return picked


def embed_recordings(
    encoder: SpeakerEmbedder, utterances: list[Utterance], references: list[Utterance]
) -> list[np.ndarray]:
    """Embeddings of recordings spread evenly over the corpus."""
    embedded, taken = [], {one.id for one in references}
    for one in utterances[:: max(1, len(utterances) // (2 * RECORDINGS))]:
        try:
            samples, rate = read_audio(one.path)
        except AudioError:
            continue
        if one.id in taken or len(samples) < 1.5 * rate:
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


def show(title: str, clips: dict[str, list[dict[str, float]]], group: str) -> dict[str, float]:
    """A table of every speaker, and the metrics of all sentences together."""
    rows, all_nearest, all_own = [], [], []
    for name, found in clips.items():
        nearest = [max(one, key=lambda other: one[other]) == name for one in found]
        own = [one[name] for one in found]
        others = [max(value for other, value in one.items() if other != name) for one in found]
        margin = float(np.mean(own) - np.mean(others))
        rows.append((name, f"{np.mean(own):.3f}", f"{margin:+.3f}", f"{np.mean(nearest):.0%}", len(found)))
        all_nearest += nearest
        all_own += own
    rows.append(("all", f"{np.mean(all_own):.3f}", "", f"{np.mean(all_nearest):.0%}", len(all_own)))
    print_table(title, ("speaker", "similarity", "margin", "nearest", "clips"), rows)
    return {f"nearest_{group}": float(np.mean(all_nearest)), f"similarity_{group}": float(np.mean(all_own))}


if __name__ == "__main__":
    sys.exit(main())
