"""Measuring a whole voice."""

import dataclasses
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import soundfile

from myxtts.audio.clips import level_loudness, trim_silence
from myxtts.errors import EvaluationError
from myxtts.evaluation.evaluate import Evaluator, copy_recording, evaluation_callback
from myxtts.evaluation.judge import load_judge
from myxtts.evaluation.metrics import has_package
from myxtts.evaluation.score_report import describe_evaluation, render_page, summary_rows, to_json, write_json
from myxtts.evaluation.sentence_sets import read_sentences
from tests.evaluation.made_up_voice import TEXTS, MadeUpVoice, PitchRecognizer, made_up_sentences

METRICS = ("cer", "wer", "mcd", "duration_error", "failed", "rtf")


@pytest.fixture
def sentences(tmp_path):
    return made_up_sentences(tmp_path)


def evaluate(sentences, voice=None, metrics=METRICS, seeds=3, progress=None):
    return Evaluator(sentences, load_judge(metrics, PitchRecognizer()), seeds).evaluate(
        voice or MadeUpVoice(), progress
    )


def test_a_perfect_voice_is_as_good_as_the_recordings_and_its_humming_vocoder_is_not(sentences):
    estimates = evaluate(sentences).estimates
    assert estimates["cer"].value == estimates["cer_recordings"].value == 0.0
    assert estimates["cer_vocoded"].value > 0.5
    assert estimates["mcd"].value < 0.5 < estimates["mcd_vocoded"].value
    assert estimates["duration_error"].value < 0.05


@pytest.mark.parametrize("extra", [0, 1, 255])
def test_a_copy_is_as_long_as_its_recording(extra):
    mel = MadeUpVoice().mel
    samples = np.zeros(20 * mel.hop_length + extra, np.float32)
    copied = copy_recording(samples, mel, lambda frames: np.ones((len(frames) - 1) * mel.hop_length, np.float32))
    assert len(copied) == len(samples)


def test_every_metric_has_a_value_for_recordings_and_vocoder(sentences):
    estimates = evaluate(sentences).estimates
    assert set(estimates) == {key + end for key in METRICS[:-1] for end in ("", "_recordings", "_vocoded")} | {"rtf"}


def test_a_silent_sentence_counts_as_failed_and_as_not_recognized(sentences):
    evaluation = evaluate(sentences, MadeUpVoice(silent=TEXTS[:1]), seeds=2)
    assert evaluation.estimates["failed"].value == 0.25
    assert evaluation.estimates["failed_recordings"].value == 0.0
    assert evaluation.failed_sentences == ("s0 (seed 0): silent", "s0 (seed 1): silent")
    assert evaluation.estimates["cer"].value == pytest.approx(len(TEXTS[0]) / sum(map(len, TEXTS)))


def test_every_sentence_is_spoken_once_for_each_seed(sentences):
    voice = MadeUpVoice()
    evaluate(sentences, voice, seeds=3, metrics=("cer",))
    assert sorted(voice.asked) == sorted((text, seed) for text in TEXTS for seed in range(3))


def test_speaking_reports_progress_before_the_first_sentence_and_at_least_every_16(sentences):
    calls = []
    evaluate(
        sentences, seeds=10, metrics=("failed",), progress=lambda stage, done, total: calls.append((stage, done, total))
    )
    assert [call for call in calls if call[0] == "speaking"] == [("speaking", done, 40) for done in (0, 16, 32, 40)]


def test_clips_are_measured_on_the_usable_cores(sentences, monkeypatch):
    counts = []

    def note(max_workers):
        counts.append(max_workers)
        return ThreadPoolExecutor(max_workers)

    monkeypatch.setattr("os.cpu_count", lambda: 64)
    monkeypatch.setattr("psutil.Process.cpu_affinity", lambda process: [3, 5, 7], raising=False)
    monkeypatch.setattr("myxtts.evaluation.judge.ThreadPoolExecutor", note)
    evaluate(sentences, metrics=("failed",))
    assert set(counts) == {3}


def test_sentences_without_recordings_are_measured_without_comparison(sentences):
    unrecorded = [dataclasses.replace(each, recording=None) for each in sentences]
    evaluation = evaluate(unrecorded, metrics=("cer", "failed"))
    assert evaluation.estimates["cer"].value == 0.0
    assert evaluation.estimates["cer_recordings"] is None
    assert evaluation.estimates["failed_vocoded"] is None


def test_only_the_metrics_that_were_asked_for_are_reported(sentences):
    assert set(evaluate(sentences, metrics=("failed",)).estimates) == {"failed", "failed_recordings", "failed_vocoded"}


def test_unknown_metrics_and_languages_are_rejected(sentences):
    with pytest.raises(EvaluationError, match="Expected some of: cer"):
        evaluate(sentences, metrics=("beauty",))
    foreign = [dataclasses.replace(each, language="fa") for each in sentences]
    with pytest.raises(EvaluationError, match="no default recognizer for: fa"):
        evaluation_callback(foreign)


def test_callback_judges_recordings_and_vocoder_once(sentences):
    voice = MadeUpVoice()
    callback = evaluation_callback(sentences, recognizer=PitchRecognizer())
    first, second = callback(voice), callback(voice)
    assert voice.vocoded == len(sentences)
    assert first == second
    assert first["cer"] == 0.0
    assert first["cer_vocoded"] > 0.5


def test_json_holds_fractions_intervals_and_every_sentence(sentences, tmp_path):
    evaluation = evaluate(sentences, MadeUpVoice(silent=TEXTS[:1]))
    write_json(evaluation, tmp_path / "out.json")
    content = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert content == to_json(evaluation)
    assert content["failed"] == 0.25
    low, high = content["intervals"]["failed"]
    assert low < 0.25 < high
    assert [each["text"] for each in content["results"]] == list(TEXTS)
    assert content["results"][0]["synthesised"][0]["failure"] == "silent"


def test_the_table_has_a_row_per_metric_with_three_values(sentences):
    rows = {row[0]: row[1:] for row in summary_rows(evaluate(sentences))}
    assert rows["Character error"][0] == "0.0 % (0.0 … 0.0)"
    assert rows["Mel-cepstral distortion (dB)"][1] == "–"
    assert len(rows) == len(METRICS)


def test_the_page_contains_every_clip_and_needs_no_network(sentences):
    awkward = dataclasses.replace(sentences[1], id="<b>&")
    page = render_page(evaluate([sentences[0], awkward]))
    assert page.count("data:audio/mpeg;base64,") == page.count("data:image/png;base64,") == 6
    assert "http" not in page
    assert "<b>" not in page
    assert "&lt;b&gt;&amp;" in page


def test_lists_of_sentences_skip_comments_and_empty_lines(tmp_path):
    path = tmp_path / "list.txt"
    path.write_text("# a comment\nOne.\n\nTwo, سلام.\n", encoding="utf-8")
    assert [each.text for each in read_sentences(path)] == ["One.", "Two, سلام."]
    path.write_text("# nothing\n", encoding="utf-8")
    with pytest.raises(EvaluationError, match="empty"):
        read_sentences(path)
    with pytest.raises(EvaluationError, match="cannot be read"):
        read_sentences(tmp_path / "missing.txt")


def test_samples_that_are_not_finite_count_as_failed(sentences):
    class BrokenVoice(MadeUpVoice):
        def synthesize(self, text, language=None, speaker=None, seed=0):
            audio = super().synthesize(text, language, speaker, seed)
            return dataclasses.replace(audio, samples=np.full_like(audio.samples, np.nan))

    evaluation = evaluate(sentences, BrokenVoice())
    assert evaluation.estimates["failed"].value == 1.0
    assert "not finite" in evaluation.failed_sentences[0]


@pytest.mark.parametrize(
    "changes", [{}, {"loudness_db": -30.0}, {"trim_silence_db": 20.0}, {"trim_noise_db": 10.0}, {"loudness_db": None}]
)
def test_recordings_are_leveled_and_trimmed_as_the_voice_was_trained(sentences, changes):
    voice = MadeUpVoice()
    for name, value in changes.items():
        setattr(voice, name, value)
    expected, rate = soundfile.read(sentences[0].recording, dtype="float32")
    if voice.trim_silence_db is not None:
        expected = trim_silence(expected, rate, voice.trim_silence_db, voice.trim_noise_db)
    if voice.loudness_db is not None:
        expected = level_loudness(expected, rate, voice.loudness_db)
    evaluation = Evaluator(sentences, load_judge(("failed",)), seeds=1).evaluate(voice)
    np.testing.assert_allclose(evaluation.recordings[0].samples, expected, atol=1e-4)


def test_a_notice_is_shown_under_the_table_and_on_the_page(sentences):
    evaluation = dataclasses.replace(evaluate(sentences), notice="Trained on <2> of them.")
    assert describe_evaluation(evaluation).endswith(" Trained on <2> of them.")
    assert "Trained on &lt;2&gt; of them." in render_page(evaluation)


def test_the_report_names_the_recognizer_and_its_error_on_the_recordings(sentences):
    assert "recognizer pitch (0.0 % character error on the recordings)" in describe_evaluation(evaluate(sentences))
    unrecorded = [dataclasses.replace(each, recording=None) for each in sentences]
    assert "recognizer pitch (not checked on recordings)" in describe_evaluation(evaluate(unrecorded, metrics=("cer",)))


def test_pesq_and_log_f0_error_of_copy_synthesis_are_reported(sentences):
    pytest.importorskip("pesq")
    if not has_package("pyworld"):
        pytest.skip("pyworld is not installed")
    evaluation = evaluate(sentences, metrics=("pesq", "log_f0_rmse"), seeds=1)
    content = to_json(evaluation)
    assert content["pesq"] is content["pesq_recordings"] is None
    assert 1.0 <= content["pesq_vocoded"] < 4.0
    assert content["results"][0]["vocoded"]["pesq"] > 1.0
    assert content["log_f0_rmse"] < 0.05 < content["log_f0_rmse_vocoded"]
    assert summary_rows(evaluation)[0][1:3] == ("–", "–")


def test_every_stage_that_takes_long_reports_progress_to_its_end(sentences):
    last = {}
    evaluate(sentences, seeds=2, progress=lambda stage, done, total: last.update({stage: (done, total)}))
    assert set(last) == {
        "loading recordings", "recognizing recordings", "measuring recordings", "speaking", "recognizing synthesis",
        "measuring synthesis", "timing", "vocoding recordings", "recognizing vocoded recordings",
        "measuring vocoded recordings",
    }  # fmt: skip
    finished = {stage: done == total for stage, (done, total) in last.items() if not stage.startswith("recognizing")}
    assert all(finished.values())
