"""Putting a backup back: everything is verified before anything is changed.

The whole of it is unpacked beside its places first, and each entry held against the sealed
manifest. Then, in one transaction of the database, its rows are replaced and the folders of cell
states and models change places with what was there, which is kept. Ended in between, the old
database lies beside older cell states, which every run refuses; repeating it fixes that.

What people wrote (`site.yaml`, `policy.yaml`) and keys are put back only where they are missing. An
agreement that was withdrawn since stays withdrawn, and a person forgotten since stays forgotten:
nobody consents by a restore.
"""

import datetime
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from opboost_ops import __version__
from opboost_ops.backup.archive import (
    FILES,
    KEYS,
    SITE,
    Contents,
    Progress,
    Reader,
    opened,
)
from opboost_ops.backup.encryption import Key
from opboost_ops.backup.party_keys import PartyKeys, key_places, put_back, require_same
from opboost_ops.backup.places import Places, unpack
from opboost_ops.backup.present import Present, look, not_in_backup, require_meant
from opboost_ops.config.loading import load_site
from opboost_ops.config.site import Site
from opboost_ops.errors import ArtifactError, ConfigError, ContractError
from opboost_ops.exchange.key_files import write_private
from opboost_ops.exchange.party_state import PartyState
from opboost_ops.mechanisms import noise
from opboost_ops.privacy.database import Database
from opboost_ops.privacy.events import Release
from opboost_ops.privacy.rows import copy_file, copy_tables, replace_rows, table_names
from opboost_ops.privacy.tables import VERSION, now
from opboost_ops.run.taking_part import stopped
from opboost_ops.scratch.folders import private_folder


@dataclass(frozen=True)
class Restored:
    """What was put back.

    Attributes:
        site: The party's, as it is now.
        contents: What the backup says of itself.
        aside: Where what was there lies now.
        kept: Files that people wrote, which differ from the backup's and stay as they are.
        beyond: Entries of the ledger that was there, which the backup has not.
    """

    site: Site
    contents: Contents
    aside: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    beyond: tuple[Release, ...] = ()


def restore(
    folder: Path,
    source: Path,
    key: Key,
    over: bool = False,
    progress: Progress = lambda *_: None,
) -> Restored:
    """Restore a party's state.

    Args:
        folder: Of the party's ``site.yaml``, which may be missing.
        source: The backup.
        key: What opens it.
        over: A state that lies there may be moved aside.
        progress: Told how far it is.

    Raises:
        ArtifactError: The backup is cut short, edited, of another party, or of newer tables.
        ConfigError: It is of another noise secret, or something is there that must not be lost.
        ContractError: There is no room; as in all these cases, nothing was changed.
    """
    with opened(source, key) as reader:
        contents = reader.contents
        _require_known(contents)
        brought = not (folder / SITE).exists()
        site = _site_of(folder, reader)
        if contents.party != site.party:
            raise ArtifactError(
                f"The backup is of {contents.party}, and this is the site of {site.party}.",
                "Nothing was changed.",
            )
        names = reader.below(KEYS)
        keys = {name.removeprefix(KEYS): reader.read(name) for name in names}
        reader.require_sealed(_secret(site, contents, keys))
        require_same(site, keys)
        if brought:
            _require_inside(folder, site)
        stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S")
        with Places(folder, site, stamp) as places, _room(site.party):
            unpack(reader, places, progress)
            present = look(site)
            beyond = not_in_backup(present, places.rows / "releases.jsonl")
            if not over:
                require_meant(present, beyond, contents.at, site.party)
            put_back(site, keys, places.made)
            kept = _put_declared(folder, reader, places)
            _replace(site, contents, places, present)
            places.keep()
    return Restored(site, contents, tuple(places.aside), tuple(kept), tuple(beyond))


def _require_known(contents: Contents) -> None:
    if contents.tables > VERSION:
        raise ArtifactError(
            f"The backup has tables of version {contents.tables}, made by release "
            f"{contents.software}; this software, {__version__}, knows {VERSION}.",
            "Upgrade this software first. Nothing was changed.",
        )
    if contents.tables < VERSION:
        raise ArtifactError(
            f"Release {contents.software} made this backup, whose tables this release migrates "
            "only where they lie.",
            f"Restore it with release {contents.software}, then upgrade. Nothing was changed.",
        )


def _site_of(folder: Path, reader: Reader) -> Site:
    """The site as it is declared here; where nothing is, as the backup declares it."""
    if (folder / SITE).exists():
        return load_site(folder / SITE)
    if FILES + SITE not in reader.contents.files:
        raise ConfigError(
            f"There is no {SITE} in {folder.name}, and none in the backup.",
            f"Put {SITE} there first. Nothing was changed.",
        )
    # Its digest is verified; whether the list of digests is true is seen next.
    with tempfile.NamedTemporaryFile(suffix=SITE) as file:
        file.write(reader.read(FILES + SITE))
        file.flush()
        return load_site(Path(file.name), folder)


def _require_inside(folder: Path, site: Site) -> None:
    """Refuse a site that nobody here has declared, where files of it would lie elsewhere."""
    url = site.ledger_url()
    places = [site.home, site.cells, site.models, site.scores, *key_places(site).values()]
    places += [Path(url.removeprefix("sqlite:///"))] if url.startswith("sqlite:///") else []
    own = folder.resolve()
    if any(own not in path.resolve().parents for path in places):
        raise ConfigError(
            f"The {SITE} in the backup names places outside of {folder.name}.",
            f"If they are the party's own, put its {SITE} there first. Nothing was changed.",
        )


def _secret(site: Site, contents: Contents, keys: PartyKeys) -> bytes:
    """The noise secret of a backup: that of its site, or its own where the site has none."""
    own = noise.parse_secret(keys.get("secret", b""))
    if site.secret.is_absolute() and not site.secret.exists() and own is not None:
        known = {noise.fingerprint(own): own}
    else:
        known = site.noise_secrets()
    present = next(iter(known))
    if contents.secret == present:
        return known[present]
    later = " The site has that one as a former one." if contents.secret in known else ""
    raise ConfigError(
        f"The backup is of noise secret {contents.secret}, and {site.party} has {present} now."
        f"{later}",
        "Take a backup of after the secret was replaced; or restore into an empty place. Nothing "
        "was changed.",
    )


@contextmanager
def _room(party: str) -> Iterator[None]:
    problem = ""
    try:
        yield
    except OSError as error:
        problem = error.strerror or "no reason told"
    if problem:
        raise ContractError(
            f"The backup of {party} cannot be put back: the disk says {problem}.",
            "Make room, or let this user write there. Nothing was changed.",
        )


def _put_declared(folder: Path, reader: Reader, places: Places) -> list[str]:
    """Write what people wrote where it is missing; what differs, and stays as it is."""
    kept = []
    for name in reader.below(FILES):
        path = folder / name.removeprefix(FILES)
        content = reader.read(name)
        if not path.exists():
            places.made(path)
            write_private(path, content)
        elif path.read_bytes() != content:
            kept.append(path.name)
    return kept


def _replace(site: Site, contents: Contents, places: Places, present: Present) -> None:
    """Let database, cell states and models be those of the backup: all or nothing."""
    url = site.ledger_url()
    file = Path(url.removeprefix("sqlite:///")) if url.startswith("sqlite:///") else None
    if file is not None:
        private_folder(file.parent)
        if file.exists() and not present.readable:
            places.move_aside(file)
            places.move_aside(file.with_name(f"{file.name}-journal"))
        elif not file.exists():
            places.made(file)
    database = Database(url)
    try:
        with database.writing() as connection:
            if present.readable and present.anything and file is not None:
                copy_file(file, places.free_name(file))
            elif present.readable and present.anything:
                copy_tables(connection, places.table_end)
                places.aside.append(f"the tables ..._{places.table_end}")
            for name in table_names():
                replace_rows(connection, name, _lines(places.rows / f"{name}.jsonl"))
            state = PartyState.of(site, database)
            if state.audit.verify() != (contents.entries, contents.head):
                raise ArtifactError("The backup's audit log is not as it was. Nothing was changed.")
            places.swap()
            _carry_over(state, site, present)
    finally:
        database.close()


def _carry_over(state: PartyState, site: Site, present: Present) -> None:
    """Nobody consents by a restore: who was forgotten since, and what was withdrawn, stays so."""
    if present.forgotten - state.forgotten.read().entries:
        state.forgotten.merge(present.forgotten)
        state.cells.forget(state.forgotten.read().hashes())
    kept = "kept through a restore"
    for made in state.agreements.read().agreements:
        if made.withdrawn is None and (made.federation, made.digest) in present.withdrawn:
            state.agreements.withdraw(frozenset({made.number}), now())
            place = f"{made.federation}/agreement/{made.number}"
            state.audit.add("withdrawn", place, site.party, made.digest, kept)
    for federation in sorted(present.stopped):
        if stopped(state, federation) is None:
            state.audit.add("stopped", f"{federation}/home/act", site.party, detail=kept)
    # A backup of before the first run unpins no store.
    for federation in present.stores.keys() - state.stores.pins().keys():
        state.stores.pin(federation, present.stores[federation])


def _lines(path: Path) -> Iterator[bytes]:
    if path.is_file():
        with path.open("rb") as file:
            yield from file
