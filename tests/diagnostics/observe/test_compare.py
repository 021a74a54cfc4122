"""Two reports compared: parts by name, findings as solved, remaining and new."""

import copy
import json

import pytest

from myxtts.cli import main
from myxtts.diagnostics.observe.compare import (
    compare_reports,
    comparison_to_html,
    comparison_to_markdown,
    comparison_to_text,
)
from tests.diagnostics.observe.test_page import example_report


def changed() -> dict:
    report = copy.deepcopy(example_report())
    report["verdict"] = "compute-bound: nothing to gain from the loader"
    report["run_seconds"], report["training_seconds"] = 7.0, 1.0
    report["account"][1]["seconds"], report["account"][1]["share"] = 1.0, 1 / 7
    report["time"]["steady_mean_seconds"] = 0.01
    new = report["findings"][0] | {"disease": "host-sync", "line": 20}
    report["findings"] = [new]
    return report


def test_parts_and_findings_are_paired():
    comparison = compare_reports(example_report(), changed())
    assert [(part.title, part.before, part.after) for part in comparison.parts][1] == (
        "steps: waiting for data",
        4.0,
        1.0,
    )
    assert [one["disease"] for one in comparison.solved] == ["numpy-function"]
    assert [one["disease"] for one in comparison.new] == ["host-sync"]
    assert comparison.remaining == ()
    assert "4.00x as fast" in comparison.headline


def test_part_that_only_one_run_has_stands_where_it_was():
    before, after = example_report(), example_report()
    before["account"] = [line for line in before["account"] if line["part"] != "waiting"]
    titles = [part.title for part in compare_reports(before, after).parts]
    assert titles == [line["title"] for line in after["account"]]


def test_busy_machine_is_said_next_to_the_difference():
    before, after = example_report(), changed()
    assert compare_reports(before, after).caution == ""
    after["load"] = {"others": 0.8, "steal": 0.05, "load_average": 4.0}
    comparison = compare_reports(before, after)
    assert "0.0 % of the processors before and 85 % after" in comparison.caution
    for shown in (comparison_to_text(comparison), comparison_to_markdown(comparison), comparison_to_html(comparison)):
        assert comparison.caution in shown


def test_same_finding_at_a_moved_line_remains():
    moved = example_report()
    moved["findings"][0]["line"] = 99
    comparison = compare_reports(example_report(), moved)
    assert len(comparison.remaining) == 1
    assert not comparison.solved + comparison.new


def test_command_writes_text_page_and_markdown(tmp_path, capsys):
    for name, report in (("a", example_report()), ("b", changed())):
        (tmp_path / f"{name}.json").write_text(json.dumps({"script": "train.py", "report": report}))
    files = [str(tmp_path / name) for name in ("a.json", "b.json", "c.html", "c.md")]
    assert main(["diagnose", "compare", *files[:2], "--html", files[2], "--markdown", files[3]]) == 0
    assert "Solved" in capsys.readouterr().out
    assert (tmp_path / "c.html").read_text().count('class="bar"') == 2
    assert "<th>whole run</th><th class='n'>10.00 s</th><th class='n'>7.00 s</th>" in (tmp_path / "c.html").read_text()
    assert "| **whole run** | **10.00 s** | **7.00 s** |" in (tmp_path / "c.md").read_text()


@pytest.mark.parametrize("content", ["not json", "[]", "{}"])
def test_other_files_are_refused_with_what_is_expected(tmp_path, capsys, content):
    (tmp_path / "a.json").write_text(content)
    assert main(["diagnose", "compare", str(tmp_path / "a.json"), str(tmp_path / "a.json")]) == 2
    assert "report" in capsys.readouterr().err


def test_page_escapes_what_it_shows():
    before = example_report() | {"verdict": "<b>"}
    assert "<b>" not in comparison_to_html(compare_reports(before, changed())).replace("<b style", "")
