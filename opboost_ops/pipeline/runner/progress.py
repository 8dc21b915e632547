"""How far a stage is: a file in the party's home while it runs, for the party's own pages.

How fast a stage is follows from private rows: so the file goes into no log, summary or XCom, and
nobody else's pages can read it. It is gone when the stage ends, however that is. Where its process
was killed it stays, and anyone who reads it compares `Far.started` with the begin of the task that
runs now.
"""

import contextlib
import time
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from opboost_ops.config.schema import Record
from opboost_ops.pipeline.stage import Home

#: Folder of a run's home with a file for each stage that runs and tells.
_FOLDER = "progress"

#: Seconds between two writes: the pages look every ten.
_EVERY = 1.0


class Far(Record):
    """How far a stage was at a moment.

    Attributes:
        what: What is counted.
        done: How many are done.
        of: Of how many.
        started: When this try of the stage began, in seconds since 1970, by its own machine.
        counted: Seconds since the count was ``first``.
        first: How many were done when this try told of them first.
    """

    what: str
    done: int
    of: int
    started: float
    counted: float
    first: int

    @property
    def began(self) -> datetime:
        """When this try of the stage began."""
        return datetime.fromtimestamp(self.started, UTC)

    @property
    def left(self) -> float | None:
        """Seconds that the rest takes if it goes on as it went; None before that can be said."""
        counted_here = self.done - self.first
        return self.counted / counted_here * (self.of - self.done) if counted_here > 0 else None


class StoredProgress:
    """Keeps how far a stage is, as long as it runs.

    Args:
        home: The party's, of the run.
        stage: Its name.
    """

    def __init__(self, home: Home, stage: str) -> None:
        self._home = home
        self._name = f"{_FOLDER}/{stage}"
        self._started = time.time()
        self._written = -_EVERY
        self._what, self._first, self._last, self._since = "", 0, 0, 0.0

    def tell(self, what: str, done: int, of: int) -> None:
        """Keep how far it is, at most once a second.

        Args:
            what: What is counted, in words that its own people may read.
            done: How many are done.
            of: Of how many.
        """
        now = time.monotonic()
        if what != self._what or done < self._last:
            self._what, self._first, self._since = what, done, now
        self._last = done
        # The last one always: what comes after it may not be counted, and take longer.
        if now - self._written < _EVERY and done < of:
            return
        self._written = now
        far = Far(
            what=what,
            done=done,
            of=of,
            started=self._started,
            counted=now - self._since,
            first=self._first,
        )
        # A disk that is full, or went away, is told by what needs it.
        with contextlib.suppress(OSError):
            self._home.write_json(self._name, far.model_dump())

    def __enter__(self) -> None:
        self._forget()

    def __exit__(self, *_: object) -> None:
        self._forget()

    def _forget(self) -> None:
        with contextlib.suppress(OSError):
            (self._home.folder / f"{self._name}.json").unlink(missing_ok=True)


def read(folder: Path, stage: str) -> Far | None:
    """How far a stage is; None where none has told, or this process may not read it.

    Args:
        folder: Of the run in the party's home.
        stage: Its name.
    """
    try:
        return Far.model_validate_json((folder / _FOLDER / f"{stage}.json").read_bytes())
    except (OSError, ValidationError):
        return None
