"""The record of a release: the charge of a raw column, and the file of its pins."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import Any, Literal

import sqlalchemy as sa

from opboost_ops.privacy.declarations import Loss, across
from opboost_ops.privacy.ledger.tables import COUNTED, table
from opboost_ops.privacy.loss import LossCurve
from opboost_ops.privacy.pins import PinFile

RELEASES = table(
    "column_releases",
    {"number": COUNTED},
    id=32,
    kind=10,
    feature=160,
    column=sa.Text,
    receiver=160,
    federation=160,
    declaration=64,
    opened=10,
    run=40,
    losses=str,
    content=str,
    ended=40,
    pins=120,
    digest=64,
    rows=int,
)


@dataclass(frozen=True)
class Release:
    """A charged release of a raw column.

    Attributes:
        id: Permanent ID, 32 random hex digits, so that no restored state can issue it again.
        kind: ``values`` of people, or ``edges`` of cells drawn from the table.
        feature: Name of the feature in the federation.
        column: Name of the raw column.
        receiver: The receiving party.
        federation: Federation in which it opened.
        declaration: Digest of its declaration.
        opened: Day of the plan with which it opened.
        run: Run in which it opened; empty outside a run.
        losses: Loss curves by charge.
        content: The edges, for a release of edges.
        ended: When it ended, UTC; empty while it is open.
        pins: The file of its pins; None before the first person was pinned.
    """

    id: str
    kind: Literal["values", "edges"]
    feature: str
    column: str
    receiver: str
    federation: str
    declaration: str
    opened: date
    run: str
    losses: Mapping[str, LossCurve]
    content: str = ""
    ended: str = ""
    pins: PinFile | None = None

    @property
    def loss(self) -> Loss:
        """Loss(R - L) of the value plus that of the missing bit."""
        return across(self.losses)


def spent_by_column(releases: Iterable[Release]) -> dict[str, Loss]:
    """Return the cost of each raw column: the sum over its releases, open or ended.

    Args:
        releases: All releases of a party.
    """
    spent: dict[str, Loss] = {}
    for release in releases:
        spent[release.column] = spent.get(release.column, Fraction(0)) + release.loss
    return spent


def release_row(release: Release) -> dict[str, Any]:
    """Convert a release to a row of `RELEASES`."""
    losses = {charge: curve.model_dump(mode="json") for charge, curve in release.losses.items()}
    return {
        "id": release.id,
        "kind": release.kind,
        "feature": release.feature,
        "column": release.column,
        "receiver": release.receiver,
        "federation": release.federation,
        "declaration": release.declaration,
        "opened": release.opened.isoformat(),
        "run": release.run,
        "losses": json.dumps(losses, sort_keys=True),
        "content": release.content,
        "ended": release.ended,
        "pins": release.pins.name if release.pins else "",
        "digest": release.pins.digest if release.pins else "",
        "rows": release.pins.rows if release.pins else 0,
    }


def read_release(row: Any) -> Release:
    """Convert a row of `RELEASES` to a release."""
    losses = json.loads(row.losses)
    return Release(
        id=row.id,
        kind=row.kind,
        feature=row.feature,
        column=row.column,
        receiver=row.receiver,
        federation=row.federation,
        declaration=row.declaration,
        opened=date.fromisoformat(row.opened),
        run=row.run,
        losses={charge: LossCurve.model_validate(curve) for charge, curve in losses.items()},
        content=row.content,
        ended=row.ended,
        pins=PinFile(row.pins, row.digest, row.rows) if row.pins else None,
    )
