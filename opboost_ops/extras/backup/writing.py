"""Making a backup while runs go on.

Under the write lock of the ledger, for a moment: the view of the database is fixed, and the files
of pins and models get second names. They are replaced, never changed, so these names go on
showing what there was. All is copied afterwards, while runs write again.
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

#: Files that are replaced as a whole, by the ends of their names; others are copied.
_REPLACED = (".parquet", ".people")


def back_up(
    folder: Path, target: Path, recipient: str, progress: Progress = lambda *_: None
) -> Contents:
    """Write a party's state and keys into one encrypted file, as they are at one moment.

    Args:
        folder: Of the party's ``site.yaml``.
        target: The file; it must not be there yet.
        recipient: The public key of age that it is encrypted to.
        progress: Called with how far it is.

    Returns:
        The backup's manifest.

    Raises:
        ConfigError: The file is there, or its folder is not; a declared one cannot be read; or the
            recipient is none.
        ContractError: There is no room for it.
    """
    site, public = load_site(folder / SITE), recipient_of(recipient)
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
        with working_folder(folder, ".backup-") as stage:
            contents = _collect(folder, site, stage)
            seal(stage, contents, site.noise_secret())
            with whole_file(target) as file:
                pack(stage, file, public, progress)
    except (OSError, pyrage.EncryptError) as error:
        raise ContractError(
            f"The backup {target.name} cannot be written "
            f"({getattr(error, 'strerror', None) or 'its disk may be full'}).",
            "Make room, or name another folder; nothing was changed.",
        ) from None
    return contents


def key_places(site: Site) -> dict[str, Path]:
    """Where a site keeps each key that lies in a file.

    Args:
        site: The party's.
    """
    names = ("secret", "signing_key", "encryption_key", "alignment_key")
    paths: dict[str, Path | None] = {name: getattr(site, name) for name in names}
    return {name: path for name, path in paths.items() if path and path.is_absolute()}


def _collect(folder: Path, site: Site, stage: Path) -> Contents:
    secret = site.noise_secret()
    left_out = _take_small(folder, site, stage)
    moment = ""
    rows: dict[str, int] = {}
    with open_state(site) as state:

        def at_rest() -> None:
            nonlocal moment
            moment = now()
            for kind, root in ((PINS, site.pins), (MODELS, site.models)):
                _take(root, stage / kind)

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


def _take(root: Path, target: Path) -> None:
    """Give the files of a folder second names, quickly: writers of the party's state wait."""
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        if path.is_symlink() or any(part.startswith(".") for part in parts):
            continue  # An unfinished file, or one elsewhere.
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


def _take_small(folder: Path, site: Site, stage: Path) -> tuple[str, ...]:
    """Copy keys, former ones too, and declared files; the files that are left out."""
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
        return (f"{SITE}: its `ledger` holds a password; let it be env:NAME",)
    return ()


def _digests(stage: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(stage.rglob("*")):
        if path.is_file():
            yield path.relative_to(stage).as_posix(), digest_of(path)
