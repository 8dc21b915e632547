"""What a check found: counts at home, pass or fail outside; never a value."""

import html
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opboost_ops.quality.words import words


@dataclass(frozen=True)
class Result:
    """One expectation's result.

    Attributes:
        expectation: Its type.
        column: On which column; empty for the whole table.
        indicator: What was derived from the column first; empty for the column itself.
        arguments: Declared thresholds.
        success: Whether it holds.
        evaluated: Whether it could be looked at; one that could not has failed.
        rows: Rows looked at.
        unexpected: Rows that break it.
        missing: Rows without a value.
    """

    expectation: str
    column: str
    indicator: str
    arguments: Mapping[str, Any]
    success: bool
    evaluated: bool
    rows: int | None
    unexpected: int | None
    missing: int | None

    @property
    def words(self) -> str:
        """The expectation in plain words."""
        text = words(self.indicator or self.expectation, self.arguments)
        return text if self.evaluated else f"{text} (could not be checked)"

    @property
    def percent(self) -> float | None:
        """Share of the rows that break it, in percent."""
        if self.unexpected is None or not self.rows:
            return None
        return 100 * self.unexpected / self.rows


@dataclass(frozen=True)
class Report:
    """One suite's results on one table.

    Attributes:
        suite: The boundary.
        results: By expectation.
        seconds: How long it took.
    """

    suite: str
    results: tuple[Result, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether every expectation holds."""
        return all(result.success for result in self.results)

    def outside(self) -> dict[str, Any]:
        """All that anybody else may know."""
        return {"suite": self.suite, "passed": self.passed}

    def json(self) -> bytes:
        """The report for the party's own programs."""
        facts = json.dumps({**self.outside(), "seconds": round(self.seconds, 6)}, indent=1)
        # A line each: thousands of them would take json's slow way if they were indented.
        results = ",\n".join(
            json.dumps(
                {**vars(result), "words": result.words, "percent": result.percent}, default=str
            )
            for result in self.results
        )
        return f'{facts[:-2]},\n "results": [\n{results}\n]\n}}'.encode()

    def html(self) -> bytes:
        """The report for the party's own people: one page that loads nothing from outside."""
        rows = "".join(_row(r) for r in sorted(self.results, key=lambda r: r.success))
        failed = sum(not result.success for result in self.results)
        verdict = "passed" if self.passed else f"failed: {failed} of {len(self.results)}"
        return _PAGE.format(
            suite=html.escape(self.suite), verdict=verdict, state=_state(self.passed), rows=rows
        ).encode()


def _row(result: Result) -> str:
    state = _state(result.success)
    cells = {
        "result": state,
        "column": result.column or "whole table",
        "expectation": result.words,
        "unexpected rows": _number(result.unexpected),
        "share": "" if result.percent is None else f"{result.percent:.2f} %",
        "missing rows": _number(result.missing),
        "rows": _number(result.rows),
    }
    body = "".join(
        f'<td data-name="{name}">{html.escape(cell)}</td>' for name, cell in cells.items()
    )
    return f'<tr class="{state}">{body}</tr>'


def _number(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


def _state(success: bool) -> str:
    return "pass" if success else "fail"


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Data quality: {suite}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem;
  padding: 0 1rem; }}
div {{ overflow-x: auto; }}
table {{ border-collapse: collapse; width: 100%; }}
td:nth-child(n + 4) {{ white-space: nowrap; }}
th, td {{ text-align: left; padding: .35rem .6rem; border-bottom: 1px solid #8884; }}
.fail td:first-child {{ color: #c33; font-weight: 600; }}
.pass td:first-child {{ color: #2a7; }}
@media (max-width: 40rem) {{
  thead {{ display: none; }}
  tr {{ display: block; padding: .5rem 0; border-bottom: 1px solid #8884; }}
  td {{ display: block; border: 0; padding: .1rem 0; overflow-wrap: anywhere; }}
  td:empty {{ display: none; }}
  td::before {{ content: attr(data-name) ": "; opacity: .65; }}
}}
</style></head><body>
<h1>{suite}</h1><p class="{state}">This check {verdict}.
Counts only: no value of the table is shown.</p>
<div><table><thead><tr>
<th scope="col">result</th>
<th scope="col">column</th>
<th scope="col">expectation</th>
<th scope="col">unexpected rows</th>
<th scope="col">share</th>
<th scope="col">missing rows</th>
<th scope="col">rows</th>
</tr></thead><tbody>{rows}</tbody></table></div>
</body></html>
"""
