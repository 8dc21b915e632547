"""A federation over many nights, and the software of hostile parties in it.

Hostile parties speak the protocol by the very stages of the package, but for those that they have
written again; what they sign is theirs.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl

from opboost_ops.errors import OpBoostError
from opboost_ops.exchange.artifact import Artifact
from opboost_ops.exchange.contents import layout_of
from opboost_ops.exchange.sealed import sealing
from opboost_ops.exchange.sealed.ids import IdEncoder
from opboost_ops.exchange.sealed.zero_shares import Layout, Sharings
from opboost_ops.extras.datasets.tables import Dataset
from opboost_ops.pipeline import catalogue
from opboost_ops.pipeline.matching import session_of
from opboost_ops.pipeline.party.inbox import Run
from opboost_ops.pipeline.runner.runner import run_stage
from opboost_ops.pipeline.stage import Context, Outcome
from opboost_ops.pipeline.steps import open_rows
from opboost_ops.pipeline.steps.open_rows import open_tables
from tests.federation import Workspace

#: Values of a cell's domain, and holders of the federation.
SIZE, LABEL, HOLDERS = 10, "a", ("b0", "b1")
#: People whom all parties have; whom only feature holders have; and whom one of these has.
COMMON, STRANGERS = 120, 120
#: What a feature holder does in a night, and what the label holder asks before.
RELEASE = (
    "check_table", "check_drift", "digest_ids", "preprocess", "desensitize", "rank",
    "check_release", "seal",
)  # fmt: skip
ASK = ("check_table", "check_drift", "digest_ids", "psi_query")


class Federation:
    """A federation with feature holders, and who is where.

    Args:
        folder: Where it is written.
        nights: So many people are at one holder alone, twice over.
        holders: The feature holders.
        members: Whom the label holder opens.

    Attributes:
        workspace: Its folder.
        people: True cells of each feature holder's column, by ID.
        alone: Who is at one feature holder alone, and at which.
    """

    def __init__(
        self,
        folder: Path,
        nights: int,
        holders: Sequence[str] = HOLDERS,
        members: str = "all",
        **options: Any,
    ) -> None:
        self.holders = holders
        random = np.random.default_rng(1)
        both = [f"common-{i:04d}" for i in range(COMMON)]
        both += [f"stranger-{i:04d}" for i in range(STRANGERS)]
        at = random.permutation(np.arange(2 * nights) % len(holders))
        self.alone = {f"alone-{i:04d}": holders[j] for i, j in enumerate(at)}
        self.people: dict[str, dict[str, int]] = {}
        tables = {}
        for holder in holders:
            own = both + [person for person, at in self.alone.items() if at == holder]
            cells = random.integers(0, SIZE, len(own))
            self.people[holder] = dict(zip(own, cells.tolist(), strict=True))
            tables[holder] = self._table(holder)
        self.random = random
        tables[LABEL] = self.asked(both[:COMMON])
        features: dict[str, dict[str, Any]] = {LABEL: {"x": {}}}
        features |= {holder: {"w": {"bounds": [0, 1]}} for holder in holders}
        label = {"column": "y", "task": "binary", "classes": [0, 1]}
        new = {party: table.drop("y", strict=False) for party, table in tables.items()}
        dataset = Dataset(
            "credit_scoring", "binary", tables, LABEL, label, features, 0.2, 1.28, (1, SIZE),
            new,
        )  # type: ignore[arg-type]  # fmt: skip
        training = {"trees": 8, "depth": 3}
        self.workspace = Workspace.write(
            folder / "federation", dataset, training=training, capped=True, **options
        )
        if members != "all":
            self.workspace.edit_yaml(
                "federation.yaml", lambda d: d.update(alignment={"overlap": "left"})
            )
        for holder in holders:
            # As `opboost init` writes it of the holder's own table.
            self.policy(holder, 2 * tables[holder].height)
        os.environ |= self.workspace.environment()

    def policy(self, holder: str, queries: int) -> None:
        """Let a holder's policy have the caps that are written by default."""

        def change(data: Any) -> None:
            caps = {"max_new_queries": queries, "max_queries_total": 10 * queries}
            data["alignment"].update(caps, members=["all", "each"])

        self.workspace.edit_yaml(f"{holder}/policy.yaml", change)

    def _table(self, holder: str) -> pl.DataFrame:
        people = self.people[holder]
        cells = np.array(list(people.values()))
        return pl.DataFrame({"id": list(people), "w": cells / (SIZE - 1)})

    def write(self, holder: str, purpose: str = "train") -> None:
        """Write a feature holder's table as its cells are now."""
        folder = self.workspace.folder / holder / "tables"
        self._table(holder).write_parquet(folder / f"{purpose}.parquet")

    def asked(self, people: Sequence[str]) -> pl.DataFrame:
        """A label holder's table of some people."""
        x = self.random.random(len(people)).round(3)
        return pl.DataFrame({"id": people, "x": x, "y": (np.arange(len(people)) % 2)})

    def night(self, number: int, people: Sequence[str] = (), purpose: str = "train") -> "Night":
        """The federation on another night, where the label holder asks about some people."""
        if people:
            path = self.workspace.folder / LABEL / "tables" / f"{purpose}.parquet"
            table = self.asked(people)
            (table if purpose == "train" else table.drop("y")).write_parquet(path)
        run = f"{number + 0x1000:016x}"
        return Night(Workspace(self.workspace.folder, run, purpose))  # type: ignore[arg-type]


class Night:
    """A run as it is seen from outside: what every task says, and what lies in the store."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.seen: list[str] = []

    def step(self, party: str, *stages: str) -> bool:
        """Run stages of one party until one fails; whether all ended well."""
        run = Run("credit_scoring", self.workspace.run, LABEL)
        for stage in stages:
            try:
                summary = run_stage(party, stage, run)
            except OpBoostError as error:
                self.seen.append(f"{party}.{stage}: {error}".replace(run.run, "RUN"))
                return False
            summary.pop("published", None)  # Digests, which differ by nonces.
            self.seen.append(f"{party}.{stage}: {summary}".replace(run.run, "RUN"))
        return True

    def outside(self, *kinds: str) -> tuple[str, ...]:
        """All that was said so far; what was published of some kinds, with rows and sizes."""
        listed = []
        for place in self.workspace.published():
            kind, about = place.split("/")
            if kind in kinds:
                manifest = self.workspace.artifact(kind, about).manifest  # type: ignore[arg-type]
                sizes = sorted((name, file.size) for name, file in manifest.files.items())
                listed.append(f"{place}: {manifest.rows} {sizes}")
        return (*self.seen, *sorted(listed))


@contextmanager
def software(**stages: Callable[[Context], Outcome]) -> Iterator[None]:
    """Stages of a hostile party's own."""
    with patch.dict(catalogue.STAGES, stages):  # type: ignore[arg-type]
        yield


class Opener:
    """How a hostile label holder opens sealed rows: with all points and shares that it has.

    Attributes:
        rows: Packed rows that it opened in any way, by holder and person; one per night.
    """

    def __init__(self, everybody: Sequence[str], holders: Sequence[str] = HOLDERS) -> None:
        self._everybody = everybody
        self.rows: dict[str, dict[str, list[bytes]]] = {h: {} for h in holders}

    def __call__(self, context: Context) -> Outcome:
        """Open as the protocol does, then everybody's rows with whatever else could open one."""
        session, scratch = session_of(context), context.home.scratch
        tables = open_rows.rows_of(context)
        open_tables(context, tables)  # It keeps the points that were answered.
        messages = IdEncoder("string").messages(self._everybody)
        count = len(messages)
        points, holders = {}, list(self.rows)
        for holder in holders:
            known, found = session.cache(holder).find([messages], count)
            # For whom it has no answer it tries somebody else's.
            found[~known] = found[known][np.arange(int((~known).sum())) % max(int(known.sum()), 1)]
            points[holder] = found
        for target, holder in enumerate(holders):
            table = context.receive(tables[holder].kind, holder)
            layout = layout_of(table)
            sharings = Sharings(scratch, count, len(holders))
            ways: list[np.ndarray | None] = [None, np.zeros((count, 16), np.uint8)]
            for at, other in enumerate(holders if context.federation.has_shares else ()):
                laid = context.receive("shares", other)
                of = layout_of(laid)
                people = [(messages, points[other])]
                sharings.add(at, people, of.nonce, laid.parts, lambda n, a=laid: _share(a, n))
                # Shares of some holders alone, for this target and for the others.
                ways += [np.array(sharings.of((target + t) % len(holders))) for t in (0, 1)]
            for zeros in ways:
                there, packed = sealing.open_rows(
                    scratch, [(messages, points[holder], zeros)], count, layout.nonce,
                    tables[holder].kind, layout.width, table.parts,
                    lambda n, a=table, w=layout.width: a.part(n, sealing.ROW_TAG + w),
                )  # fmt: skip
                for row in np.flatnonzero(there):
                    found = self.rows[holder].setdefault(self._everybody[row], [])
                    found.append(packed[row].tobytes())
        return Outcome()


def _share(laid: Artifact, number: int) -> Layout:
    layout = layout_of(laid)
    return Layout(laid.part(number, layout.width), layout.numbers[number], layout.keys[number])
