"""A month of nightly retraining: what it costs outside, and what happens inside."""

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml

from opboost_ops.config.columns import columns_of
from opboost_ops.config.loading import POLICY, load_federation, load_policy, load_site
from opboost_ops.datasets.dataset import ID, Dataset
from opboost_ops.datasets.workspace import agree_for_all, write_workspace
from opboost_ops.errors import BudgetError, ConfigError
from opboost_ops.exchange.party_state import open_state
from opboost_ops.exchange.run_id import run_id
from opboost_ops.privacy.accountant import accounts
from opboost_ops.privacy.budgets import forecast
from opboost_ops.privacy.loss import column_losses
from opboost_ops.privacy.people import people
from opboost_ops.run.inbox import Run
from opboost_ops.run.opening import open_run
from opboost_ops.run.phases import steps
from opboost_ops.run.runner import run_stage

#: Share of a feature holder's rows that change every night.
CHANGING = 0.02

#: How many different values of one cell the policy lets go.
MOST_CHANGES = 2

#: In which night, as a share of the month, the first feature's map is declared again.
NEW_MAP = 0.6


def month(
    dataset: Dataset,
    folder: Path,
    nights: int,
    fitting: int,
    progress: Callable[[int, int], None] | None = None,
    most: int | None = None,
) -> dict[str, Any]:
    """Retrain every night while some rows change, until the public budget refuses.

    Everything is real: the stages, the store, the ledger. Which rows change, and into whose
    values, follows from a public seed.

    Args:
        dataset: Its first feature holder is watched.
        folder: Where the federation lives; empty or absent.
        nights: How many.
        fitting: For how many releases of a feature its budget is enough.
        progress: Called with how many nights are over, and of how many.
        most: How many different values of one cell the policy lets go; no cap when absent.

    Returns:
        ``nights``: for each the public account, what cells did, and the sizes of the artifact;
        and ``party``, ``feature`` and ``budget``.
    """
    # Its own budgets alone.
    training = {"trees": 2, "depth": 2}
    file = write_workspace(dataset, folder, seed=0, training=training, capped=False)
    federation = load_federation(file)
    holder = federation.feature_holders[0]
    features = federation.parties[holder].features
    feature = next(name for name, f in features.items() if f.type == "numeric")
    path = folder / holder / "tables" / "train.parquet"
    budget = declare_budget(folder / holder / "policy.yaml", federation, holder, fitting, most)
    result: list[dict[str, Any]] = []
    with sites(folder, federation.parties):
        for night in range(1, nights + 1):
            if night > 1:
                _change_rows(path, np.random.default_rng(night), list(features))
            if night == round(nights * NEW_MAP):
                _widen(file, holder, feature)
            refused = ""
            run = run_id(federation.name, f"night {night}")
            try:
                until_published(file, run, holder)
            except BudgetError as error:
                refused = error.problem
            result.append(night_line(folder, night, holder, feature, run, refused))
            if progress is not None:
                progress(night, nights)
    return {"party": holder, "feature": feature, "budget_whole": budget, "nights": result}


def declare_budget(
    path: Path, federation: Any, holder: str, fitting: int, most: int | None
) -> float:
    """Write a cap and budgets into a policy.

    Args:
        path: The policy.
        federation: As declared.
        holder: Whose policy it is.
        fitting: For how many releases of a feature its budget is enough.
        most: The cap on changes; none when absent.

    Returns:
        The first feature's budget of loss(R - L).
    """
    columns = columns_of(federation, holder)
    feature_of = {column.charge: column.feature for column in columns}
    losses = column_losses(columns)
    policy = yaml.safe_load(path.read_text(encoding="utf-8"))
    budgets = {}
    for name, rule in policy["features"].items():
        mine = [curve.loss[-1] for charge, curve in losses.items() if feature_of[charge] == name]
        if "inf" in mine:
            raise ConfigError(f"{name} discloses partitions: it has no finite budget.")
        # A little more than what fits: budgets are compared exactly, products of floats are not.
        cost = sum(float(loss) for loss in mine) * fitting
        budgets[name] = rule["budget_whole"] = round(cost * (1 + 1e-9) + 1e-9, 9)
        rule.pop("budget_1", None)
        rule["max_changes"] = most
        policy["features"][name] = {key: value for key, value in rule.items() if value is not None}
    path.write_text(yaml.safe_dump(policy, sort_keys=False), encoding="utf-8")
    return float(next(iter(budgets.values())))


def _change_rows(path: Path, rng: np.random.Generator, features: list[str]) -> None:
    table = pl.read_parquet(path)
    chosen = rng.permutation(table.height)[: max(1, round(table.height * CHANGING))]
    donors = rng.integers(0, table.height, len(chosen))
    for name in features:
        column = table.get_column(name).clone()
        table = table.with_columns(column.scatter(chosen.tolist(), column[donors.tolist()]))
    table.select(ID, pl.exclude(ID)).write_parquet(path)


def _widen(file: Path, holder: str, feature: str) -> None:
    data = yaml.safe_load(file.read_text(encoding="utf-8"))
    entry = data["parties"][holder]["features"][feature]
    lower, upper = entry["bounds"]
    entry["bounds"] = [lower, upper + (upper - lower) / 10]
    file.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    agree_for_all(file)


def until_published(file: Path, run: str, holder: str) -> None:
    """Run everything up to a party's publication.

    Args:
        file: ``federation.yaml``.
        run: The run's id.
        holder: The party.
    """
    federation = load_federation(file)
    open_run(file, run, {})
    asked = Run(federation.name, run, federation.label_holder)
    for party, stage in steps(federation, "train"):
        run_stage(party, stage, asked)
        if (party, stage) == (holder, "seal"):
            return


def night_line(
    folder: Path,
    night: int,
    holder: str,
    feature: str,
    run: str,
    refused: str,
    most: int = MOST_CHANGES,
) -> dict[str, Any]:
    """What a night has cost outside and done inside.

    Args:
        folder: The federation's.
        night: Its number.
        holder: The party that is watched.
        feature: Its feature that is watched.
        run: The night's run.
        refused: Why it was refused; empty when it was not.
        most: How many values a cell at its cap has released.
    """
    site = load_site(folder / holder / "site.yaml")
    federation = load_federation(folder / "federation.yaml")
    rule = load_policy(folder / holder / POLICY).features[feature]
    with open_state(site) as state:
        releases = state.ledger.releases()
        inside = people(releases, state.cells)
        column: uuid.UUID = federation.parties[holder].features[feature].uuid
        places = [place for place in state.cells.generations() if place[0] == column]
        states = [state.cells.load(*place) for place in places]
        changes = [state.changes() for state in states if state is not None]
    found = accounts(releases)[column]
    mine = [c for c in inside.columns if c.feature == feature]
    place = Path(site.store) / federation.name / run / "ranks" / holder
    files = {path.name: path.stat().st_size for path in sorted(place.glob("*"))}
    return {
        "night": night,
        "releases": found.releases,
        "loss_1": float(found.step),
        "loss_whole": float(found.whole),
        "retrainings_left": forecast(found, rule).retrainings,
        "people_loss_whole": float(sum(c.whole for c in mine)),
        "capped_cells": sum(int((state >= most).sum()) for state in changes),
        "cells": sum(map(len, changes)),
        "files": files,
        "refused": refused,
    }


@contextmanager
def sites(folder: Path, parties: Any) -> Iterator[None]:
    """Let this process know the parties' sites.

    Args:
        folder: The federation's.
        parties: Their names.
    """
    names = {f"OPBOOST_SITE_{p.upper()}": str(folder / p / "site.yaml") for p in parties}
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
