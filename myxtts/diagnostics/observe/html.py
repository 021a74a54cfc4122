"""The report as one HTML page that needs nothing else: step timeline, histogram, stage bars, device curve as inline SVG."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 900, 200, 60, 24
_COLORS = {"wait": "#d9822b", "host": "#8a63d2", "device": "#2f7d5b", "compile": "#c0392b"}
_NAMES = {
    "wait": "waiting for data",
    "host": "host (Python)",
    "device": "device (the step)",
    "compile": "tracing, compiling",
}
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#1c1c1c;background:#fff}
h1{font-size:1.3rem}h2{font-size:1.05rem;margin-top:2rem}table{border-collapse:collapse;width:100%}
td,th{text-align:left;padding:.25rem .6rem;border-bottom:1px solid #ddd;vertical-align:top}td.n{text-align:right}
.finding{border-left:4px solid #c0392b;padding:.2rem 1rem;margin:1rem 0}code{background:#f3f3f3;padding:.1rem .3rem}
svg{width:100%;height:auto;background:#fafafa}svg text{font:12px system-ui,sans-serif;fill:#444}
.key i{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 1em}
@media(prefers-color-scheme:dark){body{background:#161616;color:#e6e6e6}svg{background:#1e1e1e}svg text{fill:#bbb}
code{background:#262626}td,th{border-color:#333}}
"""


def report_to_html(report: dict[str, Any], title: str) -> str:
    """The page for a report as given by `Report.to_json`."""
    parts = [
        f"<h1>{escape(report['verdict'])}</h1><p>{escape(title)}</p>",
        _time_table(report),
        *_charts(report),
        _findings(report["findings"]),
        _functions(report["functions"]),
        _notes(report),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _charts(report: dict[str, Any]) -> list[str]:
    charts, timeline = [], report["timeline"]
    if timeline.get("step"):
        key = "".join(f'<i style="background:{_COLORS[name]}"></i>{_NAMES[name]}' for name in _COLORS)
        charts.append(f'<h2>Steps</h2><p class="key">{key}</p>{_timeline(timeline)}')
        charts.append(f"<h2>Step times, cold ones left out</h2>{_histogram(timeline)}")
    if report["stages"]:
        rows = [(stage["name"], stage["seconds_per_batch"] * 1e3) for stage in report["stages"]]
        charts.append(f"<h2>Input pipeline, ms for each batch</h2>{_bars(rows)}")
    if report["machine"].get("seconds"):
        charts.append(f"<h2>Device</h2>{_curves(report['machine'])}")
    return charts


def _svg(identity: str, height: int, content: str, label: str) -> str:
    return (
        f'<svg id="{identity}" role="img" aria-label="{escape(label)}" viewBox="0 0 {_WIDTH} {height}" '
        f'xmlns="http://www.w3.org/2000/svg">{content}</svg>'
    )


def _timeline(timeline: dict[str, list[float]]) -> str:
    """Stacked bars, one for each step; cut at three times the 95th percentile so that cold steps do not flatten the rest."""
    parts = np.array([timeline[name] for name in _COLORS]) * 1e3
    totals = parts.sum(axis=0)
    warm = totals[np.array(timeline["cold"]) == 0]
    top = min(float(totals.max()), 3 * float(np.percentile(warm if len(warm) else totals, 95))) or 1.0
    width = (_WIDTH - _LEFT) / len(totals)
    plot = _HEIGHT - _BOTTOM
    bars = []
    for step in range(len(totals)):
        bottom = 0.0
        for row, name in enumerate(_COLORS):
            upper = min(bottom + parts[row, step], top)
            height = (upper - bottom) / top * plot
            if height > 0.2:
                bars.append(
                    f'<rect x="{_LEFT + step * width:.2f}" y="{plot - upper / top * plot:.2f}" width="{max(width, 0.6):.2f}" '
                    f'height="{height:.2f}" fill="{_COLORS[name]}"/>'
                )
            bottom = upper
    axis = f'<text x="2" y="14">{top:.1f} ms</text><text x="2" y="{plot}">0</text>'
    axis += f'<text x="{_LEFT}" y="{_HEIGHT - 6}">step {timeline["step"][0]}</text>'
    axis += f'<text x="{_WIDTH - 4}" y="{_HEIGHT - 6}" text-anchor="end">step {timeline["step"][-1]}</text>'
    return _svg("timeline", _HEIGHT, "".join(bars) + axis, "time of each step, by part")


def _histogram(timeline: dict[str, list[float]]) -> str:
    totals = np.array([timeline[name] for name in _COLORS]).sum(axis=0) * 1e3
    warm = totals[np.array(timeline["cold"]) == 0]
    counts, edges = np.histogram(warm if len(warm) else totals, bins=40)
    plot, width = _HEIGHT - _BOTTOM, (_WIDTH - _LEFT) / 40
    bars = "".join(
        f'<rect x="{_LEFT + index * width:.1f}" y="{plot - count / counts.max() * plot:.1f}" width="{width - 1:.1f}" '
        f'height="{count / counts.max() * plot:.1f}" fill="#34709e"/>'
        for index, count in enumerate(counts)
        if count
    )
    axis = f'<text x="{_LEFT}" y="{_HEIGHT - 6}">{edges[0]:.1f} ms</text><text x="2" y="14">{counts.max()}</text>'
    axis += f'<text x="{_WIDTH - 4}" y="{_HEIGHT - 6}" text-anchor="end">{edges[-1]:.1f} ms</text>'
    return _svg("histogram", _HEIGHT, bars + axis, "histogram of the step times")


def _bars(rows: list[tuple[str, float]]) -> str:
    largest = max(value for _, value in rows) or 1.0
    content = "".join(
        f'<text x="2" y="{22 * index + 16}">{escape(name)}</text>'
        f'<rect x="260" y="{22 * index + 4}" width="{value / largest * 540:.1f}" height="16" fill="{_COLORS["wait"]}"/>'
        f'<text x="{268 + value / largest * 540:.1f}" y="{22 * index + 16}">{value:.2f}</text>'
        for index, (name, value) in enumerate(rows)
    )
    return _svg("stages", 22 * len(rows) + 8, content, "time of each pipeline stage")


def _curves(machine: dict[str, list[float]]) -> str:
    names = [name for name in machine if name.endswith("_percent")]
    colors = ("#34709e", "#8a63d2", "#2f7d5b", "#d9822b", "#c0392b")
    seconds = np.array(machine["seconds"])
    span = max(float(seconds[-1] - seconds[0]), 1e-6)
    top = max(100.0, max(max(machine[name]) for name in names))
    plot = _HEIGHT - _BOTTOM
    lines = []
    for index, name in enumerate(names):
        color = colors[index % len(colors)]
        points = " ".join(
            f"{_LEFT + (second - seconds[0]) / span * (_WIDTH - _LEFT):.1f},{plot - value / top * (plot - 10):.1f}"
            for second, value in zip(seconds, machine[name], strict=True)
        )
        lines.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        label = escape(name.replace("_", " "))
        lines.append(f'<text x="{_LEFT + 160 * index}" y="12" style="fill:{color}">{label}</text>')
    axis = f'<text x="2" y="14">{top:.0f} %</text><text x="{_LEFT}" y="{_HEIGHT - 6}">0 s</text>'
    axis += f'<text x="{_WIDTH - 4}" y="{_HEIGHT - 6}" text-anchor="end">{span:.0f} s</text>'
    return _svg("device", _HEIGHT, "".join(lines) + axis, "load of the device and the processor")


def _time_table(report: dict[str, Any]) -> str:
    split = report["time"]
    if split is None:
        return ""
    rows = [
        ("waiting for data", split["wait_seconds"]),
        ("host (Python)", split["host_seconds"]),
        ("device (the step)", split["device_seconds"]),
        ("tracing and compiling again", split["retrace_seconds"]),
        (f"{split['cold_steps']} cold steps", split["cold_seconds"]),
    ]
    cells = "".join(f'<tr><td>{escape(name)}</td><td class="n">{seconds:.3f} s</td></tr>' for name, seconds in rows)
    mean, std = split["steady_mean_seconds"] * 1e3, split["steady_std_seconds"] * 1e3
    return f"<p>{split['steps']} steps; steady {mean:.2f} ± {std:.2f} ms</p><table>{cells}</table>"


def _findings(findings: list[dict[str, Any]]) -> str:
    if not findings:
        return "<h2>Findings</h2><p>None.</p>"
    blocks = []
    for finding in findings:
        location = f"{finding['file']}:{finding['line']}"
        blocks.append(
            f'<div class="finding"><strong>{escape(finding["disease"])}</strong>: {escape(finding["what"])}<br>'
            f"where <code>{escape(location)}</code><br>evidence: {escape(finding['evidence'])}<br>"
            f"fix <code>{escape(finding['fix'])}</code><br>gain: at most {100 * finding['gain_share']:.1f} % of the time "
            f"({finding['gain_seconds']:.2f} s)</div>"
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
    notes = "".join(f"<li>{escape(note)}</li>" for note in report["notes"])
    return f"<h2>Notes</h2><ul>{notes}</ul>" if notes else ""
