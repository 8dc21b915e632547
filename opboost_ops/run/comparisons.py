"""Each of a party's memories against the others; see `gaps`."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, cast

from opboost_ops.config.site import Site
from opboost_ops.errors import ArtifactError, ConfigError
from opboost_ops.exchange.audit import Entry
from opboost_ops.exchange.books import Books
from opboost_ops.exchange.manifest import Kind, head_towards
from opboost_ops.privacy.cells import Cells
from opboost_ops.privacy.draws import read_mark
from opboost_ops.privacy.events import Release
from opboost_ops.privacy.forgotten import Forgotten
from opboost_ops.privacy.lost import lost_states
from opboost_ops.run import agreement_file
from opboost_ops.run.evidence import KINDS, HomeRun, Published

#: Which memory may have lost something; ``open`` where nothing is lost, but not completed.
Memory = Literal[
    "ledger", "audit", "cells", "home", "store", "agreement", "forgotten", "heads", "open"
]

#: What to do where the database is too old.
RECOVER = "Put the newest copy of the database back, or charge it with `opboost ledger recover`."


@dataclass(frozen=True)
class Gap:
    """Something that one of a party's memories has lost.

    Attributes:
        lacks: Which of them.
        missing: What, in words.
        where: Where the evidence lies.
        remedy: What to do.
        federation: Of which federation; empty where that is not known, or all are meant.
        run: Of which run, likewise.
        feature: Of which feature, or bit of it, likewise.
    """

    lacks: Memory
    missing: str
    where: str
    remedy: str
    federation: str = ""
    run: str = ""
    feature: str = ""

    def __str__(self) -> str:
        return f"{self.lacks} lacks {self.missing}; known by {self.where}. {self.remedy}"


@dataclass(frozen=True)
class Known:
    """What the database says.

    Attributes:
        releases: Its lines, oldest first.
        charged: Digests of artifacts, and names of draws.
        committed: Those of them that are known to lie in the store.
        entries: Its audit log; what can be read of it.
        broken: What is wrong with the log's chain; empty if nothing is.
    """

    releases: list[Release]
    charged: frozenset[str]
    committed: frozenset[str]
    entries: list[Entry]
    broken: str

    @classmethod
    def read(cls, books: Books) -> "Known":
        """All that a party's database says."""
        releases, entries, broken = books.ledger.releases(), [], ""
        try:
            for _, entry, _ in books.audit.entries():
                entries.append(entry)
            books.audit.verify()
        except ArtifactError as error:
            broken = error.problem
        charged = frozenset(line.artifact for line in releases)
        left = frozenset(line.artifact for line in books.ledger.uncommitted())
        return cls(releases, charged, charged - left, entries, broken)

    def told(self, *actions: str) -> set[str]:
        """Digests of what the audit log has entries of."""
        return {entry.artifact for entry in self.entries if entry.action in actions}

    @property
    def removed(self) -> set[str]:
        """Runs that the party has removed itself, as places."""
        return {entry.place for entry in self.entries if entry.action == "removed"}

    @property
    def federations(self) -> set[str]:
        """All of which there is a line of an artifact."""
        return {line.federation for line in self.artifacts()}

    def artifacts(self) -> Iterator[Release]:
        """Lines of artifacts, oldest first."""
        return (line for line in self.releases if line.kind in KINDS and line.run)


def not_charged(known: Known, runs: Iterable[HomeRun], there: Iterable[Published]) -> Iterator[Gap]:
    """Artifacts of the party's own of which the ledger has no line, each once."""
    found: dict[str, list[Published]] = {}
    for one in [*(own for run in runs for own in run.own), *there, *_logged(known)]:
        if one.kind in KINDS and one.digest not in known.charged:
            found.setdefault(one.digest, []).append(one)
    for ones in found.values():
        first, where = ones[0], ", ".join(one.where for one in ones)
        missing = f"{first.kind}/{first.about} of run {first.run} of {first.federation}"
        yield Gap("ledger", missing, where, RECOVER, first.federation, first.run)


def _logged(known: Known) -> Iterator[Published]:
    for entry in known.entries:
        federation, run, kind, about = (*entry.place.split("/"), "", "", "")[:4]
        if entry.action in ("sent", "answered") and kind in KINDS:
            name = cast(Kind, kind)
            yield Published(federation, run, name, about, entry.artifact, "the audit log")


def against_cells(known: Known, cells: Cells) -> Iterator[Gap]:
    """Draws that a cell state holds and the ledger does not, and the other way round."""
    numbers: dict[tuple[str, str], int] = {}
    features: dict[str, str] = {}
    for line in known.releases:
        if line.draw is not None and line.column is not None:
            numbers[str(line.column), line.cells or ""] = line.draw.number
            features[str(line.column)] = line.feature or ""
    for column, paths in cells.columns().items():
        feature = features.get(str(column), str(column))
        for path in paths:
            mark = read_mark(cells, column, path.stem[-16:])
            number = numbers.get((str(column), path.stem[-16:]), 0)
            if mark is not None and mark.number > number:
                missing = f"draws {number + 1} to {mark.number} of {feature}"
                remedy = f"{RECOVER} After a crash the retry of its run brings it, too."
                yield Gap("ledger", missing, f"cells/{path.name}", remedy, feature=feature)
    for lost in lost_states(known.releases, cells):
        line = lost.last
        last = line.draw.number if line.draw is not None else 0
        yield Gap(
            "cells",
            f"draws {lost.held + 1} to {last} of {line.feature}: the state is gone, or older than "
            "the ledger",
            "the ledger",
            "Put the newest states back, or charge what they cannot tell with `opboost ledger "
            "accept`: until then no run draws.",
            line.federation,
            line.run,
            line.feature or "",
        )


def against_homes(known: Known, runs: Iterable[HomeRun]) -> Iterator[Gap]:
    """What the folders of runs know and the database does not, and folders that are gone."""
    received, found = known.told("received"), set()
    for run in runs:
        place = f"{run.federation}/{run.run}"
        found.add(place)
        for charge, name in run.draws.items():
            if name not in known.charged:
                missing = f"the draw of {charge} in run {run.run} of {run.federation}"
                where = f"{place}/held.json in the home folder"
                yield Gap("ledger", missing, where, RECOVER, run.federation, run.run, charge)
        # Plans have no entry of their own: every stage takes its run's again.
        others = {p: d for p, d in run.received.items() if not p.startswith("plan/")}
        lost = sorted(p for p, digest in others.items() if digest not in received)
        if lost:
            missing = f"that {', '.join(lost)} of run {run.run} of {run.federation} came"
            where = f"{place} in the home folder"
            yield Gap("audit", missing, where, RECOVER, run.federation, run.run)
    for federation, run_id in dict.fromkeys((o.federation, o.run) for o in known.artifacts()):
        place = f"{federation}/{run_id}"
        if place not in found | known.removed:
            yield Gap(
                "home",
                f"the folder of run {run_id} of {federation}",
                "the ledger",
                "Put the newest copy of the home folder back; without it the run cannot go on. "
                "`opboost ledger recover` notes that it is gone.",
                federation,
                run_id,
            )


def gone_from_store(known: Known, there: Iterable[Published]) -> Iterator[Gap]:
    """What the store has lost; whoever removes runs by their age removes the oldest first."""
    present: dict[tuple[str, str], set[str]] = {}
    for one in there:
        present.setdefault((one.federation, one.run), set()).add(one.digest)
    published: dict[str, dict[str, set[str]]] = {}
    for line in known.artifacts():
        runs = published.setdefault(line.federation, {})
        runs.setdefault(line.run, set()).add(line.artifact)
    told = known.told("sent", "answered")
    for federation, runs in published.items():
        older_there = False
        for run, digests in runs.items():
            missing = (digests & told) - present.get((federation, run), set())
            here, newest = (federation, run) in present, run == next(reversed(runs))
            removed = f"{federation}/{run}" in known.removed
            if missing and (here or older_there or newest) and not removed:
                yield Gap(
                    "store",
                    f"{len(missing)} artifacts of run {run} of {federation}",
                    "the ledger",
                    "Ask who keeps the store whether an older copy was put back. What was released "
                    "stays charged; `opboost ledger recover` notes that it is gone.",
                    federation,
                    run,
                )
            older_there = older_there or here


def against_sessions(books: Books, there: Iterable[Published]) -> Iterator[Gap]:
    """Rounds of horizontal learning that the party took part in, and of which no line is left."""
    for one in there:
        if one.kind == "round_key" and books.sessions.find(one.federation, one.run) is None:
            missing = f"the rounds of run {one.run} of {one.federation}"
            yield Gap("ledger", missing, one.where, RECOVER, one.federation, one.run)


def against_heads(
    books: Books, runs: Iterable[HomeRun], there: Iterable[Published], party: str
) -> Iterator[Gap]:
    """Numbers that the party's own artifacts bear, or that others have seen, and the books lack."""
    lost: dict[tuple[str, str, int], tuple[str, str]] = {}
    for one in there:
        if one.given is not None and one.holder:
            towards = head_towards(one.kind, one.about, one.holder)
            known = books.heads.numbered(one.federation, towards, one.given.head.number)
            if known is None or known.head != one.given.head:
                place = (one.federation, towards, one.given.head.number)
                lost[place] = (one.run, one.where)
    for run in runs:
        if run.seen is not None:
            known = books.heads.numbered(run.federation, run.holder, run.seen.number)
            if known is None or known.head != run.seen:
                where = f"what others said in run {run.run} that they have seen of {party}"
                lost.setdefault((run.federation, run.holder, run.seen.number), ("", where))
    for (federation, towards, number), (run_id, where) in lost.items():
        missing = f"run number {number} of {federation} towards {towards}"
        yield Gap("heads", missing, where, RECOVER, federation, run_id)


def against_agreement(entries: Iterable[Entry], site: Site) -> Iterator[Gap]:
    """What the file of agreements and the audit log say of each other.

    Args:
        entries: Of the log; others than those of agreements are left out.
        site: The party's.
    """
    entries = list(entries)
    agreed = {e.place: e.artifact for e in entries if e.action == "agreed"}
    try:
        book = agreement_file.load(site)
    except ConfigError as error:
        yield Gap("agreement", "all of it", error.problem, error.remedy)
        return
    kept = {f"{a.federation}/agreement/{a.number}": a for a in book.agreements}
    restore = f"Put the newest {site.agreement.name} back, or agree again."
    newest = {place.partition("/")[0]: place for place in agreed}
    for place in newest.values():
        # Whoever has agreed once more since then has a higher number.
        if place not in kept or kept[place].digest != agreed[place]:
            yield Gap("agreement", place, "the audit log", restore)
    for entry in entries:
        found = kept.get(entry.place)
        if entry.action == "withdrawn" and found is not None and found.withdrawn is None:
            missing = f"that {entry.place} was withdrawn"
            yield Gap("agreement", missing, "the audit log", restore)
    for place in sorted(kept.keys() - agreed.keys()):
        yield Gap("audit", f"the agreement {place}", site.agreement.name, RECOVER)


def of_the_log(known: Known) -> Iterator[Gap]:
    """A broken chain, and artifacts that the ledger has and the log does not."""
    if known.broken:
        yield Gap("audit", "a whole chain", known.broken, "Compare it with a copy.")
        return
    told = known.told("sent", "answered")
    for line in known.artifacts():
        if line.artifact in known.committed and line.artifact not in told:
            missing = f"that {line.kind} of run {line.run} of {line.federation} was sent"
            yield Gap("audit", missing, "the ledger", RECOVER, line.federation, line.run)


def of_the_forgotten(site: Site, books: Books) -> Iterator[Gap]:
    """Persons who are on one of the two lists of the forgotten alone."""
    listed, copy = Forgotten(site.forgotten).entries(), books.ledger.forgotten()
    remedy = "`opboost ledger recover` completes each list by the other; so does the next draw."
    what = "persons whom the party has forgotten"
    if copy - listed:
        yield Gap("forgotten", what, "the database's copy of the list", remedy)
    # Release 0.1.0 kept no copy.
    if copy and listed - copy:
        yield Gap("ledger", what, f"cells/{site.forgotten.name}", remedy)


def not_completed(books: Books) -> Iterator[Gap]:
    """Reservations of which it is not known that they were published."""
    for line in books.ledger.uncommitted():
        yield Gap(
            "open",
            f"that {line.kind} of run {line.run} was published"
            f"{f', {line.feature}' if line.feature else ''}",
            "the ledger, where it is reserved",
            "Clear the run's task `publish`: it completes its own reservation at no further cost.",
            line.federation,
            line.run,
            line.feature or "",
        )
