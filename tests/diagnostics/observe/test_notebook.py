"""Cells of notebooks as Python: every line at its place, and only what is not Python changed."""

import json
import os
import sys

import pytest

from myxtts.diagnostics.observe.notebook import NotebookShell, as_python, run_notebook


@pytest.mark.parametrize(
    ("cell", "python"),
    [
        ("%matplotlib inline\nx = 1\n", "pass  # %matplotlib inline\nx = 1\n"),
        ("if True:\n    !pip install keras\n", "if True:\n    pass  # !pip install keras\n"),
        ("%time model.fit(x)\n", "model.fit(x)\n"),
        ("%timeit -n 10 -r 3 step(x)\n", "step(x)\n"),
        ("print('%d'\n      % 3)\n", "print('%d'\n      % 3)\n"),  # an expression, not a magic
        ("text = '''\n%d !x\n'''\n", "text = '''\n%d !x\n'''\n"),
        ("np.array?\n?np\nx = 1\n", "pass  # np.array?\npass  # ?np\nx = 1\n"),
        ("%%bash\necho 1\n", "# %%bash\n# echo 1\n"),
        ("%%time\nfor i in x:\n    f(i)\n", "# %%time\nfor i in x:\n    f(i)\n"),
        ("size = %pwd\n", "size = __import__('os').getcwd()\n"),
    ],
)
def test_cell_keeps_its_lines(cell, python):
    assert as_python(cell) == python
    compile(python, "cell", "exec")


def test_magics_that_matter_are_done(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    monkeypatch.setenv("DIAGNOSED", "")
    (tmp_path / "data").mkdir()
    cells = [
        "%env DIAGNOSED=yes\n%cd data\nnames = !echo one; echo two\n",
        "in_colab = 'google.colab' in str(get_ipython())\nget_ipython().run_line_magic('matplotlib', 'inline')\n",
        "display(names, in_colab)\n",
    ]
    content = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": content}))
    run_notebook(tmp_path / "a.ipynb")
    assert capsys.readouterr().out == "['one', 'two'] False\n"
    assert (os.environ["DIAGNOSED"], os.path.basename(os.getcwd())) == ("yes", "data")


def test_shell_is_no_object_of_another_kind():
    with pytest.raises(AttributeError):
        NotebookShell().__len__  # noqa: B018
