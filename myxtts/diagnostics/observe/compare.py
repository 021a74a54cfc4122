"""What a change gained: two reports of the same script, part by part and finding by finding."""

from __future__ import annotations

import json
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from myxtts.diagnostics.observe.account import Part
from myxtts.diagnostics.observe.issues import duration, percent
from myxtts.diagnostics.observe.page import account_bar, whole_page
from myxtts.diagnostics.observe.render import gain_of, place
from myxtts.diagnostics.observe.sampler import BUSY_FRACTION
from myxtts.errors import DiagnosisError

_ORDER = {str(part): index for index, part in enumerate(Part)}


@dataclass(frozen=True)
class PartChange:
    """One line of the account, before and after."""

    title: str
    before: float
    """Seconds of the run."""
    after: float


@dataclass(frozen=True)
class Comparison:
    """Two reports and their difference."""

    before: dict[str, Any]
    after: dict[str, Any]
    parts: tuple[PartChange, ...]
    solved: tuple[dict[str, Any], ...]
    remaining: tuple[dict[str, Any], ...]
    new: tuple[dict[str, Any], ...]

    @property
    def headline(self) -> str:
        """One line: the steady step, and the training per step."""
        before, after = self.before["time"], self.after["time"]
        if before is None or after is None:
            return "One of the two reports holds no training step; only the accounts are compared."
        step = f"step {duration(before['steady_mean_seconds'])} → {duration(after['steady_mean_seconds'])}"
        whole = self.before["training_seconds"] / before["steps"], self.after["training_seconds"] / after["steps"]
        speed = whole[0] / max(whole[1], 1e-12)
        return f"{step}; training per step {duration(whole[0])} → {duration(whole[1])} ({speed:.2f}x as fast)"

    @property
    def caution(self) -> str:
        """One line if other processes kept the machine busy in one of the two runs; otherwise empty."""
        loads = [report["load"] or {"others": None, "steal": None} for report in (self.before, self.after)]
        fractions = [(load["others"] or 0.0) + (load["steal"] or 0.0) for load in loads]
        if max(fractions) <= BUSY_FRACTION:
            return ""
        return (
            f"Other processes used {percent(fractions[0])} of the processors before and {percent(fractions[1])} after: "
            "that may explain a difference in times."
        )


def read_report(path: str | Path) -> dict[str, Any]:
    """The report in a file that `diagnose run --json` or `DiagnosisCallback` wrote."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DiagnosisError(
            f"The report {path} cannot be read ({error}). Expected: a file written by `myxtts diagnose run --json FILE`."
        ) from None
    report = content.get("report", content) if isinstance(content, dict) else None
    if not isinstance(report, dict) or "account" not in report:
        raise DiagnosisError(
            f"{path} is not the report of an observed run. Expected: a file written by `myxtts diagnose run --json FILE`."
        )
    for finding in report["findings"]:
        finding.setdefault("effect", "")  # reports before version 0.2 have none
    return report


def compare_reports(before: dict[str, Any], after: dict[str, Any]) -> Comparison:
    """Pair the parts by name, and the findings by issue and file (lines move)."""
    titles = {line["part"]: line["title"] for report in (before, after) for line in report["account"]}
    seconds = [{line["part"]: line["seconds"] for line in report["account"]} for report in (before, after)]
    parts = tuple(
        PartChange(titles[part], seconds[0].get(part, 0.0), seconds[1].get(part, 0.0))
        for part in sorted(titles, key=lambda part: _ORDER.get(part, len(_ORDER)))
    )
    keys = [{(one["disease"], Path(one["file"]).name) for one in report["findings"]} for report in (before, after)]

    def chosen(report: dict[str, Any], other: set, is_in: bool) -> tuple[dict[str, Any], ...]:
        return tuple(one for one in report["findings"] if ((one["disease"], Path(one["file"]).name) in other) == is_in)

    return Comparison(
        before,
        after,
        parts,
        solved=chosen(before, keys[1], False),
        remaining=chosen(after, keys[0], True),
        new=chosen(after, keys[0], False),
    )


def comparison_to_text(comparison: Comparison) -> str:
    """For a terminal."""
    lines = [
        f"before: {comparison.before['verdict']}",
        f"after:  {comparison.after['verdict']}",
        comparison.headline,
        *([comparison.caution] if comparison.caution else []),
        "",
        f"  {'part of the run':<36} {'before':>10} {'after':>10}",
    ]
    lines += [f"  {part.title:<36} {duration(part.before):>10} {duration(part.after):>10}" for part in comparison.parts]
    whole = duration(comparison.before["run_seconds"]), duration(comparison.after["run_seconds"])
    lines.append(f"  {'whole run':<36} {whole[0]:>10} {whole[1]:>10}")
    for name, findings in _groups(comparison):
        lines += ["", name] + [f"  {one['disease']} at {place(one)}: {one['what']}" for one in findings]
    return "\n".join(lines) + "\n"


def comparison_to_markdown(comparison: Comparison) -> str:
    """For a pull request."""
    lines = ["### Diagnosis, before and after", "", f"**{comparison.headline}**", ""]
    lines += [comparison.caution, ""] if comparison.caution else []
    lines += ["| part of the run | before | after |", "|---|---:|---:|"]
    lines += [f"| {part.title} | {duration(part.before)} | {duration(part.after)} |" for part in comparison.parts]
    before, after = comparison.before, comparison.after
    lines.append(f"| **whole run** | **{duration(before['run_seconds'])}** | **{duration(after['run_seconds'])}** |")
    for name, findings in _groups(comparison):
        lines += ["", f"{name}:", ""]
        lines += [f"- **{one['disease']}** at `{place(one)}`: {gain_of(one)}" for one in findings]
    return "\n".join(lines) + "\n"


def comparison_to_html(comparison: Comparison) -> str:
    """A page: both bars, the table, the findings."""
    rows = "".join(
        f"<tr><td>{escape(part.title)}</td><td class='n'>{duration(part.before)}</td>"
        f"<td class='n'>{duration(part.after)}</td></tr>"
        for part in comparison.parts
    )
    whole = [duration(report["run_seconds"]) for report in (comparison.before, comparison.after)]
    rows += f"<tr><th>whole run</th><th class='n'>{whole[0]}</th><th class='n'>{whole[1]}</th></tr>"
    found = "".join(
        f"<h2>{escape(name)}</h2><ul>"
        + "".join(
            f"<li><strong>{escape(one['disease'])}</strong> <code>{escape(place(one))}</code> {escape(one['what'])}</li>"
            for one in findings
        )
        + "</ul>"
        for name, findings in _groups(comparison)
    )
    longest = max(comparison.before["run_seconds"], comparison.after["run_seconds"])
    body = (
        f"<h1>{escape(comparison.headline)}</h1><p>{escape(comparison.caution)}</p>"
        f"<h2>Before</h2><p>{escape(comparison.before['verdict'])}</p>{account_bar(comparison.before, longest)}"
        f"<h2>After</h2><p>{escape(comparison.after['verdict'])}</p>{account_bar(comparison.after, longest)}"
        f"<h2>Parts of the run</h2><table><tr><th>part</th><th class='n'>before</th><th class='n'>after</th></tr>{rows}</table>"
        f"{found}"
    )
    return whole_page("Diagnosis, before and after", body)


def _groups(comparison: Comparison) -> list[tuple[str, tuple[dict[str, Any], ...]]]:
    groups = [("Solved", comparison.solved), ("Remaining", comparison.remaining), ("New", comparison.new)]
    return [(name, findings) for name, findings in groups if findings]
