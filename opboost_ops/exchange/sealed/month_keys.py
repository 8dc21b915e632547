"""Epochs and their keys: random files, deleted when the month is over, from which exponents follow.

They follow from nothing else, and no backup has them: once a file is deleted, nobody, the party
included, can open what was sealed in that month any more.
"""

import os
import re
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

from opboost_ops.errors import ConfigError
from opboost_ops.tables.spill.files import private_folder

#: Clocks, and the beginning of a run at two parties, may be so far apart.
TOLERANCE = timedelta(days=1)

_MONTH = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])")


def is_epoch(value: object) -> bool:
    """True if a value of a plan is the name of an epoch."""
    return isinstance(value, str) and _MONTH.fullmatch(value) is not None


def epoch_at(moment: datetime) -> str:
    """The epoch of a moment: its month in UTC, as in ``2026-11``.

    Args:
        moment: With its time zone.
    """
    return f"{moment.astimezone(UTC):%Y-%m}"


def begun_by(moment: datetime) -> frozenset[str]:
    """The epochs in which a run may begin at a moment: one, or two about the end of a month.

    Args:
        moment: With its time zone.
    """
    return frozenset(epoch_at(moment + shift) for shift in (-TOLERANCE, TOLERANCE))


def may_begin(epoch: str, moment: datetime) -> bool:
    """True if a run of an epoch may begin at a moment.

    Args:
        epoch: Its name.
        moment: With its time zone.
    """
    return epoch in begun_by(moment)


def now() -> datetime:
    """This machine's clock."""
    return datetime.now(UTC)


#: Bytes of a key.
KEY = 32

#: So long after its month a key is still there, for runs that began before midnight.
GRACE = timedelta(days=2)


def month_key(folder: Path, month: str) -> bytes:
    """The key of a month, made at its first use.

    Args:
        folder: Where keys of months lie.
        month: As in ``2026-11``.

    Raises:
        ConfigError: The file is no key, or readable by others.
    """
    path = folder / f"{month}.key"
    if not path.exists():
        private_folder(folder)
        fresh = folder / f".{month}.{uuid4().hex}"
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with open(os.open(fresh, flags, 0o600), "wb") as file:
                file.write(secrets.token_bytes(KEY))
                file.flush()
                os.fsync(file.fileno())
            # Of two tasks that make one at a time, the first decides.
            os.link(fresh, path)
        except FileExistsError:
            pass
        finally:
            fresh.unlink(missing_ok=True)
    if path.stat().st_mode & 0o077:
        raise ConfigError(
            f"The key of the month {path.name} can be read by others.",
            "Make it readable by its owner alone (chmod 600).",
        )
    key = path.read_bytes()
    if len(key) != KEY:
        raise ConfigError(
            f"{path.name} in {folder.name} is not a key of {KEY} bytes.",
            "Delete it: a new one is made, and the next run queries everybody again.",
        )
    return key


def delete_expired(folder: Path, moment: datetime) -> list[str]:
    """Delete everything of months that were over two days before a moment.

    Args:
        folder: Where files or folders lie whose names begin with their month.
        moment: With its time zone.

    Returns:
        Names of what was deleted.
    """
    gone = []
    last = f"{moment - GRACE:%Y-%m}"
    for path in sorted(folder.glob("*")):
        month = path.name[:7]
        if is_epoch(month) and month < last:
            if path.is_dir():
                for file in path.iterdir():
                    file.unlink(missing_ok=True)
                path.rmdir()
            else:
                path.unlink(missing_ok=True)
            gone.append(path.name)
    return gone
