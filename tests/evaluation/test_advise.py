"""Advice about recordings: what is counted, what is found, and what is estimated."""

import argparse
import dataclasses
import json
import shlex

import numpy as np
import pytest

from myxtts.audio.files import write_audio
from myxtts.cli import main
from myxtts.commands.config_flags import config_of
from myxtts.commands.train import configure_train
from myxtts.corpus.prompts import prompts_of
from myxtts.evaluation import advise as advise_module
from myxtts.evaluation.advise import (
    CLIPS_PER_STEP,
    FINE_TUNED_RUNS,
    POINTS_OF_BASE,
    SCRATCH_RUNS,
    Advice,
    Quality,
    advice_lines,
    cover,
    expect,
    expected_error_points,
    find_misfits,
    training_minutes,
)
from myxtts.evaluation.text_fit import TextFit
from tests.commands.command_line import failure_of
from tests.synthesis.tiny_voice import write_voice

RATE = 16000


def quiet(stage, done, total):
    """No progress."""


def buzz(seconds=1.5, noise=0.0):
    time = np.arange(round(seconds * RATE)) / RATE
    rhythm = np.where(np.sin(2 * np.pi * 2 * time) > -0.5, 1.0, 0.0)
    samples = 0.2 * np.sign(np.sin(2 * np.pi * 120 * time)) * rhythm
    return (samples + np.random.default_rng(0).normal(0, 1e-5 + noise, len(time))).astype(np.float32)


@pytest.fixture
def corpus(tmp_path):
    folder = tmp_path / "corpus"
    (folder / "wavs").mkdir(parents=True)
    clips = {"good": buzz(), "noisy": buzz(noise=0.1), "loud": np.clip(20 * buzz(), -1, 1), "more": buzz(2.0)}
    for name, samples in clips.items():
        write_audio(folder / "wavs" / f"{name}.wav", samples, RATE)
    (folder / "wavs" / "broken.wav").write_bytes(b"RIFF")
    rows = ["id|text|speaker", "good|Hello there.|anna", "noisy|Good morning.|anna", "loud|How are you?|ben"]
    rows += ["more|A red balloon.|ben", "broken|Not here.|ben", "lost|Nobody said it.|ben"]
    (folder / "metadata.csv").write_text("\n".join(rows) + "\n")
    return folder


def test_a_corpus_is_described_and_written(corpus, tmp_path, capsys):
    voice = write_voice(tmp_path / "voice", ("anna", "ben"))
    assert main(["advise", str(corpus), "--voice", str(voice), "--json", str(tmp_path / "advice.json")]) == 0
    printed = capsys.readouterr().out
    content = json.loads((tmp_path / "advice.json").read_text())
    assert (content["clips"], content["languages"]) == (4, {"en": 4})
    assert content["minutes"] == pytest.approx(6.5 / 60)
    assert content["speakers"] == pytest.approx({"ben": 3.5 / 60, "anna": 3.0 / 60})
    assert content["rejected"]["missing"] == 1
    assert sum(content["rejected"].values()) == 2
    assert content["quality"]["noisy"] == ["noisy"]
    assert content["quality"]["clipped"] == ["loud"]
    assert content["expectation"]["start"] == "clone"
    assert len(content["coverage"][0]["next_sentences"]) == 10
    assert "speakers: ben 0.1 min, anna 0.1 min" in printed
    assert "clipping: 1 clipped (loud)" in printed
    assert "record next (en):" in printed


def test_a_language_without_a_voice_is_a_note_and_the_rest_is_measured(corpus, tmp_path, capsys):
    voice = write_voice(tmp_path / "voice", languages=("fa",))
    assert main(["advise", str(corpus), "--voice", str(voice)]) == 0
    assert "not measured: Fit of texts in en: This voice has no language 'en'" in capsys.readouterr().out


def test_a_folder_without_a_corpus_is_one_clear_line(tmp_path, capsys):
    assert "No corpus was recognized" in failure_of(capsys, "advise", str(tmp_path))


def test_missing_and_rare_sounds_and_pairs_are_found():
    coverage = cover("en", ["Hello there."] * 3 + ["The cat sat."] * 20, quiet)
    assert "ʒ" in coverage.missing
    assert coverage.rare["h"] == 3
    assert "t" not in coverage.rare
    assert 0 < coverage.pair_fraction < 0.3
    everything = cover("en", [prompt.text for prompt in prompts_of("en")], quiet)
    assert everything.missing == []
    assert everything.pair_fraction > 0.9


def test_texts_that_fit_no_better_than_others_are_the_worst_first(monkeypatch, corpus):
    from myxtts.corpus.corpus import read_manifest

    margins = {"good": 0.6, "noisy": 0.5, "loud": 0.1, "more": -np.inf}

    class Fitter:
        @classmethod
        def load(cls, folder):
            return cls()

        def measure(self, utterances, progress):
            return {one.id: TextFit(1.0, margins[one.id]) for one in utterances}

    monkeypatch.setattr(advise_module, "TextFitter", Fitter)
    utterances = [one for one in read_manifest(corpus, "en", "all").utterances if one.id in margins]
    found = find_misfits(utterances, corpus, quiet)
    assert {each.id: each.margin for each in found} == {"loud": 0.1, "more": None}


def test_expected_errors_lie_between_the_measured_runs_and_above_those_of_base():
    fewer, more = (points for _, points in FINE_TUNED_RUNS)
    assert expected_error_points(1.0, True, "en") == expected_error_points(5.0, True, "en") == fewer
    assert more < expected_error_points(20.0, True, "en") < fewer
    assert expected_error_points(20.0, True, "fa") == POINTS_OF_BASE["fa"]
    assert expected_error_points(5.0, True, "sw") == expected_error_points(5.0, False, "fa") == SCRATCH_RUNS[0][1]


def test_more_speech_means_more_steps_and_in_a_new_language_then_training_from_scratch():
    def expected(minutes, *languages):
        return expect(minutes, 4.0, 100.0, languages or ["en"])

    assert [expected(minutes).start for minutes in (0.5, 5, 70)] == ["clone", "fine-tuning", "fine-tuning"]
    assert [expected(minutes, "en", "sw").start for minutes in (0.5, 5, 70)] == ["clone", "fine-tuning", "from scratch"]
    assert [expected(minutes).steps for minutes in (2, 40, 59, 120)] == [450, 1000, 1475, 2200]


@pytest.mark.parametrize(
    ("language", "minutes", "starts_from"), [("fa", 5, "bundled"), ("fa", 70, "bundled"), ("sw", 70, None)]
)
def test_the_printed_command_trains_what_was_estimated(tmp_path, language, minutes, starts_from):
    expectation = expect(minutes, 4.0, 100.0, [language])
    quality = Quality({24000: 10}, 40.0, 11000.0, [], [], [])
    advice = Advice(str(tmp_path / "my recordings"), 10, minutes, {"a": minutes}, {"fa": 10}, {}, quality, [], [])
    lines = advice_lines(dataclasses.replace(advice, expectation=expectation))
    _, name, *flags = shlex.split(
        next(line for line in lines if line.startswith("command: ")).removeprefix("command: ")
    )
    parser = argparse.ArgumentParser()
    configure_train(parser)
    config = config_of(parser.parse_args(flags))
    assert name == "train"
    assert (config.training.max_steps, config.data.batch_size) == (expectation.steps, CLIPS_PER_STEP)
    assert (config.training.init_from, config.data.language) == (starts_from, "fa")
    assert config.data.train_data == str(tmp_path / "my recordings")


def test_the_estimated_time_is_that_of_the_measured_run():
    """900 steps of 8 clips of 7.3 s took 4 minutes on a machine with 240 GFLOP/s (docs/training.md)."""
    assert 3 < training_minutes(450, 7.3, 240.0, 62.5) < 5


@pytest.mark.parametrize(
    ("flags", "message"),
    [(["--voice", "nowhere"], "nowhere is not a voice"), (["--json", "no/a.json"], "does not exist")],
)
def test_a_wrong_flag_of_advise_is_reported_before_anything_is_measured(flags, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in failure_of(capsys, "advise", "not-even-read", *flags)
