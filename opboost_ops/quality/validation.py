"""Validation of table profiles by Great Expectations, and the resulting reports."""

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

#: Key of our own entries in a result's ``meta``.
_META = "opboost"

#: Great Expectations' context, data source and results are shared by all threads of a process.
_LOCK = Lock()

#: Result format that names the table's columns whose profile rows break an expectation.
_DETAILED = {"result_format": "COMPLETE", "unexpected_index_column_names": ["column"]}

_SOURCE = "profile"

#: Modules that take a third of the time and memory of importing Great Expectations. They serve
#: charts, S3, JSON Schema and statistics: no suite here uses those, and profiles are in memory.
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
        suite: A suite in Great Expectations' JSON format.
        profile: One row per column of a table.
        parameters: Values of the suite's parameters.
        own: Further expectations.

    Returns:
        Great Expectations' result; for failed expectations with the columns that break them.
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
    """Return True if an expectation's ``row_condition`` selects no row of a profile."""
    return bool(_frame(profile).query(condition).empty)


def expectation_problem(expectation: Mapping[str, Any]) -> str:
    """Return why Great Expectations would reject an expectation; empty if it would not."""
    expectation_types = _great_expectations().expectations
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    kind = str(expectation["type"])
    name = "".join(part.title() for part in kind.split("_"))
    if not kind.startswith("expect_") or not hasattr(expectation_types, name):
        return f"{kind} is not an expectation"
    try:
        ExpectationConfiguration(**expectation).to_domain_obj()
    except Exception:
        # The text of such errors may be long, and quotes the arguments.
        return f"not the arguments of {kind}"
    return ""


def _frame(profile: Sequence[Mapping[str, Any]]) -> Any:
    import pandas as pd

    columns: dict[str, Any] = {}
    for name in profile[0] if profile else COLUMNS:
        cells = [row[name] for row in profile]
        # Columns without any value become numeric.
        empty = all(cell is None for cell in cells)
        columns[name] = np.full(len(cells), np.nan) if empty else cells
    return pd.DataFrame(columns)


@cache
def _suite(suite: str, own: str) -> Any:
    """Load a suite, once per process.

    Args:
        suite: A suite in JSON.
        own: Further expectations in JSON; they make a separate suite with a name of its own.
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
    """Return an in-memory context of Great Expectations with a data source for profiles."""
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
    # Some modules set their own level, so the package's root logger is not enough.
    for name in [*logging.root.manager.loggerDict, "great_expectations"]:
        if name.partition(".")[0] == "great_expectations":
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)


class _Deferred(ModuleType):
    """A module that is imported at the first access to one of its attributes."""

    def __getattr__(self, attribute: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), attribute)


@cache
def _great_expectations() -> Any:
    """Import Great Expectations, with the modules in `_DEFERRED` deferred to their first use."""
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
        column: Name of the column; empty for the whole table.
        measure: The profile's column that the expectation is about.
        description: The expectation in plain words.
        severity: ``critical`` or ``warning``.
        value: The measure's value; None if it would show a value of the table.
        evaluated: False if the expectation could not be evaluated.
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
        """Return the report of a new check.

        Args:
            document: Great Expectations' result.
            profile: The validated profile.
            seconds: Duration of the check.
        """
        ours = {"profile": list(profile), "seconds": round(seconds, 6)}
        return cls({**document, "meta": {**document["meta"], _META: ours}})

    @property
    def suite(self) -> str:
        """Return the name of the boundary."""
        # Suites with a party's own expectations have a suffix after a blank.
        return str(self.document["suite_name"]).partition(" ")[0]

    @property
    def profile(self) -> list[dict[str, Any]]:
        """Return the validated profile."""
        return list(self.document["meta"][_META]["profile"])

    @property
    def seconds(self) -> float:
        """Return the duration of the check in seconds."""
        return float(self.document["meta"][_META]["seconds"])

    @property
    def passed(self) -> bool:
        """Return True if no critical expectation failed."""
        return all(finding.severity != "critical" for finding in self.findings)

    @property
    def warnings(self) -> int:
        """Return the number of findings that are not critical."""
        return sum(finding.severity != "critical" for finding in self.findings)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """Return the columns that break an expectation."""
        failed = (each for each in self.document["results"] if not each["success"])
        return tuple(finding for each in failed for finding in _findings(each))

    def outside(self) -> dict[str, Any]:
        """Return the facts that other parties may know."""
        return {"suite": self.suite, "passed": self.passed}

    def json(self) -> bytes:
        """Return the report as JSON, for the party's own programs."""
        return json.dumps(self.document, default=str).encode()


def description(expectation: Mapping[str, Any]) -> str:
    """Describe an expectation in plain words.

    Args:
        expectation: The expectation's configuration.
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
