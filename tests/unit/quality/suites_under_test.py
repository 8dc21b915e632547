"""A good table for each boundary, and the suite that it keeps."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pyarrow as pa

from opboost_ops.config.feature import Feature, Fill
from opboost_ops.config.federation import IdColumn, Label, Party
from opboost_ops.config.policy import Checks
from opboost_ops.domain import Domain
from opboost_ops.quality import suites
from opboost_ops.quality.suites import Suite

ROWS = 20
DOMAIN = Domain(1, 5)
CHECKS = Checks(max_clipped_share=0.1, max_missing_share=0.5)


def party(task: str = "binary", classes: tuple[Any, ...] | None = ("no", "yes")) -> Party:
    """A label holder with a feature of every kind."""
    features = {
        "amount": Feature(uuid=UUID(int=1), bounds=(0, 100)),
        "income": Feature(uuid=UUID(int=2), bounds=(0, 100), missing=Fill(fill=0)),
        "grade": Feature(uuid=UUID(int=3), type="ordinal", categories=("1", "2", "3")),
        "town": Feature(uuid=UUID(int=4), type="nominal", missing="keep"),
    }
    return Party.model_construct(
        role="label_holder",
        features=features,
        label=Label(column="paid", task=task, classes=classes),  # type: ignore[arg-type]
    )


def raw() -> dict[str, list[Any]]:
    """What that party's table holds."""
    return {
        "person": [f"p{i}" for i in range(ROWS)],
        "amount": [float(i) for i in range(ROWS)],
        "income": [None, *(float(i) for i in range(1, ROWS))],
        "grade": [1 + i % 3 for i in range(ROWS)],
        "town": [None, *("north" if i % 2 else "south" for i in range(1, ROWS))],
        "paid": ["yes" if i % 4 else "no" for i in range(ROWS)],
    }


def ranks() -> dict[str, list[Any]]:
    """Dense ranks of two columns."""
    return {"a": [1 + i % 5 for i in range(ROWS)], "b": [1 + i % 3 for i in range(ROWS)]}


def frame() -> dict[str, list[Any]]:
    """A training frame."""
    return {
        "credit.age": [None, *(float(i) for i in range(1, ROWS))],
        "bank.income": [float(1 + i % 5) for i in range(ROWS)],
        "label": [float(i % 2) for i in range(ROWS)],
    }


def predictions() -> dict[str, list[Any]]:
    """Predictions, and fewer thresholds."""
    return {
        "prediction": [i / ROWS for i in range(ROWS)],
        "threshold": [0.0, 0.25, 1.0, *[None] * (ROWS - 3)],
    }


def raw_suite(**label: Any) -> Suite:
    """The raw table's suite."""
    return suites.raw_table(party(**label), IdColumn(column="person", type="string"), CHECKS)


def frame_suite(task: str = "binary") -> Suite:
    """The training frame's suite."""
    label = Label(column="paid", task=task)  # type: ignore[arg-type]
    classes = 0 if task == "regression" else 2
    return suites.training_frame(
        ["credit.age", "bank.income"], label, classes, ROWS, {"bank.income": DOMAIN.size}
    )


Case = tuple[Callable[[], Suite], Callable[[], dict[str, list[Any]]]]

#: Suite and good table by boundary.
GOOD: dict[str, Case] = {
    "raw_table": (raw_suite, raw),
    "raw_table without declared classes": (lambda: raw_suite(classes=None), raw),
    "raw_table of regression": (
        lambda: raw_suite(task="regression", classes=None),
        lambda: {**raw(), "paid": [float(i) for i in range(ROWS)]},
    ),
    "preprocessed_table": (
        lambda: suites.preprocessed_table(dict.fromkeys("ab", DOMAIN), ROWS),
        ranks,
    ),
    "release": (lambda: suites.release(dict.fromkeys("ab", DOMAIN), ROWS), ranks),
    "training_frame": (frame_suite, frame),
    "training_frame of regression": (
        lambda: frame_suite("regression"),
        lambda: {**frame(), "label": [0.25 * i for i in range(ROWS)]},
    ),
    "model": (lambda: suites.model("binary"), predictions),
    "model of regression": (
        lambda: suites.model("regression"),
        lambda: {**predictions(), "prediction": [-7.5, 1e9, *[0.0] * (ROWS - 2)]},
    ),
}


def table(columns: dict[str, list[Any]]) -> pa.Table:
    """As Arrow, NaN kept apart from missing values."""
    return pa.table({name: pa.array(values) for name, values in columns.items()})
