"""Missing packages are named with the line that installs them."""

import sys

import pytest

from myxtts.errors import EvaluationError
from myxtts.evaluation.packages import METRIC_NAMES, check_packages
from myxtts.evaluation.report import LABELS
from myxtts.runtime.startup import removed_modules


def test_every_missing_package_is_named_once_with_the_line_that_installs_it(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    message = (
        r"^Packages that are not installed: rapidfuzz, scipy, resemblyzer, torch, speechmos, onnxruntime, librosa, pesq, "
        r"pyworld, matplotlib\. They are needed by: cer, .*, rtf, --html\. Run `pip install '\.\[evaluate\]'` in the project"
    )
    with pytest.raises(EvaluationError, match=message):
        check_packages(METRIC_NAMES, writes_page=True)


def test_only_the_packages_of_the_chosen_metrics_are_needed(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name if name == "scipy" else None)
    check_packages(["duration_error", "failed", "rtf"])
    with pytest.raises(
        EvaluationError, match=r"^Packages that are not installed: pesq\. They are needed by: pesq\. Run"
    ):
        check_packages(["pesq", "failed"])


def test_stand_ins_for_removed_modules_are_gone_afterwards():
    before = sys.modules.get("pkg_resources")
    with removed_modules():
        import pkg_resources

        assert pkg_resources.get_distribution("numpy").version
    assert sys.modules.get("pkg_resources") is before


def test_every_metric_has_a_title():
    assert tuple(LABELS) == METRIC_NAMES
