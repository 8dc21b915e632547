"""What is tried of a party's things, and what came of it."""

from collections.abc import Mapping
from typing import Literal

from pydantic import TypeAdapter

from opboost_ops.config.schema import Record

#: ``absent`` is for things that do not exist yet, ``failed`` for attempts that say nothing.
Outcome = Literal["allowed", "refused", "absent", "failed"]


class Target(Record):
    """Whose things are tried.

    Attributes:
        whose: A party's name, or ``coordinator``.
        files: A file of each kind, by the kind's name; empty where there is none yet.
        processes: A process of each kind.
        queues: Of its worker.
        site: Its ``site.yaml``.
        artifact: One that it has published, seen from the store's folder; empty if none.
    """

    whose: str
    files: Mapping[str, str]
    processes: Mapping[str, int]
    queues: tuple[str, ...] = ()
    site: str = ""
    artifact: str = ""


class Orders(Record):
    """What to try.

    Attributes:
        party: As whom.
        url: Where Airflow listens.
        database: Port of PostgreSQL.
        token: Of a task of this party, as its worker gets one with every task.
        targets: Whose things, its own among them: those must be reached.
    """

    party: str
    url: str
    database: int
    token: str
    targets: tuple[Target, ...]


class Attempt(Record):
    """What came of one attempt.

    Attributes:
        party: Who tried.
        other: Whose it is.
        what: What was tried.
        outcome: What came of it.
        reason: Of a refusal: an error's name, or an HTTP status.
    """

    party: str
    other: str
    what: str
    outcome: Outcome
    reason: str

    @property
    def wrong(self) -> bool:
        """Whether something was allowed that must not be, or one's own things were not reached."""
        if self.outcome == "failed":
            return True
        own = self.party == self.other
        return self.outcome == ("refused" if own else "allowed")


#: What `refusals` reads.
ATTEMPTS = TypeAdapter(tuple[Attempt, ...])
