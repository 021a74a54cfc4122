"""Who may import whom, as docs/architecture.md draws it, and that the files which it names exist."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

import myxtts

PACKAGE = Path(myxtts.__file__).parent
SHARED = {"errors", "batch", "config", "runtime"}
ALLOWED = {
    "runtime": set(),
    "config": set(),
    "text": set(),
    "audio": set(),
    "corpus": {"text", "audio"},
    "cache": {"corpus", "text", "audio"},
    "batches": {"cache", "corpus", "audio"},
    "data": {"batches", "cache", "corpus", "text", "audio"},
    "models": {"audio"},
    "export": {"text", "audio", "models", "synthesis"},
    "synthesis": {"text", "audio", "models"},
    "serving": {"text", "audio", "corpus", "models", "synthesis"},
    "training": {"text", "audio", "corpus", "cache", "batches", "models", "export", "synthesis"},
    "evaluation": {"text", "audio", "corpus", "synthesis"},
    "diagnostics": {"corpus", "batches", "training"},
}
"""Commands and the cli may import everything; nobody imports them."""
SAME_NAME = {
    "cli": "the command line of myxtts and of the diagnosis, which is also a distribution of its own",
    "evaluate": "the command and what it runs",
    "voice": "the command and what it is about",
    "vocoder": "one network: in TensorFlow to train it, in ONNX to speak with it",
    "g2p_english": "one model: reading by it, training it",
    "g2p_persian": "one model: reading by it, training it",
    "Vocoder": "one network: in TensorFlow, and the protocol of what makes samples of mels",
}
"""Modules and classes that share a name, and the one idea that they share."""
CALLS = {"corpus/read_corpus.py", "cache/prepare_cache.py"}
"""Functions that the list of modules names."""


def imported_parts(path: Path) -> set[str]:
    """Names of the parts of myxtts that a file imports, anywhere in it."""
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            names += (
                [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "myxtts" else [node.module]
            )
    return {name.split(".")[1] for name in names if name.startswith("myxtts.")}


def test_a_part_imports_only_what_the_design_allows():
    forbidden = {
        f"{path.relative_to(PACKAGE)} imports {name}"
        for part, allowed in ALLOWED.items()
        for path in (PACKAGE / part).rglob("*.py")
        for name in imported_parts(path) - allowed - SHARED - {part, "__version__"}
    }
    assert not forbidden


def test_what_everybody_imports_imports_nothing_of_ours():
    assert imported_parts(PACKAGE / "errors.py") | imported_parts(PACKAGE / "batch.py") == set()


@pytest.mark.parametrize("part", ["synthesis", "export", "serving"])
def test_speaking_takes_only_the_dimensions_of_a_network_from_models_and_nothing_of_tensorflow(part):
    for path in (PACKAGE / part).rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        imported = {line.split()[1] for line in text.splitlines() if line.startswith(("from ", "import "))}
        forbidden = {name for name in imported if name.split(".")[0] in ("tensorflow", "keras")}
        forbidden |= {name for name in imported if name.startswith("myxtts.models") and name != "myxtts.models.spec"}
        assert not forbidden, f"{path.relative_to(PACKAGE)} imports {sorted(forbidden)}"


def test_the_diagnosis_of_any_script_imports_only_runtime_and_errors():
    for path in (PACKAGE / "diagnostics" / "observe").glob("*.py"):
        assert imported_parts(path) <= {"diagnostics", "runtime", "errors"}, path
        inside = re.findall(r"(?:from|import) myxtts\.diagnostics\.(\w+)", path.read_text(encoding="utf-8"))
        assert set(inside) <= {"observe"}, path


def test_no_two_modules_or_classes_share_a_name_for_two_ideas():
    modules = [path.stem for path in PACKAGE.rglob("*.py") if not path.name.startswith("_")]
    classes = [
        node.name
        for path in PACKAGE.rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    ]
    repeated = {name for names in (modules, classes) for name, count in Counter(names).items() if count > 1}
    assert repeated == set(SAME_NAME)


def test_the_architecture_page_names_the_files_that_exist():
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", page))
    assert len(named) > 20
    assert [
        name for name in sorted(named) if not (PACKAGE / name).is_file() and not (PACKAGE.parent / name).is_file()
    ] == []
    rows = re.findall(r"^\| ([a-z/]+) \| (`.*) \|$", page.partition("## Modules")[2], re.MULTILINE)
    listed = {f"{part}/{name}.py" for part, names in rows for name in re.findall(r"`([a-z0-9_*]+)`", names)} - CALLS
    assert len(rows) > 8
    assert [name for name in sorted(listed) if not any(PACKAGE.glob(name))] == []
    modules = {path for part, _ in rows for path in (PACKAGE / part).glob("[!_]*.py")}
    assert modules - {path for name in listed for path in PACKAGE.glob(name)} == set()


def test_the_architecture_page_counts_the_modules():
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("## How many modules")[2].partition("\n## ")[0]
    stated = {part: int(count) for part, count in re.findall(r"^\| ([a-z]+) \| (\d+) \|", table, re.MULTILINE)}
    counted = Counter(
        "all" if path.parent == PACKAGE else path.relative_to(PACKAGE).parts[0]
        for path in PACKAGE.rglob("*.py")
        if path.name != "__init__.py"
    )
    counted["all"] = counted.total()
    assert stated == dict(counted)


def test_what_docstrings_and_documents_name_exists():
    pages = [*PACKAGE.rglob("*.py"), *(PACKAGE.parent / "docs").rglob("*.md")]
    references = {
        (page, reference)
        for page in pages
        for reference in re.findall(r"`(myxtts(?:\.\w+)+)`", page.read_text(encoding="utf-8"))
    }
    assert len(references) > 50
    assert [f"{page.name}: {reference}" for page, reference in references if not leads_somewhere(reference)] == []


def leads_somewhere(reference: str) -> bool:
    """Whether `myxtts.part.module.name` is a part, a module, or a name defined in one."""
    path, names = PACKAGE.parent, reference.split(".")
    while names and (path / names[0]).is_dir():
        path /= names.pop(0)
    if not names:
        return True
    module = path / f"{names[0]}.py"
    source = module if module.is_file() else path / "__init__.py"
    if module.is_file():
        names.pop(0)
    return not names or re.search(rf"\b{names[0]}\b", source.read_text(encoding="utf-8")) is not None
