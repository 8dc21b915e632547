"""The errors people see: what happened, where, and what to do. Never a data value."""

import errno
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong in a file that people wrote.

    Attributes:
        where: Path inside the file, such as ``parties.bank.features.income.bounds``.
        problem: What is wrong there.
        suggestion: What to write instead; empty when the problem says it all.
    """

    where: str
    problem: str
    suggestion: str = ""

    def __str__(self) -> str:
        text = f"{self.where}: {self.problem}" if self.where else self.problem
        return f"{text} ({self.suggestion})" if self.suggestion else text


class OpBoostError(Exception):
    """Root of all errors raised on purpose.

    Args:
        problem: What happened and where.
        remedy: What to do about it.
    """

    def __init__(self, problem: str, remedy: str = "") -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{problem} {remedy}".strip())


class ConfigError(OpBoostError):
    """A file or a form that people filled in is wrong; all its faults are in ``faults``."""

    def __init__(
        self, problem: str, remedy: str = "", *, file: str = "", faults: Sequence[Fault] = ()
    ) -> None:
        self.file = file
        self.faults = tuple(faults)
        lines = [f"{file}: {problem}" if file else problem]
        lines += [f"  - {fault}" for fault in self.faults]
        text = "\n".join(lines)
        super().__init__(text if text.endswith((".", "?", "!", ":")) else f"{text}.", remedy)


def require_none(faults: Sequence[Fault], file: str, remedy: str = "", effect: str = "") -> None:
    """Refuse a file with all its faults at once.

    Args:
        faults: What is wrong with it.
        file: Its name.
        remedy: What to do about them.
        effect: What follows from them, after their number.

    Raises:
        ConfigError: There are faults.
    """
    if faults:
        count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        raise ConfigError(f"{count}{effect}", remedy, file=file, faults=faults)


class ContractError(OpBoostError):
    """A table, label or model does not keep what its declaration promises."""


class SetupError(ContractError):
    """Keys, versions or clocks of the parties do not fit; it depends on no row of a table."""


class ClosedSessionError(ContractError):
    """A session of horizontal learning has ended for all its parties without a model."""


class ArtifactError(OpBoostError):
    """An exchange artifact is missing, damaged, forged, or not the one that was expected."""


class BudgetError(OpBoostError):
    """A release would exceed the cap on privacy loss.

    Args:
        problem: The budgets, with their figures, for the party's own people.
        remedy: What to do about it.
        public: The same without a figure of the party's policy; both when absent.

    Attributes:
        outside: Problem and remedy for everybody who sees the run.
    """

    def __init__(self, problem: str, remedy: str = "", *, public: str = "") -> None:
        self.outside = (public, "") if public else (problem, remedy)
        super().__init__(problem, remedy)

    @property
    def public(self) -> str:
        """Problem and remedy for everybody who sees the run, as one text."""
        return " ".join(self.outside).strip()


class PolicyError(OpBoostError):
    """A party's own policy does not allow what was asked of it.

    Args:
        problem: What is refused.
        remedy: What to do about it.
        notice: What the party's own people are told of it; nobody else is.
    """

    def __init__(self, problem: str, remedy: str = "", *, notice: str = "") -> None:
        self.notice = notice
        super().__init__(problem, remedy)


class ApprovalError(PolicyError):
    """A release waits for a person of the party; nothing of it has left.

    Args:
        problem: What waits.
        remedy: How to answer.
        new: Whether it is asked for the first time.
    """

    def __init__(self, problem: str, remedy: str = "", *, new: bool = False) -> None:
        self.new = new
        super().__init__(problem, remedy, notice="approval_waiting" if new else "")


#: Numbers of errors that are the network's.
_NETWORK = {
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    errno.ENETDOWN,
    errno.ENETRESET,
    errno.ENETUNREACH,
    errno.ESTALE,
    errno.ETIMEDOUT,
}


def of_the_network(error: Exception) -> bool:
    """True if an error is the network's, so that the same may succeed later."""
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    return isinstance(error, OSError) and error.errno in _NETWORK


def is_disk_full(error: BaseException | None) -> bool:
    """True if a disk was full, by the error or its causes; SQLite has words of its own."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        if isinstance(error, sqlite3.Error) and "full" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False
