"""The studio in a real browser, each part used as a person would, with a microphone fed from a wav file.

It needs the package playwright and Chromium, Chrome or Edge on this machine; nothing is downloaded. Otherwise it is skipped.
"""

import json
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
pytest.importorskip("playwright.sync_api", reason="the extra `browser` is not installed")

from playwright.sync_api import expect, sync_playwright

from myxtts.audio.files import write_audio
from myxtts.corpus.corpus import read_manifest
from tests.serving.test_recorder import speech
from tests.serving.test_runs import write_launch, write_status
from tests.serving.test_studio import voice_folders  # noqa: F401 - a fixture
from tests.synthesis.tiny_voice import write_recording

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge")
BROWSER = next((path for path in map(shutil.which, BROWSERS) if path), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason=f"no browser is installed: {', '.join(BROWSERS)}")

PATIENCE_MILLISECONDS = 60_000
MICROPHONE_SECONDS = 4.0
"""Of the fake microphone, which repeats: half a second of silence, three of sound, half a second of silence."""


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    """A workspace with a run that was started in a terminal and a finished evaluation."""
    folder = tmp_path_factory.mktemp("studio")
    run = folder / "checkpointsmain"
    fields = {
        "account": {"checkpoint": 8.4, "steps_device": 168.0},
        "mean_step_seconds": 0.2,
        "device_share": 0.97,
        "wait_share": 0.01,
    }
    write_status(run, state="finished", step=400, figures={"loss": 0.5, "padding_share": 0.04}, **fields)
    losses = [{"kind": "train", "step": step, "loss": 1 + 40 / (step + 20)} for step in range(20, 401, 20)]
    (run / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in losses))
    (run / "samples").mkdir()
    for step in (200, 400):
        write_recording(run / "samples" / f"step-{step:08d}-en-0.wav")
    evaluation = folder / "evaluations" / "letters-1"
    write_launch(evaluation, arguments=("evaluate",), corpus="letters\nbundled")
    (evaluation / "page.html").write_text("<!doctype html><title>x</title><h1>Measured on Tuesday</h1>")
    return folder


@pytest.fixture(scope="module")
def address(workspace, voice_folders, tmp_path_factory):  # noqa: F811
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "myxtts.cli", "studio", str(workspace), "--port", str(port), "--no-browser"]
    words += ["--threads", "1"]
    for folder in voice_folders.values():
        words += ["--voice", str(folder)]
    output = tmp_path_factory.mktemp("output") / "studio.txt"
    with open(output, "wb") as file:
        server = subprocess.Popen(words, stdout=file, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 120
        while True:
            assert server.poll() is None, output.read_text()
            assert time.monotonic() < deadline, output.read_text()
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1).close()
                break
            except OSError:
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/studio/"
    finally:
        server.terminate()
        server.wait()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    microphone = tmp_path_factory.mktemp("microphone") / "speech.wav"
    write_audio(microphone, speech().astype(np.float32), 16000)
    arguments = [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--use-fake-ui-for-media-stream",
        "--use-fake-device-for-media-stream",
        f"--use-file-for-fake-audio-capture={microphone}",
        "--autoplay-policy=no-user-gesture-required",
    ]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser, address):
    """A function that opens a part of the studio; at the end no script may have failed."""
    failures, contexts = [], []

    def open_part(part, language="en", width=1200):
        context = browser.new_context(viewport={"width": width, "height": 900}, permissions=["microphone"])
        context.add_init_script(f"if (window === top) localStorage.setItem('myxtts-language', '{language}')")
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MILLISECONDS)
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.on("dialog", lambda dialog: dialog.accept())
        page.goto(f"{address}#{part}")
        page.wait_for_selector(f"#{part}:not([hidden])")
        return page

    yield open_part
    for context in contexts:
        context.close()
    assert not failures


def test_speak_plays_highlights_downloads_and_fixes_a_word(open_page, workspace):
    page = open_page("speak")
    page.wait_for_selector("#speak-voice option", state="attached")
    page.select_option("#speak-voice", "sounds")
    page.fill("#speak-text", "Good morning. How are you?")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#save-srt[href]")
    assert page.locator(".word").all_inner_texts()[0].split() == ["Good", "ɡˈʊd"]
    page.click(".word >> nth=4")
    page.wait_for_selector(".word.now")
    with page.expect_download() as download:
        page.click("#save-audio")
    assert download.value.path().read_bytes()[:4] == b"RIFF"
    page.click(".word >> nth=0")
    page.click("#fix-open")
    page.fill("#fix-like", "bad")
    page.click("#fix-convert")
    expect(page.locator("#fix-phonemes")).to_have_value("bˈæd", timeout=PATIENCE_MILLISECONDS)
    page.click("#fix-save")
    expect(page.locator(".word small").first).to_have_text("bˈæd", timeout=PATIENCE_MILLISECONDS)
    assert "good\tbˈæd" in (workspace / "lexicon-en.tsv").read_text(encoding="utf-8")


def test_words_stand_as_written_and_are_highlighted_as_spoken(open_page):
    page = open_page("speak")
    page.wait_for_selector("#speak-voice option", state="attached")
    page.select_option("#speak-voice", "sounds")
    page.fill("#speak-text", "On 4 May 2021 — $5 million.")
    page.click("#speak-button")
    page.wait_for_selector("#save-srt[href]")
    lines = [text.split("\n") for text in page.locator("#speak-words .word").all_inner_texts()]
    assert lines[:3] == [["On", "ɑn"], ["4", "fˈɔɹθ"], ["May", "mˈeɪ"]]
    assert lines[-1] == ["$5 million.", "fˈaɪv mˈɪljən dˈɑlɚz"]
    assert page.locator("#speak-words p").inner_text().count("—") == 1
    page.click("text=fˈɔɹθ")
    page.click("#fix-open")
    expect(page.locator("#fix-note")).to_contain_text("“fourth”")


def test_a_word_that_is_wider_than_a_phone_is_shown_whole(open_page):
    page = open_page("speak", width=360)
    page.wait_for_selector("#speak-voice option", state="attached")
    page.select_option("#speak-voice", "sounds")
    page.fill("#speak-text", f"{'a' * 120} {'9' * 40}")
    page.click("#speak-button")
    page.wait_for_selector("#save-srt[href]")
    page.click(".word >> nth=1")
    widths = page.eval_on_selector_all(
        ".word > *, #speak-word > *", "all => all.map((each) => each.scrollWidth - each.clientWidth)"
    )
    rights = page.eval_on_selector_all(
        ".word > *, #speak-word > *", "all => all.map((each) => each.getBoundingClientRect().right)"
    )
    assert max(widths) <= 1
    assert max(rights) <= 360


def test_a_new_text_ends_the_one_that_is_being_spoken(open_page):
    page = open_page("speak")
    page.wait_for_selector("#speak-voice option", state="attached")
    page.select_option("#speak-voice", "sounds")
    page.fill("#speak-text", "One long sentence after the other is spoken here. " * 400)
    page.click("#speak-button")
    page.wait_for_selector(".word")
    page.fill("#speak-text", "Stop.")
    page.click("#speak-button")
    page.wait_for_selector("#save-srt[href]")
    assert [text.split()[0] for text in page.locator(".word").all_inner_texts()] == ["Stop."]


def test_the_language_follows_the_script_of_the_text(open_page, workspace):
    page = open_page("speak")
    page.wait_for_selector("#speak-voice option", state="attached")
    page.evaluate("""() => document.getElementById('speak-language').append(new Option('Persian', 'fa'))""")
    for text, language in (("سلام", "fa"), ("25", "fa"), ("Hello", "en"), ("Hello سلام دنیا", "fa")):
        page.fill("#speak-text", text)
        assert page.input_value("#speak-language") == language


def test_clone_from_a_file_and_from_the_microphone(open_page, tmp_path):
    page = open_page("clone")
    page.set_input_files("#clone-file", write_recording(tmp_path / "reference.wav", seconds=3.0))
    page.wait_for_selector("#clone-similarity:not([hidden])")
    page.fill("#clone-name", "Ruth")
    page.click("#clone-save button")
    page.wait_for_selector("#clone-list >> text=Ruth")
    page.click("#clone-record")
    page.wait_for_timeout(1000 * MICROPHONE_SECONDS)
    first = page.get_attribute("#clone-original", "src")
    page.click("#clone-record")
    expect(page.locator("#clone-original")).not_to_have_attribute("src", first, timeout=PATIENCE_MILLISECONDS)
    page.click("#clone-list button")
    page.wait_for_selector("#clone-list >> text=Ruth", state="detached")


def test_a_clone_says_a_text_that_its_voice_can_read(open_page, tmp_path):
    """The page is in Persian, the voice has English letters only."""
    page = open_page("clone", language="fa")
    expect(page.locator("#clone-text")).to_have_value(re.compile("^Hello"), timeout=PATIENCE_MILLISECONDS)
    page.set_input_files("#clone-file", write_recording(tmp_path / "reference.wav", seconds=3.0))
    page.wait_for_selector("#clone-similarity:not([hidden])")


def test_record_with_the_keyboard_alone(open_page, workspace):
    page = open_page("record")
    page.fill("#record-name", "mine")
    page.keyboard.press("Enter")
    expect(page.locator("#record-toggle")).to_be_focused(timeout=PATIENCE_MILLISECONDS)
    sentence = page.inner_text("#record-prompt")
    page.keyboard.press("Space")
    page.wait_for_selector("#record-toggle[aria-pressed=true]")
    page.wait_for_timeout(1000 * MICROPHONE_SECONDS)
    page.keyboard.press("Space")
    page.wait_for_selector("#record-review:not([hidden])")
    assert page.locator("#record-checks li").count() >= 2
    page.keyboard.press("r")  # redo: the same sentence again
    page.wait_for_selector("#record-idle:not([hidden])")
    assert page.inner_text("#record-prompt") == sentence
    page.keyboard.press("s")  # another sentence
    expect(page.locator("#record-prompt")).not_to_have_text(sentence, timeout=PATIENCE_MILLISECONDS)
    page.keyboard.press("Space")
    page.wait_for_selector("#record-toggle[aria-pressed=true]")
    page.wait_for_timeout(900)  # too short for any sentence, whatever the microphone is repeating
    page.keyboard.press("Space")
    page.wait_for_selector("#record-checks li.bad")  # Enter keeps a take with a problem too, as its button says
    page.keyboard.press("Enter")
    page.wait_for_selector("#record-kept:not([hidden])")
    clips = read_manifest(workspace / "corpora" / "mine", "en", "all").utterances
    assert len(clips) == 1
    assert clips[0].text != sentence


def test_train_shows_runs_of_a_terminal_and_starts_and_stops_its_own(open_page, workspace):
    page = open_page("train")
    page.click("text=checkpointsmain")
    page.wait_for_selector(".verdict.good")
    assert page.locator(".account tr").all_inner_texts() == [
        "steps: device\t3 min\t95.2%",
        "checkpoints\t8.4 s\t4.8%",
        "whole run\t3 min\t100%",
    ]
    page.wait_for_selector(".chart polyline")
    assert not page.locator("#train-detail button").get_by_text("Stop").is_visible()  # the run has finished
    assert page.locator(".sample audio").count() == 2  # the newest step, and an older one to compare with
    page.click("#train-new")
    page.wait_for_selector("#train-corpus option", state="attached")
    page.fill("#train-name", "first")
    page.click("#train-form button.primary")
    page.wait_for_selector("#train-detail >> text=Stop")
    page.click("#train-detail >> text=Stop")
    page.wait_for_selector(".badge.stopped", timeout=2 * PATIENCE_MILLISECONDS)
    assert json.loads((workspace / "runs" / "first" / "launch.json").read_text())["wish"] == "stop"


def test_measure_shows_the_page_of_an_evaluation(open_page):
    page = open_page("measure")
    frame = page.frame_locator("#measure-frame")
    assert frame.locator("h1").inner_text() == "Measured on Tuesday"


@pytest.mark.parametrize("part", ["speak", "clone", "record", "train", "measure"])
def test_every_part_fits_a_phone_in_persian_from_right_to_left(open_page, part):
    page = open_page(part, language="fa", width=375)
    page.wait_for_timeout(500)
    assert page.evaluate("document.documentElement.dir") == "rtl"
    assert re.search("[\u0600-\u06ff]", page.inner_text(f"#{part} h1"))
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll('button, input, select, textarea, audio')].filter((each) =>
             each.checkVisibility() && each.tagName !== 'AUDIO' && !each.labels?.length && !each.getAttribute('aria-label')
             && !each.textContent.trim()).map((each) => each.outerHTML)"""
    )
    assert unnamed == []
