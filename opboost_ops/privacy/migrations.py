"""From the tables of one version to those of the next, each step with a backup beside.

1 -> 2: draws are numbered. Until then a release was charged when it was published, and each one as
another value of every cell. What a noise key has let go is taken over as if no cap had ever been in
force: B_0 is the number of its former releases, repeats included, or the largest count in its
cell state where that is more (`privacy.worst`).
"""

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from uuid import UUID

import sqlalchemy as sa

from opboost_ops.errors import ConfigError
from opboost_ops.privacy.cell_files import Mark
from opboost_ops.privacy.cells import Cells
from opboost_ops.privacy.database import METADATA, VERSION, Database, set_version, version_of
from opboost_ops.privacy.events import Draw, Release
from opboost_ops.privacy.ledger import add_draws, all_releases
from opboost_ops.privacy.whole_files import second_name

#: A step, in the transaction that it ends in.
Step = Callable[[sa.Connection, Cells], None]


def upgrade(database: Database, cells: Cells) -> None:
    """Bring a party's ledger to this software's version; nothing where it has it.

    Args:
        database: The party's.
        cells: Its cell states.

    Raises:
        ConfigError: The backup cannot be written; nothing was changed.
    """
    if database.complete():
        return
    with database.writing() as connection:
        version = version_of(connection)
        if version < VERSION:
            back_up(database, connection, cells, str(version + 1))
            METADATA.create_all(connection)
            for number in range(version + 1, VERSION + 1):
                STEPS[number](connection, cells)
                set_version(connection, number)
    database.note_complete()


def number_draws(connection: sa.Connection, cells: Cells) -> None:
    """Version 2: one line a noise key takes over what was released before it.

    Args:
        connection: The transaction.
        cells: The party's cell states, whose files are marked.
    """
    last: dict[tuple[UUID, str], Release] = {}
    counted: dict[tuple[UUID, str], set[tuple[str, str, str]]] = {}
    for release in all_releases(connection):
        if release.account != "local_dp" or release.column is None or release.loss is None:
            continue
        place = (release.column, release.cells or "")
        last[place] = release
        # Training and held-out rows of one run are different people: one release.
        drawn = (release.federation, release.run, release.draws or release.artifact)
        counted.setdefault(place, set()).add(drawn)
    states = {(column, path.stem[-16:]): path for column, path in _files(cells)}
    lines: list[Release] = []
    for (column, key), release in last.items():
        state = cells.load(states[column, key]) if (column, key) in states else None
        most = int(state.changes().max(initial=0)) if state is not None else 0
        releases = len(counted[column, key])
        # A curve has a loss for every distance between two of the inputs.
        inputs = len(release.loss.loss) + 1 if release.loss else 0
        draw = Draw(
            number=1,
            added=min(max(releases, most), inputs),
            worst=min(max(releases, most), inputs),
            inputs=inputs,
            stands_for=releases,
        )
        lines.append(_former(column, key, release, draw))
    add_draws(connection, lines)
    told = {(line.column, line.cells): line for line in lines}
    for place, path in states.items():
        line = told.get(place)
        if line is not None and line.draw is not None:
            cells.stamp(path, Mark(1, line.draw.worst, 0, line.artifact))
        else:
            # Charged and perhaps never released: the next draw under the key brings its line.
            most = int(cells.load(path).changes().max(initial=0))
            cells.stamp(path, Mark(1, most, 0, _name(*place)))


#: The steps, by the version that each leads to.
STEPS: Mapping[int, Step] = {2: number_draws}


def _former(column: UUID, key: str, last: Release, draw: Draw) -> Release:
    changes = {
        "run": "",
        "kind": "former",
        "artifact": _name(column, key),
        "draws": _name(column, key),
        "edges": (),
        "span": None,
        "cells": key,
        "draw": draw,
    }
    return last.model_copy(update=changes)


def _name(column: UUID, key: str) -> str:
    return hashlib.sha256(f"former/{column}/{key}".encode()).hexdigest()


def _files(cells: Cells) -> Iterator[tuple[UUID, Path]]:
    for column, paths in cells.columns().items():
        yield from ((column, path) for path in paths)


def back_up(database: Database, connection: sa.Connection, cells: Cells, name: str) -> None:
    """Copy database and cell states beside what they are: ``ledger.sqlite.before-NAME``.

    Args:
        database: The party's.
        connection: A transaction, which has changed nothing yet.
        cells: Its cell states.
        name: What comes next.

    Raises:
        ConfigError: It cannot be written.
    """
    failed = False
    try:
        if database.file is not None:
            copy_file(database.file, _free(database.file, name))
        else:
            _copy_tables(connection, name)
        folder = _free(cells.folder, name)
        for path in cells.files():
            folder.mkdir(mode=0o700, exist_ok=True)
            second_name(path, folder / path.name)
    except (OSError, sqlite3.Error, sa.exc.SQLAlchemyError):
        failed = True
    if failed:
        raise ConfigError(
            "No backup of the ledger can be written beside it, before it is changed.",
            "Make room, and let this user write into the folder of ledger and cells.",
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


def _copy_tables(connection: sa.Connection, version: str) -> None:
    names = set(sa.inspect(connection).get_table_names())
    for name in sorted(names & {"releases", "commits", "audit"}):
        numbered = (f"{name}_before_{version}{f'_{i}' if i else ''}" for i in range(10_000))
        copy = next(found for found in numbered if found not in names)
        # Both names are this software's own.
        connection.execute(sa.text(f'CREATE TABLE "{copy}" AS SELECT * FROM "{name}"'))  # noqa: S608


def _free(path: Path, version: str) -> Path:
    """A name beside, which no earlier backup has."""
    names = (f"{path.name}.before-{version}{f'-{i}' if i else ''}" for i in range(10_000))
    return next(found for name in names if not (found := path.with_name(name)).exists())
