"""The HTML page: complete in itself, and drawn by a real browser where there is one."""

import re
import shutil
import subprocess

import pytest

from myxtts.diagnostics.observe.page import report_to_html

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def example_report() -> dict:
    steps = 40
    return {
        "verdict": "input-bound: 43 % of the time waiting, slowest stage map(<decode>)",
        "verdict_class": "input-bound",
        "exit_code": 1,
        "run_seconds": 10.0,
        "training_seconds": 4.0,
        "unaccounted_share": 0.01,
        "account": [
            {"part": "imports", "title": "imports", "seconds": 6.0, "share": 0.6, "once": True, "file": "train.py", "line": 1},
            {"part": "waiting", "title": "steps: waiting for data", "seconds": 4.0, "share": 0.4, "once": False, "file": "",
             "line": 0},
        ],
        "minor_findings": [],
        "load": None,
        "findings": [
            {"disease": "numpy-function", "what": "a < b & c", "evidence": "3 ms", "file": "train.py", "line": 12, "also": [],
             "source": "batch = next(<data>)", "lines": [{"file": "train.py", "line": 12}],
             "fix": "ds.prefetch(2)", "gain_seconds": 1.5, "gain_share": 0.43, "effect": ""},
        ],
        "time": {"steps": steps, "cold_steps": 1, "cold_seconds": 2.0, "retrace_seconds": 0.0, "wait_seconds": 0.4,
                 "host_seconds": 0.1, "device_seconds": 0.5, "steady_mean_seconds": 0.025, "steady_std_seconds": 0.001,
                 "steady_median_seconds": 0.025, "step_cv": 0.02},
        "functions": [{"name": "step", "place": "train.py:3", "calls": 40, "traces": 1, "compilations": 0, "seconds": 0.2,
                       "causes": []}],
        "stages": [{"name": "map(<decode>)", "place": "train.py:9", "seconds_per_batch": 0.012, "is_parallel": False,
                    "python": ["numpy_function"]}],
        "batch_signatures": 1,
        "ceiling": None,
        "notes": ["No GPU."],
        "timeline": {"step": list(range(1, steps + 1)), "cold": [1] + [0] * (steps - 1), "wait": [0.01] * steps,
                     "host": [0.002] * steps, "device": [0.012] * steps, "compile": [2.0] + [0.0] * (steps - 1)},
        "machine": {"seconds": [0.0, 0.5, 1.0], "cpu_percent": [10.0, 80.0, 60.0], "process_cpu_percent": [50.0, 160.0, 90.0]},
    }  # fmt: skip


def test_page_needs_nothing_from_outside_and_escapes_what_it_shows():
    page = report_to_html(example_report(), "Diagnosis of <train.py>")
    assert not re.search(r"(src|href)\s*=|@import|url\(", page)
    assert "<train.py>" not in page
    assert "a &lt; b &amp; c" in page


def test_page_has_every_chart():
    page = report_to_html(example_report(), "x")
    assert [name for name in ("timeline", "histogram", "device") if f'<svg id="{name}"' in page] == [
        "timeline", "histogram", "device",
    ]  # fmt: skip
    assert 'map(&lt;decode&gt;)  train.py:9: 12.00</p><div class="stage" style="width:100.0%">' in page


def test_page_begins_with_the_bar_of_the_whole_run_then_steps_then_findings():
    page = report_to_html(example_report(), "x")
    order = [page.index(text) for text in ('class="bar"', 'id="timeline"', 'class="finding"', 'id="histogram"')]
    assert order == sorted(order)
    assert "steps: waiting for data 40.0 %" in page
    assert "batch = next(&lt;data&gt;)" in page
    assert "at most 43 % of the training" in page


def test_numbers_on_the_bar_are_black_on_light_parts_and_white_on_dark_ones():
    report = example_report()
    report["account"] = [
        {"part": part, "title": part, "seconds": 5.0, "share": 0.5, "file": "", "line": 0}
        for part in ("after", "diagnosis")
    ]
    page = report_to_html(report, "x")
    assert "background:#cbd2d9;color:#000" in page
    assert "background:#3e4c59;color:#fff" in page


def test_page_of_nothing_measured_still_stands():
    report = example_report() | {
        "time": None,
        "findings": [],
        "functions": [],
        "stages": [],
        "timeline": {},
        "machine": {},
    }
    assert "<svg" not in report_to_html(report, "x")


@pytest.mark.skipif(BROWSER is None, reason="no chromium here (Debian: apt install chromium)")
def test_page_is_drawn_by_a_browser(tmp_path):
    page = tmp_path / "report.html"
    page.write_text(report_to_html(example_report(), "Diagnosis"))
    shown = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom",
         page.as_uri()],
        capture_output=True, text=True, timeout=120,
    ).stdout  # fmt: skip
    assert "input-bound: 43 % of the time waiting" in shown
    assert shown.count("<svg") == 3
    assert shown.count("<rect") > 80
