"""The order of the protocol, and a party's memory of a run's progress."""

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
    """Return the kind that each kind of a run answers; missing kinds are not part of the run.

    Args:
        plan: The run's plan.
    """
    kinds = {kind.name: kind for kind in kinds_of(plan.federation, plan.purpose)}
    return {
        name: next(before for before in kind.answers if before in kinds)
        for name, kind in kinds.items()
        if kind.answers
    }


class Remembered(Record):
    """Public facts of an accepted artifact, all of them from its manifest."""

    digest: Digest
    rows: int
    columns: tuple[FeatureName, ...] = ()


class Memory(Record):
    """A party's artifacts in one run, accepted or published by itself.

    Attributes:
        accepted: Artifacts by place, ``<kind>/<party>``.
        since: The day on which it accepted the plan, by its own clock.
    """

    accepted: Mapping[str, Remembered] = Field(default_factory=dict)
    since: date | None = None

    @property
    def digests(self) -> frozenset[str]:
        """Digests of all artifacts."""
        return frozenset(entry.digest for entry in self.accepted.values())

    def entry(self, kind: Kind, about: str) -> Remembered | None:
        """Return the artifact accepted at a place, or None."""
        return self.accepted.get(f"{kind}/{about}")

    def digest(self, kind: Kind, about: str) -> str | None:
        """Return the digest of the artifact accepted at a place, or None."""
        entry = self.entry(kind, about)
        return entry.digest if entry else None

    def with_entry(self, kind: Kind, about: str, entry: Remembered) -> "Memory":
        """Return a copy with another artifact."""
        accepted = {**self.accepted, f"{kind}/{about}": entry}
        return self.model_copy(update={"accepted": accepted})


def require_order(
    memory: Memory, manifest: Manifest, label_holder: str, plan: Plan | None, what: str
) -> None:
    """Reject an artifact that is neither next in the protocol nor a repeat.

    Args:
        memory: The reader's memory.
        manifest: The artifact's manifest.
        label_holder: The federation's label holder.
        plan: The run's plan; None for the plan itself.
        what: Name of the place, for the error.

    Raises:
        Rejected: It replaces an accepted artifact, comes too early, or answers another artifact.
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
    """Reject a row count that is inconsistent with accepted artifacts.

    Args:
        memory: The reader's memory; the artifact's order was checked with it.
        manifest: The artifact's manifest.
        rows: The row count that the reader expects, if known.
        what: Name of the place, for the error.

    Raises:
        Rejected: The row count is inconsistent.
    """
    kind, actual = KINDS[manifest.kind], manifest.rows

    def count(other: Kind) -> int | None:
        entry = memory.entry(other, manifest.about)
        return entry.rows if entry else None

    consistent = rows is None or actual == rows
    tables = [count(k.name) for k in KINDS.values() if k.rows == "table" and k is not kind]
    table_rows = [n for n in tables if n is not None]
    if kind.rows == "answered":
        consistent &= actual == count(kind.answers[0])
    elif kind.rows == "table":
        # A table of new rows may be empty; a training table must not be.
        consistent &= actual > 0 or kind.runs != TRAIN
        consistent &= all(n == actual for n in table_rows)
    elif kind.rows == "some":
        consistent &= all(actual <= n for n in table_rows)
    if not consistent:
        raise Rejected("wrong_row_count", f"{what}: its row count is not the agreed one.")
