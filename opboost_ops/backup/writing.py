"""Making a backup while runs go on.

Under the write lock of the ledger, for a moment: the view of the database is fixed, and the files
of cell states and models get second names. They are replaced, never changed, so these names go on
showing what there was. All is copied afterwards, while runs write again. A draw holds its line and
its cell state in one transaction (`privacy.draws`), so that no copied state is older than the
copied ledger, and no line without its state.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import sqlalchemy as sa

from opboost_ops import __version__
from opboost_ops.backup.archive import (
    DATABASE,
    FILES,
    KEYS,
    SITE,
    Contents,
    Progress,
    Writer,
)
from opboost_ops.backup.encryption import Lock
from opboost_ops.backup.party_keys import keys_of
from opboost_ops.backup.second_names import SecondNames
from opboost_ops.config.loading import POLICY, load_site
from opboost_ops.config.site import Site
from opboost_ops.config.source import ENVIRONMENT
from opboost_ops.config.yaml_text import read_yaml
from opboost_ops.errors import ConfigError, ContractError
from opboost_ops.exchange.audit import last_of
from opboost_ops.exchange.party_state import open_state
from opboost_ops.privacy.rows import lines_of, table_names
from opboost_ops.privacy.tables import VERSION, now
from opboost_ops.quality.tightening import TIGHTENING
from opboost_ops.scratch.files import whole_file

_BLOCK = 1 << 20


def back_up(
    folder: Path, target: Path, lock: Lock, progress: Progress = lambda *_: None
) -> Contents:
    """Write a party's state and keys into one encrypted file, as they are at one moment.

    Args:
        folder: Of the party's ``site.yaml``.
        target: The file; it must not be there yet.
        lock: What it is encrypted to.
        progress: Told how far it is.

    Returns:
        What the backup says of itself.

    Raises:
        ConfigError: The file is there, or its folder is not; a declared one cannot be read; or the
            lock is none.
        ContractError: There is no room for it.
    """
    site = load_site(folder / "site.yaml")
    if target.exists():
        raise ConfigError(
            f"{target.name} is there already; nothing was written.", "Name another file."
        )
    if not target.parent.is_dir():
        # A disk that is not mounted must not become a folder on another one.
        raise ConfigError(
            f"The folder of {target.name} does not exist; nothing was written.",
            "Mount its disk, or create the folder.",
        )
    try:
        with whole_file(target) as file, closing(Writer(file, lock)) as writer:
            return _write(folder, site, writer, progress)
    except OSError as error:
        raise ContractError(
            f"The backup {target.name} cannot be written ({error.strerror}).",
            "Make room, or name another folder; nothing was changed.",
        ) from None


def _write(folder: Path, site: Site, writer: Writer, progress: Progress) -> Contents:
    small, left_out = _declared(folder)
    moment = ""
    with SecondNames(site) as names, open_state(site) as state:

        def at_rest() -> None:
            nonlocal moment
            moment = now()
            names.take()

        with state.database.snapshot(at_rest) as view:
            rows = _tables(writer, view)
            _, head = last_of(view)
        for name, content in sorted(small.items()):
            writer.add(FILES + name, [content])
        for name, content in sorted(keys_of(site).items()):
            writer.add(KEYS + name, [content])
        entries = list(names.entries())
        whole, done = sum(path.stat().st_size for _, path in entries), 0
        for name, path in entries:
            for size in _added(writer, name, path):
                progress(done := done + size, whole)
    secrets = site.noise_secrets()
    contents = Contents(
        party=site.party,
        at=moment,
        software=__version__,
        tables=VERSION,
        secret=next(iter(secrets)),
        secrets=tuple(secrets),
        lines=rows["releases"],
        entries=rows["audit"],
        head=head,
        files=writer.files,
        made=names.made,
        left_out=left_out,
    )
    writer.seal(contents, site.noise_secret())
    return contents


def _tables(writer: Writer, view: sa.Connection) -> dict[str, int]:
    rows: dict[str, int] = {}
    for name in table_names():
        rows[name] = 0

        def counted(table: str) -> Iterator[bytes]:
            for line in lines_of(view, table):
                rows[table] += 1
                yield line

        writer.add(f"{DATABASE}{name}.jsonl", counted(name))
    return rows


def _declared(folder: Path) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """The files that people wrote, and what may not come along."""
    found, left_out = {}, []
    for name in (SITE, POLICY, TIGHTENING):
        path = folder / name
        if path.is_file():
            found[name] = path.read_bytes()
    ledger = str(read_yaml(folder / SITE).get("ledger", ""))
    if not ledger.startswith(ENVIRONMENT) and sa.make_url(ledger or "sqlite://").password:
        del found[SITE]
        left_out.append(f"{SITE}: its `ledger` holds a password; let it be env:NAME")
    return found, tuple(left_out)


def _added(writer: Writer, name: str, path: Path) -> Iterator[int]:
    """Add a file, block by block; the bytes of each."""
    with path.open("rb") as file:
        yield from writer.adding(name, iter(lambda: file.read(_BLOCK), b""))
