"""The append-only entries of the ledger, which are reserved before a release is published."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import sqlalchemy as sa

from opboost_ops.config.schema import Record
from opboost_ops.privacy.ledger.database import Records, plain_rows
from opboost_ops.privacy.ledger.renyi import RenyiCurve
from opboost_ops.privacy.ledger.tables import COUNTED, now, table
from opboost_ops.privacy.loss import LossCurve

#: Start of the loss curve in an entry's text, and the text after its end.
_CURVE, _AFTER = '"loss": {', '}, "epsilon": '

_ENTRIES = table(
    "entries",
    {"id": COUNTED},
    sa.UniqueConstraint("artifact", "feature"),
    recorded_at=40,
    artifact=64,
    feature=160,
    event=sa.JSON,
)

_COMMITS = table("commits", {"artifact": 64}, committed_at=40)

#: An entry's event as text, because databases have different JSON types.
_TEXT = sa.cast(_ENTRIES.c.event, sa.Text)


class LedgerEntry(Record):
    """A ledger entry.

    Attributes:
        federation: Name of the federation.
        run: ID of the run; empty outside a run.
        party: The releasing party.
        receiver: The receiving party.
        kind: ``release`` or ``edges`` when a release opens and is charged; otherwise the kind of
            the artifact, or the stage that discloses it.
        artifact: ID of the release, digest of the artifact, or digest of the stage's place.
        account: ``local_dp`` for randomised responses, ``model`` for differentially private models
            and metrics, ``exact`` for everything without an epsilon.
        feature: The feature, or its missing bit; empty if the entry concerns none.
        column: Name of the raw column, to which losses are charged.
        release: ID of the release of an artifact's responses.
        loss: Loss curve of the responses.
        epsilon: Epsilon of a differentially private model for adding or removing a row.
        curve: Renyi curve of a model trained on noisy sums.
        replaced: The same for replacing a row.
        rows: Number of rows.
        discloses: What a disclosure without epsilon reveals to its reader, in words.
        experiment: True if made with reproducible noise or edges of a private table: no guarantee.
        recovered: True if charged by a recovery, at the worst case.
    """

    federation: str
    run: str
    party: str
    receiver: str
    kind: str
    artifact: str
    account: Literal["local_dp", "model", "exact"]
    feature: str | None = None
    column: str | None = None
    release: str | None = None
    loss: LossCurve | None = None
    epsilon: float | None = None
    curve: RenyiCurve | None = None
    replaced: RenyiCurve | None = None
    rows: int
    discloses: str = ""
    experiment: bool = False
    recovered: bool = False

    @property
    def opens_release(self) -> bool:
        """True for the charge of a release; entries of artifacts repeat its loss uncharged."""
        return self.release is not None and self.artifact == self.release


@lru_cache(maxsize=1 << 16)
def entry_of(text: str) -> LedgerEntry:
    """Parse an entry; equal texts are parsed once.

    Args:
        text: The entry's text in the database.

    Raises:
        ValidationError: The text is not an entry.
    """
    # Most of the text is the loss curve, which usually equals the previous entry's: it is cached
    # separately. Quotes inside strings are escaped, so neither marker can be part of a string.
    head, _, rest = text.partition(_CURVE)
    curve, end, tail = rest.partition(_AFTER)
    if not end:
        return LedgerEntry.model_validate_json(text)
    entry = LedgerEntry.model_validate_json(f"{head}{_AFTER[3:]}{tail}")
    return entry.model_copy(update={"loss": curve_of(f"{{{curve}}}")})


@lru_cache(maxsize=1 << 10)
def curve_of(text: str) -> LossCurve:
    """Parse a loss curve from JSON; equal texts are parsed once."""
    return LossCurve.model_validate_json(text)


#: An entry, and when it was reserved (UTC).
Dated = tuple[str, LedgerEntry]

#: Called with the models so far and the new entries; raises `BudgetError` to reject them.
ModelRule = Callable[[Sequence[LedgerEntry], Sequence[LedgerEntry]], None]


class Ledger(Records):
    """A party's ledger, across all its federations.

    An entry is reserved before its artifact is published and committed afterwards. A crash in
    between may leave an entry for something that was not released, but never a release without an
    entry; a retry completes the same reservation.
    """

    def reserve(self, entries: Sequence[LedgerEntry], rule: ModelRule | None = None) -> int:
        """Add entries that do not exist yet, and check new models, in one transaction.

        Args:
            entries: Entries of what is about to be released.
            rule: Checks whether new models may be charged.

        Returns:
            The number of new entries.

        Raises:
            BudgetError: The rule rejected the models; nothing was added.
        """
        with self._database.writing() as connection:
            wanted = {(entry.artifact, entry.feature or ""): entry for entry in entries}
            artifacts = sorted({artifact for artifact, _ in wanted})
            present = connection.execute(
                sa.select(_ENTRIES.c.artifact, _ENTRIES.c.feature).where(
                    _ENTRIES.c.artifact.in_(artifacts)
                )
            )
            for artifact, feature in present:
                wanted.pop((artifact, feature), None)
            new = list(wanted.values())
            models = [entry for entry in new if entry.account == "model"]
            if rule is not None and models:
                rule(self.models(), models)
            at = now()
            rows = [
                {
                    "recorded_at": at,
                    "artifact": entry.artifact,
                    "feature": entry.feature or "",
                    "event": entry.model_dump(mode="json"),
                }
                for entry in new
            ]
            if rows:
                connection.execute(sa.insert(_ENTRIES), rows)
        return len(new)

    def models(self) -> list[LedgerEntry]:
        """Return the entries of differentially private models and metrics, oldest first."""
        account = _ENTRIES.c.event["account"].as_string()
        query = sa.select(_TEXT).where(account == "model").order_by(_ENTRIES.c.id)
        return list(map(entry_of, self._database.column(query)))

    def commit(self, artifact: str) -> None:
        """Record that an artifact was published, which completes its reservation.

        Args:
            artifact: Digest of the artifact.
        """
        with self._database.writing():
            if not self.committed(artifact):
                line = {"artifact": artifact, "committed_at": now()}
                self._database.execute(sa.insert(_COMMITS).values(line))

    def runs(self, federation: str, kinds: Collection[str]) -> set[str]:
        """Return the runs of a federation that have an entry of some kinds.

        Args:
            federation: Name of the federation.
            kinds: Kinds of artifacts.
        """
        event = _ENTRIES.c.event
        run = event["run"].as_string()
        in_federation = event["federation"].as_string() == federation
        of_kinds = event["kind"].as_string().in_(kinds)
        query = sa.select(run).where(in_federation, of_kinds).distinct()
        return set(self._database.column(query))

    def known(self, artifacts: Iterable[str]) -> set[str]:
        """Return the artifacts that have entries.

        Args:
            artifacts: A few digests or IDs.
        """
        column = _ENTRIES.c.artifact
        return set(self._database.column(sa.select(column).where(column.in_(sorted(artifacts)))))

    def committed(self, artifact: str) -> bool:
        """Return whether an artifact is known to be published."""
        query = sa.select(_COMMITS.c.artifact).where(_COMMITS.c.artifact == artifact)
        return self._database.first(query) is not None

    def entries(self) -> list[LedgerEntry]:
        """Return all entries, oldest first, reserved or committed."""
        return [entry for _, entry in self.dated()]

    def dated(self) -> list[Dated]:
        """Return all entries, oldest first, each with the time of its reservation (UTC).

        Raises:
            ValidationError: An entry's text is invalid.
        """
        query = sa.select(_ENTRIES.c.recorded_at, _TEXT).order_by(_ENTRIES.c.id)
        with self._database.reading() as connection:
            rows = plain_rows(connection, query)
        return [(at, entry_of(text)) for at, text in rows]

    def of_run(self, federation: str, run: str) -> list[Dated]:
        """Return the entries of a run, each with the time of its reservation (UTC).

        Args:
            federation: The run's federation; another federation may use the same ID.
            run: ID of the run.

        Raises:
            ValidationError: The text of an entry that contains the ID is invalid.
        """
        query = sa.select(_ENTRIES.c.recorded_at, _TEXT).where(_TEXT.contains(run, autoescape=True))
        rows = self._database.rows(query.order_by(_ENTRIES.c.id))
        dated = [(at, entry_of(text)) for at, text in rows]
        this = (federation, run)
        return [(at, entry) for at, entry in dated if (entry.federation, entry.run) == this]

    def uncommitted(self) -> list[LedgerEntry]:
        """Return the entries of artifacts that are not known to be published."""
        complete = sa.exists().where(_COMMITS.c.artifact == _ENTRIES.c.artifact)
        query = sa.select(_TEXT).where(~complete).order_by(_ENTRIES.c.id)
        return list(map(entry_of, self._database.column(query)))


def entries_after(connection: sa.Connection, number: int) -> list[tuple[int, LedgerEntry]]:
    """Return the entries after an ID, each with its ID, oldest first.

    Args:
        connection: Connection to the database.
        number: ID of an entry; 0 for all.
    """
    rows = connection.execute(
        sa.select(_ENTRIES.c.id, _TEXT).where(_ENTRIES.c.id > number).order_by(_ENTRIES.c.id)
    )
    return [(number, entry_of(event)) for number, event in rows]


@dataclass(frozen=True)
class ExactDisclosure:
    """A disclosure without an epsilon, and the number of times it was made."""

    receiver: str
    kind: str
    times: int
    discloses: str


def exact_disclosures(entries: Iterable[LedgerEntry]) -> list[ExactDisclosure]:
    """Group all entries without an epsilon, and count equal ones.

    Args:
        entries: Entries of one party.
    """
    counts: dict[tuple[str, str, str], int] = defaultdict(int)
    for entry in entries:
        if entry.account == "exact":
            counts[entry.receiver, entry.kind, entry.discloses] += 1
    return [
        ExactDisclosure(receiver, kind, times, discloses)
        for (receiver, kind, discloses), times in counts.items()
    ]


#: Columns of `plain_line`, in order.
PLAIN_FIELDS = (
    "recorded_at",
    *(name for name in LedgerEntry.model_fields if name not in ("loss", "curve", "replaced")),
    "mechanism",
    "loss_1",
    "loss_whole",
)


def plain_line(at: str, entry: LedgerEntry) -> dict[str, Any]:
    """Convert a ledger entry to a row of plain values.

    Args:
        at: Time of its reservation.
        entry: The entry.
    """
    plain = entry.model_dump(mode="json", exclude={"loss", "curve", "replaced"})
    line: dict[str, Any] = {"recorded_at": at, **plain}
    if entry.loss is not None:
        line |= {"mechanism": entry.loss.mechanism}
        line |= {"loss_1": entry.loss.loss[0], "loss_whole": entry.loss.loss[-1]}
    return line
