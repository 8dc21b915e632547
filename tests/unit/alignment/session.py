"""A whole private alignment in memory, of one label holder and any number of feature holders."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from opboost_ops.alignment import ids, matching, oprf, parts, zero_shares
from opboost_ops.alignment.engine import Engine
from opboost_ops.alignment.ids import CANARY
from opboost_ops.alignment.tags import positions_in, salt_of, sorting
from opboost_ops.scratch.arrays import Scratch

FEDERATION = "credit"


@dataclass
class Query:
    points: np.ndarray
    rows: np.ndarray


@dataclass
class Session:
    label: Sequence[bytes]
    holders: Sequence[Sequence[bytes]]
    number: int = 0
    #: Of the federation, as the feature holders' software has it.
    name: str = FEDERATION
    engine: Engine = field(default_factory=Engine)
    #: Of which exponents follow, where these stay for several sessions.
    epoch: int | None = None
    #: How many people each holds in memory; others wait on the disk.
    held: int = 1 << 20

    def seed(self, party: int) -> bytes:
        return bytes([party + 1, self.number]) * 16

    def exponents(self, party: int) -> bytes:
        return self.seed(party) if self.epoch is None else bytes([party + 1, self.epoch]) * 16

    @property
    def salt(self) -> bytes:
        return salt_of(f"{self.number:064x}"[::-1])

    def pairs(self, j: int) -> dict[str, bytes]:
        return {
            str(i): zero_shares.pair_key(bytes([min(i, j), max(i, j)]) * 16, f"s{self.number}")
            for i in range(len(self.holders))
            if i != j
        }

    def own(self, j: int) -> list[tuple[list[bytes], np.ndarray]]:
        own = self.holders[j]
        return list(
            oprf.own_points(
                self.engine, self.exponents(j + 1), self.name, [own[:3], own[3:]], len(own)
            )
        )

    def points(self, j: int) -> np.ndarray:
        return np.concatenate([points for _, points in self.own(j)])

    @property
    def scratch(self) -> Scratch:
        return Scratch(Path(tempfile.gettempdir()), self.held)

    def layouts(self, j: int) -> tuple[list[matching.Layout], np.ndarray]:
        """The parts of a holder's layout, and the row or the look-up tag of each entry."""
        pairs, count = self.pairs(j), len(self.holders[j]) + 1
        looks = np.zeros((count, 16), dtype=np.uint8) if len(self.holders) > 1 else None
        own, seed = self.own(j), self.seed(j + 1)
        made = list(matching.layouts(self.scratch, own, count, seed, pairs, self.salt, looks))
        home = np.concatenate([rows for _, rows in made]) if looks is None else looks
        return [layout for layout, _ in made], home

    def layout(self, j: int) -> tuple[matching.Layout, np.ndarray]:
        """The only part."""
        (layout,), home = self.layouts(j)
        return layout, home

    def queries(self) -> list[Query]:
        """The parts of the query."""
        label = self.label
        found = [Query(np.empty((0, 32), dtype=np.uint8), np.empty(0, dtype=np.int64))
                 for _ in range(parts.part_count(len(label) + 1))]  # fmt: skip
        for number, points, rows in oprf.ask(
            self.engine, self.exponents(0), FEDERATION, [label], len(label), self.scratch
        ):
            part = found[number]
            found[number] = Query(
                np.concatenate([part.points, points]), np.concatenate([part.rows, rows])
            )
        return found

    def query(self) -> Query:
        """The whole query."""
        found = self.queries()
        return Query(
            np.concatenate([part.points for part in found]),
            np.concatenate([part.rows for part in found]),
        )

    def match(self) -> matching.Match:
        return self.matched()[0]

    def matched(self) -> tuple[matching.Match, list[np.ndarray]]:
        """What the label holder finds, and the look-up tags of all that it asked about."""
        queries = self.queries()
        messages = [*self.label, CANARY]
        rows = np.concatenate([part.rows for part in queries])
        several = len(self.holders) > 1
        match, looks = matching.Match(self.scratch, len(rows), several, self.salt), []
        for j in range(len(self.holders)):
            asked = [part.points for part in queries]
            answer = list(oprf.evaluate(self.engine, self.exponents(j + 1), asked, len(rows)))
            back = oprf.unblind(self.engine, self.exponents(0), answer, len(rows), f"h{j}")
            points = np.empty((len(rows), 32), dtype=np.uint8)
            points[rows] = np.concatenate(list(back))
            people = [(messages[i : i + 3], points[i : i + 3]) for i in range(0, len(rows), 3)]
            layouts = self.layouts(j)[0]
            sizes = [layout.people for layout in layouts]
            found = match.add(people, sizes, layouts.__getitem__)
            looks += [] if found is None else [found]
        return match, looks

    def run(self) -> tuple[list[bytes], list[list[bytes]]]:
        """The common messages as the label holder sees them, and as every holder finds them."""
        match, looks = self.matched()
        assert match.agrees
        common = np.flatnonzero(match.common())
        mine = [self.label[row] for row in common]
        found = []
        for j, messages in enumerate(self.holders):
            home = self.layouts(j)[1]
            if len(self.holders) == 1:
                places = home[match.positions(common)]
            else:
                order = sorting(home)
                at = positions_in(home[order], looks[j][common])
                assert (at >= 0).all()
                places = order[at]
            found.append([messages[row] for row in places])
        return mine, found


def triples(table: np.ndarray) -> set[bytes]:
    """The XOR of every three slots, one of each segment."""
    words = np.ascontiguousarray(table).view(np.uint64).reshape(3, -1, 2)
    a, b, c = words
    pairs = (a[:, None] ^ b[None]).reshape(-1, 2)
    found: set[bytes] = set()
    for one in c:
        found.update(map(bytes, (pairs ^ one).view("V16").ravel()))
    return found


def people(*numbers: int) -> list[bytes]:
    return ids.messages(list(numbers), "integer")
