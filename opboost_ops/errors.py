"""User-facing errors: the problem, where it is, and the fix. They never contain a data value."""

import errno
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """A fault in a file written by hand.

    Attributes:
        where: Path inside the file, such as ``parties.bank.features.income.bounds``.
        problem: The problem, as a phrase.
        suggestion: The fix; empty when the problem implies it.
    """

    where: str
    problem: str
    suggestion: str = ""

    def __str__(self) -> str:
        text = f"{self.where}: {self.problem}" if self.where else self.problem
        return f"{text} ({self.suggestion})" if self.suggestion else text


class OpBoostError(Exception):
    """Base class of the package's own errors.

    Args:
        problem: What happened and where.
        remedy: How to fix it.
    """

    def __init__(self, problem: str, remedy: str = "") -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{problem} {remedy}".strip())


class ConfigError(OpBoostError):
    """A configuration file or form is invalid; ``faults`` lists every fault in it."""

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
    """Raise one error that lists all faults of a file.

    Args:
        faults: The faults; nothing is raised if there are none.
        file: The file's name.
        remedy: How to fix them.
        effect: The consequence, appended to the number of faults.

    Raises:
        ConfigError: There are faults.
    """
    if faults:
        count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        raise ConfigError(f"{count}{effect}", remedy, file=file, faults=faults)


class ContractError(OpBoostError):
    """A table, label or model violates its declaration."""


class SetupError(ContractError):
    """The parties' keys, versions or clocks do not match; independent of any row of a table."""


class RowsError(ContractError):
    """A table cannot be used; the message has figures of its rows, for the party's own staff."""


class ClosedSessionError(ContractError):
    """A horizontal training session was closed for all parties without producing a model."""


class ArtifactError(OpBoostError):
    """An exchange artifact is missing, damaged, forged, or not the one that was expected."""


class BudgetError(OpBoostError):
    """A release would exceed the cap on privacy loss.

    Args:
        problem: The budgets with their figures, for the party's own staff.
        remedy: How to fix it.
        public: The same without figures of the party's policy. If empty, ``problem`` and
            ``remedy`` are public.

    Attributes:
        outside: Problem and remedy that everyone who sees the run may read.
    """

    def __init__(self, problem: str, remedy: str = "", *, public: str = "") -> None:
        self.outside = (public, "") if public else (problem, remedy)
        super().__init__(problem, remedy)

    @property
    def public(self) -> str:
        """Problem and remedy that everyone who sees the run may read, as one text."""
        return " ".join(self.outside).strip()


class PolicyError(OpBoostError):
    """A party's own policy does not allow a request.

    Args:
        problem: The refused request and the rule.
        remedy: How to fix it.
        notice: Name of the notification event that the party's own notifiers receive.
    """

    def __init__(self, problem: str, remedy: str = "", *, notice: str = "") -> None:
        self.notice = notice
        super().__init__(problem, remedy)


class ApprovalError(PolicyError):
    """A release awaits approval by the party's staff; nothing has been sent.

    Args:
        problem: The release that awaits approval.
        remedy: How to approve or reject it.
        new: True for the first request; repeated ones notify nobody.
    """

    def __init__(self, problem: str, remedy: str = "", *, new: bool = False) -> None:
        self.new = new
        super().__init__(problem, remedy, notice="approval_waiting" if new else "")


#: Errno values of network failures.
_NETWORK_ERRNOS = {
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    errno.ENETDOWN,
    errno.ENETRESET,
    errno.ENETUNREACH,
    errno.ESTALE,
    errno.ETIMEDOUT,
}


def is_network_error(error: Exception) -> bool:
    """True for a network failure, which a retry may resolve."""
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    return isinstance(error, OSError) and error.errno in _NETWORK_ERRNOS


def is_disk_full(error: BaseException | None) -> bool:
    """True if the error or one of its causes reports a full disk."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        # SQLite sets no errno: only its message names the cause.
        if isinstance(error, sqlite3.Error) and "full" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False
