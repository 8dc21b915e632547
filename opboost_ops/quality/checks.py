"""Checking a table: its profile is measured, and Great Expectations judges that."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from opboost_ops.errors import ConfigError, ContractError
from opboost_ops.quality.profile import profile
from opboost_ops.quality.report import Report
from opboost_ops.quality.suites import Suite, expectations
from opboost_ops.quality.tightening import TIGHTENING
from opboost_ops.quality.validation import selects_nothing, validate
from opboost_ops.tables.spill.arrays import Scratch
from opboost_ops.tables.spill.blocks import Blocks, blocks_of


def run_suite(suite: Suite, table: pa.Table | Blocks, spill: Scratch | None = None) -> Report:
    """Check a table.

    Args:
        suite: What is expected of it.
        table: The table, or how to read it block by block.
        spill: Where hashes of IDs are put beyond what it holds in memory.

    Raises:
        ContractError: The suite cannot be run on the table, or the table cannot be read.
        ConfigError: An expectation of ``expectations.yaml`` is about no column of the table.
    """
    begin = time.perf_counter()
    problem = ""
    try:
        read = blocks_of(table) if isinstance(table, pa.Table) else table
        rows = profile(suite.columns, read, spill)
        _require_selected(suite, rows)
        result = validate(expectations(suite.name), rows, suite.parameters, suite.own)
    except (ConfigError, ContractError):
        raise
    except Exception as error:
        # The text of such errors prints cells.
        problem = type(error).__name__
    if problem:
        raise ContractError(
            f"The data-quality suite {suite.name} cannot be run on this table ({problem}).",
            "Check the expectations that expectations.yaml adds, and the table's columns.",
        )
    return Report.of(result, rows, time.perf_counter() - begin)


def _require_selected(suite: Suite, rows: Sequence[Mapping[str, Any]]) -> None:
    for expectation in suite.own:
        condition = expectation["kwargs"].get("row_condition")
        if condition and selects_nothing(condition, rows):
            raise ConfigError(
                f"The row_condition {condition} selects no column.",
                f"Choose among {', '.join(each.column for each in suite.columns)}.",
                file=TIGHTENING,
            )
