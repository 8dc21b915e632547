"""A year of nights under a cap on changes: a flat account outside, frozen cells inside.

Every night some persons' whole records become those of others, the label with them, as when a
person's life changes. A cell at its cap goes on releasing an old value, beside a new label: what
that costs is measured beside the same mechanism on the values of the day.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import polars as pl

from opboost_ops.boosting.metrics import evaluate
from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import POLICY, load_federation, load_policy, load_site
from opboost_ops.datasets.dataset import ID, Dataset
from opboost_ops.datasets.workspace import write_workspace
from opboost_ops.errors import ConfigError
from opboost_ops.exchange.encoding import narrow_integers
from opboost_ops.exchange.run_id import run_id
from opboost_ops.exchange.store import open_store
from opboost_ops.lab.month import CHANGING, declare_budget, night_line, sites, until_published
from opboost_ops.run import agreement_file
from opboost_ops.stages.desensitize import randomised
from opboost_ops.stages.held import HELD, person_keys, sources
from opboost_ops.stages.stage import Context, Home

#: How many times in a year models are trained.
MEASURED = 12

#: Runs older than so many nights are removed, as `retention_days` would.
KEPT = 3

_LEARNING = {
    "objective": "binary",
    "num_leaves": 8,
    "learning_rate": 0.1,
    "num_threads": 2,
    "deterministic": True,
    "force_row_wise": True,
    "verbosity": -1,
    "seed": 0,
}
_TREES = 80


def year(
    dataset: Dataset,
    folder: Path,
    nights: int,
    most: int,
    progress: Callable[[int, int], None] | None = None,
    epsilon: float | None = None,
) -> dict[str, Any]:
    """Retrain every night under a cap, with budgets for as many values as it allows.

    Everything is real: the stages, the store, the ledger. Who changes, and into whom, follows from
    a public seed.

    Args:
        dataset: Two classes; its first feature holder is watched.
        folder: Where the federation lives; empty or absent.
        nights: How many.
        most: The cap on changes of every feature.
        progress: Called with how many nights are over, and of how many.
        epsilon: Of all protected features; the dataset's when absent.

    Returns:
        ``nights``: for each the public account, and what cells did; on some of them ``auc``, by
        ``frozen`` and ``unfrozen`` for all columns, and ``frozen_alone`` and ``unfrozen_alone``
        for those that were released; and ``party``, ``feature``, ``most`` and ``budget_whole``.

    Raises:
        ConfigError: The table's label has not two classes.
    """
    training = {"trees": 2, "depth": 2}
    file = write_workspace(dataset, folder, seed=0, epsilon=epsilon, training=training)
    federation = load_federation(file)
    holder, receiver = federation.feature_holders[0], federation.label_holder
    label = federation.parties[receiver].label
    if label is None or label.task != "binary":
        raise ConfigError("A year of nights is measured on two classes.", "Take --dataset adult.")
    features = federation.parties[holder].features
    feature = next(name for name, f in features.items() if f.type == "numeric")
    policy = folder / holder / POLICY
    budget = declare_budget(policy, federation, holder, most, most)
    measured = {1, nights, *(round(nights * i / MEASURED) for i in range(1, MEASURED))}
    result: list[dict[str, Any]] = []
    runs: list[str] = []
    records = _records(folder, (holder, receiver))
    with sites(folder, federation.parties):
        for night in range(1, nights + 1):
            if night > 1:
                _change_records(records, np.random.default_rng(night))
            run = run_id(federation.name, f"night {night}")
            until_published(file, run, holder)
            line = night_line(folder, night, holder, feature, run, "", most)
            home = load_site(folder / holder / "site.yaml").home / federation.name / run
            line["held"] = json.loads((home / f"{HELD}.json").read_bytes())["columns"]
            if night in measured:
                line["auc"] = _measured(folder, federation, run)
            result.append(line)
            runs.append(run)
            if len(runs) > KEPT:
                _remove(folder, federation, runs.pop(0))
            if progress is not None:
                progress(night, nights)
    return {
        "party": holder,
        "feature": feature,
        "most": most,
        "budget_whole": budget,
        "nights": result,
    }


def _records(folder: Path, parties: tuple[str, ...]) -> dict[Path, pl.DataFrame]:
    """The first night's tables of common persons, in one order."""
    paths = [folder / party / "tables" / "train.parquet" for party in parties]
    tables = [pl.read_parquet(path) for path in paths]
    common = sorted(set(tables[0][ID]).intersection(*(table[ID] for table in tables[1:])))
    order = pl.DataFrame({ID: common})
    return {
        path: order.join(table, on=ID, how="left", maintain_order="left")
        for path, table in zip(paths, tables, strict=True)
    }


def _change_records(records: dict[Path, pl.DataFrame], rng: np.random.Generator) -> None:
    """Some persons become as others were in the first night, at all parties at once.

    Of the first night: what they become would otherwise be copies of fewer and fewer.
    """
    count = next(iter(records.values())).height
    chosen = rng.permutation(count)[: max(1, round(count * CHANGING))]
    donors = rng.integers(0, count, len(chosen))
    for path, first in records.items():
        table = pl.read_parquet(path)
        place = {person: row for row, person in enumerate(table[ID])}
        to = [place[first[ID][int(i)]] for i in chosen]
        columns = [
            table[name] if name == ID else table[name].clone().scatter(to, first[name][donors])
            for name in table.columns
        ]
        pl.DataFrame(columns).write_parquet(path)


def _measured(folder: Path, federation: Federation, run: str) -> dict[str, float]:
    """Area under the curve on held-out rows, by the values that went and by those of the day."""
    holder, receiver = federation.feature_holders[0], federation.label_holder
    site = load_site(folder / holder / "site.yaml")
    policy = load_policy(folder / holder / POLICY)
    home = Home(site.home / federation.name / run)
    context = Context(
        federation, run, holder, site, policy, home, open_store(site.store), "", 0.0,
        recorded=agreement_file.load(site).columns,
    )  # fmt: skip
    positions = narrow_integers(home.table("positions"), "position")
    today = home.table("preprocessed")
    wanted = {c.source: narrow_integers(today, c.source) for c in sources(context)}
    went = home.table("randomised")
    names = [column.name for column in context.columns()]
    frozen = [narrow_integers(went, name) for name in names]
    fresh = randomised(context, wanted, person_keys(context)[positions])
    own, label = _of_label_holder(folder, federation, holder, receiver, positions)
    train = home.json("preprocessed")["train"]
    found = {}
    unfrozen = [fresh[name] for name in names]
    for name, columns in (
        ("frozen", [*own, *frozen]),
        ("unfrozen", [*own, *unfrozen]),
        ("frozen_alone", frozen),
        ("unfrozen_alone", unfrozen),
    ):
        rows = np.column_stack(columns).astype(np.float64)
        learnt = lightgbm.train(
            _LEARNING, lightgbm.Dataset(rows[:train], label[:train]), num_boost_round=_TREES
        )
        found[name] = evaluate("binary", label[train:], learnt.predict(rows[train:]))["auc"]  # type: ignore[arg-type]
    return found


def _of_label_holder(
    folder: Path, federation: Federation, holder: str, receiver: str, positions: np.ndarray
) -> tuple[list[np.ndarray], np.ndarray]:
    """The label holder's own columns as numbers, and the label, in the common order."""
    ids = pl.read_parquet(folder / holder / "tables" / "train.parquet").select(ID)[positions]
    table = ids.join(
        pl.read_parquet(folder / receiver / "tables" / "train.parquet"),
        on=ID,
        how="left",
        maintain_order="left",
    )
    party = federation.parties[receiver]
    assert party.label is not None
    numbers = [table[name].rank("dense").cast(pl.Float64).to_numpy() for name in party.features]
    return numbers, table[party.label.column].rank("dense").to_numpy().astype(np.int64) - 1


def _remove(folder: Path, federation: Federation, run: str) -> None:
    for party in federation.parties:
        site = load_site(folder / party / "site.yaml")
        shutil.rmtree(site.home / federation.name / run, ignore_errors=True)
        shutil.rmtree(Path(site.store) / federation.name / run, ignore_errors=True)
