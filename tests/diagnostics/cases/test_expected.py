"""The case scripts and `expected.yaml` agree: every script is described, every text is on one line, every disease appears."""

from pathlib import Path

import pytest
import yaml

from myxtts.diagnostics.observe.issues import Issue

FOLDER = Path(__file__).parent
CASES = yaml.safe_load((FOLDER / "expected.yaml").read_text(encoding="utf-8"))["cases"]
SLUGS = {issue.value for issue in Issue}


def test_every_script_is_described_and_every_description_has_its_script():
    scripts = {path.name for path in FOLDER.glob("*.py")} - {Path(__file__).name}
    assert scripts == set(CASES)


def test_every_issue_is_required_somewhere_and_there_are_enough_cases():
    required = {finding["disease"] for case in CASES.values() for finding in case["findings"]}
    assert required == SLUGS
    assert sum(case["healthy"] for case in CASES.values()) >= 4
    assert sum(len(case["findings"]) >= 2 for case in CASES.values()) >= 4


@pytest.mark.parametrize("name", sorted(CASES))
def test_case_is_well_formed(name):
    case = CASES[name]
    source = (FOLDER / name).read_text(encoding="utf-8")
    assert case["link"] in source, "the docstring names the report"
    assert case["healthy"] == (not case["findings"])
    assert set(case.get("also_acceptable", [])) <= SLUGS
    for finding in case["findings"]:
        assert {finding["disease"], *finding.get("or", [])} <= SLUGS
        for text in finding["at"]:
            assert sum(text in line for line in source.splitlines()) == 1, f"{text!r} is not on exactly one line"
