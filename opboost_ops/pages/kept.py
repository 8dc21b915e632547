"""What was read of a party's database, kept in this process while the database's file is the same.

A page tells what its database says at that moment. Nothing is taken from memory unless the file is
known to be as it was when it was read: the same file, of the same size, last written and changed at
the same times by the clock of its file system; and these must lie so far back that another change
would have had other ones. After any change all is read again from the first line: what is kept is
never a beginning on which more is built. Nothing is kept of a database that is no file.
"""

import gc
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar

from opboost_ops.config.site import Site

#: Nanoseconds after a change by which any further one has another time.
_SETTLED = 2_000_000_000
#: Parties of which something is kept.
_MOST = 16

_Value = TypeVar("_Value")

#: What tells one state of a file from another.
_File = tuple[int, int, int, int, int]
_State = tuple[_File | None, ...]


class Kept(Generic[_Value]):
    """Reads something of a party's database once for each state of its file.

    Args:
        read: Reads it; what it gives is never changed.
    """

    def __init__(self, read: Callable[[Site], _Value]) -> None:
        self._read = read
        self._found: OrderedDict[str, tuple[_State, _Value]] = OrderedDict()
        self._lock = Lock()

    def of(self, site: Site) -> _Value:
        """What the party's database says now.

        Args:
            site: The party's.
        """
        url = site.ledger_url()
        # Who looks at the same time waits for the one reading, and does not do it again.
        with self._lock:
            state = _state(url)
            found = self._found.get(url)
            if found is not None and state is not None and found[0] == state:
                return found[1]
            self._found.pop(url, None)
            with _uncollected():
                value = self._read(site)
            if state is not None and _state(url) == state:
                self._found[url] = (state, value)
                if len(self._found) > _MOST:
                    self._found.popitem(last=False)
                _settle(again=found is not None)
            return value


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the collector of cycles: lines have none, and it would walk through them often."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _settle(*, again: bool) -> None:
    """Let the collector pass over all that is alive now: what is kept would slow every later page.

    Args:
        again: What was passed over before is looked at first, so that nothing is for ever.
    """
    if again:
        gc.unfreeze()
        gc.collect()
    gc.freeze()


def _state(url: str) -> _State | None:
    """The state of a database's files; None where it cannot tell one from another."""
    prefix = "sqlite:///"
    if not url.startswith(prefix):
        return None
    path = url.removeprefix(prefix)
    found = tuple(_file(Path(path + end)) for end in ("", "-wal", "-journal"))
    if found[0] is None:
        return None
    newest = max(max(file[3:]) for file in found if file is not None)
    return found if time.time_ns() - newest > _SETTLED else None


def _file(path: Path) -> _File | None:
    try:
        # Never opened: closing it would take away the locks that SQLite holds in this process.
        seen = path.stat()
    except OSError:
        return None
    return (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
