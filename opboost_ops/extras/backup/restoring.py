"""Restore of a backup: everything is verified before anything is changed.

The backup is unpacked into a temporary folder, and each entry compared with the manifest. Then one
database transaction replaces all rows, and the folders of pins and models are swapped with the
present ones, which are kept. After a crash in between, the old database is beside older pins; every
run rejects that, and repeating the restore fixes it.

Declared files (`site.yaml`, `policy.yaml`) and keys are restored only if they are missing.
Agreements that were withdrawn since the backup stay withdrawn, and people forgotten since then stay
forgotten: a restore never gives consent.
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
    require_confirmation,
)
from opboost_ops.extras.backup.writing import key_places
from opboost_ops.mechanisms import noise
from opboost_ops.pipeline.party.admission import ADMITTED
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

#: Part of the names of files and folders that were set aside.
ASIDE = ".before-restore-"

#: Part of the names of tables that were set aside on a database server.
_TABLES_ASIDE = "before_restore_"


@dataclass(frozen=True)
class Restored:
    """The result of a restore.

    Attributes:
        site: The party's site after the restore.
        contents: The backup's manifest.
        aside: Names under which the former state was set aside.
        kept: Declared files that differ from the backup's and were not changed.
        beyond: Former ledger entries that are not in the backup.
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
        folder: Folder of the party's ``site.yaml``, which may be missing.
        source: The backup.
        key: File of the private key that opens it.
        over: Whether a present state may be moved aside.
        progress: Called with the progress of unpacking.

    Raises:
        ArtifactError: The backup is truncated, edited, of another party, or of other tables.
        ConfigError: The backup is of another secret, or a present state or key would be replaced.
        ContractError: The disk is full. In all of these cases nothing was changed.
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
                require_confirmation(
                    present, not_in_backup(present, entries), contents.at, site.party
                )
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
    """Return the names of everything that restores have set aside and that still exists.

    Args:
        site: The party's site.
        state: The party's present state.
    """
    folders = {site.pins.parent, site.models.parent}
    if state.database.file is not None:
        folders.add(state.database.file.parent)
    names = {path.name for folder in folders for path in folder.glob(f"*{ASIDE}*")}
    with state.database.reading() as connection:
        return sorted(names | set(copied_tables(connection, _TABLES_ASIDE)))


class Places:
    """Sets the present state aside under new names.

    Args:
        undo: Collects the callbacks that reverse all changes.
    """

    def __init__(self, undo: ExitStack) -> None:
        stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S")
        self._suffix, self._undo = f"{ASIDE}{stamp}", undo
        #: Suffix of the names of tables that are set aside.
        self.table_suffix = f"{_TABLES_ASIDE}{stamp}".lower()
        #: Names of everything that was set aside.
        self.aside: list[str] = []

    def register_new(self, path: Path) -> None:
        """Register a new file, to remove it if the restore fails."""
        self._undo.callback(path.unlink, missing_ok=True)

    def free_name(self, path: Path) -> Path:
        """Choose an unused name under which to set a file or folder aside."""
        # Two restores may happen within one second.
        suffixes = (f"{self._suffix}{f'.{i}' if i else ''}" for i in count())
        names = (path.with_name(path.name + suffix) for suffix in suffixes)
        target = next(name for name in names if not name.exists())
        self.aside.append(target.name)
        return target

    def move_aside(self, path: Path) -> None:
        """Set a file or folder aside, if it exists."""
        if path.exists():
            self._move(path, self.free_name(path))

    def swap(self, source: Path, path: Path) -> None:
        """Move a folder to its place, and set the present one aside."""
        self.move_aside(path)
        if source.is_dir():
            private_folder(path.parent)
            self._move(source, path)

    def _move(self, source: Path, target: Path) -> None:
        shutil.move(source, target)
        self._undo.callback(shutil.move, target, source)


def _site_of(folder: Path, stage: Path, contents: Contents) -> Site:
    """Return the site as declared here, or in the backup if nothing is declared here."""
    if contents.tables != VERSION:
        raise ArtifactError(
            f"The backup was made by release {contents.software}, with tables of version "
            f"{contents.tables}; this release, {__version__}, has version {VERSION}.",
            f"Restore it with release {contents.software}. Nothing was changed.",
        )
    if (folder / SITE).exists():
        site = load_site(folder / SITE)
    elif (stage / SITE).is_file():
        site = load_site(stage / SITE, folder)
        _require_inside(folder, site)
    else:
        raise ConfigError(
            f"There is no {SITE} in {folder.name} or in the backup.",
            f"Write {SITE} first. Nothing was changed.",
        )
    if contents.party != site.party:
        raise ArtifactError(
            f"The backup is of {contents.party}, but this is the site of {site.party}.",
            "Nothing was changed.",
        )
    return site


def _require_inside(folder: Path, site: Site) -> None:
    """Reject a backup's site declaration that names places outside of the folder."""
    places = [site.home, site.pins, site.models, site.scores, *key_places(site).values()]
    places.append(Path(site.ledger.removeprefix("sqlite:///")))
    own = folder.resolve()
    # A database server or an environment variable is also outside of the folder.
    is_local_file = site.ledger.startswith("sqlite:///") and "?" not in site.ledger
    if not is_local_file or any(own not in path.resolve().parents for path in places):
        raise ConfigError(
            f"The {SITE} in the backup names places outside of {folder.name}.",
            f"If they are the party's own, write its {SITE} first. Nothing was changed.",
        )


def _secret(site: Site, stage: Path, contents: Contents) -> bytes:
    """Return the secret of a site, or of the backup if the site has none."""
    in_backup = stage / KEYS / "secret"
    is_missing = site.secret.is_absolute() and not site.secret.exists() and in_backup.is_file()
    secret = noise.read_secret(in_backup) if is_missing else site.read_secret()
    present = noise.fingerprint(secret)
    if contents.secret == present:
        return secret
    raise ConfigError(
        f"The backup was made with noise secret {contents.secret}, but {site.party} has {present} "
        "now.",
        "Use a backup made after the secret was replaced, or restore into an empty folder. Nothing "
        "was changed.",
    )


def _small_files(folder: Path, site: Site, stage: Path) -> dict[Path, bytes]:
    """Return the backup's keys and declared files by place; reject keys that differ."""
    wanted = {
        folder / name: (stage / name).read_bytes()
        for name in (SITE, POLICY, TIGHTENING)
        if (stage / name).is_file()
    }
    places, different = key_places(site), []
    for path in sorted((stage / KEYS).glob("*")):
        name, dot, end = path.name.partition(".")
        if name in places and (not end or end.startswith("until-")):
            target = places[name].with_name(places[name].name + dot + end)
            wanted[target] = path.read_bytes()
            if target.exists() and target.read_bytes() != wanted[target]:
                different.append(target.name)
    if different:
        raise ConfigError(
            f"{', '.join(different)} of {site.party} differs from the key in the backup.",
            "Move it away to restore the key in the backup. Nothing was changed.",
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
            f"The backup of {party} cannot be restored: the disk failed ({problem}).",
            "Free some space, or let this user write there. Nothing was changed.",
        )


def _replace(
    site: Site, contents: Contents, stage: Path, places: Places, present: Present, over: bool
) -> Present:
    """Replace database, pins and models by those of the backup, in one transaction.

    Returns:
        The state that was replaced, which may be newer than ``present``.
    """
    url = site.ledger_url()
    file = Path(url.removeprefix("sqlite:///")) if url.startswith("sqlite:///") else None
    if file is not None:
        private_folder(file.parent)
        if file.exists() and not present.readable:
            places.move_aside(file)
            places.move_aside(file.with_name(f"{file.name}-journal"))
        elif not file.exists():
            places.register_new(file)
    database = Database(url)
    try:
        with database.writing() as connection:
            state = PartyState.of(site, database)
            if present.readable:
                present = present_of(state, files=has_files(site))
                if not over:
                    beyond = not_in_backup(present, stage / DATABASE / "entries.jsonl")
                    require_confirmation(present, beyond, contents.at, site.party)
            if present.readable and present.anything and file is not None:
                copy = places.free_name(file)
                places.register_new(copy)
                copy_file(file, copy)
            elif present.readable and present.anything:
                copy_tables(connection, places.table_suffix)
                places.aside.append(f"the tables ..._{places.table_suffix}")
            for name in table_names():
                replace_rows(connection, name, _lines(stage / DATABASE / f"{name}.jsonl"))
            if state.audit.verify() != (contents.entries, contents.head):
                raise damaged("its audit log")
            places.swap(stage / PINS, site.pins)
            places.swap(stage / MODELS, site.models)
            _carry_over(state, site, present)
            # Current runs were admitted in another state: their next stages compare it again.
            for admitted in site.home.glob(f"*/*/{ADMITTED}.json"):
                admitted.unlink()
    finally:
        database.close()
    return present


def _carry_over(state: PartyState, site: Site, present: Present) -> None:
    """Restore what must outlive it: forgotten people, withdrawals, stops, checkpoints, stores."""
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
    for federation, receiver, checkpoint in present.checkpoints:
        if not state.checkpoints.knows(federation, receiver, checkpoint):
            state.checkpoints.receive(federation, site.party, receiver, checkpoint)
    # A backup from before the first run must not unpin a store.
    for federation in present.stores.keys() - state.stores.pins().keys():
        state.stores.pin(federation, present.stores[federation])


def _lines(path: Path) -> Iterator[bytes]:
    if path.is_file():
        with path.open("rb") as file:
            yield from file
