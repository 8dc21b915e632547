"""From the state of a former release to that of this one: one transaction, a backup beside it.

0.1.0 (version 1) charged each release as another value of every cell. What a noise key has released
becomes one draw: as many values as it made different releases, where no cell has more; else as many
as the cell with the most, or as all releases, repeats included (`privacy.worst`). 0.2.0 (version 2)
kept agreements, stops and the forgotten in files and numbered draws in the cell files.
"""

import hashlib
import hmac
import json
import logging
import os
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from opboost_ops.config.declared_map import canonical
from opboost_ops.config.site import Site
from opboost_ops.errors import BudgetError, ConfigError
from opboost_ops.exchange.audit import Audit
from opboost_ops.exchange.former_accounts import changes, spent_before
from opboost_ops.mechanisms import noise
from opboost_ops.privacy.accountant import accounts
from opboost_ops.privacy.agreements import AgreementRecords, Agreements
from opboost_ops.privacy.cell_files import CellState, Generation
from opboost_ops.privacy.cells import Cells
from opboost_ops.privacy.checkpoints import Checkpoint, Checkpoints, Standing
from opboost_ops.privacy.database import Database
from opboost_ops.privacy.draws import former_draw
from opboost_ops.privacy.events import Draw, Release
from opboost_ops.privacy.forgotten import Forgotten
from opboost_ops.privacy.ledger import add_entries, all_releases, lines_after
from opboost_ops.privacy.ledger_totals import add_up
from opboost_ops.privacy.rows import copy_tables
from opboost_ops.privacy.tables import METADATA, VERSION, set_version, version_of
from opboost_ops.scratch.files import second_name

_LOG = logging.getLogger("opboost_ops")

#: Where 0.2.0 wrote draws in a cell file, and the name of its people.
_MARK, _PEOPLE = b"opboost.draw", b"opboost.people"

#: Tables that this release does not have.
_DROPPED = ("draws", "heads_given", "heads_seen")


@dataclass(frozen=True)
class _Former:
    """A cell file of a former release.

    Attributes:
        column: The column's UUID.
        cells: Name of the noise key.
        path: Where it lies.
        mark: What 0.2.0 wrote into it.
    """

    column: UUID
    cells: str
    path: Path
    mark: Mapping[str, Any]


def upgrade(database: Database, cells: Cells, site: Site) -> None:
    """Bring a party's state to this release's version; nothing where it has it.

    Args:
        database: The party's.
        cells: Its cell states.
        site: Where the files of former releases lie.

    Raises:
        ConfigError: The backup cannot be written, or a file was changed by hand; nothing was
            changed.
    """
    if database.complete():
        return
    with database.writing() as connection:
        version = version_of(connection)
        if version < VERSION:
            _back_up(database, connection, site)
            before = spent_before(all_releases(connection), version)
            METADATA.create_all(connection)
            found = list(_former_files(site))
            add_up(connection, lines_after(connection, 0))
            if version == 1:
                add_entries(connection, list(_drawn_before(connection, cells, found)))
            _adopt_states(connection, cells, found, version)
            _adopt_agreements(database, site)
            _adopt_forgotten(database, site)
            _adopt_stops(database, site)
            _adopt_heads(database, connection)
            for name in _DROPPED:
                connection.execute(sa.text(f"DROP TABLE IF EXISTS {name}"))
            set_version(connection)
            for change in changes(site.party, before, accounts(all_releases(connection))):
                _LOG.warning(change)
    database.note_complete()
    for path in _files(site):
        path.unlink(missing_ok=True)
    cells.collect()


def _files(site: Site) -> tuple[Path, ...]:
    """What 0.2.0 kept beside its database."""
    stops, forgotten = site.agreement.with_name("stopped.json"), site.cells / "forgotten.json"
    return (site.agreement, stops, forgotten)


def _drawn_before(
    connection: sa.Connection, cells: Cells, found: list[_Former]
) -> Iterator[Release]:
    """One entry a noise key takes over what 0.1.0 has released."""
    last: dict[tuple[UUID, str], Release] = {}
    runs: dict[tuple[UUID, str], set[tuple[str, str, str]]] = {}
    names: dict[tuple[UUID, str], set[str]] = {}
    for release in all_releases(connection):
        if release.account != "local_dp" or release.column is None or release.loss is None:
            continue
        place = (release.column, release.cells or "")
        last[place] = release
        # Training and held-out rows of one run are different people: one release.
        drawn = release.draws or release.artifact
        runs.setdefault(place, set()).add((release.federation, release.run, drawn))
        names.setdefault(place, set()).add(f"{release.kind}/{drawn}")
    states = {(one.column, one.cells): one for one in found}
    for (column, key), release in last.items():
        one = states.get((column, key))
        state = _state_of(cells, one) if one is not None else None
        most = int(state.changes().max(initial=0)) if state is not None else None
        releases, different = len(runs[column, key]), _different(names[column, key])
        # Equal outputs prove nothing by themselves; that no cell has more values does.
        proved = most is not None and most <= different
        worst = different if proved else max(releases, most or 0)
        # A curve has a loss for every distance between two of the inputs.
        inputs = len(release.loss.loss) + 1 if release.loss else 0
        draw = Draw(
            number=1,
            added=min(worst, inputs),
            worst=min(worst, inputs),
            inputs=inputs,
            stands_for=different if proved else releases,
        )
        name = former_draw(column, key)
        changes: dict[str, object] = {
            "run": "",
            "kind": "former",
            "artifact": name,
            "draws": name,
            "edges": (),
            "span": None,
            "cells": key,
            "draw": draw,
        }
        yield release.model_copy(update=changes)


def _different(names: set[str]) -> int:
    """How many different releases there were; training and held-out rows are different people."""
    by_kind: dict[str, int] = {}
    for name in names:
        kind = name.partition("/")[0]
        by_kind[kind] = by_kind.get(kind, 0) + 1
    training = max(by_kind.get("ranks", 0), by_kind.get("holdout", 0))
    return training + sum(n for kind, n in by_kind.items() if kind not in ("ranks", "holdout"))


def _adopt_states(
    connection: sa.Connection, cells: Cells, found: list[_Former], version: int
) -> None:
    """Let the database point to states that hold the last draw of their noise keys."""
    lines: dict[tuple[UUID, str], Release] = {}
    for release in all_releases(connection):
        if release.draw is not None and release.column is not None:
            lines[release.column, release.cells or ""] = release
    for one in found:
        line = lines.get((one.column, one.cells))
        if line is None or line.draw is None:
            continue  # Never charged, so never released.
        number = int(one.mark.get("number", 0)) if version > 1 else line.draw.number
        if number < line.draw.number:
            continue  # Older than the ledger: lost.
        state = _state_of(cells, one)
        if state is None:
            continue
        if number > line.draw.number:
            # A crash between the state and the ledger: what it charged is charged.
            draw = Draw(
                number=number,
                added=int(one.mark["worst"]) - line.draw.worst,
                worst=int(one.mark["worst"]),
                base=int(one.mark["base"]),
                inputs=line.draw.inputs,
                stands_for=number - line.draw.number,
            )
            name = str(one.mark["draw"])
            changes: dict[str, object] = {"artifact": name, "draws": name, "draw": draw, "run": ""}
            add_entries(connection, [line.model_copy(update=changes)])
        cells.replace(one.column, one.cells, state)


def _state_of(cells: Cells, one: _Former) -> CellState | None:
    """What a former file holds; nothing where it cannot be read."""
    try:
        digest = hashlib.sha256(one.path.read_bytes()).hexdigest()
        people = (pq.read_schema(one.path).metadata or {}).get(_PEOPLE, b"").decode()
        return cells.files.load(Generation(one.path.name, 0, digest, people))
    except (OSError, pa.ArrowInvalid, BudgetError):
        return None


def _former_files(site: Site) -> Iterator[_Former]:
    for path in sorted(site.cells.glob("*.parquet")):
        column, _, key = path.stem[:36], path.stem[36:37], path.stem[37:]
        if len(path.stem) != 53:
            continue
        try:
            metadata = pq.read_schema(path).metadata or {}
        except (OSError, pa.ArrowInvalid):
            continue
        mark = json.loads(metadata[_MARK]) if _MARK in metadata else {}
        yield _Former(UUID(column), key, path, mark)


def _adopt_agreements(database: Database, site: Site) -> None:
    """Take over ``agreement.json``, whose seal follows from the party's noise secret."""
    if not site.agreement.is_file():
        return
    good = False
    data: dict[str, Any] = {}
    try:
        data = json.loads(site.agreement.read_bytes())
        seal, version = data.pop("seal"), data["version"]
        key = noise.agreement_key(site.noise_secret())
        wanted = hmac.new(key, canonical(data), hashlib.sha256).hexdigest()
        good = hmac.compare_digest(seal, wanted) and version == data.pop("version")
        good = good and data["party"] == site.party
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        good = False
    if not good:
        raise ConfigError(
            f"{site.agreement.name} of {site.party} was changed outside this software, or sealed "
            "under another noise secret: the state is not migrated.",
            "Restore it from a copy. Nothing was changed.",
        )
    found = Agreements.model_validate(data)
    records = AgreementRecords(database, site.party)
    for made in found.agreements:
        records.add(made, {})
    if found.agreements:
        records.declare(found.columns)


def _adopt_forgotten(database: Database, site: Site) -> None:
    path = site.cells / "forgotten.json"
    if path.is_file():
        data = json.loads(path.read_bytes())
        listed = {(data["key"], person) for person in data["people"]}
        Forgotten(database).merge(listed | {(k, person) for k, person in data.get("more", ())})


def _adopt_stops(database: Database, site: Site) -> None:
    """A stop that the audit log does not have is entered there."""
    path = site.agreement.with_name("stopped.json")
    if not path.is_file():
        return
    audit = Audit(database)
    for federation, since in json.loads(path.read_bytes()).items():
        entries = audit.of("stopped", "resumed")
        of = [entry for entry in entries if entry.place.partition("/")[0] == federation]
        if not of or of[-1].action != "stopped":
            place = f"{federation}/home/act"
            audit.add("stopped", place, site.party, detail=f"migrated; stopped at {since}")


def _adopt_heads(database: Database, connection: sa.Connection) -> None:
    """Take over the heads that 0.2.0 has given; those that it saw have no signature."""
    if "heads_given" not in sa.inspect(connection).get_table_names():
        return
    checkpoints = Checkpoints(database)
    rows = connection.execute(
        sa.text(
            "SELECT federation, receiver, number, run, head, seen, line FROM heads_given "
            "ORDER BY federation, receiver, number"
        )
    )
    for row in rows.all():
        head = Checkpoint(number=row.number, head=row.head)
        given = Standing(head=head, seen=json.loads(row.seen))
        checkpoints.enter(row.federation, row.receiver, row.run, given, row.number - 1, row.line)


def _back_up(database: Database, connection: sa.Connection, site: Site) -> None:
    """Copy database, cell states and files beside what they are: ``ledger.sqlite.before-3``."""
    failed = False
    try:
        if database.file is not None:
            copy_file(database.file, _free(database.file))
        else:
            copy_tables(connection, f"before_{VERSION}", _DROPPED)
        folder = _free(site.cells)
        for path in sorted(site.cells.glob("*")) if site.cells.is_dir() else ():
            if path.suffix in (".parquet", ".people"):
                folder.mkdir(mode=0o700, exist_ok=True)
                second_name(path, folder / path.name)
        for path in _files(site):
            if path.is_file():
                second_name(path, _free(path))
    except (OSError, sqlite3.Error, sa.exc.SQLAlchemyError):
        failed = True
    if failed:
        raise ConfigError(
            "No backup of the party's state can be written beside it, before it is migrated.",
            "Make room, and let this user write into the folder of ledger and cells. Nothing was "
            "changed.",
        )


def copy_file(source: Path, target: Path) -> None:
    """Copy a database, whole or not at all, readable by its owner alone.

    Args:
        source: The file of an SQLite database.
        target: Where to.
    """
    temporary = target.with_name(f".{target.name}.new")
    temporary.unlink(missing_ok=True)
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)):
        pass
    # Beside the transaction, which has changed nothing yet.
    reader, writer = sqlite3.connect(f"file:{source}?mode=ro", uri=True), sqlite3.connect(temporary)
    try:
        reader.backup(writer)
    finally:
        reader.close()
        writer.close()
    temporary.replace(target)


def _free(path: Path) -> Path:
    """A name beside, which no earlier backup has."""
    names = (f"{path.name}.before-{VERSION}{f'-{i}' if i else ''}" for i in range(10_000))
    return next(found for name in names if not (found := path.with_name(name)).exists())
