"""Running a suite with Great Expectations, so that no value of the table survives it."""

import logging
import os
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import pyarrow as pa

from opboost_ops.errors import ContractError
from opboost_ops.quality.blockwise import ask_blocks, blocks_of
from opboost_ops.quality.gathering import Blocks, Expectation
from opboost_ops.quality.indicators import Facts, derived, origin
from opboost_ops.quality.report import Report, Result
from opboost_ops.quality.suites import Suite
from opboost_ops.scratch.arrays import Scratch

os.environ["GX_ANALYTICS_ENABLED"] = "false"

#: Great Expectations is asked by one thread at a time. It has one batch a data source and one set
#: of metrics of it, so that a thread was answered about another one's table; `_no_work_twice`
#: changes its classes, and two threads left them changed for good; filters of warnings are
#: everybody's.
_ALONE = threading.Lock()

#: By which an expectation's result says which one it was.
_PLACE = "place"


def run_suite(suite: Suite, table: pa.Table | Blocks, scratch: Scratch | None = None) -> Report:
    """Check a table.

    Args:
        suite: What is expected of it.
        table: The table, or how to read it block by block: a large one is checked so anyway.
        scratch: Where that waits which is more than it holds; all is in memory when absent.

    Returns:
        A report of counts; it holds no value of the table.

    Raises:
        ContractError: The suite cannot be run on this table, or the table cannot be read.
    """
    begin = time.perf_counter()
    problem = ""
    results: list[Result] = []
    read = blocks_of(table) if isinstance(table, pa.Table) else table
    try:
        built_in = range(len(suite.expectations) - suite.own)
        results = ask_blocks(suite.expectations, read, _asked, built_in, scratch)
    except ContractError:
        raise
    except Exception as error:
        # The text of such errors prints cells.
        problem = type(error).__name__
    if problem:
        raise ContractError(
            f"The data-quality suite {suite.name} cannot be run on this table ({problem}).",
            "Look at the expectations that expectations.yaml adds, and at the table's columns.",
        )
    return Report(suite.name, tuple(results), time.perf_counter() - begin)


def _asked(
    expectations: Sequence[Expectation], table: pa.Table, facts: Facts
) -> list[tuple[int, Result]]:
    with _ALONE:
        return _asked_alone(expectations, table, facts)


def _asked_alone(
    expectations: Sequence[Expectation], table: pa.Table, facts: Facts
) -> list[tuple[int, Result]]:
    source = _source()
    import great_expectations as gx
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    table, plain = derived(table, expectations, facts)
    frame = table.to_pandas()
    expected = gx.ExpectationSuite(name="asked")
    expected.expectations = [
        ExpectationConfiguration(
            type=e["type"], kwargs=dict(e["kwargs"]), meta={_PLACE: at}
        ).to_domain_obj()
        for at, e in enumerate(plain)
    ]
    quiet = {"result_format": "BASIC", "partial_unexpected_count": 0}
    with warnings.catch_warnings(), _no_work_twice():
        warnings.simplefilter("ignore")
        batch = source.get_batch({"dataframe": frame})
        found = batch.validate(expected, result_format=quiet).results
    return [(each.expectation_config.meta[_PLACE], _result(each)) for each in found]


@lru_cache(maxsize=1)
def _source() -> Any:
    """A data source in memory; making one costs as much as checking a table."""
    _silence()
    import great_expectations as gx
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    _silence()
    context = gx.get_context(
        mode="ephemeral",
        project_config=DataContextConfig(
            store_backend_defaults=InMemoryStoreBackendDefaults(),
            analytics_enabled=False,
            progress_bars=ProgressBarsConfig(globally=False),
        ),
    )
    asset = context.data_sources.add_pandas("table").add_dataframe_asset("table")
    return asset.add_batch_definition_whole_dataframe("table")


@contextmanager
def _no_work_twice() -> Iterator[None]:
    """Let an expectation make its configuration once, and not for each of its metrics anew.

    Great Expectations computes it some seventy times a check, which is a third of the whole for a
    small table; for a large one, half of it is a hash of all cells, twice, that nothing reads.
    """
    from great_expectations.execution_engine import pandas_execution_engine as engine
    from great_expectations.expectations.expectation import Expectation

    hashed: Any = vars(engine)["hash_pandas_dataframe"]
    original: Any = vars(Expectation)["configuration"]
    made: dict[int, tuple[Any, Any]] = {}

    def configuration(self: Any) -> Any:
        # The expectation is kept with it, so that its identity is not given to another one.
        known = made.get(id(self))
        if known is None:
            known = made[id(self)] = (self, original.fget(self))
        return known[1]

    setattr(Expectation, "configuration", property(configuration))  # noqa: B010
    setattr(engine, "hash_pandas_dataframe", lambda _: "")  # noqa: B010
    try:
        yield
    finally:
        setattr(Expectation, "configuration", original)  # noqa: B010
        setattr(engine, "hash_pandas_dataframe", hashed)  # noqa: B010


def _silence() -> None:
    # Some of its modules set a level of their own, so the root of its loggers is not enough.
    for name in [*logging.root.manager.loggerDict, "great_expectations"]:
        if name.partition(".")[0] == "great_expectations":
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _result(found: Any) -> Result:
    kwargs = dict(found.expectation_config.kwargs)
    kwargs.pop("batch_id", None)
    column, indicator = origin(str(kwargs.pop("column", "")))
    counts = found.result or {}
    return Result(
        expectation=found.expectation_config.type,
        column=column,
        indicator=indicator,
        arguments={name: value for name, value in kwargs.items() if value is not None},
        success=bool(found.success),
        evaluated=not _raised(found.exception_info or {}),
        rows=_count(counts.get("element_count")),
        unexpected=_count(counts.get("unexpected_count")),
        missing=_count(counts.get("missing_count")),
    )


def _raised(info: Mapping[str, Any]) -> bool:
    # One flag, or one for each metric.
    nested = any(_raised(value) for value in info.values() if isinstance(value, dict))
    return bool(info.get("raised_exception")) or nested


def _count(value: Any) -> int | None:
    return None if value is None else int(value)
