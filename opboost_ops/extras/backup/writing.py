"""Making a backup while runs continue.

The write lock of the ledger is held briefly, to begin a snapshot of the database and to hard-link
the files of pins and models. These files are replaced, never changed, so the links keep their
content. Everything is copied afterwards, while runs write again.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyrage
import sqlalchemy as sa

from opboost_ops import __version__
from opboost_ops.config.documents import read_yaml
from opboost_ops.config.loading import POLICY, load_site
from opboost_ops.config.site import Site
from opboost_ops.config.source import ENVIRONMENT
from opboost_ops.errors import ConfigError, ContractError
from opboost_ops.exchange.audit import last_of
from opboost_ops.exchange.party_state import open_state
from opboost_ops.extras.backup.archive import (
    DATABASE,
    KEYS,
    MODELS,
    PINS,
    SITE,
    Contents,
    Progress,
    digest_of,
    pack,
    recipient_of,
    seal,
)
from opboost_ops.mechanisms import noise
from opboost_ops.privacy.ledger.tables import VERSION, lines_of, now, table_names
from opboost_ops.quality.checks import TIGHTENING
from opboost_ops.tables.spill.files import link_or_copy, private_folder, whole_file, working_folder

#: Suffixes of files that are replaced as a whole and can be linked; others are copied.
_REPLACED = (".parquet", ".people")


def back_up(
    folder: Path, target: Path, recipient: str, progress: Progress = lambda *_: None
) -> Contents:
    """Write a consistent snapshot of a party's state and keys into one encrypted file.

    Args:
        folder: Folder of the party's ``site.yaml``.
        target: The file, which must not exist yet.
        recipient: The age public key that it is encrypted to.
        progress: Called with the progress of writing.

    Returns:
        The backup's manifest.

    Raises:
        ConfigError: The file exists, or its folder does not; a declared file cannot be read; or
            the recipient is not a public key.
        ContractError: The disk is full.
    """
    site, public = load_site(folder / SITE), recipient_of(recipient)
    if target.exists():
        raise ConfigError(
            f"{target.name} exists already; nothing was written.", "Name another file."
        )
    if not target.parent.is_dir():
        # Do not create the mount point of a disk that is not mounted.
        raise ConfigError(
            f"The folder of {target.name} does not exist; nothing was written.",
            "Mount its disk, or create the folder.",
        )
    try:
        with working_folder(folder, ".backup-") as stage:
            contents = _collect(folder, site, stage)
            seal(stage, contents, site.read_secret())
            with whole_file(target) as file:
                pack(stage, file, public, progress)
    except (OSError, pyrage.EncryptError) as error:
        raise ContractError(
            f"The backup {target.name} cannot be written "
            f"({getattr(error, 'strerror', None) or 'its disk may be full'}).",
            "Free some space, or name another folder; nothing was changed.",
        ) from None
    return contents


def key_places(site: Site) -> dict[str, Path]:
    """Return the paths of all keys that a site stores in files.

    Args:
        site: The party's site.
    """
    names = ("secret", "signing_key", "encryption_key", "alignment_key")
    paths: dict[str, Path | None] = {name: getattr(site, name) for name in names}
    return {name: path for name, path in paths.items() if path and path.is_absolute()}


def _collect(folder: Path, site: Site, stage: Path) -> Contents:
    secret = site.read_secret()
    left_out = _copy_small_files(folder, site, stage)
    moment = ""
    rows: dict[str, int] = {}
    with open_state(site) as state:

        def at_rest() -> None:
            nonlocal moment
            moment = now()
            for kind, root in ((PINS, site.pins), (MODELS, site.models)):
                _link_files(root, stage / kind)

        with state.database.snapshot(at_rest) as view:
            (stage / DATABASE).mkdir()
            for table in table_names():
                with (stage / DATABASE / f"{table}.jsonl").open("wb") as file:
                    rows[table] = sum(map(bool, map(file.write, lines_of(view, table))))
            _, head = last_of(view)
    return Contents(
        party=site.party,
        at=moment,
        software=__version__,
        tables=VERSION,
        secret=noise.fingerprint(secret),
        lines=rows["entries"],
        entries=rows["audit"],
        head=head,
        files=dict(_digests(stage)),
        left_out=left_out,
    )


def _link_files(root: Path, target: Path) -> None:
    """Hard-link or copy the files of a folder, while writers of the party's state wait."""
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        if path.is_symlink() or any(part.startswith(".") for part in parts):
            continue  # An unfinished file, or one outside of the folder.
        copy = target.joinpath(*parts)
        if path.is_dir():
            private_folder(copy)
        elif path.is_file():
            private_folder(copy.parent)
            whole = path.suffix in _REPLACED or (target.name == MODELS and len(parts) > 2)
            (link_or_copy if whole else shutil.copy2)(path, copy)
    for copy in target.rglob("*"):
        if copy.is_dir():
            # Model versions are ordered by the times of their folders.
            at = (root / copy.relative_to(target)).stat().st_mtime_ns
            os.utime(copy, ns=(at, at))


def _copy_small_files(folder: Path, site: Site, stage: Path) -> tuple[str, ...]:
    """Copy present and former keys, and declared files; return the files that are left out."""
    (stage / KEYS).mkdir(mode=0o700)
    for name, place in key_places(site).items():
        for file in [place, *sorted(place.parent.glob(f"{place.name}.until-*"))]:
            if file.is_file():
                shutil.copyfile(file, stage / KEYS / (name + file.name.removeprefix(place.name)))
    for name in (SITE, POLICY, TIGHTENING):
        with suppress(FileNotFoundError):
            shutil.copyfile(folder / name, stage / name)
    ledger = str(read_yaml(folder / SITE).get("ledger", ""))
    if not ledger.startswith(ENVIRONMENT) and sa.make_url(ledger or "sqlite://").password:
        (stage / SITE).unlink()
        return (f"{SITE}: its `ledger` contains a password; use env:NAME instead",)
    return ()


def _digests(stage: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(stage.rglob("*")):
        if path.is_file():
            yield path.relative_to(stage).as_posix(), digest_of(path)
