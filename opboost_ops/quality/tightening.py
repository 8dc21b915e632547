"""``expectations.yaml``: what a party expects of its data beyond the computed suites."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from opboost_ops.config.yaml_text import read_yaml
from opboost_ops.errors import ConfigError, Fault, require_none
from opboost_ops.quality.suites import Suite

TIGHTENING = "expectations.yaml"

#: Boundaries that may be tightened.
BOUNDARIES = (
    "raw_table", "new_rows", "preprocessed_table", "release", "training_frame", "model", "scores",
)  # fmt: skip

#: New rows, for which `raw_table` stands where the file has no entry of this name.
_NEW_ROWS = "new_rows"

#: That a column has two values or more: what is constant teaches a model nothing, and harms nobody.
_ADVISORY = "expect_column_unique_value_count_to_be_between"

#: Arguments that would change how a result is reported.
_NOT_OURS = {"batch_id", "catch_exceptions", "result_format"}


def tightened(
    suite: Suite, site_folder: Path, boundary: str = "", absent: Collection[str] = ()
) -> Suite:
    """The suite with the expectations that a party adds in ``expectations.yaml``.

    What is only advisory, that a feature of the training table is not constant, may be taken away
    by name: ``raw_table: [{loosen: expect_column_unique_value_count_to_be_between, column: x}]``.

    Args:
        suite: The computed one; nothing else of it is ever taken away.
        site_folder: Where ``site.yaml`` lies.
        boundary: Its key in that file; the suite's name when empty.
        absent: Columns that this table need not have; what is expected of them is passed over.

    Returns:
        The suite, or one with more expectations.

    Raises:
        ConfigError: The file is malformed, or names an unknown boundary, expectation, column or
            argument; all faults at once.
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
        faults.append(Fault(key, "is not a list of entries with type and kwargs"))
        added = []
    added = [entry for entry in added if not _about(entry, absent)]
    loosened = [entry for entry in added if isinstance(entry, Mapping) and "loosen" in entry]
    added = [entry for entry in added if entry not in loosened]
    kept = suite.expectations
    if suite.name != _NEW_ROWS:
        for i, entry in enumerate(loosened):
            fewer = tuple(e for e in kept if not _loosens(entry, e))
            if len(fewer) == len(kept):
                faults.append(
                    Fault(
                        f"{key}.{i}",
                        "loosens nothing that may be loosened",
                        f"only {{loosen: {_ADVISORY}, column: <a feature>}} may be, in raw_table",
                    )
                )
            kept = fewer
    columns = sorted({e["kwargs"]["column"] for e in suite.expectations if "column" in e["kwargs"]})
    for i, entry in enumerate(added):
        faults += _faults(f"{key}.{i}", entry, columns)
    require_none(faults, TIGHTENING, "Correct the file beside site.yaml.")
    return replace(suite, expectations=kept, own=tuple(added))


def _loosens(entry: Mapping[Any, Any], expectation: Mapping[str, Any]) -> bool:
    kwargs = expectation["kwargs"]
    # A label's has an upper bound, too.
    advisory = expectation["type"] == _ADVISORY and set(kwargs) == {"column", "min_value"}
    return advisory and dict(entry) == {"loosen": _ADVISORY, "column": kwargs["column"]}


def _read(path: Path) -> Mapping[Any, Any]:
    declared = read_yaml(path) or {}
    if not isinstance(declared, dict):
        raise ConfigError(
            "is not a readable mapping of boundaries to lists of expectations.",
            "Correct the file beside site.yaml.",
            file=TIGHTENING,
        )
    return declared


def _about(entry: Any, columns: Collection[str]) -> bool:
    kwargs = entry.get("kwargs") if isinstance(entry, Mapping) else None
    return isinstance(kwargs, Mapping) and kwargs.get("column") in columns


def _faults(where: str, entry: Any, columns: list[str]) -> Iterator[Fault]:
    if (
        not isinstance(entry, dict)
        or set(entry) != {"type", "kwargs"}
        or not isinstance(entry["kwargs"], dict)
    ):
        yield Fault(where, "is not an entry with type and kwargs")
        return
    kind, kwargs = str(entry["type"]), entry["kwargs"]
    import great_expectations.expectations as known
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    name = "".join(part.title() for part in kind.split("_"))
    if not kind.startswith("expect_") or not hasattr(known, name):
        like = "for example expect_column_max_to_be_between"
        yield Fault(f"{where}.type", f"{kind} is not an expectation", like)
        return
    for argument in sorted(_NOT_OURS & set(kwargs)):
        yield Fault(f"{where}.kwargs.{argument}", "is not for this file")
    named = [kwargs[key] for key in ("column", "column_A", "column_B") if key in kwargs]
    for column in (*named, *(kwargs.get("column_list") or ())):
        if column not in columns:
            others = f"choose one of {', '.join(columns)}"
            yield Fault(where, f"names the unknown column {column}", others)
    try:
        ExpectationConfiguration(type=kind, kwargs=dict(kwargs)).to_domain_obj()
    except Exception:
        # The text of such errors can be long, and quotes the arguments.
        yield Fault(f"{where}.kwargs", f"are not those of {kind}")
