"""Write `configs/config.yaml` from the dataclasses: every key with its default, unit and reason.

`python -m myxtts.config.yaml_file` renews the file; a test compares the two.
"""

from __future__ import annotations

import dataclasses
import sys
import textwrap
from pathlib import Path

import yaml
from pydantic import TypeAdapter

from myxtts.config.config import XTTSConfig

HEADER = """\
# Every setting of MyXTTS with its default. A key that is left out keeps its default; flags win over this file.
# Written by `python -m myxtts.config.yaml_file` from myxtts/config/config.py.
"""


def render_config_yaml() -> str:
    """The text of a configuration file that holds every key."""
    lines = [HEADER]
    for section in dataclasses.fields(XTTSConfig):
        section_type = section.default_factory
        lines.append(f"{section.name}:  # {section_type.__doc__}")
        descriptions = TypeAdapter(section_type).json_schema()["properties"]
        for field in dataclasses.fields(section_type):
            reason = " ".join(descriptions[field.name]["description"].split())
            lines += textwrap.wrap(reason, width=118, initial_indent="  # ", subsequent_indent="  # ")
            value = yaml.safe_dump({field.name: field.default}, default_flow_style=False).strip()
            lines.append(f"  {value}")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "configs/config.yaml")
    target.write_text(render_config_yaml(), encoding="utf-8")
