"""The result of a check: kept at home as Great Expectations writes it, and one bit outside."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from opboost_ops.quality.profile import VALUES

#: Where a result has what is ours.
_META = "opboost"


@dataclass(frozen=True)
class Finding:
    """A column that breaks an expectation.

    Attributes:
        column: The column; empty for the whole table.
        measure: The profile's column that the expectation is about.
        description: The expectation in plain words.
        severity: ``critical`` or ``warning``.
        value: The measure's value; None where it would show a value of the table.
        evaluated: Whether it could be evaluated.
    """

    column: str
    measure: str
    description: str
    severity: str
    value: Any = None
    evaluated: bool = True


@dataclass(frozen=True)
class Report:
    """A suite's result on one table.

    Attributes:
        document: Great Expectations' result, with the profile and the seconds in its ``meta``.
    """

    document: Mapping[str, Any]

    @classmethod
    def of(
        cls, document: Mapping[str, Any], profile: Sequence[Mapping[str, Any]], seconds: float
    ) -> "Report":
        """A new check's report.

        Args:
            document: Great Expectations' result.
            profile: What it judged.
            seconds: How long the check took.
        """
        ours = {"profile": list(profile), "seconds": round(seconds, 6)}
        return cls({**document, "meta": {**document["meta"], _META: ours}})

    @property
    def suite(self) -> str:
        """The boundary."""
        # A party's own expectations make another suite, whose name says so after a blank.
        return str(self.document["suite_name"]).partition(" ")[0]

    @property
    def profile(self) -> list[dict[str, Any]]:
        """The profile that was judged."""
        return list(self.document["meta"][_META]["profile"])

    @property
    def seconds(self) -> float:
        """How long the check took."""
        return float(self.document["meta"][_META]["seconds"])

    @property
    def passed(self) -> bool:
        """True if every expectation holds."""
        return all(finding.severity != "critical" for finding in self.findings)

    @property
    def warnings(self) -> int:
        """How many findings stop nothing."""
        return sum(finding.severity != "critical" for finding in self.findings)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """Findings that break an expectation, column by column."""
        failed = (each for each in self.document["results"] if not each["success"])
        return tuple(finding for each in failed for finding in _findings(each))

    def outside(self) -> dict[str, Any]:
        """All that anybody else may know."""
        return {"suite": self.suite, "passed": self.passed}

    def json(self) -> bytes:
        """The report for the party's own programs."""
        return json.dumps(self.document, default=str).encode()


def description(expectation: Mapping[str, Any]) -> str:
    """An expectation in plain words.

    Args:
        expectation: Its configuration.
    """
    if text := expectation.get("description"):
        return str(text)
    hidden = ("batch_id", "condition_parser", "row_condition")
    kwargs = {k: v for k, v in expectation["kwargs"].items() if k not in hidden}
    kind = expectation["type"].removeprefix("expect_").replace("_", " ")
    return f"{kind} ({', '.join(f'{name}: {value}' for name, value in kwargs.items())})"


def _findings(result: Mapping[str, Any]) -> list[Finding]:
    configuration = result["expectation_config"]
    kwargs = configuration["kwargs"]
    measure = str(kwargs.get("column") or kwargs.get("column_B") or "")
    common = (measure, description(configuration), str(configuration["severity"]))
    rows = result["result"].get("unexpected_index_list") or []
    findings = []
    for row in rows:
        value = None if measure in VALUES else row.get(measure)
        findings.append(Finding(str(row["column"]), *common, value))
    return findings or [Finding("", *common, evaluated="observed_value" in result["result"])]
