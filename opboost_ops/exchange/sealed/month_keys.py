"""Keys of the month: random files from which exponents follow, deleted when the month is over.

They follow from nothing else, and no backup has them: once a file is deleted, nobody, the party
included, can open what was sealed in that month any more.
"""

import os
import secrets
from datetime import datetime, timedelta
from pathlib import Path
from uuid import uuid4

from opboost_ops.errors import ConfigError
from opboost_ops.exchange.sealed.epochs import is_epoch
from opboost_ops.tables.spill.folders import private_folder

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
    found = path.read_bytes()
    if len(found) != KEY:
        raise ConfigError(
            f"{path.name} in {folder.name} is not a key of {KEY} bytes.",
            "Delete it: a new one is made, and the next run queries everybody again.",
        )
    return found


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
