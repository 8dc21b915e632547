"""Running totals of a ledger: one row for each noise key, and one for each structure disclosed."""

import hashlib
import json
from collections.abc import Iterable
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from opboost_ops.privacy.accountant import Account, Key, discloses_missing, stands_for
from opboost_ops.privacy.events import Draw, Release, curve_of
from opboost_ops.privacy.loss import LossCurve
from opboost_ops.privacy.tables import table
from opboost_ops.privacy.worst_case import CellBound

#: What each noise key has cost so far: the last of its draws.
_TOTALS = table(
    "totals",
    {"column": 36, "cells": 16},
    optional="most",
    feature=160,
    receiver=160,
    draws=int,
    number=int,
    worst=int,
    base=int,
    most=int,
    inputs=int,
    loss=str,
    first=int,
    last=int,
)

#: Which edges of each column were ever disclosed exactly, and each column's last name.
_STRUCTURES = table(
    "structures",
    {"column": 36, "digest": 64},
    feature=160,
    edges=str,
    span=str,
    exactly=bool,
    first=int,
    last=int,
)


def add_up(connection: sa.Connection, releases: Iterable[tuple[int, Release]]) -> None:
    """Bring the totals up to entries that were added.

    Args:
        connection: The transaction.
        releases: The entries, each with its number.
    """
    for number, line in releases:
        if line.account == "exact" or line.column is None:
            continue
        _add_structure(connection, number, line)
        if line.draw is not None and line.loss is not None:
            _add_draw(connection, number, line, line.draw, line.loss)


def _add_draw(
    connection: sa.Connection, number: int, line: Release, draw: Draw, loss: LossCurve
) -> None:
    here = (_TOTALS.c.column == str(line.column), _TOTALS.c.cells == (line.cells or ""))
    before = connection.execute(sa.select(_TOTALS.c.draws, _TOTALS.c.first).where(*here)).first()
    connection.execute(sa.delete(_TOTALS).where(*here))
    row = {
        "column": str(line.column),
        "cells": line.cells or "",
        "feature": line.feature or "",
        "receiver": line.receiver,
        "draws": (before.draws if before else 0) + stands_for(line),
        "number": draw.number,
        "worst": draw.worst,
        "base": draw.base,
        "most": draw.most,
        "inputs": draw.inputs,
        "loss": loss.model_dump_json(),
        "first": before.first if before else number,
        "last": number,
    }
    connection.execute(sa.insert(_TOTALS).values(row))


def _add_structure(connection: sa.Connection, number: int, line: Release) -> None:
    """Also of a column without edges: its name, and when it first came, are in a row."""
    edges, span = json.dumps(line.edges), json.dumps(line.span)
    exactly = discloses_missing(line)
    if line.draw is not None and not line.edges:
        return
    digest = hashlib.sha256(f"{edges}{span}{exactly}".encode()).hexdigest()
    here = (_STRUCTURES.c.column == str(line.column), _STRUCTURES.c.digest == digest)
    changes: dict[str, Any] = {"feature": (line.feature or "").partition("=")[0], "last": number}
    if connection.execute(sa.update(_STRUCTURES).where(*here).values(changes)).rowcount:
        return
    row: dict[str, Any] = {"column": str(line.column), "digest": digest}
    row |= {"edges": edges, "span": span}
    row |= {"exactly": exactly, "first": number}
    connection.execute(sa.insert(_STRUCTURES).values({**row, **changes}))


def accounts_of(connection: sa.Connection, entries: sa.Table) -> dict[UUID, Account]:
    """What each column has cost so far, in the order in which they first came.

    Args:
        connection: To the database.
        entries: The ledger's, by their number.
    """
    drew = entries.c.event["federation"].as_string().label("federation")
    draws = sa.select(_TOTALS, drew).join(entries, entries.c.id == _TOTALS.c.last)
    rows: list[Any] = [
        *connection.execute(draws),
        *connection.execute(sa.select(_STRUCTURES)),
    ]
    ordered = sorted(rows, key=lambda row: row.first)
    found = {UUID(row.column): Account("") for row in ordered}
    # The last entry says what a column is called now, and which of its keys is the present one.
    for row in sorted(rows, key=lambda row: row.last):
        account = found[UUID(row.column)]
        account.feature, _, bit = row.feature.partition("=")
        if "cells" not in row._fields:
            span = json.loads(row.span)
            account.structure.add(json.loads(row.edges), tuple(span) if span else None, row.exactly)
            continue
        account.keys[bit, row.cells] = Key(
            bit=bit,
            cells=row.cells,
            receiver=row.receiver,
            federation=row.federation,
            draws=row.draws,
            # Every entry of a key adds what it raises the worst case by.
            charged=row.worst,
            worst=CellBound(row.worst, row.base, row.number),
            most=row.most,
            inputs=row.inputs,
            loss=curve_of(row.loss),
        )
    return found


def worst_of(connection: sa.Connection, column: UUID, cells: str) -> CellBound:
    """The public worst case of a column under a noise key, as far as draws are numbered.

    Args:
        connection: To the database.
        column: The column's UUID.
        cells: Name of the noise key.
    """
    asked = sa.select(_TOTALS.c.worst, _TOTALS.c.base, _TOTALS.c.number)
    row = connection.execute(
        asked.where(_TOTALS.c.column == str(column), _TOTALS.c.cells == cells)
    ).first()
    return CellBound(*row) if row is not None else CellBound()
