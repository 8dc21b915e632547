"""Checks of a table: Great Expectations validates its profile, with a party's own expectations."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from opboost_ops.config.documents import read_yaml
from opboost_ops.errors import ConfigError, ContractError, Fault, require_none
from opboost_ops.quality.profile import COLUMNS, profile
from opboost_ops.quality.suites import Suite, expectations
from opboost_ops.quality.validation import Report, expectation_problem, selects_nothing, validate
from opboost_ops.tables.spill.arrays import Scratch
from opboost_ops.tables.spill.tables import Blocks, blocks_of

TIGHTENING = "expectations.yaml"

#: Boundaries for which a party may add expectations.
BOUNDARIES = (
    "raw_table", "new_rows", "preprocessed_table", "release", "training_frame", "model", "scores",
)  # fmt: skip

#: Boundary of new rows; without an entry of this name, the entry of `raw_table` applies.
_NEW_ROWS = "new_rows"

_KEYS = {"type", "kwargs", "severity", "description"}

#: Arguments that would change how a result is reported.
_NOT_OURS = {"batch_id", "catch_exceptions", "result_format"}


def run_suite(suite: Suite, table: pa.Table | Blocks, spill: Scratch | None = None) -> Report:
    """Check a table.

    Args:
        suite: The expectations.
        table: The table, or a function that reads it block by block.
        spill: Holds hashes of IDs on disk if they are too many for memory.

    Raises:
        ContractError: The suite cannot be run on the table, or the table cannot be read.
        ConfigError: An expectation of ``expectations.yaml`` selects no column of the table.
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
        # Messages of such errors may contain cells.
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


def tightened(suite: Suite, site_folder: Path, boundary: str = "") -> Suite:
    """Return the suite with the expectations that a party adds in ``expectations.yaml``.

    Args:
        suite: The built-in suite; none of its expectations is removed.
        site_folder: Folder of ``site.yaml``.
        boundary: Key of the suite in that file; the suite's name if empty.

    Raises:
        ConfigError: The file is malformed, or names an unknown boundary, expectation, profile
            column or argument; lists all faults.
    """
    path = site_folder / TIGHTENING
    if not path.is_file():
        return suite
    declared = _read(path)
    faults = [
        Fault(str(name), "is not a boundary", f"choose one of {', '.join(BOUNDARIES)}")
        for name in declared
        if name not in BOUNDARIES
    ]
    key = boundary or suite.name
    if suite.name == _NEW_ROWS and _NEW_ROWS in declared:
        key = _NEW_ROWS
    added = declared.get(key) or []
    if not isinstance(added, list):
        faults.append(Fault(key, "is not a list of expectations"))
        added = []
    for i, entry in enumerate(added):
        faults += _faults(f"{key}.{i}", entry)
    require_none(faults, TIGHTENING, "Correct the file beside site.yaml.")
    return replace(suite, own=tuple(added))


def _read(path: Path) -> Mapping[Any, Any]:
    declared = read_yaml(path) or {}
    if not isinstance(declared, dict):
        raise ConfigError(
            "is not a readable mapping of boundaries to lists of expectations.",
            "Correct the file beside site.yaml.",
            file=TIGHTENING,
        )
    return declared


def _faults(where: str, entry: Any) -> Iterator[Fault]:
    if not isinstance(entry, dict) or not isinstance(entry.get("kwargs"), dict):
        yield Fault(where, "is not an entry with type and kwargs")
        return
    for key in sorted({"type"} - set(entry)):
        yield Fault(f"{where}.{key}", "is missing")
    for key in sorted(set(entry) - _KEYS):
        yield Fault(f"{where}.{key}", "is not a key of an expectation", ", ".join(sorted(_KEYS)))
    for argument in sorted(_NOT_OURS & set(entry["kwargs"])):
        yield Fault(f"{where}.kwargs.{argument}", "is not for this file")
    kwargs = entry["kwargs"]
    named = [kwargs[key] for key in ("column", "column_A", "column_B") if key in kwargs]
    for name in (*named, *(kwargs.get("column_list") or ())):
        if name not in COLUMNS:
            yield Fault(
                where,
                f"names {name}, which is not a column of the profile",
                f'name the table\'s column in row_condition (column == "{name}"), and here one '
                f"of {', '.join(COLUMNS)}",
            )
    if set(entry) <= _KEYS and "type" in entry and (problem := expectation_problem(entry)):
        yield Fault(
            where, problem, "choose an expectation of Great Expectations, with its arguments"
        )
