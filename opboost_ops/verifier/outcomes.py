"""Outcomes of a verification: one per promise."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

#: One check: whether it passed, and what is wrong if it did not; or None, and what is missing.
Check = tuple[bool | None, str]

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

    def run(self, checks: Iterable[Check], where: str = "") -> None:
        """Make checks; what cannot be read breaks the promise, and no text of it is kept.

        Args:
            checks: The checks, which are made as they are asked for.
            where: The place, file or column that they are about.
        """
        at = f"{where}: " if where else ""
        try:
            for holds, words in checks:
                if holds is None:
                    self._add(self.missing, words)
                    continue
                self.checked += 1
                if not holds:
                    self._add(self.broken, at + words)
        except DAMAGED:
            self.checked += 1
            self._add(self.broken, at + "it cannot be read")

    def _add(self, words: list[str], more: str) -> None:
        if more not in words:
            words.append(more)

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

    def promise(self, check: Callable[..., Any]) -> Promise:
        """Add the promise that a check's docstring states, which is not checked yet."""
        added = Promise(check.__name__.removeprefix("_"), " ".join(str(check.__doc__).split()))
        self.promises.append(added)
        return added

    @property
    def is_broken(self) -> bool:
        """True if any promise is broken."""
        return any(promise.status == "broken" for promise in self.promises)

    def to_json(self) -> dict[str, Any]:
        """The outcome as JSON values."""
        return {"place": self.place, "promises": [promise.to_json() for promise in self.promises]}

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
