"""The experiments of docs/diagnostics.md show what the text claims."""

import re
from pathlib import Path

import pytest

from myxtts.runtime.tensorflow_counters import why_unavailable

DOCUMENT = (Path(__file__).parents[2] / "docs" / "diagnostics.md").read_text(encoding="utf-8")
EXPLANATIONS = DOCUMENT[DOCUMENT.index("## Explanations put right") :]
EXPERIMENTS = re.findall(r"^### (.+?)$.*?^```python experiment\n(.+?)^```", EXPLANATIONS, re.MULTILINE | re.DOTALL)


def test_every_explanation_has_its_experiment():
    assert len(EXPERIMENTS) == EXPLANATIONS.count("\n### ") == 14


@pytest.mark.parametrize(("title", "code"), EXPERIMENTS, ids=[title for title, _ in EXPERIMENTS])
@pytest.mark.filterwarnings("ignore")
def test_experiment_shows_what_the_text_claims(title, code):
    if "find_counter" in code and why_unavailable() is not None:
        pytest.skip(str(why_unavailable()))
    exec(compile(code, title, "exec"), {"__name__": "experiment"})
