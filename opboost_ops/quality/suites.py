"""Suites of Great Expectations by boundary, and the declarations of their tables' columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from opboost_ops.config.federation import IdColumn, Label, Party
from opboost_ops.config.policy import Checks
from opboost_ops.config.resources import shipped
from opboost_ops.domain import Domain

#: A column's role at its boundary.
Role = Literal[
    "id", "released", "own", "label", "rank", "prediction", "score", "class", "threshold"
]


@dataclass(frozen=True)
class Declared:
    """A column's declaration, which determines the measures in its profile row.

    Attributes:
        column: Name of the column.
        role: Selects the expectations that apply.
        type: Kind of values that its data type must allow.
        required: True if each row needs a value.
        unique: True to count repeated values.
        bounds: Values outside are counted.
        values: All allowed values; others are counted.
        dense: True if each rank from 1 to the highest must occur.
        absent: True if the column is optional in this table.
    """

    column: str
    role: Role
    type: Literal["any", "number", "integer"] = "any"
    required: bool = False
    unique: bool = False
    bounds: tuple[float, float] | None = None
    values: tuple[str | int | float, ...] = ()
    dense: bool = False
    absent: bool = False


@dataclass(frozen=True)
class Suite:
    """A suite of Great Expectations, with the columns of the table whose profile it validates.

    Attributes:
        name: The boundary; `schemas/expectations` has a file of this name.
        columns: Declarations of the profile's rows.
        parameters: Values of the suite's parameters.
        own: Expectations that the party has added.
    """

    name: str
    columns: tuple[Declared, ...]
    parameters: Mapping[str, float]
    own: tuple[Mapping[str, Any], ...] = ()


#: Minimum new rows for limits on shares: with a single row a share is 0 or 1.
FEWEST_FOR_SHARES = 100

#: Stands for no limit on the number of classes.
_UNLIMITED = 10**9


@lru_cache
def expectations(boundary: str) -> str:
    """Return a boundary's suite in JSON, from its file in `schemas/expectations`."""
    path = shipped("schemas") / "expectations" / f"{boundary}.json"
    return path.read_text(encoding="utf-8")


def raw_table(party: Party, identity: IdColumn, checks: Checks) -> Suite:
    """Return the suite of a party's own raw training table."""
    label = party.label
    most = 2 if label is not None and label.task == "binary" else _UNLIMITED
    return Suite("raw_table", _raw(party, identity), {**_shares(checks), "max_classes": most})


def first_release(party: Party, identity: IdColumn, checks: Checks) -> Suite:
    """Return the suite of a feature holder's whole table, before its first values are pinned."""
    return Suite("first_release", _raw(party, identity), _shares(checks))


def new_rows(party: Party, identity: IdColumn, checks: Checks, rows: int) -> Suite:
    """Return the suite of a party's new rows: it checks each row, not how rows vary.

    Below `FEWEST_FOR_SHARES` rows any share may be missing or clipped.

    Args:
        party: The party as declared; the table need not have its label.
        identity: The ID column.
        checks: Limits from the party's policy.
        rows: Number of rows.
    """
    columns = _raw(party, identity, new=True)
    shares = _shares(checks)
    few = dict.fromkeys(shares, 1.0)
    return Suite("new_rows", columns, few if rows < FEWEST_FOR_SHARES else shares)


def _shares(checks: Checks) -> dict[str, float]:
    return {
        "max_missing_share": checks.max_missing_share,
        "max_clipped_share": checks.max_clipped_share,
    }


def _raw(party: Party, identity: IdColumn, new: bool = False) -> tuple[Declared, ...]:
    role: Role = "own" if party.role == "label_holder" else "released"
    columns = [Declared(identity.column, "id", required=True, unique=True)]
    for name, feature in party.features.items():
        number = feature.type == "numeric"
        columns.append(
            Declared(
                name,
                role,
                type="number" if number else "any",
                required=feature.missing == "forbid",
                bounds=feature.bounds if number else None,
                values=() if number else tuple(feature.categories or ()),
            )
        )
    if party.label is not None:
        columns.append(_label(party.label.column, party.label, new))
    return tuple(columns)


def _label(column: str, label: Label, absent: bool = False) -> Declared:
    if label.task == "regression":
        return Declared(column, "prediction", type="number", required=True, absent=absent)
    classes = tuple(str(value) for value in label.classes or ())
    return Declared(column, "label", required=True, values=classes, absent=absent)


def preprocessed_table(columns: Mapping[str, Domain], rows: int) -> Suite:
    """Return the suite of domain integers, before or after randomisation, within their domains."""
    declared = tuple(
        Declared(name, "released", "integer", True, bounds=(domain.lower, domain.upper))
        for name, domain in columns.items()
    )
    return Suite("preprocessed_table", declared, {"rows": rows})


def release(columns: Mapping[str, Domain], rows: int, dense: bool = True) -> Suite:
    """Return the suite of ranks before publication, at most as many as the domain has values.

    Args:
        columns: Domains by column.
        rows: Number of rows.
        dense: True if every rank from 1 to the highest must occur.
    """
    declared = tuple(
        Declared(name, "rank", "integer", True, bounds=(1, domain.size), dense=dense)
        for name, domain in columns.items()
    )
    return Suite("release", declared, {"rows": rows})


def training_frame(
    columns: Sequence[str],
    label: Label,
    classes: int,
    rows: int,
    ranked: Mapping[str, int],
    missing: bool = False,
) -> Suite:
    """Return the suite of the training frame: own features, others' ranks and the label.

    Args:
        columns: Names of all features.
        label: The label's declaration.
        classes: Number of classes; 0 in regression.
        rows: Number of rows.
        ranked: Highest possible rank by ranked feature.
        missing: True if ranked features may have missing values.
    """
    declared = [
        Declared(name, "rank", "number", not missing, bounds=(1, ranked[name]))
        if name in ranked
        else Declared(name, "own")
        for name in columns
    ]
    if label.task == "regression":
        declared.append(_label("label", label))
    else:
        codes = tuple(float(code) for code in range(classes))
        declared.append(Declared("label", "label", required=True, values=codes))
    return Suite("training_frame", tuple(declared), {"rows": rows})


def model(task: str) -> Suite:
    """Return the suite of a materialised model's predictions and thresholds on others' features.

    Thresholds are given as shares of their column's domain: 0 is its lower bound, 1 its upper one.

    Args:
        task: The label's task.
    """
    bounds = None if task == "regression" else (0.0, 1.0)
    columns = (
        Declared("prediction", "prediction", "number", bounds=bounds),
        Declared("threshold", "threshold", "number", bounds=(0.0, 1.0)),
    )
    return Suite("model", columns, {})


def scores(
    identity: str,
    task: str,
    classes: Sequence[str | int],
    rows: int,
    probabilities: Sequence[str] = (),
) -> Suite:
    """Return the suite of scores of new rows, one per person.

    Args:
        identity: Name of the ID column.
        task: The label's task.
        classes: The classes in order; empty in regression.
        rows: Number of rows.
        probabilities: Names of the columns of class probabilities.
    """
    bounds = None if task == "regression" else (0.0, 1.0)
    columns = [
        Declared(identity, "id", required=True, unique=True),
        Declared("score", "score", "number", True, bounds=bounds),
        *(Declared(name, "score", "number", True, bounds=(0.0, 1.0)) for name in probabilities),
    ]
    if classes:
        columns.append(Declared("class", "class", required=True, values=tuple(classes)))
    return Suite("scores", tuple(columns), {"rows": rows})
