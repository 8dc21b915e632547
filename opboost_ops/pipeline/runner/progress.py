"""Progress of a stage: a file in the party's home while it runs, for the party's own pages.

A stage's speed depends on private rows, so the file's content goes into no log, summary or XCom,
and no other party's pages can read it. It is deleted when the stage ends. After a killed process it
stays, so readers compare `StageProgress.started` with the start of the current task.
"""

import contextlib
import time
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from opboost_ops.config.schema import Record
from opboost_ops.pipeline.stage import Home

#: Folder in a run's home with one file per running stage.
_FOLDER = "progress"

#: Minimum seconds between writes: pages poll every ten.
_EVERY = 1.0


class StageProgress(Record):
    """Progress of a stage at one moment.

    Attributes:
        what: Name of the counted items.
        done: Number of completed items.
        of: Total number of items.
        started: Start of this attempt of the stage, Unix seconds by its own machine.
        counted: Seconds since the count was ``first``.
        first: Number of completed items at this attempt's first report.
    """

    what: str
    done: int
    of: int
    started: float
    counted: float
    first: int

    @property
    def began(self) -> datetime:
        """Return the start of this attempt of the stage."""
        return datetime.fromtimestamp(self.started, UTC)

    @property
    def left(self) -> float | None:
        """Return the estimated remaining seconds at the current pace; None before an estimate."""
        counted_here = self.done - self.first
        return self.counted / counted_here * (self.of - self.done) if counted_here > 0 else None


class StoredProgress:
    """Stores a stage's progress while it runs.

    Args:
        home: The party's home of the run.
        stage: Name of the stage.
    """

    def __init__(self, home: Home, stage: str) -> None:
        self._home = home
        self._name = f"{_FOLDER}/{stage}"
        self._started = time.time()
        self._written = -_EVERY
        self._what, self._first, self._last, self._since = "", 0, 0, 0.0

    def tell(self, what: str, done: int, of: int) -> None:
        """Store the progress, at most once per second.

        Args:
            what: Name of the counted items, for the party's own people.
            done: Number of completed items.
            of: Total number of items.
        """
        now = time.monotonic()
        if what != self._what or done < self._last:
            self._what, self._first, self._since = what, done, now
        self._last = done
        # Always write the last one: uncounted work may follow and take longer.
        if now - self._written < _EVERY and done < of:
            return
        self._written = now
        snapshot = StageProgress(
            what=what,
            done=done,
            of=of,
            started=self._started,
            counted=now - self._since,
            first=self._first,
        )
        # A full or missing disk is reported by the stage itself.
        with contextlib.suppress(OSError):
            self._home.write_json(self._name, snapshot.model_dump())

    def __enter__(self) -> None:
        self._forget()

    def __exit__(self, *_: object) -> None:
        self._forget()

    def _forget(self) -> None:
        with contextlib.suppress(OSError):
            (self._home.folder / f"{self._name}.json").unlink(missing_ok=True)


def read(folder: Path, stage: str) -> StageProgress | None:
    """Return a stage's progress; None if it has reported none or this process may not read it.

    Args:
        folder: The run's folder in the party's home.
        stage: Name of the stage.
    """
    try:
        return StageProgress.model_validate_json((folder / _FOLDER / f"{stage}.json").read_bytes())
    except (OSError, ValidationError):
        return None
