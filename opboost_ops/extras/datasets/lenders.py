"""A generated federation of horizontal learning: lenders that know the same of other people."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from opboost_ops.extras.datasets.dataset import ID
from opboost_ops.extras.datasets.workspace import (
    column_uuid,
    federation_terms,
    federation_uuid,
    require_empty,
    seeded_secret,
    write_federation,
    write_keys,
    write_site,
)

NAME = "lenders"

_EMPLOYMENT = ("salaried", "self-employed", "student", "retired", "unemployed")

#: Public bounds.
_FEATURES: dict[str, dict[str, Any]] = {
    "age": {"bounds": [18, 90]},
    "income": {"bounds": [0, 30_000], "scale": "log1p", "missing": {"fill": 2500}},
    "amount": {"bounds": [0, 100_000], "scale": "log1p"},
    "late_payments": {"bounds": [0, 12]},
    "debt_ratio": {"bounds": [0, 1]},
    "employment": {"type": "nominal", "categories": list(_EMPLOYMENT)},
}


#: Entries of ``training`` for lenders that need one another: each has a tenth of its rows, 200 of
#: 2,000, to learn from, and all others to see on what that is worth.
SMALL: Mapping[str, Any] = {"holdout": 0.9}

#: Exact sums: generated rows are of nobody.
_TRAINING: Mapping[str, Any] = {"trees": 40, "depth": 3, "private": "none"}


def write_lenders(
    folder: Path,
    *,
    parties: int = 3,
    rows: int = 6000,
    seed: int | None = None,
    training: Mapping[str, Any] | None = None,
) -> Path:
    """Write the federation file, and each lender's site, policy, keys and tables; all agree to it.

    Args:
        folder: Where; it must be empty or absent.
        parties: How many lenders.
        rows: Customers of all of them, divided evenly.
        seed: Makes tables and secrets predictable, and the store a throw-away one.
        training: Other entries of ``training``.

    Returns:
        The path of ``federation.yaml``.

    Raises:
        ConfigError: The folder is in use, or the values make no valid federation.
    """
    require_empty(folder)
    names = [f"lender_{i + 1:02d}" for i in range(parties)]
    public = {n: write_keys(folder / n / "keys", seeded_secret(seed, NAME, n)) for n in names}
    data: dict[str, Any] = {
        "version": 1,
        "name": NAME,
        "uuid": federation_uuid(NAME),
        "terms": federation_terms("Demonstrate training by several lenders"),
        "learning": "horizontal",
        "id": {"column": ID, "type": "string"},
        "domain": {"lower": 1, "upper": 65_536},
        "parties": {name: {"role": "passive", **keys} for name, keys in public.items()},
        "training": {"trainer": "federboost", **_TRAINING, **(training or {})},
    }
    data["parties"][names[0]] |= {
        "role": "active",
        "label": {"column": "default", "task": "binary", "classes": [0, 1]},
        "features": {
            name: {"uuid": column_uuid(NAME, "all", name), **feature}
            for name, feature in _FEATURES.items()
        },
    }
    tables = _tables(names, rows, seed or 0, "C")
    applicants = _tables(names, max(rows // 10, 10 * parties), (seed or 0) + 1, "N")
    for name in names:
        others = {n: {"signing_key": public[n]["signing_key"]} for n in names if n != name}
        policy = {"version": 1, "party": name, "require_encryption": True, "receivers": others}
        write_site(folder / name, NAME, policy, tables[name], applicants[name].drop("default"))
    return write_federation(folder, data, throwaway=seed is not None)


def private_training(epsilon: float) -> dict[str, Any]:
    """Entries of ``training`` for noisy sums over the generated lenders.

    Args:
        epsilon: Of a training, for a row that is added or removed.
    """
    # Few small trees: every level of each is a release.
    private = {"epsilon": epsilon, "delta": 1e-5, "colluding": 1}
    return {"private": private}


def _tables(parties: Sequence[str], rows: int, seed: int, prefix: str) -> dict[str, pl.DataFrame]:
    random = np.random.default_rng(seed)
    strain, means = random.normal(size=(2, rows))
    employment = random.choice(5, size=rows, p=(0.58, 0.14, 0.1, 0.12, 0.06))
    columns: dict[str, Any] = {
        "age": np.clip(42 + 13 * random.normal(size=rows), 18, 90).round(),
        "income": np.round(np.exp(7.9 + 0.55 * means + 0.2 * random.normal(size=rows)), 2),
        "amount": np.round(np.exp(8.6 + 0.25 * means + 0.8 * random.normal(size=rows)), 2),
        "late_payments": random.poisson(np.exp(-0.5 + 0.9 * strain)),
        "debt_ratio": np.clip(0.35 + 0.16 * strain + 0.1 * random.normal(size=rows), 0, 1.5),
        "employment": np.array(_EMPLOYMENT)[employment],
    }
    risk = 1.3 * strain - 0.9 * means + 0.5 * np.isin(employment, (2, 4))
    columns["default"] = (random.random(rows) < 1 / (1 + np.exp(1.8 - 1.3 * risk))).astype(np.int64)
    ids = np.array([f"{prefix}{i:07d}" for i in random.permutation(10 * rows)[:rows]])
    gaps = pl.Series(random.random(rows) < 0.01)
    frame = pl.DataFrame({ID: ids, **columns}).with_columns(
        pl.when(gaps).then(None).otherwise(pl.col("income")).alias("income")
    )
    shares = np.array_split(np.arange(rows), len(parties))
    return {name: frame[share] for name, share in zip(parties, shares, strict=True)}
