"""The report of a data quality check: its expectations, and the table's profile without values."""

from typing import Any

from opboost_ops.quality.profile import VALUES
from opboost_ops.quality.validation import Finding, Report, description
from opboost_ops.reports.display.blocks import (
    Block,
    Cell,
    Fact,
    Facts,
    Row,
    State,
    Table,
    Value,
)


def report_blocks(report: Report) -> list[Block]:
    """Return a check's report; failed expectations come first."""
    results = report.document["results"]
    failed = sum(not result["success"] for result in results)
    facts = Facts(
        (
            Fact(
                "This check",
                "passed" if report.passed else "failed",
                state="good" if report.passed else "bad",
            ),
            Fact("Expectations", f"{len(results):,}", f"{failed:,} do not hold"),
            Fact(
                "Warnings",
                f"{report.warnings:,}",
                "columns; they stop nothing",
                state="warn" if report.warnings else "",
            ),
            Fact("It took", f"{report.seconds:.2f} s"),
        )
    )
    broken = sorted(report.findings, key=lambda finding: finding.severity)
    good = [result["expectation_config"] for result in results if result["success"]]
    rows = [_failed_row(finding) for finding in broken]
    rows += [(Cell("pass", state="good"), "", description(e), "") for e in good]
    expectations = Table(
        "expectations",
        "Expectations",
        ("result", "column", "expectation", "measured"),
        rows,
        "Great Expectations judges the table's profile. A warning stops nothing.",
    )
    return [facts, expectations, _profile(report)]


def _failed_row(finding: Finding) -> Row:
    states: dict[str, tuple[str, State]] = {"critical": ("fail", "bad")}
    text, state = states.get(finding.severity, ("warning", "warn"))
    column = finding.column or "whole table"
    words = finding.description if finding.evaluated else f"{finding.description} (not evaluated)"
    return Cell(text, state=state), column, words, _cell(finding.value)


def _profile(report: Report) -> Table:
    rows = report.profile
    names = [name for name in (rows[0] if rows else ()) if name not in VALUES]
    return Table(
        "profile",
        "Profile of the table",
        [name.replace("_", " ") for name in names],
        [tuple(_cell(row[name]) for name in names) for row in rows],
        "Counts and shares of rows; no value of the table is shown.",
    )


def _cell(value: Any) -> Cell | Value:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return int(value) if value.is_integer() else Cell(f"{value:.4g}", value)
    return value if value is None or isinstance(value, int) else str(value)
