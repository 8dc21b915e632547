"""Ten tables of a label holder and a feature holder, for the study of defaults.

Seven are the named datasets; two are read from the package plotnine (``pip install --no-deps
plotnine`` is enough); one is generated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from opboost_ops.errors import ConfigError
from opboost_ops.extras.datasets import load
from opboost_ops.extras.datasets.tables import ID, Dataset, row_ids

#: Columns that the label holder has besides those of the named dataset.
_OWN: Mapping[str, tuple[str, ...]] = {
    "adult": (),
    "credit_default": (),
    "give_me_some_credit": (),
    "casp": ("F1", "F4", "F5", "F7"),
    "powerplant": ("AP", "RH"),
    "pendigits": ("F1", "F2", "F3", "F4"),
    "abalone": ("Length", "Diameter", "Height"),
}


@dataclass(frozen=True)
class _Plain:
    """A table with a number to learn: which columns are whose, and the public bounds of others'."""

    label: str
    own: tuple[str, ...]
    bounds: Mapping[str, tuple[float, float]]


_MORE: Mapping[str, _Plain] = {
    "diamonds": _Plain(
        "price",
        ("cut", "color", "clarity", "depth", "table"),
        {"carat": (0, 5), "x": (0, 12), "y": (0, 12), "z": (0, 8)},
    ),
    "txhousing": _Plain(
        "median",
        ("year", "month", "inventory"),
        {"sales": (0, 10_000), "volume": (0, 3e9), "listings": (0, 50_000)},
    ),
    "tails": _Plain("y", ("a", "b"), {f"x{i}": (0, 10_000) for i in range(5)}),
}

TABLES = (*_OWN, *_MORE)


@lru_cache(maxsize=1)
def divided_table(name: str, rows: int) -> Dataset:
    """A table of two parties, each with columns of its own.

    Args:
        name: One of `TABLES`.
        rows: Most rows; of larger tables the same random ones each time.

    Raises:
        ConfigError: It cannot be had.
    """
    if name in _OWN:
        dataset = _with_own(load(name), _OWN[name])
    elif name in _MORE:
        plain = _MORE[name]
        frame = _generated() if name == "tails" else _of_package(name)
        dataset = _divided(name, frame.select(plain.label, *plain.own, *plain.bounds), plain)
    else:
        raise ConfigError(f"There is no table {name}.", f"Choose among {', '.join(TABLES)}.")
    count = dataset.tables[dataset.label_holder].height
    some = np.sort(np.random.default_rng(0).permutation(count)[:rows])
    tables = {party: table[some] for party, table in dataset.tables.items()}
    # Under another name, because the dataset of some has a split of its own.
    return replace(dataset, name=f"{name}_{rows}", tables=tables)


def _with_own(dataset: Dataset, names: Sequence[str]) -> Dataset:
    owner = dataset.label_holder
    (holder,) = (party for party in dataset.tables if party != owner)
    others = {n: f for n, f in dataset.features[holder].items() if n not in names}
    mine = {**dataset.features[owner], **{n: dataset.features[holder][n] for n in names}}
    tables = dict(dataset.tables)
    tables[owner] = tables[owner].hstack(tables[holder].select(names))
    tables[holder] = tables[holder].drop(names)
    return replace(dataset, tables=tables, features={owner: mine, holder: others})


def _divided(name: str, frame: pl.DataFrame, plain: _Plain) -> Dataset:
    rows = frame.drop_nulls()
    rows = rows.with_columns(row_ids(name, rows.height))
    own: dict[str, Any] = {
        n: {"type": "nominal"} if rows.schema[n] == pl.String else {} for n in plain.own
    }
    return Dataset(
        name=name,
        task="regression",
        tables={
            "party_a": rows.select(ID, *plain.own, plain.label),
            "party_b": rows.select(ID, *plain.bounds),
        },
        label_holder="party_a",
        label={"column": plain.label, "task": "regression"},
        features={
            "party_a": own,
            "party_b": {n: {"bounds": list(bounds)} for n, bounds in plain.bounds.items()},
        },
        holdout=0.25,
        epsilon=0.08,
        domain=(1, 10),
    )


def _of_package(name: str) -> pl.DataFrame:
    package = find_spec("plotnine")
    if package is None or package.origin is None:
        raise ConfigError(
            f"{name} comes with the package plotnine, which is not installed.",
            "Run pip install --no-deps plotnine.",
        )
    file = Path(package.origin).parent / "data" / f"{name}.csv"
    return pl.read_csv(file, null_values="NA", infer_schema_length=None)


def _generated(rows: int = 20_000) -> pl.DataFrame:
    """Heavy-tailed columns that share a cause; the label goes by their logarithms and a product."""
    draws = np.random.default_rng(60)
    shared = draws.normal(size=rows)
    logs = 0.6 * shared[:, None] + 0.8 * draws.normal(size=(rows, 5))
    columns = {f"x{i}": np.exp(4 + (0.5 + 0.4 * i) * logs[:, i]) for i in range(5)}
    a, b = draws.normal(size=rows), draws.exponential(size=rows)
    y = logs[:, 0] + np.abs(logs[:, 1]) + logs[:, 2] * (a > 0) + 0.5 * logs[:, 4]
    return pl.DataFrame(
        {**columns, "a": a, "b": b, "y": y + a + np.sqrt(b) + draws.normal(size=rows)}
    )
