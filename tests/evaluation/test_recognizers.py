"""Recognizers in worker processes, and any command."""

import sys

import numpy as np
import pytest

from myxtts.audio.files import read_audio
from myxtts.corpus.corpus import bundled_corpus, read_manifest
from myxtts.errors import EvaluationError, MyXTTSError
from myxtts.evaluation.clip_metrics import count_errors, sum_errors
from myxtts.evaluation.metrics import has_package
from myxtts.evaluation.recognizers import ENGINES, CommandRecognizer, WorkerRecognizer, open_recognizer, prepare_clip
from tests.evaluation.made_up_voice import RATE, tone

PRINT_LENGTHS = """
import sys, soundfile
for path in sys.argv[1:]:
    samples, rate = soundfile.read(path)
    print(rate, "Hz", round(len(samples) / rate, 1), "s")
"""


@pytest.fixture
def print_lengths(tmp_path):
    """A recognizer command that prints how long each file is."""
    script = tmp_path / "print it.py"
    script.write_text(PRINT_LENGTHS, encoding="utf-8")
    return f"'{sys.executable}' '{script}'"


@pytest.fixture
def installed(monkeypatch):
    """Pretends that exactly these packages are installed."""

    def set_installed(*names):
        monkeypatch.setattr("importlib.util.find_spec", lambda name: name if name in names else None)

    return set_installed


@pytest.mark.parametrize("end", ["", " {wav}", " {wavs}"])
def test_a_command_gets_16_khz_files_and_its_texts_keep_the_order(print_lengths, end):
    recognizer = open_recognizer(f"command:{print_lengths}{end}", ["en", "fa"])
    texts = recognizer.recognize([tone(0, 0.5), tone(0, 1.0)], RATE * 2, ["en", "fa"])
    assert texts == ["16000 Hz 0.2 s", "16000 Hz 0.5 s"]


@pytest.mark.parametrize(("end", "counts"), [("", [1, 2, 3]), (" {wavs}", [2, 3])])
def test_progress_counts_clips(print_lengths, end, counts, monkeypatch):
    monkeypatch.setattr("myxtts.evaluation.recognizers.CLIPS_PER_COMMAND", 2)
    reported = []
    CommandRecognizer(print_lengths + end).recognize([tone(0)] * 3, RATE, ["en"] * 3, reported.append)
    assert reported == counts


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("", "is empty"),
        ("no-such-recognizer", "cannot be started: no-such-recognizer"),
        ("'unclosed", "cannot be parsed"),
        (f"'{sys.executable}' -c 'raise SystemExit(3)'", "failed with exit code 3"),
        (f"'{sys.executable}' -c 'print(1); print(2)' {{wavs}}", "printed 2 lines for 1 files"),
    ],
)
def test_a_failing_command_is_explained(command, message):
    with pytest.raises(EvaluationError, match=f"recognizer command {message}"):
        CommandRecognizer(command).recognize([tone(0)], RATE, ["en"])


@pytest.mark.parametrize("name", ["pocketsphinx", "moonshine"])
def test_recordings_are_understood_alike_in_any_order(name):
    if not has_package(name.replace("moonshine", "moonshine_voice")):
        pytest.skip(f"{name} is not installed")
    utterances = read_manifest(bundled_corpus(), split="validation").utterances[:4]
    clips = [read_audio(each.path)[0] for each in utterances]
    clips.append(np.zeros(RATE, np.float32))
    recognizer = open_recognizer(name, ["en"])
    texts = recognizer.recognize(clips, RATE, ["en"] * 5)
    assert texts[-1] == ""
    errors = sum_errors(count_errors(each.text, text, "en") for each, text in zip(utterances, texts, strict=False))
    assert errors.character_error < 0.3
    assert WorkerRecognizer(name, name, None).recognize(clips[::-1], RATE, ["en"] * 5) == texts[::-1]


@pytest.mark.parametrize(
    ("packages", "name"),
    [
        (("moonshine_voice", "pocketsphinx"), "moonshine"),
        (("moonshine_voice",), "moonshine"),
        (("pocketsphinx",), "pocketsphinx"),
    ],
)
def test_moonshine_is_the_default_for_english_if_it_is_installed(installed, packages, name):
    installed(*packages)
    assert open_recognizer(None, ["en", "en-gb"]).name == name


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        (None, "moonshine-voice", "evaluate"),
        ("moonshine", "moonshine-voice", "evaluate"),
        ("pocketsphinx", "pocketsphinx", "evaluate"),
        ("whisper:{model}", "faster-whisper", "whisper"),
    ],
)
def test_a_missing_recognizer_is_named_with_the_line_that_installs_it(installed, tmp_path, name, package, extra):
    installed()
    for file in ("model.bin", "config.json", "tokenizer.json"):
        (tmp_path / file).touch()
    with pytest.raises(
        EvaluationError, match=rf"the package {package}\. Run `pip install '\.\[{extra}\]'` in the project"
    ):
        open_recognizer(name and name.format(model=tmp_path), ["en"])


def test_whisper_takes_a_model_folder_and_any_language(installed, tmp_path):
    installed("faster_whisper")
    folder = tmp_path / "whisper-base"
    folder.mkdir()
    with pytest.raises(EvaluationError, match=r"model\.bin, config\.json, tokenizer\.json missing"):
        open_recognizer(f"whisper:{folder}", ["fa"])
    for file in ("model.bin", "config.json", "tokenizer.json"):
        (folder / file).touch()
    assert open_recognizer(f"whisper:{folder}", ["fa", "en"]).name == "whisper:whisper-base"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (None, r"no default recognizer for: fa\. Try --recognizer whisper:FOLDER.*\[whisper\]"),
        ("moonshine", r"moonshine supports only: en\. Received sentences in: fa\. Try --recognizer whisper:FOLDER"),
        ("siri", r"Received: 'siri'\. Expected: moonshine, whisper:FOLDER, pocketsphinx, or command:COMMAND"),
        ("whisper:", "Unknown recognizer"),
    ],
)
def test_unknown_recognizers_and_languages_are_rejected(installed, name, message):
    installed("moonshine_voice", "pocketsphinx")
    with pytest.raises(EvaluationError, match=message):
        open_recognizer(name, ["en", "fa"])


def test_pocketsphinx_uses_one_process_per_usable_core(installed, monkeypatch):
    installed("pocketsphinx")
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    monkeypatch.setattr("psutil.Process.cpu_affinity", lambda process: [3, 5, 7], raising=False)
    assert open_recognizer("pocketsphinx", ["en"]).processes == 3


def test_a_recognizer_that_cannot_start_is_reported_with_the_reason():
    with pytest.raises(MyXTTSError, match=r"could not start: KeyError: 'no-such-engine'$"):
        WorkerRecognizer("no-such-engine", "none", None).recognize([tone(0)], RATE, ["en"])
    assert "no-such-engine" not in ENGINES


def test_a_recognizer_that_fails_on_a_clip_is_reported_with_its_exit_code(tmp_path, monkeypatch):
    (tmp_path / "failing_engine.py").write_text(
        "import sys\n"
        "from myxtts.evaluation import recognizers as worker\n"
        "worker.ENGINES['failing'] = lambda model: lambda samples, language: 1 / 0\n"
        "sys.exit(worker.serve_jobs(worker.build_jobs))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("myxtts.evaluation.recognizers.WORKER_MODULE", "failing_engine")
    with pytest.raises(EvaluationError, match=r"^The recognizer test ended with exit code 1: ZeroDivisionError: "):
        WorkerRecognizer("failing", "test", None).recognize([tone(0)], RATE, ["en"])


def test_every_clip_is_recognized_at_one_level_without_silence_at_its_ends():
    quiet = np.zeros(RATE, np.float32)
    soft, loud = prepare_clip(np.concatenate([quiet, 0.1 * tone(0), quiet])), prepare_clip(tone(0))
    assert len(soft) == pytest.approx(len(loud), abs=0.07 * RATE)
    assert np.abs(soft).max() == pytest.approx(np.abs(loud).max(), rel=0.02)
    assert prepare_clip(quiet) is None
