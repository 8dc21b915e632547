"""Checking tables by suites, so that no value of a table is in the report."""

import time
from collections.abc import Mapping

import pyarrow as pa

from opboost_ops.errors import ContractError
from opboost_ops.quality.measures import Measurement
from opboost_ops.quality.profile import Expectation, profile
from opboost_ops.quality.report import Report, Result
from opboost_ops.quality.suites import Suite
from opboost_ops.quality.validation import judge, validate_rows
from opboost_ops.tables.spill.arrays import Scratch
from opboost_ops.tables.spill.blocks import Blocks, blocks_of


def run_suite(suite: Suite, table: pa.Table | Blocks, spill: Scratch | None = None) -> Report:
    """Check one table; see `run_suites`."""
    return run_suites({suite.name: (suite, table)}, spill)[suite.name]


def run_suites(
    boundaries: Mapping[str, tuple[Suite, pa.Table | Blocks]], spill: Scratch | None = None
) -> dict[str, Report]:
    """Check tables: Great Expectations judges one profile of all of them.

    Args:
        boundaries: Suite and table, or how to read it block by block.
        spill: Where hashes of IDs are put beyond what it holds in memory.

    Returns:
        Reports of counts, in the same order; they hold no value of a table.

    Raises:
        ContractError: A suite cannot be run on its table, or the table cannot be read.
    """
    profiles: dict[str, list[Measurement]] = {}
    own: dict[str, list[Result]] = {}
    seconds: dict[str, float] = {}
    problem, suite = "", Suite("", ())
    try:
        for boundary, (suite, table) in boundaries.items():
            begin = time.perf_counter()
            read = blocks_of(table) if isinstance(table, pa.Table) else table
            profiles[boundary] = profile(suite.expectations, read, spill)
            own[boundary] = validate_rows(suite.own, read)
            seconds[boundary] = time.perf_counter() - begin
        begin = time.perf_counter()
        verdicts = iter(judge([each for several in profiles.values() for each in several]))
        judging = (time.perf_counter() - begin) / max(len(boundaries), 1)
    except ContractError:
        raise
    except Exception as error:
        # The text of such errors prints cells.
        problem = type(error).__name__
    if problem:
        raise ContractError(
            f"The data-quality suite {suite.name} cannot be run on this table ({problem}).",
            "Check the expectations that expectations.yaml adds, and the table's columns.",
        )
    reports = {}
    for boundary, (suite, _) in boundaries.items():
        measured = zip(suite.expectations, profiles[boundary], strict=True)
        results = [_result(each, found, next(verdicts)) for each, found in measured]
        results += own[boundary]
        reports[boundary] = Report(suite.name, tuple(results), seconds[boundary] + judging)
    return reports


def _result(expectation: Expectation, measured: Measurement, success: bool) -> Result:
    arguments = {name: value for name, value in expectation["kwargs"].items() if value is not None}
    column = str(arguments.pop("column", ""))
    if arguments.get("mostly") == 1:
        del arguments["mostly"]
    return Result(
        expectation=expectation["type"],
        column=column,
        indicator=expectation.get("indicator", ""),
        arguments=arguments,
        success=success,
        evaluated=measured.value == measured.value,
        rows=measured.rows,
        unexpected=measured.unexpected,
        missing=measured.missing,
    )
