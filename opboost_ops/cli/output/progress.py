"""Progress of a run on a terminal, a bar a party; plain lines where there is none."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)
from rich.progress import Progress as Bars


class Progress:
    """Shows started and finished stages, on stderr.

    Used as a context manager, and called with a party and its event.
    """

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._bars = Bars(
            TextColumn("[bold]{task.fields[party]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> "Progress":
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def __call__(self, party: str, event: dict[str, Any]) -> None:
        """Show an event: ``started``, ``progress``, ``waits``, ``finished`` or ``failed``.

        Each has its ``stage``. A party's first one may say ``of`` how many stages it is.
        """
        if party not in self._tasks:
            total = event.get("of")
            self._tasks[party] = self._bars.add_task("", total=total, party=party)
        if event["event"] == "finished":
            self._bars.advance(self._tasks[party])
        self._bars.update(self._tasks[party], description=event.get("text", event["stage"]))
        if event["event"] == "waits" or (
            not self._console.is_terminal and event["event"] == "progress"
        ):
            self._console.print(event["text"], soft_wrap=True)
        if not self._console.is_terminal and event["event"] == "finished":
            # Known where the parties' own processes tell it, and not through an Airflow.
            took = f" ({event['spent'].get('seconds', 0.0):.3f} s)" if "spent" in event else ""
            self._console.print(f"{party}: {event['stage']}{took}")


@contextmanager
def counting(what: str, *, in_bytes: bool = False) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr for work that is counted, on a terminal only.

    Args:
        what: What is counted.
        in_bytes: Whether bytes of it are.

    Yields:
        A function that is told how many are done, and of how many.
    """
    console = Console(stderr=True)
    counted = (DownloadColumn(), TransferSpeedColumn()) if in_bytes else (MofNCompleteColumn(),)
    bars = Bars(
        TextColumn(what),
        BarColumn(),
        *counted,
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    with bars:
        task = bars.add_task(what, total=None)
        yield lambda done, whole: bars.update(task, completed=done, total=whole)
