"""A report, given as its JSON data, as one HTML page that needs nothing else: the bar of the whole run, findings, charts."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from myxtts.diagnostics.observe.render import MOST_STAGES, gain_of, place

_WIDTH, _HEIGHT = 900, 180
_STEP_COLORS = {"wait": "#d9822b", "host": "#8a63d2", "device": "#2f7d5b", "compile": "#c0392b"}
_STEP_NAMES = {
    "wait": "waiting for data",
    "host": "host (Python)",
    "device": "device",
    "compile": "tracing, compiling",
}
_PART_COLORS = {
    "imports": "#9aa5b1", "preparation": "#7b8794", "building": "#616e7c", "tracing": "#b07d62", "compiling": "#8d5b4c",
    "device": "#2f7d5b", "validation": "#4fa37f", "other-functions": "#7dbd9f", "waiting": "#d9822b",
    "epoch-starts": "#e0a458", "python": "#8a63d2", "python-in-graph": "#6a3fb5", "between-steps": "#b39ddb",
    "callbacks": "#d16ba5", "checkpoints": "#34709e", "retracing": "#c0392b", "after": "#cbd2d9", "diagnosis": "#3e4c59",
}  # fmt: skip
_CURVE_COLORS = ("#34709e", "#8a63d2", "#2f7d5b", "#d9822b", "#c0392b")
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:1.5rem auto;max-width:60rem;padding:0 1rem;color:#1c1c1c;background:#fff}
h1,p,code{overflow-wrap:anywhere}h1{font-size:1.3rem}h2{font-size:1.05rem;margin-top:2rem}p{margin:.4rem 0}
table{border-collapse:collapse;width:100%;display:block;overflow-x:auto}
td,th{text-align:left;padding:.25rem .6rem;border-bottom:1px solid #ddd;vertical-align:top}td.n,th.n{text-align:right}
.bar{display:flex;height:2.6rem;border-radius:.4rem;overflow:hidden;margin:1rem 0 .4rem}
.bar i{flex-basis:0;min-width:0;font:600 .8rem/2.6rem system-ui,sans-serif;text-align:center;overflow:hidden}
td.n,th.n{white-space:nowrap}
.axis{display:flex;justify-content:space-between;gap:.5rem;font-size:.8rem;margin:0;color:#555}
.stage{height:.7rem;background:#d9822b;min-width:1px;border-radius:.2rem;margin:.1rem 0 .6rem}
.finding{border-left:4px solid #c0392b;padding:.1rem 1rem;margin:1rem 0}
code,pre{background:#f3f3f3;padding:.1rem .3rem;border-radius:.2rem;font-size:.9em}
pre{padding:.5rem;overflow-x:auto;margin:.3rem 0}
svg{display:block;width:100%;height:11rem;background:#fafafa}
.key{display:flex;flex-wrap:wrap;gap:.2rem 1rem;font-size:.9rem}
.key b{display:inline-block;width:.8em;height:.8em;margin-right:.4em;border-radius:.15em}
@media(max-width:32rem){.account,.account tbody{display:block}.account tr{display:grid;grid-template-columns:1fr 5rem 4.5rem}
.account td,.account th{border:0}.account tr{border-bottom:1px solid #8884}.account td:last-child{grid-column:1/-1;padding-top:0}
.account td:empty,.account th:empty{display:none}pre{white-space:pre-wrap;overflow-wrap:anywhere}}
@media(prefers-color-scheme:dark){body{background:#161616;color:#e6e6e6}svg{background:#1e1e1e}
.axis{color:#aaa}code,pre{background:#262626}td,th{border-color:#333}}
@media print{body{max-width:none;margin:0}.finding,svg,table{break-inside:avoid}pre{white-space:pre-wrap;overflow-wrap:anywhere}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}
"""


def report_to_html(report: dict[str, Any], title: str) -> str:
    """The page of a report given as `Report.to_json`: the bar of the whole run, findings, steps, details."""
    timeline = report["timeline"]
    steps = ""
    if timeline.get("step"):
        steps = f"<h2>Steps</h2>{_step_summary(report['time'])}{_key(_STEP_COLORS, _STEP_NAMES)}{_timeline(timeline)}"
    return whole_page(
        title,
        f"<h1>{escape(report['verdict'])}</h1><p>{escape(title)}: the whole run, {report['run_seconds']:.1f} s</p>"
        + account_bar(report)
        + steps
        + _findings(report)
        + _account_table(report)
        + "".join(_details(report))
        + _functions(report["functions"])
        + _notes(report),
    )


def whole_page(title: str, body: str) -> str:
    """A complete page that needs nothing else."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>{body}</body></html>\n"
    )


def account_bar(report: dict[str, Any], longest_seconds: float | None = None) -> str:
    """The whole run as one bar with its key; `longest_seconds` is the scale of several bars."""
    total = max(report["run_seconds"], 1e-9)
    width = 100 * total / (longest_seconds or total)
    pieces, key = [], []
    shown = [line for line in report["account"] if line["share"] >= 0.001]
    for line in sorted(shown, key=lambda line: list(_PART_COLORS).index(line["part"])):
        color = _PART_COLORS[line["part"]]
        tip = f"{line['title']}: {line['seconds']:.2f} s, {100 * line['share']:.1f} %"
        text = f"{100 * line['share']:.0f} %" if line["share"] >= 0.06 else ""
        style = f"flex-grow:{line['share']:.5f};background:{color};color:{_text_on(color)}"
        pieces.append(f'<i style="{style}" title="{escape(tip)}">{text}</i>')
        key.append(
            f'<span><b style="background:{color}"></b>{escape(line["title"])} {100 * line["share"]:.1f} %</span>'
        )
    return (
        f'<div class="bar" role="img" aria-label="the whole run by part" style="width:{width:.1f}%">{"".join(pieces)}</div>'
        f'<p class="key">{"".join(key)}</p>'
    )


def _text_on(color: str) -> str:
    """Black or white, whichever has more contrast (WCAG 2's relative luminance; both have the same at 0.179)."""
    parts = [int(color[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    luminance = sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
    return "#000" if luminance > 0.179 else "#fff"


def _step_summary(split: dict[str, Any] | None) -> str:
    if split is None:
        return ""
    mean, std = split["steady_mean_seconds"] * 1e3, split["steady_std_seconds"] * 1e3
    return f"<p>{split['steps']} steps, {split['cold_steps']} of them cold; steady {mean:.2f} ± {std:.2f} ms</p>"


def _account_table(report: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{escape(line['title'])}</td><td class='n'>{line['seconds']:.2f} s</td>"
        f"<td class='n'>{100 * line['share']:.1f} %</td><td>{_code(place(line)) if line['line'] else ''}</td></tr>"
        for line in report["account"]
    )
    total = (
        f"<tr><th>whole run</th><th class='n'>{report['run_seconds']:.2f} s</th><th class='n'>100 %</th><th></th></tr>"
    )
    return f"<h2>Every second of the run</h2><table class='account'>{rows}{total}</table>"


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


def _key(colors: dict[str, str], names: dict[str, str]) -> str:
    parts = "".join(f'<span><b style="background:{colors[name]}"></b>{names[name]}</span>' for name in colors)
    return f'<p class="key">{parts}</p>'


def _details(report: dict[str, Any]) -> list[str]:
    charts, timeline = [], report["timeline"]
    if timeline.get("step"):
        charts.append(f"<h2>Step times, without the cold ones</h2>{_histogram(timeline)}")
    if report["stages"]:
        rows = [(f"{one['name']}  {one['place']}", one["seconds_per_batch"] * 1e3) for one in report["stages"]]
        charts.append(f"<h2>Input pipeline, ms per batch</h2>{_bars(rows[:MOST_STAGES])}")
    if report["machine"].get("seconds"):
        names = [name for name in report["machine"] if name.endswith("_percent")]
        colors: dict[str, str] = dict(zip(names, _CURVE_COLORS, strict=False))
        key = _key(colors, {name: name.replace("_", " ").removesuffix(" percent") for name in colors})
        charts.append(f"<h2>Processor and device, percent</h2>{key}{_curves(report['machine'], colors)}")
    return charts


def _svg(identity: str, content: str, label: str, axis: tuple[str, str, str]) -> str:
    """A drawing that fills its width, and under it the left end, the height and the right end of its axes."""
    left, top, right = (f"<span>{escape(text)}</span>" for text in axis)
    return (
        f'<svg id="{identity}" role="img" aria-label="{escape(label)}" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'preserveAspectRatio="none" xmlns="http://www.w3.org/2000/svg">{content}</svg>'
        f'<p class="axis">{left}{top}{right}</p>'
    )


def _timeline(timeline: dict[str, list[float]]) -> str:
    """Stacked bars, one for each step; cut at three times the 95th percentile so that cold steps do not flatten the rest."""
    parts = np.array([timeline[name] for name in _STEP_COLORS]) * 1e3
    totals = parts.sum(axis=0)
    warm = totals[np.array(timeline["cold"]) == 0]
    top = min(float(totals.max()), 3 * float(np.percentile(warm if len(warm) else totals, 95))) or 1.0
    width = _WIDTH / len(totals)
    bars = []
    for step in range(len(totals)):
        bottom = 0.0
        for row, name in enumerate(_STEP_COLORS):
            upper = min(bottom + parts[row, step], top)
            height = (upper - bottom) / top * _HEIGHT
            if height > 0.2:
                bars.append(
                    f'<rect x="{step * width:.2f}" y="{_HEIGHT - upper / top * _HEIGHT:.2f}" width="{max(width, 0.6):.2f}" '
                    f'height="{height:.2f}" fill="{_STEP_COLORS[name]}"/>'
                )
            bottom = upper
    axis = (f"step {timeline['step'][0]}", f"height: {top:,.1f} ms", f"step {timeline['step'][-1]}")
    return _svg("timeline", "".join(bars), "time of each step, by part", axis)


def _histogram(timeline: dict[str, list[float]]) -> str:
    totals = np.array([timeline[name] for name in _STEP_COLORS]).sum(axis=0) * 1e3
    warm = totals[np.array(timeline["cold"]) == 0]
    counts, edges = np.histogram(warm if len(warm) else totals, bins=40)
    width = _WIDTH / 40
    bars = "".join(
        f'<rect x="{index * width:.1f}" y="{_HEIGHT - count / counts.max() * _HEIGHT:.1f}" width="{width - 1:.1f}" '
        f'height="{count / counts.max() * _HEIGHT:.1f}" fill="#34709e"/>'
        for index, count in enumerate(counts)
        if count
    )
    axis = (f"{edges[0]:,.1f} ms", f"height: {counts.max()} steps", f"{edges[-1]:,.1f} ms")
    return _svg("histogram", bars, "histogram of the step times", axis)


def _bars(rows: list[tuple[str, float]]) -> str:
    largest = max(value for _, value in rows) or 1.0
    return "".join(
        f'<p>{escape(name)}: {value:.2f}</p><div class="stage" style="width:{value / largest * 100:.1f}%"></div>'
        for name, value in rows
    )


def _curves(machine: dict[str, list[float]], colors: dict[str, str]) -> str:
    seconds = np.array(machine["seconds"])
    span = max(float(seconds[-1] - seconds[0]), 1e-6)
    top = max(100.0, max(max(machine[name]) for name in colors))
    lines = []
    for name, color in colors.items():
        points = " ".join(
            f"{(second - seconds[0]) / span * _WIDTH:.1f},{_HEIGHT - value / top * (_HEIGHT - 4):.1f}"
            for second, value in zip(seconds, machine[name], strict=True)
        )
        lines.append(
            f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.5" vector-effect="non-scaling-stroke"/>'
        )
    return _svg(
        "device",
        "".join(lines),
        "load of the device and the processor",
        ("0 s", f"height: {top:.0f} %", f"{span:.0f} s"),
    )


def _findings(report: dict[str, Any]) -> str:
    findings = report["findings"]
    if report["time"] is None:
        return ""
    if not findings:
        return "<h2>Findings</h2><p>None.</p>"
    blocks = []
    for finding in findings:
        places = ", ".join(_code(place(line)) for line in finding["lines"][:6])
        source = f"<pre>{finding['line']:>5}  {escape(finding['source'])}</pre>" if finding["source"] else ""
        blocks.append(
            f'<div class="finding"><p><strong>{escape(finding["disease"])}</strong>, {escape(gain_of(finding))}: '
            f"{escape(finding['what'])}</p><p>{places}</p>{source}<p>{escape(finding['evidence'])}</p>"
            f"<p>Fix</p><pre>{escape(finding['fix'])}</pre></div>"
        )
    return f"<h2>Findings, most to gain first</h2>{''.join(blocks)}"


def _functions(functions: list[dict[str, Any]]) -> str:
    if not functions:
        return ""
    rows = "".join(
        f"<tr><td>{escape(line['name'])}</td><td>{escape(line['place'])}</td><td class='n'>{line['traces']}</td>"
        f"<td class='n'>{line['compilations']}</td><td class='n'>{line['calls']}</td>"
        f"<td>{escape('; '.join(line['causes']))}</td></tr>"
        for line in functions
    )
    head = "<tr><th>function</th><th>where</th><th>traces</th><th>XLA</th><th>calls</th><th>again because of</th></tr>"
    return f"<h2>Traced functions</h2><table>{head}{rows}</table>"


def _notes(report: dict[str, Any]) -> str:
    minor = [f"{one['disease']} at {place(one)}: {one['what']} (less than 1 %)" for one in report["minor_findings"]]
    notes = "".join(f"<li>{escape(note)}</li>" for note in [*minor, *report["notes"]])
    return f"<h2>Notes</h2><ul>{notes}</ul>" if notes else ""
