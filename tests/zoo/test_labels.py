"""Odd labels: what `init` declares of them is what a run learns, or they are refused."""

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

from opboost_ops import api
from opboost_ops.config.federation import Label
from opboost_ops.errors import ContractError, OpBoostError
from opboost_ops.pipeline.inputs.holdout import require_moderate, weights_in
from opboost_ops.pipeline.inputs.model_columns import encode_label
from opboost_ops.tables.raw_values import label_values

ROWS = 120
CLASSES = [f"c{number:02d}" for number in range(20)]

READ: dict[str, tuple[Any, str, Any]] = {
    "whole numbers": ([0, 1], "binary", [0, 1]),
    "truth": ([False, True], "binary", [0, 1]),
    "whole decimals": ([Decimal("0.00"), Decimal("1.00")], "binary", [0, 1]),
    "whole floats": ([0.0, 1.0], "binary", [0, 1]),
    "negative zero": ([-0.0, 1.0], "binary", [0, 1]),
    "negative": ([-1, 1], "binary", [-1, 1]),
    "beyond 53 bits": ([2**53, 2**53 + 1], "binary", [2**53, 2**53 + 1]),
    "beyond 63 bits": (pl.Series([1, 2**63], dtype=pl.UInt64), "binary", [1, 2**63]),
    "half floats": (pl.Series([0, 1], dtype=pl.Float32), "binary", [0, 1]),
    "dictionary": (pl.Series(["a", "b"], dtype=pl.Categorical), "binary", ["a", "b"]),
    "ordered": (pl.Series(["a", "b"], dtype=pl.Enum(["b", "a"])), "binary", ["a", "b"]),
    "blanks at the end": (["no", "no ", "yes"], "binary", ["no", "yes"]),
    "composed": (["é", "e\u0301", "b"], "binary", ["b", "é"]),
    "numbers as text": (["0", "1"], "binary", ["0", "1"]),
    "decimals as text": (["0.0", "1.0"], "binary", ["0", "1"]),
    "days": ([dt.date(2024, 1, 1), dt.date(2025, 1, 1)], "binary", ["2024-01-01", "2025-01-01"]),
    "by case": (["Yes", "yes", "no"], "multiclass", ["Yes", "no", "yes"]),
    "decimal classes": ([Decimal("0"), Decimal("1"), Decimal("2")], "multiclass", [0, 1, 2]),
    "many classes": (CLASSES, "multiclass", CLASSES),
    "quotes": (['a "b"', "c,d", "e\nf"], "multiclass", ['a "b"', "c,d", "e\nf"]),
    "fractions": ([number / 4 for number in range(ROWS)], "regression", None),
    "decimals": ([Decimal(number) / 4 for number in range(ROWS)], "regression", None),
    "many whole numbers": (list(range(12)), "regression", None),
}
REFUSED: dict[str, tuple[Any, str]] = {
    "NaN": ([0.0, 1.0, math.nan], "40 of 120 rows have no label"),
    "null": ([0, 1, None], "40 of 120 rows have no label"),
    "empty texts": (["", "a", "b"], "40 of 120 rows have no label"),
    "two fractions": ([0.1, 0.9], "are not whole numbers, as classes must be"),
    "one value": ([1], "it has one value only"),
    "one value but for blanks": (["a", " a"], "it has one value only"),
    "free text": ([f"t{number}" for number in range(60)], "60 classes in 120 rows"),
    "bytes": ([b"a", b"b"], "a column of type Binary has no classes"),
    "lists": ([[1], [2]], "a column of type List has no classes"),
    "lengths": ([dt.timedelta(1), dt.timedelta(2)], "a column of type Duration has no classes"),
    "nothing": (pl.Series([None], dtype=pl.Null), "120 of 120 rows have no label"),
}


def written(folder: Path, values: Any) -> pl.Series:
    """A table with the label, and its labels."""
    few = pl.Series("y", values)
    labels = few.gather([row % len(few) for row in range(ROWS)])
    frame = pl.DataFrame({"id": [f"p{row:03d}" for row in range(ROWS)], "own": range(ROWS)})
    frame.with_columns(labels).write_parquet(folder / "table.parquet")
    return labels


def entry(folder: Path, positive: str | None = None) -> Any:
    table = folder / "table.parquet"
    api.init(folder / "site", "lender", table, "id", label="y", name="c", positive=positive)
    return yaml.safe_load((folder / "site/lender-offer.yaml").read_text())["label"]


@pytest.mark.parametrize("name", READ)
def test_a_label_is_declared_as_it_is_learnt(name: str, tmp_path: Path) -> None:
    values, task, classes = READ[name]
    labels = written(tmp_path, values)
    text = task == "binary" and isinstance(classes[1], str)
    found = entry(tmp_path, classes[1] if text else None)
    assert found["task"] == task
    assert found.get("classes") in (None, classes)
    codes, learnt = encode_label(label_values(labels), Label(**found), ROWS)
    assert learnt == ([] if classes is None else sorted(classes))
    if classes is not None:
        assert np.unique(codes).tolist() == list(range(len(classes)))


@pytest.mark.parametrize("name", REFUSED)
def test_a_label_that_cannot_be_learnt_is_refused(name: str, tmp_path: Path) -> None:
    values, problem = REFUSED[name]
    written(tmp_path, values)
    with pytest.raises(OpBoostError, match=problem):
        entry(tmp_path)
    assert not (tmp_path / "site").exists()


@pytest.mark.parametrize("number", [1e300, -1e19, math.inf, 1.7976931348623157e308])
def test_a_label_beyond_32_bit_squares_is_refused(number: float) -> None:
    with pytest.raises(ContractError, match="beyond 1e"):
        require_moderate(np.array([1.0, number, 2.0]), "y")


@pytest.mark.parametrize("weights", [[1.0, -1.0], [1.0, math.nan], [1.0, math.inf], ["1", "2"]])
def test_weights_that_are_none_are_refused(weights: list[Any]) -> None:
    with pytest.raises(ContractError):
        weights_in(pl.Series("w", weights))
