"""The page of `/docs`: every route and field of the OpenAPI document, as plain HTML without scripts or files from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

PAGE_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1, h2, h3 { line-height: 1.2; } h2 { margin-top: 2.5rem; }
section { border-top: 1px solid #8886; padding: 0.5rem 0 1rem; }
h3 { font: 600 1.05rem ui-monospace, monospace; overflow-wrap: anywhere; }
.method { display: inline-block; min-width: 4.5rem; color: light-dark(#0a6640, #6fcf97); }
.table { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: 0.925rem; }
th, td { text-align: start; vertical-align: top; padding: 0.3rem 0.75rem 0.3rem 0; border-bottom: 1px solid #8883; }
code { font-family: ui-monospace, monospace; }
"""


def docs_page(document: Mapping[str, Any]) -> str:
    """The HTML of an OpenAPI document."""
    info = document["info"]
    groups: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            tag = next(iter(operation.get("tags", ())), "other")
            groups.setdefault(tag, []).append(_operation(path, method, operation, document))
    body = "".join(f"<h2>{escape(tag)}</h2>{''.join(sections)}" for tag, sections in groups.items())
    title = f"{escape(info['title'])} {escape(info['version'])}"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head><body>'
        f"<h1>{title}</h1><p>{_text(info.get('description', ''))}</p>"
        f'<p>The same for programs: <a href="/openapi.json">openapi.json</a>.</p>{body}</body></html>'
    )


def _operation(path: str, method: str, operation: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    rows = [
        _row(each["name"], _resolved(each["schema"], document), document, each.get("required", False), each["in"])
        for each in operation.get("parameters", ())
    ]
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        body = _resolved(content["schema"], document)
        required = body.get("required", ())
        where = "form" if "form" in kind else "body"
        rows += [
            _row(name, schema, document, name in required, where) for name, schema in body.get("properties", {}).items()
        ]
    columns = "".join(f'<th scope="col">{name}</th>' for name in ("field", "in", "type", "default", "meaning"))
    table = f'<div class="table"><table><tr>{columns}</tr>{"".join(rows)}</table></div>' if rows else ""
    return (
        f'<section><h3><span class="method">{method.upper()}</span>{escape(path)}</h3>'
        f"<p>{_text(operation.get('description', ''))}</p>{table}{_answers(operation)}</section>"
    )


def _answers(operation: Mapping[str, Any]) -> str:
    lines = []
    for status, answer in operation.get("responses", {}).items():
        kinds = ", ".join(answer.get("content", ()))
        description = answer.get("description", "")
        lines.append(f"<li><code>{escape(status)}</code> {_text(description)} <code>{escape(kinds)}</code></li>")
    return f"<ul>{''.join(lines)}</ul>"


def _row(name: str, schema: Mapping[str, Any], document: Mapping[str, Any], is_required: bool, where: str) -> str:
    default = "required" if is_required else json.dumps(schema["default"]) if "default" in schema else ""
    cells = (_type(schema, document), default)
    shown = "".join(f"<td><code>{escape(cell)}</code></td>" for cell in cells)
    return (
        f'<tr><th scope="row"><code>{escape(name)}</code></th><td>{escape(where)}</td>{shown}'
        f"<td>{_text(schema.get('description', ''))}</td></tr>"
    )


def _type(schema: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """The type of a field with its limits, such as `number 0.25…4`."""
    schema = _resolved(schema, document)
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type(each, document) for each in schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'], document)}"
    if "contentMediaType" in schema or schema.get("format") == "binary":
        return "file"
    limits = [schema.get("minimum"), schema.get("maximum")]
    limited = (
        " {}…{}".format(*("" if each is None else f"{each:g}" for each in limits)) if limits != [None, None] else ""
    )
    return f"{schema.get('type', 'any')}{limited}"


def _resolved(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema, or the one that it refers to."""
    if "$ref" not in schema:
        return schema
    found: Any = document
    for part in schema["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    return found


def _text(text: str) -> str:
    """Escaped text with `code` between backticks."""
    return "".join(_marked(text))


def _marked(text: str) -> Iterator[str]:
    for index, part in enumerate(escape(text, quote=False).split("`")):
        yield f"<code>{part}</code>" if index % 2 else part
