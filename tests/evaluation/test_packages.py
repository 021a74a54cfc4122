"""Missing packages are named with the line that installs them."""

import sys

import pytest

from myxtts.errors import EvaluationError
from myxtts.evaluation.packages import METRIC_NAMES, check_packages, removed_modules
from myxtts.evaluation.report import LABELS


def test_every_missing_package_is_named_once_with_the_line_that_installs_it(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    message = (
        r"^cer, wer, similarity, dnsmos, pesq, mcd, log_f0_rmse need packages that are not installed: rapidfuzz, resemblyzer, "
        r"torch, speechmos, onnxruntime, librosa, pesq, pyworld\. "
        r"Run `pip install '\.\[evaluate\]'` in the project folder, or .*--metrics"
    )
    with pytest.raises(EvaluationError, match=message):
        check_packages(METRIC_NAMES)


def test_metrics_without_packages_are_always_measurable(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    check_packages(["duration_error", "failed", "rtf"])


def test_stand_ins_for_removed_modules_are_gone_afterwards():
    before = sys.modules.get("pkg_resources")
    with removed_modules():
        import pkg_resources

        assert pkg_resources.get_distribution("numpy").version
    assert sys.modules.get("pkg_resources") is before


def test_every_metric_has_a_title():
    assert tuple(LABELS) == METRIC_NAMES
