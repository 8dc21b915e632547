"""Putting a backup back: everything is verified before anything is changed.

The whole of it is unpacked into a folder of its own first, and each entry held against the sealed
manifest. Then, in one transaction of the database, its rows are replaced and the folders of
pins and models change places with what was there, which is kept. Ended in between, the old
database lies beside older pins, which every run refuses; repeating it fixes that.

What people wrote (`site.yaml`, `policy.yaml`) and keys are put back only where they are missing. An
agreement that was withdrawn since stays withdrawn, and a person forgotten since stays forgotten:
nobody consents by a restore.
"""

import datetime
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from opboost_ops import __version__
from opboost_ops.config.loading import POLICY, load_site
from opboost_ops.config.site import Site
from opboost_ops.errors import ArtifactError, ConfigError, ContractError
from opboost_ops.exchange.encryption import write_private
from opboost_ops.exchange.party_state import PartyState
from opboost_ops.extras.backup.archive import (
    DATABASE,
    KEYS,
    MODELS,
    PINS,
    SITE,
    Contents,
    Progress,
    damaged,
    identity_of,
    require_sealed,
    unpack,
)
from opboost_ops.extras.backup.present import (
    Present,
    has_files,
    not_in_backup,
    present_at,
    present_of,
    require_meant,
)
from opboost_ops.extras.backup.writing import key_places
from opboost_ops.mechanisms import noise
from opboost_ops.pipeline.party.agreement import stopped
from opboost_ops.privacy.ledger.database import Database
from opboost_ops.privacy.ledger.entries import LedgerEntry
from opboost_ops.privacy.ledger.tables import (
    VERSION,
    copied_tables,
    copy_file,
    copy_tables,
    now,
    replace_rows,
    table_names,
)
from opboost_ops.quality.checks import TIGHTENING
from opboost_ops.tables.spill.files import private_folder, working_folder

#: Part of the names under which the state that was there is kept.
ASIDE = ".before-restore-"

#: The same of tables in a database that is no file.
_TABLES_ASIDE = "before_restore_"


@dataclass(frozen=True)
class Restored:
    """The result of a restore.

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
    beyond: tuple[LedgerEntry, ...] = ()


def restore(
    folder: Path,
    source: Path,
    key: Path,
    over: bool = False,
    progress: Progress = lambda *_: None,
) -> Restored:
    """Restore a party's state.

    Args:
        folder: Of the party's ``site.yaml``, which may be missing.
        source: The backup.
        key: File of the private key that opens it.
        over: A state that lies there may be moved aside.
        progress: Called with how far it is.

    Raises:
        ArtifactError: The backup is cut short, edited, of another party, or of other tables.
        ConfigError: It is of another secret, or something is there that must not be lost.
        ContractError: There is no room; as in all these cases, nothing was changed.
    """
    identity = identity_of(key)
    with _disk_faults(folder.name), ExitStack() as undo:
        if not folder.exists():
            undo.callback(shutil.rmtree, folder, ignore_errors=True)
            private_folder(folder)
        with working_folder(folder, ".restore-") as stage:
            contents = unpack(source, identity, stage, progress)
            site = _site_of(folder, stage, contents)
            require_sealed(stage, contents, _secret(site, stage, contents))
            small = _small_files(folder, site, stage)
            present = present_at(site)
            entries = stage / DATABASE / "entries.jsonl"
            if not over:
                require_meant(present, not_in_backup(present, entries), contents.at, site.party)
            unchanged = []
            for path, content in small.items():
                if not path.exists():
                    undo.callback(path.unlink, missing_ok=True)
                    write_private(path, content)
                elif path.read_bytes() != content:
                    unchanged.append(path.name)
            places = Places(undo)
            present = _replace(site, contents, stage, places, present, over)
            undo.pop_all()
            beyond = not_in_backup(present, entries)
    return Restored(site, contents, tuple(places.aside), tuple(unchanged), tuple(beyond))


def names_set_aside(site: Site, state: PartyState) -> list[str]:
    """Names of all that restores have set aside and that is still there.

    Args:
        site: The party's.
        state: The party's, as it is now.
    """
    folders = {site.pins.parent, site.models.parent}
    if state.database.file is not None:
        folders.add(state.database.file.parent)
    names = {path.name for folder in folders for path in folder.glob(f"*{ASIDE}*")}
    with state.database.reading() as connection:
        return sorted(names | set(copied_tables(connection, _TABLES_ASIDE)))


class Places:
    """The names under which the present state is set aside.

    Args:
        undo: How everything becomes as it was.
    """

    def __init__(self, undo: ExitStack) -> None:
        stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S")
        self._end, self._undo = f"{ASIDE}{stamp}", undo
        #: The end of the names of tables that are set aside.
        self.table_end = f"{_TABLES_ASIDE}{stamp}".lower()
        #: Everything that was set aside.
        self.aside: list[str] = []

    def written(self, path: Path) -> None:
        """Note a file that is written where there is none."""
        self._undo.callback(path.unlink, missing_ok=True)

    def free_name(self, path: Path) -> Path:
        """The name under which a file or folder is set aside."""
        # Two restores may be within one second.
        ends = (f"{self._end}{f'.{i}' if i else ''}" for i in count())
        names = (path.with_name(path.name + end) for end in ends)
        target = next(name for name in names if not name.exists())
        self.aside.append(target.name)
        return target

    def move_aside(self, path: Path) -> None:
        """Set aside a file or folder, if there is one."""
        if path.exists():
            self._move(path, self.free_name(path))

    def swap(self, source: Path, path: Path) -> None:
        """Put a folder at its place, and set aside the one that is there."""
        self.move_aside(path)
        if source.is_dir():
            private_folder(path.parent)
            self._move(source, path)

    def _move(self, source: Path, target: Path) -> None:
        shutil.move(source, target)
        self._undo.callback(shutil.move, target, source)


def _site_of(folder: Path, stage: Path, contents: Contents) -> Site:
    """The site as it is declared here; where nothing is, as the backup declares it."""
    if contents.tables != VERSION:
        raise ArtifactError(
            f"The backup was made by release {contents.software}, with tables of version "
            f"{contents.tables}; this release, {__version__}, knows version {VERSION}.",
            f"Restore it with release {contents.software}. Nothing was changed.",
        )
    if (folder / SITE).exists():
        site = load_site(folder / SITE)
    elif (stage / SITE).is_file():
        site = load_site(stage / SITE, folder)
        _require_inside(folder, site)
    else:
        raise ConfigError(
            f"There is no {SITE} in {folder.name}, and none in the backup.",
            f"Put {SITE} there first. Nothing was changed.",
        )
    if contents.party != site.party:
        raise ArtifactError(
            f"The backup is of {contents.party}, and this is the site of {site.party}.",
            "Nothing was changed.",
        )
    return site


def _require_inside(folder: Path, site: Site) -> None:
    """Refuse a site that nobody here has declared, where files of it would lie elsewhere."""
    places = [site.home, site.pins, site.models, site.scores, *key_places(site).values()]
    places.append(Path(site.ledger.removeprefix("sqlite:///")))
    own = folder.resolve()
    # A server, or what an environment variable names, is not in the folder either.
    is_local_file = site.ledger.startswith("sqlite:///") and "?" not in site.ledger
    if not is_local_file or any(own not in path.resolve().parents for path in places):
        raise ConfigError(
            f"The {SITE} in the backup names places outside of {folder.name}.",
            f"If they are the party's own, put its {SITE} there first. Nothing was changed.",
        )


def _secret(site: Site, stage: Path, contents: Contents) -> bytes:
    """The secret of a site, or that of the backup where the site has none."""
    brought = stage / KEYS / "secret"
    empty = site.secret.is_absolute() and not site.secret.exists() and brought.is_file()
    secret = noise.read_secret(brought) if empty else site.noise_secret()
    present = noise.fingerprint(secret)
    if contents.secret == present:
        return secret
    raise ConfigError(
        f"The backup is of noise secret {contents.secret}, and {site.party} has {present} now.",
        "Take a backup of after the secret was replaced; or restore into an empty place. Nothing "
        "was changed.",
    )


def _small_files(folder: Path, site: Site, stage: Path) -> dict[Path, bytes]:
    """Contents of keys and declared files by their places; another key is never replaced."""
    wanted = {
        folder / name: (stage / name).read_bytes()
        for name in (SITE, POLICY, TIGHTENING)
        if (stage / name).is_file()
    }
    places, other = key_places(site), []
    for path in sorted((stage / KEYS).glob("*")):
        name, dot, end = path.name.partition(".")
        if name in places and (not end or end.startswith("until-")):
            target = places[name].with_name(places[name].name + dot + end)
            wanted[target] = path.read_bytes()
            if target.exists() and target.read_bytes() != wanted[target]:
                other.append(target.name)
    if other:
        raise ConfigError(
            f"{', '.join(other)} of {site.party} is another key than the one in the backup.",
            "Move it away if the one in the backup is meant. Nothing was changed.",
        )
    return wanted


@contextmanager
def _disk_faults(party: str) -> Iterator[None]:
    problem = ""
    try:
        yield
    except OSError as error:
        problem = error.strerror or "no reason given"
    if problem:
        raise ContractError(
            f"The backup of {party} cannot be restored: the disk says {problem}.",
            "Make room, or let this user write there. Nothing was changed.",
        )


def _replace(
    site: Site, contents: Contents, stage: Path, places: Places, present: Present, over: bool
) -> Present:
    """Let database, pins and models be those of the backup: all or nothing.

    Returns:
        The state at that moment: others may have gone on since it was looked at.
    """
    url = site.ledger_url()
    file = Path(url.removeprefix("sqlite:///")) if url.startswith("sqlite:///") else None
    if file is not None:
        private_folder(file.parent)
        if file.exists() and not present.readable:
            places.move_aside(file)
            places.move_aside(file.with_name(f"{file.name}-journal"))
        elif not file.exists():
            places.written(file)
    database = Database(url)
    try:
        with database.writing() as connection:
            state = PartyState.of(site, database)
            if present.readable:
                present = present_of(state, files=has_files(site))
                if not over:
                    beyond = not_in_backup(present, stage / DATABASE / "entries.jsonl")
                    require_meant(present, beyond, contents.at, site.party)
            if present.readable and present.anything and file is not None:
                copy = places.free_name(file)
                places.written(copy)
                copy_file(file, copy)
            elif present.readable and present.anything:
                copy_tables(connection, places.table_end)
                places.aside.append(f"the tables ..._{places.table_end}")
            for name in table_names():
                replace_rows(connection, name, _lines(stage / DATABASE / f"{name}.jsonl"))
            if state.audit.verify() != (contents.entries, contents.head):
                raise damaged("its audit log")
            places.swap(stage / PINS, site.pins)
            places.swap(stage / MODELS, site.models)
            _carry_over(state, site, present)
    finally:
        database.close()
    return present


def _carry_over(state: PartyState, site: Site, present: Present) -> None:
    """Nobody consents by a restore: who was forgotten since, and what was withdrawn, stays so."""
    if state.forgotten.add(present.forgotten):
        state.releases.forget(present.forgotten)
    reason = "kept through a restore"
    for agreement in state.agreements.read().agreements:
        if (
            agreement.withdrawn is None
            and (agreement.federation, agreement.digest) in present.withdrawn
        ):
            state.agreements.withdraw(frozenset({agreement.number}), now())
            place = f"{agreement.federation}/agreement/{agreement.number}"
            state.audit.add("withdrawn", place, site.party, agreement.digest, reason)
    for federation in sorted(present.stopped):
        if stopped(state, federation) is None:
            state.audit.add("stopped", f"{federation}/home/act", site.party, detail=reason)
    # A backup of before the first run unpins no store.
    for federation in present.stores.keys() - state.stores.pins().keys():
        state.stores.pin(federation, present.stores[federation])


def _lines(path: Path) -> Iterator[bytes]:
    if path.is_file():
        with path.open("rb") as file:
            yield from file
