"""The fingerprint of a table is one of its content, and of all of its content."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from opboost_ops.tables.copies import content_fingerprint

KEY = bytes(range(32))
ROWS = 500
COLUMNS = ["id", "income", "count", "kind"]


def table() -> pl.DataFrame:
    rng = np.random.default_rng(1)
    return pl.DataFrame(
        {
            "id": [f"P{i:04d}" for i in range(ROWS)],
            "income": pl.Series(rng.normal(size=ROWS)).set(
                pl.Series(np.arange(ROWS) % 9 == 0), None
            ),
            "count": rng.integers(0, 9, ROWS),
            "kind": rng.choice(["a", "b", "c"], ROWS).tolist(),
            "other": rng.normal(size=ROWS),
        }
    )


def of(path: Path, whole: pl.DataFrame, key: bytes = KEY, **written: object) -> str:
    whole.write_parquet(path, **written)  # type: ignore[arg-type]
    found = content_fingerprint([path], COLUMNS, key)
    assert found is not None
    return found


SAME: dict[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
    "rows permuted": lambda t: t.sample(fraction=1, shuffle=True, seed=3),
    "another column changed": lambda t: t.with_columns(other=pl.col("other") * 2),
    "another column gone": lambda t: t.drop("other"),
    "columns in another order": lambda t: t.select(reversed(t.columns)),
    "floats for integers": lambda t: t.with_columns(pl.col("count").cast(pl.Float64)),
    "zeros with a sign": lambda t: t.with_columns(
        count=pl.Series(np.where(t["count"] == 0, -0.0, t["count"]))
    ),
    "decimals for integers": lambda t: t.with_columns(pl.col("count").cast(pl.Decimal(12, 2))),
    "small integers": lambda t: t.with_columns(pl.col("count").cast(pl.Int8)),
    "categories": lambda t: t.with_columns(pl.col("kind").cast(pl.Categorical)),
    "an enum": lambda t: t.with_columns(pl.col("kind").cast(pl.Enum(["c", "unused", "b", "a"]))),
    "not a number is missing": lambda t: t.with_columns(pl.col("income").fill_null(np.nan)),
}
OTHER: dict[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
    "a row less": lambda t: t.head(ROWS - 1),
    "a row twice": lambda t: pl.concat([t, t.tail(1)]),
    "one value": lambda t: t.with_columns(
        pl.when(pl.col("id") == "P0007").then(3.5).otherwise("income").alias("income")
    ),
    "a value becomes missing": lambda t: t.with_columns(
        pl.when(pl.col("id") == "P0007").then(None).otherwise("income").alias("income")
    ),
    "missing becomes zero": lambda t: t.with_columns(pl.col("income").fill_null(0.0)),
    "values swapped between two rows": lambda t: t.with_columns(
        pl.Series("income", [t["income"][2], *t["income"][1:2], t["income"][1], *t["income"][3:]])
    ),
    "two columns swapped": lambda t: t.rename({"income": "count", "count": "income"}),
    "a column gone": lambda t: t.drop("kind"),
    "a category": lambda t: t.with_columns(pl.col("kind").replace("a", "d")),
    "text for numbers": lambda t: t.with_columns(pl.col("count").cast(pl.String)),
    "nested": lambda t: t.with_columns(pl.concat_list("count")),
}


@pytest.mark.parametrize("change", SAME)
def test_what_changes_nothing(tmp_path: Path, change: str) -> None:
    assert of(tmp_path / "t", SAME[change](table())) == of(tmp_path / "t", table())


@pytest.mark.parametrize("change", OTHER)
def test_what_is_another_content(tmp_path: Path, change: str) -> None:
    assert of(tmp_path / "t", OTHER[change](table())) != of(tmp_path / "t", table())


def test_how_it_is_written_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = of(tmp_path / "t", table())
    assert of(tmp_path / "t", table(), row_group_size=7, compression="snappy") == before
    pq.write_table(table().to_arrow(), tmp_path / "t", use_dictionary=False, compression="gzip")
    assert content_fingerprint([tmp_path / "t"], COLUMNS, KEY) == before
    parts = [tmp_path / str(i) for i in range(3)]
    for part, rows in zip(parts, (slice(0, 1), slice(300, 500), slice(1, 300)), strict=True):
        table()[rows].write_parquet(part)
    assert content_fingerprint(parts, COLUMNS, KEY) == before
    monkeypatch.setattr("opboost_ops.tables.copies._ROWS", 13)
    assert content_fingerprint(parts[::-1], COLUMNS[::-1], KEY) == before


def test_it_is_keyed(tmp_path: Path) -> None:
    assert of(tmp_path / "t", table()) != of(tmp_path / "t", table(), bytes(32))


def test_large_integers_are_told_apart(tmp_path: Path) -> None:
    """As numbers of 64 bits with a point they would be one."""
    ids = table().with_columns(id=pl.lit(2**60) + pl.int_range(ROWS))
    other = ids.with_columns(id=pl.when(pl.col("id") == 2**60).then(2**60 - 1).otherwise("id"))
    assert of(tmp_path / "t", ids) != of(tmp_path / "t", other)


def test_long_decimals_are_told_apart(tmp_path: Path) -> None:
    codes = ["12345678901234567890", "12345678901234567891"]
    whole = table().with_columns(count=pl.lit(codes[0]).cast(pl.Decimal(38, 0)))
    changed = whole.with_columns(count=pl.lit(codes[1]).cast(pl.Decimal(38, 0)))
    assert of(tmp_path / "a", whole) != of(tmp_path / "b", changed)


def test_a_large_integer_is_one_number_with_a_point_or_without(tmp_path: Path) -> None:
    large = table().with_columns(count=pl.lit(10**16) * pl.int_range(ROWS))
    floats = large.with_columns(pl.col("count").cast(pl.Float64))
    assert of(tmp_path / "t", large) == of(tmp_path / "t", floats)


def test_a_missing_value_is_one_whatever_type_the_column_has(tmp_path: Path) -> None:
    known, dates = ("kind", pl.lit(None)), ("kind", pl.lit(None, dtype=pl.Date))
    found = [table().with_columns(value.alias(name)) for name, value in (known, dates)]
    assert of(tmp_path / "t", found[0]) == of(tmp_path / "t", found[1])


def test_what_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("id,income\n")
    assert content_fingerprint([tmp_path / "t"], COLUMNS, KEY) is None
    assert content_fingerprint([tmp_path / "absent"], COLUMNS, KEY) is None
