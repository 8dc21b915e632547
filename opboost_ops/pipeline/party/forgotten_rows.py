"""Removal of a forgotten person's rows from the copies that runs made of a party's sources."""

from collections.abc import Collection
from pathlib import Path
from uuid import uuid4

import polars as pl

from opboost_ops.config.policy import Policy
from opboost_ops.config.site import Site
from opboost_ops.exchange.party_state import agreements_of, open_state
from opboost_ops.exchange.sealed.ids import Reader
from opboost_ops.pipeline.inputs.own_copy import UNPINNED
from opboost_ops.pipeline.inputs.raw_blocks import IDS
from opboost_ops.pipeline.matching import POINTS, point_cache
from opboost_ops.pipeline.stage import COPY, Home
from opboost_ops.tables.parquet import scan
from opboost_ops.tables.spill.files import whole_file


def remove_rows(site: Site, policy: Policy, people: Collection[str | int]) -> tuple[str, ...]:
    """Rewrite every copy without a person's rows.

    In a feature holder's copy of IDs a random ID replaces the person's and is never pinned: a
    current run continues, and the row carries noise that depends on no value.

    Args:
        site: The party's site.
        policy: The party's policy.
        people: The person's ID, in each type that IDs have.

    Returns:
        Federations whose copies had rows removed.

    Raises:
        OSError: A copy cannot be written.
    """
    federations = []
    for agreed in agreements_of(site).agreements:
        declared = agreed.content["federation"]["id"]["column"]
        column = policy.raw_column(declared, declared).strip()
        theirs = {str(person) for person in people}
        copies = sorted(site.home.glob(f"{agreed.federation}/*/{COPY}"))
        removed = [copy for copy in copies if _removed(copy, column, theirs)]
        own = sorted(site.home.glob(f"{agreed.federation}/*/{IDS}.arrow"))
        removed += [path for path in own if _replaced(site, Home(path.parent), theirs)]
        if removed:
            federations.append(agreed.federation)
    return tuple(dict.fromkeys(federations))


def remove_points(site: Site, people: Collection[str | int]) -> int:
    """Remove a person's points from the party's files of months that have not ended.

    Args:
        site: The party's site.
        people: The person's ID, in each type that IDs have.

    Returns:
        Number of removed points.
    """
    wanted: list[bytes] = []
    for person in people:
        wanted += Reader("integer" if isinstance(person, int) else "string").messages([person])
    removed = 0
    for path in sorted(site.home.glob(f"*/{POINTS}/*.points")):
        federation, month, holder = path.parent.parent.name, path.stem[:7], path.stem[8:]
        if (site.month_keys / f"{month}.key").is_file():
            cache = point_cache(site, federation, month, holder, Home(path.parent).scratch)
            removed += cache.remove(wanted)
    return removed


def _removed(copy: Path, column: str, people: Collection[str]) -> bool:
    rows = scan(copy)
    names = {name.strip(): name for name in rows.collect_schema().names()}
    if column not in names:
        return False
    theirs = pl.col(names[column]).cast(pl.String).is_in(list(people)).fill_null(False)
    if not rows.filter(theirs).select(names[column]).collect(engine="streaming").height:
        return False
    with whole_file(copy) as file:
        rows.filter(~theirs).sink_parquet(file, compression="zstd")
    return True


def _replaced(site: Site, home: Home, people: Collection[str]) -> bool:
    """Replace a person in a run's copy of IDs, and remove their values from its copy of values."""
    ids = pl.DataFrame(home.table(IDS))
    (name,) = ids.columns
    theirs = pl.col(name).cast(pl.String).is_in(list(people))
    if not ids.filter(theirs).height:
        return False
    stranger: str | int = uuid4().hex
    if ids.schema[name].is_integer():
        stranger = -(uuid4().int >> 66) - 1
    with open_state(site) as state:
        state.forgotten.add([state.forgotten.hashed(stranger)])
    changed = pl.when(theirs).then(pl.lit(stranger, ids.schema[name])).otherwise(pl.col(name))
    home.write_table(IDS, ids.select(changed.alias(name)).to_arrow())
    if (home.folder / f"{UNPINNED}.arrow").is_file():
        values = pl.DataFrame(home.table(UNPINNED))
        left = values.filter(~pl.col(name).cast(pl.String).is_in(list(people)))
        home.write_table(UNPINNED, left.to_arrow())
        home.write_json(UNPINNED, {"rows": left.height})
    return True
