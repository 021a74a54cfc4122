"""A copy of MyXTTS with bundled voices and a vocoder of its own, made by code."""

from __future__ import annotations

import json
from pathlib import Path

from myxtts.text.tokenizer import SymbolTable
from tests.synthesis.test_vocoder import write_vocoder
from tests.synthesis.tiny_voice import describe, write_voice

SYMBOLS = SymbolTable().extended_with("abcdefghijklmnopqrstuvwxyz'سلامدنی")


def use_bundle(folder: Path, monkeypatch) -> Path:
    """Make `folder` the package: `kathleen` (English), `base` (en, fa, de; anna and ben, can clone), both with `universal`."""
    voices, vocoders = folder / "assets" / "voices", folder / "assets" / "vocoder"
    vocoders.mkdir(parents=True)
    sha256 = write_vocoder(vocoders / "universal.onnx")
    model = describe(("anna", "ben"), ("en", "fa", "de")).model | {"num_symbols": len(SYMBOLS)}
    write_voice(voices / "kathleen", ("kathleen",))
    write_voice(voices / "base", ("anna", "ben"), languages=("en", "fa", "de"), model=model, symbols=SYMBOLS.to_list())
    for name in ("kathleen", "base"):
        path = voices / name / "voice.json"
        content = json.loads(path.read_text()) | {"vocoder": {"name": "universal", "sha256": sha256}}
        path.write_text(json.dumps(content))
    monkeypatch.setattr("myxtts.__file__", str(folder / "__init__.py"))
    return folder
