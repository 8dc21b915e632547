"""Great Expectations: it judges profiles of tables, and a party's own expectations on the rows."""

import logging
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import polars as pl

from opboost_ops.quality.measures import Measurement
from opboost_ops.quality.profile import Expectation
from opboost_ops.quality.report import Result
from opboost_ops.tables.spill.blocks import Blocks

if TYPE_CHECKING:
    import pandas as pd

os.environ["GX_ANALYTICS_ENABLED"] = "false"

#: What a profile must keep, however many columns the table has: no measurement lies outside its
#: limits. Each is looked at where their minimum does not lie inside.
_MINIMUM, _EACH = "expect_column_min_to_be_between", "expect_column_values_to_be_between"
_LIMITS = {"column": "margin", "min_value": 0}

#: Which expectation a result is about.
_PLACE = "place"


def judge(profile: Sequence[Measurement]) -> list[bool]:
    """Whether each measurement of a profile is within its limits."""
    if not profile:
        return []
    _import_silently()
    import pandas as pd
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    margins = [measured.margin for measured in profile]
    # The expectation is given its metric: to have an engine measure it costs ten times as much.
    minimum = ExpectationConfiguration(_MINIMUM, _LIMITS).to_domain_obj()
    asked = minimum.get_validation_dependencies().metric_configurations["column.min"]
    if minimum.metrics_validate({asked.id: min(margins)}).success:
        return [True] * len(profile)
    frame = pd.DataFrame({"margin": margins})
    each = {"type": _EACH, "kwargs": _LIMITS}
    result = _validated(frame, [each], {"result_format": "COMPLETE"})[0].result
    failed = set(result["unexpected_index_list"])
    return [i not in failed for i in range(len(profile))]


def validate_rows(expectations: Sequence[Expectation], read: Blocks) -> list[Result]:
    """Ask a party's own expectations of a table's rows.

    The columns that an expectation names are in memory as a whole while it is judged; all columns
    where it names none.

    Args:
        expectations: Great Expectations' configurations.
        read: The table.

    Returns:
        A result an expectation.
    """
    if not expectations:
        return []
    schema = next(read(())).schema
    by_columns: dict[tuple[str, ...], list[int]] = {}
    for i, each in enumerate(expectations):
        by_columns.setdefault(_columns(each, schema), []).append(i)
    results: dict[int, Result] = {}
    quiet = {"result_format": "BASIC", "partial_unexpected_count": 0}
    for columns, places in by_columns.items():
        known = [name for name in columns if name in schema]
        if len(known) == len(columns):
            frame = pl.concat(read(columns)).to_arrow().to_pandas()
        else:
            frame = pl.DataFrame(schema=schema).select(known).to_arrow().to_pandas()
        found = _validated(frame, [expectations[i] for i in places], quiet)
        results |= {places[at]: _result(each) for at, each in found.items()}
    return [results[i] for i in range(len(expectations))]


def _columns(expectation: Expectation, schema: pl.Schema) -> tuple[str, ...]:
    """The columns that an expectation reads; none stands for all."""
    kwargs = expectation["kwargs"]
    if "row_condition" in kwargs:
        return ()
    if expectation["type"].startswith("expect_table_row_count"):
        return (schema.names()[0],)
    single = [kwargs[key] for key in ("column", "column_A", "column_B") if key in kwargs]
    return tuple(dict.fromkeys([*single, *(kwargs.get("column_list") or ())]))


def _validated(
    frame: "pd.DataFrame", expectations: Sequence[Expectation], result_format: Mapping[str, Any]
) -> dict[int, Any]:
    """Great Expectations' results by place; engine and validator are this call's alone."""
    settings = context()
    from great_expectations.execution_engine.pandas_execution_engine import PandasExecutionEngine
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
    from great_expectations.validator.validator import Validator

    validator = Validator(
        execution_engine=PandasExecutionEngine(batch_data_dict={"table": frame}),
        data_context=settings,
    )
    configurations = [
        ExpectationConfiguration(type=each["type"], kwargs=dict(each["kwargs"]), meta={_PLACE: i})
        for i, each in enumerate(expectations)
    ]
    results: list[Any] = validator.graph_validate(
        configurations=configurations,
        runtime_configuration={"result_format": dict(result_format)},
    )
    return {each.expectation_config.meta[_PLACE]: each for each in results}


@lru_cache(maxsize=1)
def context() -> Any:
    """Settings of Great Expectations that show and keep nothing."""
    _import_silently()
    import great_expectations as gx
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    return gx.get_context(
        mode="ephemeral",
        project_config=DataContextConfig(
            store_backend_defaults=InMemoryStoreBackendDefaults(),
            analytics_enabled=False,
            progress_bars=ProgressBarsConfig(globally=False),
        ),
    )


@lru_cache(maxsize=1)
def _import_silently() -> None:
    _silence()
    import great_expectations  # noqa: F401

    _silence()


def _silence() -> None:
    # Some of its modules set a level of their own, so the root of its loggers is not enough.
    for name in [*logging.root.manager.loggerDict, "great_expectations"]:
        if name.partition(".")[0] == "great_expectations":
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _result(validated: Any) -> Result:
    kwargs = dict(validated.expectation_config.kwargs)
    kwargs.pop("batch_id", None)
    column = str(kwargs.pop("column", ""))
    counts = validated.result or {}
    return Result(
        expectation=validated.expectation_config.type,
        column=column,
        indicator="",
        arguments={name: value for name, value in kwargs.items() if value is not None},
        success=bool(validated.success),
        evaluated=not _raised(validated.exception_info or {}),
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
