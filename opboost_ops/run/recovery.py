"""Books that went back are charged for what they have lost: `opboost ledger recover`.

What is missing follows from the party's own signed artifacts, the plans that they belong to, the
homes of its runs and the heads that others have seen. What cannot be told is charged at its worst:
a run of which nothing is left has drawn every cell anew. No charge becomes lower, no line changes.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

from opboost_ops.config.policy import Policy
from opboost_ops.config.site import Site
from opboost_ops.exchange.audit import Action
from opboost_ops.exchange.books import Books, open_books
from opboost_ops.exchange.manifest import Kind, head_towards, receiver_of
from opboost_ops.exchange.store import open_store
from opboost_ops.privacy.draws import read_mark
from opboost_ops.privacy.events import Draw, Release
from opboost_ops.privacy.forgotten import Forgotten
from opboost_ops.privacy.heads import Given, Head
from opboost_ops.privacy.lost import accept
from opboost_ops.privacy.migrations import back_up
from opboost_ops.privacy.worst import Worst
from opboost_ops.run import agreement_file
from opboost_ops.run.comparisons import Known
from opboost_ops.run.evidence import KINDS, Published, home_runs, in_store
from opboost_ops.run.gaps import check
from opboost_ops.run.lost_lines import RunLines, lines_of

#: What stands in lines and entries that were rebuilt.
MARK = "recovered"


@dataclass(frozen=True)
class Recovered:
    """What was done.

    Attributes:
        lines: What was charged, draws among them.
        accepted: How many cell states go on without what they have lost.
        entries: How many entries of the audit log were written.
        heads: How many heads were restored.
        left: Gaps that remain, in words.
    """

    lines: tuple[Release, ...]
    accepted: int
    entries: int
    heads: int
    left: tuple[str, ...]


def recover(site: Site, policy: Policy) -> Recovered:
    """Rebuild what a party's books have lost, with a backup of what there was beside it.

    Doing it again changes nothing.

    Args:
        site: The party's.
        policy: Its policy: caps in force, and whom it believes.

    Raises:
        ConfigError: No backup can be written beside; nothing was changed.
    """
    if not [gap for gap in check(site) if gap.lacks != "open"]:
        return Recovered((), 0, 0, 0, ())
    with open_books(site, anew=True) as books:
        with books.database.writing() as connection:
            back_up(books.database, connection, books.cells, MARK)
            work = _Work(site, policy, books)
            heads = work.heads()
            lines = work.lines()
            books.ledger.complete(Forgotten(site.forgotten))
            accepted = len(accept(books.database, books.cells, policy, ()))
            entries = work.entries()
        gone = {(g.federation, g.run, g.lacks) for g in check(site) if g.lacks in ("home", "store")}
        for federation, run, what in sorted(gone):
            detail = f"{MARK}: what the {what} had of it is gone"
            books.audit.add("removed", f"{federation}/{run}", site.party, detail=detail)
    entries += len(gone)
    left = tuple(str(gap) for gap in check(site) if gap.lacks != "open")
    return Recovered(tuple(lines), accepted, entries, heads, left)


class _Work:
    def __init__(self, site: Site, policy: Policy, books: Books) -> None:
        self._site, self._policy, self._books = site, policy, books
        self._known = Known.read(books)
        self._runs = list(home_runs(site))
        self._store = open_store(site.store)
        self._unexplained: list[tuple[str, str, int]] = []
        agreed = {a.federation for a in agreement_file.load(site).agreements}
        names = {r.federation for r in self._runs} | self._known.federations | agreed
        self._there = [
            one for name in sorted(names | set(site.tables))
            for one in in_store(site, self._store, name)
        ]  # fmt: skip

    def _missing(self) -> dict[tuple[str, str], dict[str, Published]]:
        """Own artifacts without a line, by run and digest; what the store knows goes first."""
        found: dict[tuple[str, str], dict[str, Published]] = {}
        for one in [*self._there, *(own for run in self._runs for own in run.own)]:
            if one.digest not in self._known.charged and one.kind in KINDS:
                found.setdefault((one.federation, one.run), {}).setdefault(one.digest, one)
        return found

    def lines(self) -> list[Release]:
        """Charge artifacts and draws that have no line."""
        charged: list[Release] = []
        homes = {(run.federation, run.run): run for run in self._runs}
        rebuilt = {
            place: lines_of(
                self._site, self._policy, self._store, list(ones.values()), homes.get(place)
            )
            for place, ones in self._missing().items()
        }
        rebuilt |= self._sessions()
        draws = [draw for run in rebuilt.values() for draw in run.draws]
        draws += self._drawn_at_home(homes.values())
        draws += self._nothing_left(draws)
        charged += self._charge(draws)
        models = {(r.federation, r.run) for r in self._known.releases if r.account == "model"}
        for run in rebuilt.values():
            for line in run.lines:
                if line.account != "model" or (line.federation, line.run) not in models:
                    self._books.ledger.reserve([line])
                    self._books.ledger.commit(line.artifact)
                    charged.append(line)
        return charged

    def _sessions(self) -> dict[tuple[str, str], RunLines]:
        """Rounds of horizontal learning that were held and of which there is no line."""
        found: dict[tuple[str, str], RunLines] = {}
        for one in self._there:
            place = (one.federation, one.run)
            if one.kind == "round_key" and self._books.sessions.find(*place) is None:
                name = hashlib.sha256(f"{MARK}/{one.digest}".encode()).hexdigest()
                self._books.sessions.restore(*place, name)
                found[one.federation, f"{one.run}/rounds"] = lines_of(
                    self._site, self._policy, self._store, [one], None
                )
        return found

    def _drawn_at_home(self, homes: Any) -> Iterator[Release]:
        """Draws that a run's home knows, whose artifacts have lines or were never published."""
        last = {line.feature: line for line in self._known.releases if line.draw is not None}
        for run in homes:
            for charge, name in run.draws.items():
                line = last.get(charge)
                if line is not None and name not in self._known.charged:
                    facts = {"federation": run.federation, "run": run.run}
                    yield line.model_copy(update={**facts, "artifact": name, "draws": name})

    def _nothing_left(self, rebuilt: Sequence[Release]) -> Iterator[Release]:
        """Runs of which others have seen the number alone: every cell was drawn anew, at worst."""
        for federation, receiver, number in self._unexplained:
            present = {
                (line.column, (line.feature or "").partition("=")[2]): line
                for line in [*self._known.releases, *rebuilt]
                if line.loss is not None and line.cells and line.federation == federation
            }
            for line in present.values():
                place = f"{MARK}/{federation}/{receiver}/{number}/{line.column}/{line.cells}"
                name = hashlib.sha256(place.encode()).hexdigest()
                yield line.model_copy(update={"run": "", "artifact": name, "draws": name})

    def _charge(self, draws: Sequence[Release]) -> list[Release]:
        """Number draws under their keys, and bring each key up to its cell state."""
        charged: list[Release] = []
        keys = dict.fromkeys((d.column, d.cells or "") for d in draws if d.column is not None)
        for column, key in [*keys, *(k for k in self._ahead() if k not in keys)]:
            before = self._books.ledger.worst(column, key)
            mark = read_mark(self._books.cells, column, key)
            mine = {d.artifact: d for d in draws if (d.column, d.cells or "") == (column, key)}
            named = [d for d in mine.values() if not self._drawn(column, key, d.artifact)]
            # The state's own last draw comes last, as it did.
            named.sort(key=lambda d: mark is not None and d.artifact == mark.draw)
            if mark is not None and mark.number > before.number and mark.draw not in mine:
                pattern = named[-1] if named else self._pattern(column, key)
                if pattern is not None and not self._drawn(column, key, mark.draw):
                    last = {"artifact": mark.draw, "draws": mark.draw, "run": ""}
                    named.append(pattern.model_copy(update=last))
            for place, line in enumerate(named, start=1):
                inputs = len(line.loss.loss) + 1 if line.loss else 0
                grown = min(before.values + 1, max(inputs, before.values))
                after = Worst(grown, before.base, before.number + 1)
                if place == len(named) and mark is not None and mark.number >= after.number:
                    values = mark.worst if mark.number == after.number else max(grown, mark.worst)
                    after = Worst(max(values, before.values), mark.base, mark.number)
                draw = Draw(
                    number=after.number,
                    added=after.values - before.values,
                    worst=after.values,
                    base=after.base,
                    inputs=inputs,
                    stands_for=after.number - before.number,
                )
                changes = {"kind": "draw", "draw": draw, "recovered": True, "edges": ()}
                new = line.model_copy(update=changes)
                self._books.ledger.charge([new])
                charged.append(new)
                before = after
        return charged

    def _ahead(self) -> Iterator[tuple[UUID, str]]:
        for column, paths in self._books.cells.columns().items():
            for path in paths:
                key = path.stem[-16:]
                mark = read_mark(self._books.cells, column, key)
                if mark and mark.number > self._books.ledger.worst(column, key).number:
                    yield column, key

    def _pattern(self, column: UUID, key: str) -> Release | None:
        """A line from which another of the same key can be made."""
        lines = [line for line in self._known.releases if line.column == column and line.loss]
        exact = [line for line in lines if line.cells == key]
        found = (exact or lines)[-1:]
        return found[0].model_copy(update={"cells": key}) if found else None

    def _drawn(self, column: UUID, key: str, name: str) -> bool:
        return self._books.ledger.drawn(column, key, name)

    def heads(self) -> int:
        """Restore heads that were given, by the party's own manifests and what others have seen."""
        restored = 0
        own: dict[tuple[str, str], dict[int, tuple[str, Given]]] = {}
        for one in self._there:
            if one.given is not None and one.holder:
                towards = head_towards(one.kind, one.about, one.holder)
                numbers = own.setdefault((one.federation, towards), {})
                numbers[one.given.head.number] = (one.run, one.given)
        seen: dict[tuple[str, str], Head] = {}
        for home in self._runs:
            place = (home.federation, home.holder)
            if home.seen and (place not in seen or home.seen.number > seen[place].number):
                seen[place] = home.seen
        for (federation, receiver), head in seen.items():
            mine = own.setdefault((federation, receiver), {})
            known = self._books.heads.last_number(federation, receiver)
            for number in range(known + 1, head.number + 1):
                if number not in mine:
                    self._unexplained.append((federation, receiver, number))
            given = self._books.heads.numbered(federation, receiver, head.number)
            if head.number not in mine and (given is None or given.head != head):
                mine[head.number] = (f"{MARK}-{head.number}", Given(head=head))
                if given is not None:
                    self._unexplained.append((federation, receiver, head.number))
        line = self._books.ledger.last_line()
        for (federation, receiver), numbers in own.items():
            for number, (run, given) in sorted(numbers.items()):
                there = self._books.heads.numbered(federation, receiver, number)
                if there is None or there.head != given.head:
                    self._books.heads.replace(federation, receiver, run, given, line)
                    restored += 1
        return restored

    def entries(self) -> int:
        """Complete the audit log: what was sent, received and agreed, and what is gone for good."""
        count = 0
        known = Known.read(self._books)
        add = self._books.audit.add
        told = known.told("sent", "answered")
        for line in known.artifacts():
            if line.artifact in known.committed and line.artifact not in told:
                place = f"{line.federation}/{line.run}/{line.kind}/{self._about(line)}"
                action: Action = "answered" if line.kind == "split_values" else "sent"
                add(action, place, line.receiver, line.artifact, MARK)
                told.add(line.artifact)
                count += 1
        received = known.told("received")
        for run in self._runs:
            for place, digest in run.received.items():
                if digest not in received and not place.startswith("plan/"):
                    name, _, about = place.partition("/")
                    to = receiver_of(cast(Kind, name), about, run.holder)
                    sender = about if to == run.holder else run.holder
                    full = f"{run.federation}/{run.run}/{place}"
                    add("received", full, sender, digest, MARK)
                    count += 1
        agreed = {entry.place for entry in known.entries if entry.action == "agreed"}
        for made in agreement_file.load(self._site).agreements:
            place = f"{made.federation}/agreement/{made.number}"
            if place not in agreed:
                add("agreed", place, self._site.party, made.digest, MARK)
                count += 1
        return count

    def _about(self, line: Release) -> str:
        for one in [*self._there, *(own for run in self._runs for own in run.own)]:
            if one.digest == line.artifact:
                return one.about
        return line.party
