"""The ledger's events and entries: reserved before a release leaves, and only ever added."""

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

#: In an entry's text, the beginning of its loss curve, and the text after its end.
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

#: An entry's event as its text, which databases keep in kinds of JSON of their own.
_TEXT = sa.cast(_ENTRIES.c.event, sa.Text)


class LedgerEntry(Record):
    """One entry.

    Attributes:
        federation: In which federation.
        run: In which run; empty outside a run.
        party: Who released it.
        receiver: Who may read it.
        kind: ``release`` and ``edges`` where a release opens and is charged; else the kind of the
            artifact, or the stage that tells it.
        artifact: Id of the release, digest of the artifact, or digest of the stage's place.
        account: ``local_dp`` for randomised responses, ``model`` for differentially private models
            and metrics, ``exact`` for all else that has no epsilon.
        feature: The feature, or its missing bit; empty where an entry is about none.
        column: Name of the raw column, to which losses are charged.
        release: Id of the release that an artifact's responses belong to.
        loss: Loss curve of the responses.
        epsilon: Cost of a differentially private model for a row added or removed.
        curve: Its Renyi curve, for a model that is trained on noisy sums.
        replaced: The same for a row replaced.
        rows: How many rows.
        discloses: In plain words, what a disclosure without epsilon tells its reader.
        experiment: Made with predictable noise, or with edges of a private table: no guarantee.
        recovered: Charged by a recovery, at the worst case.
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


@lru_cache(maxsize=1 << 16)
def entry_of(text: str) -> LedgerEntry:
    """An entry from its text; equal texts are read once.

    Args:
        text: As it lies in the database.

    Raises:
        ValidationError: It is no entry.
    """
    # Most of it is its loss curve, which is that of the entry before: it is read once, too. A
    # quote inside a string is written with a backslash, so neither mark can be a part of one.
    head, _, rest = text.partition(_CURVE)
    curve, end, tail = rest.partition(_AFTER)
    if not end:
        return LedgerEntry.model_validate_json(text)
    entry = LedgerEntry.model_validate_json(f"{head}{_AFTER[3:]}{tail}")
    return entry.model_copy(update={"loss": curve_of(f"{{{curve}}}")})


@lru_cache(maxsize=1 << 10)
def curve_of(text: str) -> LossCurve:
    """A loss curve from its JSON text."""
    return LossCurve.model_validate_json(text)


#: An entry, and when it was reserved (UTC).
Dated = tuple[str, LedgerEntry]

#: Called with the models so far and the new entries; raises `BudgetError` to refuse them.
ModelRule = Callable[[Sequence[LedgerEntry], Sequence[LedgerEntry]], None]


class Ledger(Records):
    """A party's own ledger, across all its federations.

    An entry is reserved before its artifact is published and committed afterwards. A crash in
    between leaves an entry of what was perhaps not released, never the other way round, and the
    retry completes the same reservation.
    """

    def reserve(self, entries: Sequence[LedgerEntry], rule: ModelRule | None = None) -> int:
        """Add entries; one that is already there is not added again.

        No other writer comes between the rule's decision and the entries.

        Args:
            entries: Of what is about to leave.
            rule: Whether new models may be charged.

        Returns:
            How many are new.

        Raises:
            BudgetError: By the rule; nothing was added.
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
        """The entries of differentially private models and metrics, oldest first."""
        account = _ENTRIES.c.event["account"].as_string()
        query = sa.select(_TEXT).where(account == "model").order_by(_ENTRIES.c.id)
        return list(map(entry_of, self._database.column(query)))

    def commit(self, artifact: str) -> None:
        """Note that an artifact lies in the store, so that its reservation is complete.

        Args:
            artifact: Its digest.
        """
        with self._database.writing():
            if not self.committed(artifact):
                line = {"artifact": artifact, "committed_at": now()}
                self._database.execute(sa.insert(_COMMITS).values(line))

    def runs(self, federation: str, kinds: Collection[str]) -> set[str]:
        """The runs of a federation that have an entry of some kinds.

        Args:
            federation: Its name.
            kinds: Kinds of artifact.
        """
        event = _ENTRIES.c.event
        run = event["run"].as_string()
        here = event["federation"].as_string() == federation
        query = sa.select(run).where(here, event["kind"].as_string().in_(kinds)).distinct()
        return set(self._database.column(query))

    def known(self, artifacts: Iterable[str]) -> set[str]:
        """Those of some artifacts that have entries.

        Args:
            artifacts: Their digests, or names; a few.
        """
        column = _ENTRIES.c.artifact
        return set(self._database.column(sa.select(column).where(column.in_(sorted(artifacts)))))

    def committed(self, artifact: str) -> bool:
        """True if an artifact is known to lie in the store."""
        query = sa.select(_COMMITS.c.artifact).where(_COMMITS.c.artifact == artifact)
        return self._database.first(query) is not None

    def entries(self) -> list[LedgerEntry]:
        """All entries, oldest first, reserved or committed."""
        return [entry for _, entry in self.dated()]

    def dated(self) -> list[Dated]:
        """All entries, oldest first, each with when it was reserved (UTC).

        Raises:
            ValidationError: The text of an entry is none.
        """
        query = sa.select(_ENTRIES.c.recorded_at, _TEXT).order_by(_ENTRIES.c.id)
        with self._database.reading() as connection:
            rows = plain_rows(connection, query)
        return [(at, entry_of(text)) for at, text in rows]

    def of_run(self, federation: str, run: str) -> list[Dated]:
        """The entries of a run, as `dated` gives them.

        Args:
            federation: The run's federation: in another one its id may name another run.
            run: Its id.

        Raises:
            ValidationError: The text of an entry in which that id stands is none.
        """
        query = sa.select(_ENTRIES.c.recorded_at, _TEXT).where(_TEXT.contains(run, autoescape=True))
        rows = self._database.rows(query.order_by(_ENTRIES.c.id))
        dated = [(at, entry_of(text)) for at, text in rows]
        this = (federation, run)
        return [(at, entry) for at, entry in dated if (entry.federation, entry.run) == this]

    def uncommitted(self) -> list[LedgerEntry]:
        """Artifacts that have entries and are not known to be published."""
        complete = sa.exists().where(_COMMITS.c.artifact == _ENTRIES.c.artifact)
        query = sa.select(_TEXT).where(~complete).order_by(_ENTRIES.c.id)
        return list(map(entry_of, self._database.column(query)))


def entries_after(connection: sa.Connection, number: int) -> list[tuple[int, LedgerEntry]]:
    """Entries after a number, each with its own, oldest first.

    Args:
        connection: To the database.
        number: Of an entry; 0 for all.
    """
    rows = connection.execute(
        sa.select(_ENTRIES.c.id, _TEXT).where(_ENTRIES.c.id > number).order_by(_ENTRIES.c.id)
    )
    return [(number, entry_of(event)) for number, event in rows]


@dataclass(frozen=True)
class ExactLine:
    """A disclosure without any epsilon, and how often it was made."""

    receiver: str
    kind: str
    times: int
    discloses: str


def exact_lines(entries: Iterable[LedgerEntry]) -> list[ExactLine]:
    """All that has no epsilon, equal entries as one.

    Args:
        entries: Of one party.
    """
    counts: dict[tuple[str, str, str], int] = defaultdict(int)
    for entry in entries:
        if entry.account == "exact":
            counts[entry.receiver, entry.kind, entry.discloses] += 1
    return [
        ExactLine(receiver, kind, times, discloses)
        for (receiver, kind, discloses), times in counts.items()
    ]


#: Columns of `plain_line`, in their order.
PLAIN_FIELDS = (
    "recorded_at",
    *(name for name in LedgerEntry.model_fields if name not in ("loss", "curve", "replaced")),
    "mechanism",
    "loss_1",
    "loss_whole",
)


def plain_line(at: str, entry: LedgerEntry) -> dict[str, Any]:
    """A ledger entry for a table of plain cells.

    Args:
        at: When it was reserved.
        entry: The entry.
    """
    plain = entry.model_dump(mode="json", exclude={"loss", "curve", "replaced"})
    line: dict[str, Any] = {"recorded_at": at, **plain}
    if entry.loss is not None:
        line |= {"mechanism": entry.loss.mechanism}
        line |= {"loss_1": entry.loss.loss[0], "loss_whole": entry.loss.loss[-1]}
    return line
