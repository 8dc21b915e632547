"""Generated federations: credit scoring with three parties, and lenders that learn horizontally.

The setting is Figure 1 of the OpBoost paper; the customers are generated from a public seed.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from opboost_ops.extras.datasets.tables import ID, Dataset
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

CUSTOMERS = 50_000

#: Number of customers per applicant to be scored.
_PER_NEW = 10

#: Share of all customers that each party has.
_KNOWN = {"credit": 0.92, "shop": 0.9, "bank": 0.94}

_PAYMENT = ("transfer", "card", "wallet", "instalments")
_EMPLOYMENT = ("salaried", "self-employed", "student", "retired", "unemployed")

_CREDIT_FEATURES: dict[str, dict[str, dict[str, Any]]] = {
    "credit": {
        "age": {},
        "employment": {"type": "nominal"},
        "amount": {},
        "term_months": {},
        "earlier_loans": {"missing": "keep"},
        "delinquencies": {},
    },
    "shop": {
        "orders_a_year": {"bounds": [0, 60], "scale": "log1p"},
        "spend": {"bounds": [0, 20_000], "scale": "log1p"},
        "late_payments": {"bounds": [0, 9]},
        "returns_share": {"bounds": [0, 0.6], "missing": {"fill": 0.15, "bit": 0.64}},
        "months_as_customer": {"bounds": [0, 240], "scale": "log1p"},
        "payment": {"type": "nominal", "categories": list(_PAYMENT)},
    },
    "bank": {
        "income": {"bounds": [300, 30_000], "scale": "log1p", "missing": {"fill": 2500}},
        "balance": {"bounds": [0, 50_000], "scale": "log1p"},
        "overdrafts": {"bounds": [0, 9]},
        "debt_ratio": {"bounds": [0, 1]},
        "savings_rate": {"bounds": [-0.15, 0.4]},
    },
}

# Log scales begin at the lower bound; edges that grow by a constant factor spread incomes better
# than the logarithm of the distance from 300.
_CREDIT_FEATURES["bank"]["income"]["scale"] = {
    "edges": [900, 1300, 1800, 2300, 3000, 4000, 5500, 8000, 12_000]
}
_CREDIT_FEATURES["bank"]["balance"]["scale"] = {
    "edges": [250, 450, 700, 1000, 1500, 2200, 3300, 5500, 10_000]
}
_CREDIT_FEATURES["shop"]["spend"]["scale"] = {
    "edges": [60, 110, 170, 250, 350, 500, 750, 1200, 2200]
}

NAME = "lenders"

#: Features with public bounds.
_LENDER_FEATURES: dict[str, dict[str, Any]] = {
    "age": {"bounds": [18, 90]},
    "income": {"bounds": [0, 30_000], "scale": "log1p", "missing": {"fill": 2500}},
    "amount": {"bounds": [0, 100_000], "scale": "log1p"},
    "late_payments": {"bounds": [0, 12]},
    "debt_ratio": {"bounds": [0, 1]},
    "employment": {"type": "nominal", "categories": list(_EMPLOYMENT)},
}

#: Entries of ``training`` for lenders that need each other: each trains on a tenth of its rows, 200
#: of 2,000, and evaluates on all others.
SMALL: Mapping[str, Any] = {"holdout": 0.9}

#: Sums are exact, because generated rows need no protection.
_TRAINING: Mapping[str, Any] = {"trees": 40, "depth": 3, "private": "none"}


def load(rows: int = CUSTOMERS, seed: int = 0) -> Dataset:
    """Generate the three training tables, and three tables of applicants to score.

    Args:
        rows: Number of customers; each party has about 90 % of them. There are a tenth as many
            applicants.
        seed: Seed of the generator.
    """
    applicants = _credit_tables(max(rows // _PER_NEW, 20), seed + 2**31, "N")
    return Dataset(
        name="credit_scoring",
        task="binary",
        tables=_credit_tables(rows, seed, "C"),
        label_holder="credit",
        label={"column": "default", "task": "binary", "classes": [0, 1]},
        features=_CREDIT_FEATURES,
        holdout=0.2,
        epsilon=0.64,
        domain=(1, 10),
        new_rows={**applicants, "credit": applicants["credit"].drop("default")},
    )


def _credit_tables(rows: int, seed: int, prefix: str) -> dict[str, pl.DataFrame]:
    rng = np.random.default_rng(seed)
    means, strain, thrift = rng.normal(size=(3, rows))
    age = np.clip(42 + 13 * rng.normal(size=rows), 18, 90).round()
    employment = rng.choice(5, size=rows, p=(0.58, 0.14, 0.1, 0.12, 0.06))
    tables: dict[str, dict[str, Any]] = {
        "credit": {
            "age": age,
            "employment": np.array(_EMPLOYMENT)[employment],
            "amount": np.round(np.exp(8.6 + 0.25 * means + 0.8 * rng.normal(size=rows)), 2),
            "term_months": rng.choice([12, 24, 36, 48, 60, 84], size=rows),
            "earlier_loans": rng.poisson(1.2, size=rows),
            "delinquencies": rng.poisson(np.exp(-1.2 + 0.7 * strain)),
        },
        "shop": {
            "orders_a_year": rng.poisson(np.exp(1.8 + 0.3 * means + 0.3 * rng.normal(size=rows))),
            "spend": np.round(np.exp(5.6 + 0.5 * means + 0.9 * rng.normal(size=rows)), 2),
            "late_payments": rng.poisson(np.exp(-0.5 + 0.9 * strain)),
            "returns_share": np.clip(0.15 + 0.12 * rng.normal(size=rows), 0, 1).round(3),
            "months_as_customer": np.clip(rng.exponential(30, size=rows), 1, 240).round(),
        },
        "bank": {
            "income": np.round(np.exp(7.9 + 0.55 * means + 0.2 * rng.normal(size=rows)), 2),
            "balance": np.round(np.exp(7.0 + 0.9 * thrift + 0.5 * means), 2),
            "overdrafts": rng.poisson(np.exp(-0.4 + 0.8 * strain - 0.4 * thrift)),
            "debt_ratio": np.clip(0.35 + 0.16 * strain + 0.1 * rng.normal(size=rows), 0, 1.5),
            "savings_rate": np.clip(0.1 + 0.08 * thrift + 0.03 * rng.normal(size=rows), -0.2, 0.6),
        },
    }
    risk = 1.3 * strain - 0.9 * means - 0.8 * thrift + 0.5 * np.isin(employment, (2, 4))
    risk += 0.4 * (age < 25) + 0.15 * np.log(tables["credit"]["amount"] / 5000)
    default = rng.random(rows) < 1 / (1 + np.exp(2.2 - 1.3 * risk))
    tables["credit"]["default"] = default.astype(np.int64)
    ids = np.array([f"{prefix}{i:07d}" for i in rng.permutation(10 * rows)[:rows]])
    frames: dict[str, pl.DataFrame] = {}
    for party, columns in tables.items():
        some = rng.permutation(np.flatnonzero(rng.random(rows) < _KNOWN[party]))
        frames[party] = pl.DataFrame({ID: ids[some], **{n: v[some] for n, v in columns.items()}})
    frames["bank"] = _with_gaps(frames["bank"], "income", 0.01, rng)
    frames["shop"] = _with_gaps(frames["shop"], "returns_share", 0.02, rng)
    frames["credit"] = _with_gaps(frames["credit"], "earlier_loans", 0.01, rng)
    # Customers under financial strain tend to buy on instalments.
    habit = np.searchsorted((-0.9, 0.2, 1.1), strain + 0.7 * rng.normal(size=rows))
    payment = pl.DataFrame({ID: ids, "payment": np.array(_PAYMENT)[habit]})
    frames["shop"] = frames["shop"].join(payment, on=ID, how="left", maintain_order="left")
    return frames


def _with_gaps(
    frame: pl.DataFrame, column: str, share: float, rng: np.random.Generator
) -> pl.DataFrame:
    gaps = pl.Series(rng.random(frame.height) < share)
    return frame.with_columns(pl.when(gaps).then(None).otherwise(pl.col(column)).alias(column))


def write_lenders(
    folder: Path,
    *,
    parties: int = 3,
    rows: int = 6000,
    seed: int | None = None,
    training: Mapping[str, Any] | None = None,
) -> Path:
    """Write a federation file, and each lender's site, policy, keys, tables and agreement.

    Args:
        folder: Target folder, empty or missing.
        parties: Number of lenders.
        rows: Number of customers of all lenders, divided evenly.
        seed: Makes tables and secrets reproducible, and marks the store as one of experiments.
        training: Other entries of ``training``.

    Returns:
        The path of ``federation.yaml``.

    Raises:
        ConfigError: The folder is not empty, or the federation is invalid.
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
            for name, feature in _LENDER_FEATURES.items()
        },
    }
    tables = _lender_tables(names, rows, seed or 0, "C")
    applicants = _lender_tables(names, max(rows // 10, 10 * parties), (seed or 0) + 1, "N")
    for name in names:
        others = {n: {"signing_key": public[n]["signing_key"]} for n in names if n != name}
        policy = {"version": 1, "party": name, "require_encryption": True, "receivers": others}
        write_site(folder / name, NAME, policy, tables[name], applicants[name].drop("default"))
    return write_federation(folder, data, throwaway=seed is not None)


def private_training(epsilon: float) -> dict[str, Any]:
    """Return the entries of ``training`` for noisy sums over the generated lenders.

    Args:
        epsilon: Epsilon of a training, if a row is added or removed.
    """
    private = {"epsilon": epsilon, "delta": 1e-5, "colluding": 1}
    return {"private": private}


def _lender_tables(
    parties: Sequence[str], rows: int, seed: int, prefix: str
) -> dict[str, pl.DataFrame]:
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
