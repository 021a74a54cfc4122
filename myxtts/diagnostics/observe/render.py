"""A report, given as its JSON data, as text for a terminal and as Markdown for a pull request."""

from __future__ import annotations

from typing import Any

from myxtts.diagnostics.observe.issues import duration, percent
from myxtts.diagnostics.observe.source_lines import short_path

MOST_STAGES = 10
MOST_FUNCTIONS = 10


def report_to_text(report: dict[str, Any]) -> str:
    """Verdict, account of the whole run, findings, details."""
    lines = [report["verdict"], "", *_account_lines(report)]
    if report["findings"]:
        count = len(report["findings"])
        lines += ["", f"{count} finding{'s' if count > 1 else ''}, most to gain first"]
        for index, finding in enumerate(report["findings"], 1):
            lines += _finding_lines(index, finding)
    elif report["time"] is not None:
        lines += ["", "No finding."]
    if report["time"] is not None:
        lines += ["", *_step_lines(report)]
    lines += _ceiling_lines(report["ceiling"]) + _function_lines(report["functions"]) + _stage_lines(report["stages"])
    notes = [*(_minor(finding) for finding in report["minor_findings"]), *report["notes"]]
    lines += ["", *(f"Note: {note}" for note in notes)] if notes else []
    return "\n".join(lines) + "\n"


def report_to_markdown(report: dict[str, Any], title: str) -> str:
    """A summary for a pull request: verdict, account, findings."""
    lines = [f"### {title}", "", f"**{_escaped(report['verdict'])}**", "", "| part of the run | seconds | | where |"]
    lines.append("|---|---:|---:|---|")
    for line in report["account"]:
        where = f"`{place(line)}`" if line["line"] else ""
        lines.append(f"| {line['title']} | {line['seconds']:.2f} | {percent(line['share'])} | {where} |")
    lines += [f"| **whole run** | **{report['run_seconds']:.2f}** | **100 %** | |", ""]
    for finding in report["findings"]:
        lines += [
            f"- **{finding['disease']}** at `{place(finding)}`: {_escaped(finding['what'])}. Gain: "
            f"{gain_of(finding)}. {_escaped(finding['evidence'])}.",
            "",
            *(f"  {line}" for line in ("```python", *finding["fix"].splitlines(), "```")),
            "",
        ]
    if not report["findings"]:
        lines += ["No finding.", ""]
    notes = [*(_minor(finding) for finding in report["minor_findings"]), *report["notes"]]
    lines += [f"- {_escaped(note)}" for note in notes]
    return "\n".join(lines).rstrip() + "\n"


def gain_of(finding: dict[str, Any]) -> str:
    """What a finding costs: at most so much time, or something else."""
    if finding["effect"]:
        return finding["effect"]
    return f"at most {percent(finding['gain_share'])} of the training ({duration(finding['gain_seconds'])})"


def place(line: dict[str, Any]) -> str:
    """`train.py:12` of anything with file and line."""
    return f"{short_path(line['file'])}:{line['line']}" if line["line"] else "(unknown line)"


def _account_lines(report: dict[str, Any]) -> list[str]:
    lines = [f"The whole run, {duration(report['run_seconds'])}"]
    for line in report["account"]:
        where = f"  {place(line)}" if line["line"] else ""
        lines.append(f"  {line['title']:<36} {duration(line['seconds']):>10} {percent(line['share']):>7}{where}")
    return lines


def _step_lines(report: dict[str, Any]) -> list[str]:
    split = report["time"]
    lines = [
        f"{split['steps']} steps, {split['cold_steps']} of them cold ({duration(split['cold_seconds'])}); steady: "
        f"{duration(split['steady_mean_seconds'])} ± {duration(split['steady_std_seconds'])} per step, "
        f"spread {percent(split['step_cv'])}"
    ]
    if report["batch_signatures"]:
        lines.append(f"  batch signatures seen: {report['batch_signatures']}")
    return lines


def _ceiling_lines(ceiling: dict[str, Any] | None) -> list[str]:
    if ceiling is None:
        return []
    rows = [
        ("a step in this run", ceiling["measured_step_seconds"], ""),
        ("the same step, data ready", ceiling["step_alone_seconds"], ceiling["step_reason"]),
        ("the loader alone, per batch", ceiling["loader_alone_seconds"], ceiling["loader_reason"]),
    ]
    return ["", "Ceiling (measured after the run)"] + [
        f"  {name:<29} {seconds * 1e3:9.2f} ms" if seconds is not None else f"  {name:<29} not measured: {reason}"
        for name, seconds, reason in rows
    ]


def _function_lines(functions: list[dict[str, Any]]) -> list[str]:
    lines = ["", "Traced functions"] if functions else []
    for function in functions[:MOST_FUNCTIONS]:
        causes = f"  [{'; '.join(function['causes'])}]" if function["causes"] else ""
        lines.append(
            f"  {function['name']:<28} {function['traces']:>4} traces {function['compilations']:>4} XLA "
            f"{function['calls']:>7} calls {duration(function['seconds']):>9}  {function['place']}{causes}"
        )
    return lines + _left_out(len(functions) - MOST_FUNCTIONS)


def _stage_lines(stages: list[dict[str, Any]]) -> list[str]:
    lines = ["", "Input pipeline (time per batch, all threads together)"] if stages else []
    for stage in stages[:MOST_STAGES]:
        marks = ", ".join([*stage["python"], *(["parallel"] if stage["is_parallel"] else [])])
        lines.append(
            f"  {stage['name']:<28} {duration(stage['seconds_per_batch']):>10}  {stage['place']}  {marks}".rstrip()
        )
    return lines + _left_out(len(stages) - MOST_STAGES)


def _left_out(count: int) -> list[str]:
    return [f"  ... and {count} more (all of them in the JSON)"] if count > 0 else []


def _finding_lines(index: int, finding: dict[str, Any]) -> list[str]:
    others = [line for line in finding["lines"] if (line["file"], line["line"]) != (finding["file"], finding["line"])]
    more = f", {', '.join(place(line) for line in others[:5])}" if others else ""
    also = f"  (see also {', '.join(place(line) for line in finding['also'][:3])})" if finding["also"] else ""
    source = [f"               {finding['source']}"] if finding["source"] else []
    first, *rest = finding["fix"].splitlines()
    return [
        f"{index}. {finding['disease']}: {finding['what']}",
        f"     where     {place(finding)}{more}{also}",
        *source,
        f"     evidence  {finding['evidence']}",
        f"     fix       {first}",
        *(f"               {line}" for line in rest),
        f"     gain      {gain_of(finding)}",
    ]


def _minor(finding: dict[str, Any]) -> str:
    return (
        f"{finding['disease']} at {place(finding)}: {finding['what']} ({finding['evidence']}); "
        f"it could gain {percent(finding['gain_share'])}."
    )


def _escaped(text: str) -> str:
    """Markdown's own characters as plain ones."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
