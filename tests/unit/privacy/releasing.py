"""A party's releases in a temporary folder, driven at the account's door."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa

from opboost_ops.config.columns import Column
from opboost_ops.config.policy import FeatureRule, Policy, Routed
from opboost_ops.domain import Domain
from opboost_ops.mechanisms import GlobalMap, MissingBit, noise
from opboost_ops.mechanisms.randomised_response import BIT
from opboost_ops.privacy.declarations import Declaration
from opboost_ops.privacy.ledger.budgets import Budget
from opboost_ops.privacy.ledger.database import Database
from opboost_ops.privacy.ledger.entries import Ledger
from opboost_ops.privacy.loss import column_losses
from opboost_ops.privacy.people import Forgotten
from opboost_ops.privacy.pins import Pins
from opboost_ops.privacy.releases import FeatureResponses, Releases, RunRequest
from opboost_ops.tables.spill.arrays import Scratch

KEY = bytes(32)
DAY = date(2026, 3, 1)
DOMAIN = Domain(1, 4)


def declaration(
    domain: Domain = DOMAIN,
    epsilon: float = 1.0,
    *,
    name: str = "income",
    missing: bool = False,
    routed: Routed | None = None,
    yearly: bool = False,
    digest: str = "a",
) -> Declaration:
    """A numeric feature on a small domain."""
    mechanism = GlobalMap(name="global_map", epsilon=epsilon)
    column = Column(name, name, name, domain, name, domain, mechanism, b"")
    columns: tuple[Column, ...] = (column,)
    if missing:
        bit, charge = MissingBit(epsilon=1.0), f"{name}=missing"
        columns += (Column(charge, name, charge, BIT, charge, BIT, bit, b""),)
    return Declaration(
        name,
        name,
        digest * 64,
        columns,
        column_losses(columns),
        "yearly" if yearly else "never",
        routed,
    )


class Door:
    """A party's releases in a folder."""

    def __init__(self, folder: Path, rows: int = 1 << 20) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.database = Database(f"sqlite:///{folder}/ledger.sqlite")
        self.pins = Pins(folder / "pins", Scratch(folder, rows), lambda: KEY)
        self.forgotten = Forgotten(self.database, lambda: KEY)
        self.releases = Releases(self.database, self.pins, self.forgotten)
        self.ledger = Ledger(self.database)
        self.policy = Policy(
            version=1, party="bank", features={"income": FeatureRule(mechanisms=("global_map",))}
        )

    def budget(self, budget: float) -> None:
        rule = FeatureRule(mechanisms=("global_map",), budget=budget)
        self.policy = self.policy.model_copy(update={"features": {"income": rule}})

    def night(
        self,
        run: int,
        table: Mapping[str, int],
        declared: Sequence[Declaration] = (),
        day: date = DAY,
        receiver: str = "credit",
        read: Sequence[int] | None = None,
    ) -> dict[str, FeatureResponses]:
        """One run over a table of values by ID; values are read of people without a pin."""
        declared = declared or (declaration(),)
        request = self.request(run, table, declared, day, receiver)
        rule = Budget(self.policy).releases
        used = self.releases.of_run("f", request.run)
        if used is None and read is None:
            chosen = self.releases.choose(declared, receiver, day, rule)
            read = np.flatnonzero(self.releases.unpinned(chosen.values(), request.people)).tolist()
        rows = np.array(read if read is not None else [], dtype=np.int64)
        values = {name: column[rows] for name, column in request.values.items()}
        return self.releases.take(replace(request, rows=rows, values=values), rule)

    def request(
        self,
        run: int,
        table: Mapping[str, int],
        declared: Sequence[Declaration],
        day: date = DAY,
        receiver: str = "credit",
    ) -> RunRequest:
        """What a run releases, with the values of everybody."""
        numbers = np.array(list(table.values()), dtype=np.int64)
        values = {
            source: (numbers == 0).astype(np.int64)
            if source.endswith("=missing")
            else np.clip(numbers, domain.lower, domain.upper)
            for one in declared
            for source, domain in one.sources.items()
        }
        return RunRequest(
            federation="f",
            run=f"{run:016x}",
            party="bank",
            receiver=receiver,
            day=day,
            declarations=tuple(declared),
            people=noise.person_keys(KEY, pa.array(list(table)), "string"),
            rows=np.arange(len(table)),
            values=values,
            seed=None,
            experiment=False,
        )


def people(count: int, value: int = 1, begin: int = 0) -> dict[str, int]:
    """So many people with one value."""
    return {f"p{number:05}": value for number in range(begin, begin + count)}
