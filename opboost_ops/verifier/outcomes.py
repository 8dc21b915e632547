"""What a verification finds: one outcome per promise."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal["held", "broken", "not checkable"]

#: Exceptions that a damaged or foreign file raises where its fields are read.
DAMAGED = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, OSError)


@dataclass
class Promise:
    """One promise and what its checks found.

    Attributes:
        name: Short name, the same in text and JSON.
        text: The promise as a sentence.
        checked: How many things were checked.
        broken: Where it is broken: places, names of files and columns, never a value.
        missing: What would be needed to check the rest.
    """

    name: str
    text: str
    checked: int = 0
    broken: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @property
    def status(self) -> Status:
        """Broken if a check failed; not checkable if nothing was checked."""
        if self.broken:
            return "broken"
        return "held" if self.checked else "not checkable"

    def breaks(self, where: str) -> None:
        """Record where the promise is broken, once."""
        if where not in self.broken:
            self.broken.append(where)

    def lacks(self, what: str) -> None:
        """Record what is missing to check it, once."""
        if what not in self.missing:
            self.missing.append(what)

    def check(self, holds: bool, where: str) -> bool:
        """Count one check.

        Args:
            holds: Whether it passed.
            where: What is wrong, and where, if it did not.
        """
        self.checked += 1
        if not holds:
            self.breaks(where)
        return holds

    @contextmanager
    def reading(self, where: str) -> Iterator[None]:
        """Take what cannot be read for a broken promise; no text of the exception is kept."""
        try:
            yield
        except DAMAGED:
            self.checked += 1
            self.breaks(f"{where}: it cannot be read")

    def to_json(self) -> dict[str, Any]:
        """The outcome as JSON values."""
        return {
            "name": self.name,
            "promise": self.text,
            "status": self.status,
            "checked": self.checked,
            "broken": self.broken,
            "missing": self.missing,
        }


@dataclass
class Outcome:
    """All promises about one place.

    Attributes:
        place: The place: a store, or a party's folder.
        promises: In the order of their checks.
    """

    place: str
    promises: list[Promise] = field(default_factory=list)

    def promise(self, name: str, text: str) -> Promise:
        """Add a promise, which is not checked yet."""
        added = Promise(name, text)
        self.promises.append(added)
        return added

    @property
    def is_broken(self) -> bool:
        """Whether any promise is broken."""
        return any(promise.status == "broken" for promise in self.promises)

    def to_json(self) -> dict[str, Any]:
        """The outcome as JSON values."""
        return {"place": self.place, "promises": [one.to_json() for one in self.promises]}

    def lines(self) -> Iterator[str]:
        """The report as text, one line per promise."""
        yield f"{self.place}:"
        for promise in self.promises:
            yield f"  {promise.status:<14}{promise.name}: {_detail(promise)}"


def _detail(promise: Promise) -> str:
    if promise.broken:
        others = len(promise.broken) - 3
        more = f"; and {others} more" if others > 0 else ""
        return f"{promise.text} Broken: {'; '.join(promise.broken[:3])}{more}."
    missing = "; ".join(promise.missing)
    if not promise.checked:
        return f"{promise.text} Missing: {missing or 'nothing here to check it on'}."
    rest = f" Not checked: {missing}." if missing else ""
    return f"{promise.text} ({promise.checked}){rest}"
