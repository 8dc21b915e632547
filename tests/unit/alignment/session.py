"""A whole private alignment in memory, of one label holder and any number of feature holders."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from opboost_ops.alignment import matching, oprf, zero_shares
from opboost_ops.alignment.engine import Engine
from opboost_ops.alignment.tags import positions_in, sorting

FEDERATION = "credit"


@dataclass
class Session:
    label: Sequence[bytes]
    holders: Sequence[Sequence[bytes]]
    number: int = 0
    engine: Engine = field(default_factory=Engine)

    def seed(self, party: int) -> bytes:
        return bytes([party + 1, self.number]) * 16

    def pairs(self, j: int) -> dict[str, bytes]:
        return {
            str(i): zero_shares.pair_key(bytes([min(i, j), max(i, j)]) * 16, f"s{self.number}")
            for i in range(len(self.holders))
            if i != j
        }

    def points(self, j: int) -> np.ndarray:
        return oprf.own_points(self.engine, self.seed(j + 1), FEDERATION, self.holders[j])

    def layout(self, j: int) -> tuple[matching.Layout, np.ndarray]:
        messages = oprf.with_canary(self.holders[j])
        if len(self.holders) == 1:
            return matching.sorted_tags(self.points(j), messages)
        return matching.masked_shares(self.points(j), messages, self.seed(j + 1), self.pairs(j))

    def query(self) -> oprf.Query:
        return oprf.blind(self.engine, self.seed(0), FEDERATION, self.label)

    def unblinded(self, j: int, query: oprf.Query) -> np.ndarray:
        answer = oprf.evaluate(self.engine, self.seed(j + 1), query.points)
        return oprf.unblind(self.engine, self.seed(0), answer, f"h{j}")

    def match(self) -> matching.OneHolder | matching.ManyHolders:
        query = self.query()
        messages = oprf.with_canary(self.label)
        ordered = [messages[row] for row in query.rows]
        kind = matching.OneHolder if len(self.holders) == 1 else matching.ManyHolders
        match = kind(ordered, int(np.flatnonzero(query.rows == len(self.label))[0]))
        for j in range(len(self.holders)):
            match.add(f"h{j}", self.unblinded(j, query), self.layout(j)[0])
        return match

    def run(self) -> tuple[list[bytes], list[list[bytes]]]:
        """The common messages as the label holder sees them, and as every holder finds them."""
        match = self.match()
        assert match.agrees
        common, rows = match.common(), self.query().rows
        mine = [self.label[rows[i]] for i in common]
        found = []
        for j, messages in enumerate(self.holders):
            answer, home = match.answer(f"h{j}", common), self.layout(j)[1]
            if len(self.holders) == 1:
                places = home[answer]
            else:
                order = sorting(home)
                at = positions_in(home[order], answer)
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
