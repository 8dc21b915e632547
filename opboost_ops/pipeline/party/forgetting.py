"""Forgetting a person: pins, points, rows in copies, and a list of what cannot be recalled."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import polars as pl

from opboost_ops.config.federation import IdColumn
from opboost_ops.config.policy import Policy
from opboost_ops.config.site import Site
from opboost_ops.config.source import Source
from opboost_ops.errors import ConfigError
from opboost_ops.exchange.party_state import PartyState, agreements_of, open_state
from opboost_ops.exchange.sealed.ids import IdEncoder
from opboost_ops.learning.registry.registry import Registry
from opboost_ops.pipeline.home import cached_files
from opboost_ops.pipeline.inputs.own_copy import UNPINNED
from opboost_ops.pipeline.inputs.raw_blocks import IDS
from opboost_ops.pipeline.matching import POINTS, point_cache
from opboost_ops.pipeline.stage import COPY, Home
from opboost_ops.tables.id_recipe import id_of_text
from opboost_ops.tables.parquet import FAILURES, files_of, scan, scan_common
from opboost_ops.tables.spill.files import whole_file


@dataclass(frozen=True)
class Erasure:
    """Result of forgetting a person: all that was removed, and all that could not be.

    Attributes:
        listed_before: True if the ID was on the list of forgotten people before.
        pins: Number of removed pins.
        points: Number of removed points.
        unread_pins: Features whose pin file is missing or damaged.
        copies: Federations whose copies of source tables had rows of the person.
        tables: Federations whose tables still have the person.
        unread_tables: Federations with a table that was not searched.
        artifacts: Artifacts that were sent before, as paths in the store, by receiver; empty for an
            ID that was never pinned.
        models: Versions of models that the party trained before.
        audit_entry: Number of the audit entry.
        audit_head: Digest of the audit log up to this entry.
    """

    listed_before: bool
    pins: int
    points: int
    unread_pins: tuple[str, ...]
    copies: tuple[str, ...]
    tables: tuple[str, ...]
    unread_tables: tuple[str, ...]
    artifacts: Mapping[str, tuple[str, ...]]
    models: tuple[str, ...]
    audit_entry: int
    audit_head: str

    @property
    def known(self) -> bool:
        """True if the party has, or had, anything of the person."""
        return bool(self.listed_before or self.pins or self.tables or self.copies)


def forget(site: Site, policy: Policy, text: str) -> Erasure:
    """Forget a person in all federations of a party; the next runs have no row of theirs.

    An interrupted call is completed by calling it again.

    Args:
        site: The party's site.
        policy: The party's policy.
        text: The ID, or the values of its columns, joined by ``|``.

    Raises:
        ConfigError: The text is empty.
        OSError: A copy cannot be written.
    """
    ids = _ids_of(site)
    people = _forms(text, [recipe for _, recipe in ids])
    with open_state(site) as state, state.transaction():
        hashes = sorted({state.forgotten.hashed(person) for person in people})
        listed_before = state.forgotten.add(hashes) < len(hashes)
        unread_pins = tuple(sorted({release.feature for release in state.releases.lost()}))
        pins = state.releases.forget(hashes)
        state.audit.add("forgotten", "pins", site.party, detail=f"{pins} pins")
        audit_entry, audit_head = state.audit.head()
        # A call that was interrupted after this transaction has left no pin to remove again.
        artifacts = _sent(state, site.party) if pins or listed_before or unread_pins else {}
    with open_state(site) as state:
        state.releases.collect()
    copies = _remove_rows(site, policy, people)
    points = _remove_points(site, people)
    for path in cached_files(site.home):
        # Cached files outlive runs; the next run creates them again.
        path.unlink(missing_ok=True)
    tables, unread_tables = _tables_with(site, policy, dict(ids), people)
    models = tuple(
        f"{federation}/{version}"
        for federation in sorted({name for name, _ in ids})
        for version in Registry(site.models, federation).versions()
    )
    return Erasure(
        listed_before=listed_before,
        pins=pins,
        points=points,
        unread_pins=unread_pins,
        copies=copies,
        tables=tables,
        unread_tables=unread_tables,
        artifacts=artifacts,
        models=models,
        audit_entry=audit_entry,
        audit_head=audit_head,
    )


def _forms(text: str, recipes: Collection[IdColumn]) -> list[str | int]:
    """Return an ID in each form that the party's federations have of it."""
    if not text:
        raise ConfigError("This is not an ID.", "Give the ID as it is in the table.")
    forms: list[str | int] = [text]
    number = int(text) if re.fullmatch(r"-?\d{1,19}", text) else None
    if number is not None and -(2**63) <= number < 2**63 and str(number) == text:
        forms.append(number)
    forms += [id_of_text(text, recipe) for recipe in recipes if recipe.is_made]
    return list(dict.fromkeys(forms))


def _ids_of(site: Site) -> list[tuple[str, IdColumn]]:
    """Return all federations that the party ever agreed to, in order, with their ID columns."""
    return [
        (agreed.federation, IdColumn.model_validate(agreed.content["federation"]["id"]))
        for agreed in agreements_of(site).agreements
    ]


def _sent(state: PartyState, party: str) -> dict[str, tuple[str, ...]]:
    """Return the paths of the artifacts with protected columns that each receiver has."""
    paths: dict[str, set[str]] = {}
    for entry in state.ledger.entries():
        if entry.account == "local_dp" and not entry.opens_release:
            path = f"{entry.federation}/{entry.run}/{entry.kind}/{party}"
            paths.setdefault(entry.receiver, set()).add(path)
    return {receiver: tuple(sorted(paths[receiver])) for receiver in sorted(paths)}


def _tables_with(
    site: Site, policy: Policy, ids: Mapping[str, IdColumn], people: Collection[str | int]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the federations whose tables contain a person, and those that were not searched."""
    federations: dict[str, None] = {}
    unread: set[str] = set()
    for federation, tables in site.tables.items():
        declared = ids.get(federation)
        name = "" if declared is None else declared.column
        column = policy.raw_column(name, name)
        for path in (tables.train, tables.score):
            if path is None:
                continue
            if isinstance(path, Source) or (declared is not None and declared.is_made):
                # Only a run reads the source or derives IDs: only local tables are searched.
                unread.add(federation)
                continue
            try:
                rows = scan_common(files_of(path), site.party, {})[0]
                id_text = pl.col(column).cast(pl.String)
                theirs = rows.select(id_text).filter(id_text.is_in([str(i) for i in people]))
                if theirs.collect(engine="streaming").height:
                    federations[federation] = None
            except FAILURES:
                unread.add(federation)
    return tuple(federations), tuple(sorted(unread - set(federations)))


def _remove_rows(site: Site, policy: Policy, people: Collection[str | int]) -> tuple[str, ...]:
    """Rewrite every copy without a person's rows; return the federations of these copies.

    In a feature holder's copy of IDs a random ID replaces the person's and is never pinned: a
    current run continues, and the row carries noise that depends on no value.
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


def _remove_points(site: Site, people: Collection[str | int]) -> int:
    """Remove a person's points from the files of months that have not ended; return how many."""
    wanted: list[bytes] = []
    for person in people:
        wanted += IdEncoder("integer" if isinstance(person, int) else "string").messages([person])
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
