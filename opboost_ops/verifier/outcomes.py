"""Outcomes of a verification, with one result per promise."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

#: One comparison: True or False, with the problem if False; or None, with what is missing for it.
Check = tuple[bool | None, str]

#: A function ``check_<promise>`` with its subjects: each a name for the report, and arguments.
Checks = tuple[Callable[..., Iterable[Check]], Iterable[tuple[str, tuple[Any, ...]]]]

#: Exceptions raised by reading a damaged or foreign file; libraries raise their own.
READ_ERRORS = (Exception,)


class NotCheckableError(Exception):
    """A check needs something that is not available; the message names it."""


@dataclass
class Promise:
    """The result for one promise: the number of comparisons, the problems, and what is missing.

    Problems name files, columns and places in the store, never a value of a row.
    """

    name: str
    promise: str
    checked: int = 0
    broken: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @property
    def status(self) -> str:
        """``broken`` if a comparison failed, ``not checkable`` if none was possible."""
        return "broken" if self.broken else "held" if self.checked else "not checkable"

    def run(self, checks: Iterable[Check], where: str) -> None:
        """Run checks on one subject. An unreadable file breaks the promise; its error is hidden."""
        try:
            for passed, problem in checks:
                self._record(passed, problem, where)
        except NotCheckableError as missing:
            self._record(None, str(missing), where)
        except ImportError as missing:
            self._record(None, f"the package {missing.name}", where)
        except READ_ERRORS:
            self._record(False, "it cannot be read", where)

    def _record(self, passed: bool | None, problem: str, where: str) -> None:
        if passed is not None:
            self.checked += 1
            problem = f"{where}: {problem}" if where else problem
        problems = self.missing if passed is None else self.broken
        # Anyone who can write the store selects its names, which could imitate lines of the report.
        problem = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in problem)
        if not passed and problem not in problems:
            problems.append(problem)

    def __str__(self) -> str:
        missing = "; ".join(self.missing)
        if self.broken:
            more = len(self.broken) - 3
            end = f"; and {more} more" if more > 0 else ""
            detail = f"Broken: {'; '.join(self.broken[:3])}{end}."
        elif not self.checked:
            detail = f"Missing: {missing or 'files to check'}."
        else:
            detail = f"({self.checked})" + (f" Not checked: {missing}." if missing else "")
        return f"{self.status:<14}{self.name}: {self.promise} {detail}"


@dataclass
class Outcome:
    """The results for a store or a party, one per promise, in the order of the checks."""

    place: str
    promises: list[Promise] = field(default_factory=list)

    def check(self, promises: Iterable[Checks]) -> "Outcome":
        """Run checks. A promise has the name of its check function and its docstring as text."""
        try:
            for check, subjects in promises:
                name = check.__name__.removeprefix("check_")
                self.promises.append(Promise(name, " ".join(str(check.__doc__).split())))
                for where, arguments in subjects:
                    self.promises[-1].run(check(*arguments), where)
        except READ_ERRORS:
            # A file is too damaged to tell which checks apply.
            problem = "a file that determines the checks is damaged"
            self.promises.append(Promise("files", "All files are readable.", 1, [problem]))
        return self

    @property
    def is_broken(self) -> bool:
        """True if any promise is broken."""
        return any(promise.broken for promise in self.promises)

    def to_json(self) -> dict[str, Any]:
        """The outcome as JSON values."""
        promises = [{"status": promise.status, **asdict(promise)} for promise in self.promises]
        return {"place": self.place, "promises": promises}

    def lines(self) -> Iterator[str]:
        """The report as text, one line per promise."""
        yield f"{self.place}:"
        for promise in self.promises:
            yield f"  {promise}"
