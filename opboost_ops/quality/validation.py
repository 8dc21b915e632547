"""Great Expectations judges the profiles of tables, and a report keeps that at home."""

import json
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from importlib import import_module
from threading import Lock
from types import ModuleType
from typing import Any
from zlib import crc32

import numpy as np

from opboost_ops.quality.profile import COLUMNS, VALUES

#: Where a result has what is ours.
_META = "opboost"

#: A context, its data source and its results are a process's, whichever thread asks.
_LOCK = Lock()

#: Names the columns of a table whose rows of the profile break an expectation.
_DETAILED = {"result_format": "COMPLETE", "unexpected_index_column_names": ["column"]}

_SOURCE = "profile"

#: A third of the time and memory of an import of Great Expectations: one chart, S3, JSON's schemas
#: and statistics; no suite here has their expectations, and profiles come from memory.
_DEFERRED = ("altair", "boto3", "jsonschema", "scipy.stats")

os.environ["GX_ANALYTICS_ENABLED"] = "false"


def validate(
    suite: str,
    profile: Sequence[Mapping[str, Any]],
    parameters: Mapping[str, Any],
    own: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Validate a profile.

    Args:
        suite: A suite as Great Expectations writes it, in JSON.
        profile: A row for each column of a table.
        parameters: Values of the suite's parameters.
        own: Further expectations.

    Returns:
        Great Expectations' own result; of a failed one with the columns that failed.
    """
    with _LOCK:
        asset = context().data_sources.get(_SOURCE).get_asset(_SOURCE)
        batch = asset.get_batch_definition(_SOURCE).get_batch({"dataframe": _frame(profile)})
        judged = partial(
            batch.validate, _suite(suite, json.dumps(own)), expectation_parameters=dict(parameters)
        )
        result = judged(result_format="BOOLEAN_ONLY")
        if not result.success:
            result = judged(result_format=_DETAILED)
    document: dict[str, Any] = result.to_json_dict()
    return document


def selects_nothing(condition: str, profile: Sequence[Mapping[str, Any]]) -> bool:
    """True if an expectation's ``row_condition`` selects no row of a profile."""
    return bool(_frame(profile).query(condition).empty)


def expectation_problem(expectation: Mapping[str, Any]) -> str:
    """The reason why Great Expectations would not take an expectation; empty if it would."""
    expectation_types = _great_expectations().expectations
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    kind = str(expectation["type"])
    name = "".join(part.title() for part in kind.split("_"))
    if not kind.startswith("expect_") or not hasattr(expectation_types, name):
        return f"{kind} is not an expectation"
    try:
        ExpectationConfiguration(**expectation).to_domain_obj()
    except Exception:
        # The text of such errors can be long, and quotes the arguments.
        return f"not the arguments of {kind}"
    return ""


def _frame(profile: Sequence[Mapping[str, Any]]) -> Any:
    import pandas as pd

    columns: dict[str, Any] = {}
    for name in profile[0] if profile else COLUMNS:
        cells = [row[name] for row in profile]
        # A column without any value is one of numbers.
        empty = all(cell is None for cell in cells)
        columns[name] = np.full(len(cells), np.nan) if empty else cells
    return pd.DataFrame(columns)


@cache
def _suite(suite: str, own: str) -> Any:
    """A suite that is loaded once.

    Args:
        suite: A suite in JSON.
        own: Further expectations in JSON; they make another suite, of another name.
    """
    gx = _great_expectations()
    declared = json.loads(suite)
    more = json.loads(own)
    name = f"{declared['name']} ({crc32(own.encode()):08x})" if more else declared["name"]
    expectations = [*declared["expectations"], *more]
    built = gx.ExpectationSuite(name=name, expectations=expectations)
    if len(built.expectations) < len(expectations):
        raise ValueError("Great Expectations has left out an expectation that it cannot load.")
    return built


@cache
def context() -> Any:
    """A context of Great Expectations in memory, with a data source for profiles."""
    _silence()
    gx = _great_expectations()
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    engine = gx.get_context(
        mode="ephemeral",
        project_config=DataContextConfig(
            store_backend_defaults=InMemoryStoreBackendDefaults(),
            analytics_enabled=False,
            progress_bars=ProgressBarsConfig(globally=False),
        ),
    )
    asset = engine.data_sources.add_pandas(_SOURCE).add_dataframe_asset(_SOURCE)
    asset.add_batch_definition_whole_dataframe(_SOURCE)
    _silence()
    return engine


def _silence() -> None:
    # Some of its modules set a level of their own, so the root of its loggers is not enough.
    for name in [*logging.root.manager.loggerDict, "great_expectations"]:
        if name.partition(".")[0] == "great_expectations":
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)


class _Deferred(ModuleType):
    """A module that is imported when an attribute of it is first read."""

    def __getattr__(self, attribute: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), attribute)


@cache
def _great_expectations() -> Any:
    """Great Expectations, whose modules import `_DEFERRED` when they first use them."""
    deferred = {name: _Deferred(name) for name in _DEFERRED if name not in sys.modules}
    sys.modules.update(deferred)
    try:
        return import_module("great_expectations")
    finally:
        for name, module in deferred.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]


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
