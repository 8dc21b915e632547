"""A whole private alignment in memory, of one label holder and any number of feature holders."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from opboost_ops.alignment import matching, oprf, parts, zero_shares
from opboost_ops.alignment.engine import Engine
from opboost_ops.alignment.ids import CANARY
from opboost_ops.alignment.tags import positions_in, salt_of, sorting

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

    def layouts(self, j: int) -> tuple[list[matching.Layout], np.ndarray]:
        """The parts of a holder's layout, and the row or the look-up tag of each entry."""
        spill, several = parts.Memory(), len(self.holders) > 1
        count = parts.part_count(len(self.holders[j]) + 1)
        looks = list(matching.deal_people(spill, self.own(j), count, self.pairs(j), self.salt))
        made = [matching.layout_part(spill, i, self.seed(j + 1), several) for i in range(count)]
        home = np.concatenate(looks if several else [rows for _, rows in made])
        return [layout for layout, _ in made], home

    def layout(self, j: int) -> tuple[matching.Layout, np.ndarray]:
        """The only part."""
        (layout,), home = self.layouts(j)
        return layout, home

    def queries(self) -> list[Query]:
        """The parts of the query."""
        spill = parts.Memory(parts.POINT_RECORD)
        numbers = oprf.ask(
            self.engine, self.exponents(0), FEDERATION, [self.label], len(self.label), spill
        )
        return [Query(*oprf.query_part(spill, number)) for number in numbers]

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
        canary = int(np.flatnonzero(rows == len(self.label))[0])
        match, looks = matching.Match(len(rows), canary, len(self.holders) > 1, self.salt), []
        for j in range(len(self.holders)):
            asked = [part.points for part in queries]
            answer = list(oprf.evaluate(self.engine, self.exponents(j + 1), asked, len(rows)))
            back = oprf.unblind(self.engine, self.exponents(0), answer, len(rows), f"h{j}")
            people = (
                ([messages[row] for row in part.rows], points)
                for part, points in zip(queries, back, strict=True)
            )
            layouts = self.layouts(j)[0]
            found = match.add(people, range(len(layouts)), layouts.__getitem__, parts.Memory())
            looks.append(np.concatenate([np.empty((0, 16), dtype=np.uint8), *found]))
        return match, looks

    def run(self) -> tuple[list[bytes], list[list[bytes]]]:
        """The common messages as the label holder sees them, and as every holder finds them."""
        match, looks = self.matched()
        assert match.agrees
        common, rows = match.common(), self.query().rows
        mine = [self.label[rows[i]] for i in common]
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
