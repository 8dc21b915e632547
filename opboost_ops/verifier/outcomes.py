"""Outcomes of a verification: one per promise."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

#: One check: whether it passed, and what is wrong if it did not; or None, and what is missing.
Check = tuple[bool | None, str]

#: A function ``check_<promise>``, and on what: a name for the report, and the arguments.
Checks = tuple[Callable[..., Iterable[Check]], Iterable[tuple[str, tuple[Any, ...]]]]

#: Exceptions that a damaged or foreign file raises where its fields are read.
DAMAGED = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, OSError)


class NotCheckableError(Exception):
    """Something that a check needs is not there; the message names it."""


@dataclass
class Promise:
    """One promise: how many checks were made, where it is broken, and what is missing.

    Broken and missing things are places and names of files and columns, never a value.
    """

    name: str
    promise: str
    checked: int = 0
    broken: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @property
    def status(self) -> str:
        """Broken if a check failed; not checkable if nothing was checked."""
        return "broken" if self.broken else "held" if self.checked else "not checkable"

    def run(self, checks: Iterable[Check], where: str) -> None:
        """Make checks about a place; what cannot be read breaks the promise, without the error."""
        try:
            for holds, words in checks:
                self._note(holds, words, where)
        except NotCheckableError as missing:
            self._note(None, str(missing), where)
        except DAMAGED:
            self._note(False, "it cannot be read", where)

    def _note(self, holds: bool | None, words: str, where: str) -> None:
        if holds is not None:
            self.checked += 1
            words = f"{where}: {words}" if where else words
        notes = self.missing if holds is None else self.broken
        if not holds and words not in notes:
            notes.append(words)

    def to_json(self) -> dict[str, Any]:
        """The outcome as JSON values."""
        return {"status": self.status, **asdict(self)}

    def __str__(self) -> str:
        missing = "; ".join(self.missing)
        if self.broken:
            more = len(self.broken) - 3
            end = f"; and {more} more" if more > 0 else ""
            detail = f"Broken: {'; '.join(self.broken[:3])}{end}."
        elif not self.checked:
            detail = f"Missing: {missing or 'nothing here to check it on'}."
        else:
            detail = f"({self.checked})" + (f" Not checked: {missing}." if missing else "")
        return f"{self.status:<14}{self.name}: {self.promise} {detail}"


@dataclass
class Outcome:
    """All promises about a place, which is a store or a party, in the order of their checks."""

    place: str
    promises: list[Promise] = field(default_factory=list)

    def check(self, promises: Iterable[Checks]) -> "Outcome":
        """Check promises; each is named like its function, and states its docstring."""
        try:
            for check, subjects in promises:
                name = check.__name__.removeprefix("check_")
                self.promises.append(Promise(name, " ".join(str(check.__doc__).split())))
                for where, arguments in subjects:
                    self.promises[-1].run(check(*arguments), where)
        except DAMAGED:
            # A file is so damaged that it is not known what there is to check.
            self.promises.append(Promise("files", "All files can be read.", 1, ["not all can"]))
        return self

    @property
    def is_broken(self) -> bool:
        """True if any promise is broken."""
        return any(promise.broken for promise in self.promises)

    def to_json(self) -> dict[str, Any]:
        """The outcome as JSON values."""
        return {"place": self.place, "promises": [promise.to_json() for promise in self.promises]}

    def lines(self) -> Iterator[str]:
        """The report as text, one line per promise."""
        yield f"{self.place}:"
        for promise in self.promises:
            yield f"  {promise}"
