"""The order of the protocol, and what a party remembers of how far a run has come."""

from collections.abc import Mapping
from datetime import date

from pydantic import Field

from opboost_ops.config.schema import FeatureName, Record
from opboost_ops.exchange.kinds import KINDS, TRAIN, kinds_of
from opboost_ops.exchange.manifest import Digest, Kind, Manifest
from opboost_ops.exchange.plan import Plan
from opboost_ops.exchange.rejection import Rejected

#: Name of the JSON value in a run's home that holds a `Memory`.
MEMORY = "acceptance"


def answers(plan: Plan) -> Mapping[Kind, Kind]:
    """The kind that each kind of a run answers; a kind that is not in it is not part of the run.

    Args:
        plan: The run's.
    """
    kinds = {kind.name: kind for kind in kinds_of(plan.federation, plan.purpose)}
    return {
        name: next(before for before in kind.answers if before in kinds)
        for name, kind in kinds.items()
        if kind.answers
    }


class Remembered(Record):
    """Public facts that are kept of an accepted artifact: nothing that is not in its manifest."""

    digest: Digest
    rows: int
    columns: tuple[FeatureName, ...] = ()


class Memory(Record):
    """A party's artifacts in one run, accepted or published itself.

    Attributes:
        accepted: By place, ``<kind>/<party>``.
        since: The day on which it accepted the plan, by its own clock.
    """

    accepted: Mapping[str, Remembered] = Field(default_factory=dict)
    since: date | None = None

    @property
    def digests(self) -> frozenset[str]:
        """Digests of all of it."""
        return frozenset(entry.digest for entry in self.accepted.values())

    def entry(self, kind: Kind, about: str) -> Remembered | None:
        """The artifact accepted at a place, if any was."""
        return self.accepted.get(f"{kind}/{about}")

    def digest(self, kind: Kind, about: str) -> str | None:
        """Digest of what was accepted at a place, if anything was."""
        entry = self.entry(kind, about)
        return entry.digest if entry else None

    def with_entry(self, kind: Kind, about: str, entry: Remembered) -> "Memory":
        """This memory and one more artifact."""
        accepted = {**self.accepted, f"{kind}/{about}": entry}
        return self.model_copy(update={"accepted": accepted})


def require_order(
    memory: Memory, manifest: Manifest, label_holder: str, plan: Plan | None, what: str
) -> None:
    """Refuse what does not come next, or again.

    Args:
        memory: Of the reader.
        manifest: Of the artifact.
        label_holder: The federation's.
        plan: The run's; None for the plan itself.
        what: Name of the place, for the error.

    Raises:
        Rejected: It replaces what was accepted, comes too early, or answers something else.
    """
    kind, about = manifest.kind, manifest.about
    if memory.digest(kind, about) not in (None, manifest.digest):
        raise Rejected("superseded", f"{what}: another one was accepted here before.")
    expected: str | None = None
    if plan is not None:
        before = answers(plan).get(kind)
        if before is None:
            raise Rejected("out_of_order", f"{what}: a run like this one has no {kind}.")
        expected = memory.digest(before, label_holder if before == "plan" else about)
        if expected is None:
            raise Rejected("out_of_order", f"{what}: the {before} before it is not there.")
    if manifest.answers != expected:
        raise Rejected("wrong_answer", f"{what}: it answers another artifact than the accepted.")


def require_rows(memory: Memory, manifest: Manifest, rows: int | None, what: str) -> None:
    """Refuse a row count that does not fit what was accepted before.

    Args:
        memory: Of the reader; the artifact's order was checked with it.
        manifest: Of the artifact.
        rows: What the reader itself knows of its row count.
        what: Name of the place, for the error.

    Raises:
        Rejected: It does not fit.
    """
    kind, actual = KINDS[manifest.kind], manifest.rows

    def count(other: Kind) -> int | None:
        entry = memory.entry(other, manifest.about)
        return entry.rows if entry else None

    right = rows is None or actual == rows
    tables = [count(k.name) for k in KINDS.values() if k.rows == "table" and k is not kind]
    whole = [n for n in tables if n is not None]
    if kind.rows == "answered":
        right &= actual == count(kind.answers[0])
    elif kind.rows == "table":
        # New rows may be none; a training table is never empty.
        right &= (actual > 0 or kind.runs != TRAIN) and all(n == actual for n in whole)
    elif kind.rows == "some":
        right &= all(actual <= n for n in whole)
    if not right:
        raise Rejected("wrong_row_count", f"{what}: its row count is not the agreed one.")
