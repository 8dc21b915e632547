"""A whole sealed release in memory, of one label holder and any number of feature holders."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from opboost_ops.exchange.sealed import ids, oprf, sealing, zero_shares
from opboost_ops.exchange.sealed.engine import Engine
from opboost_ops.exchange.sealed.ids import CANARY, TAG
from opboost_ops.exchange.sealed.sealing import RowFormat
from opboost_ops.mechanisms.noise import keyed_by
from opboost_ops.tables.spill.arrays import Scratch

FEDERATION = "credit"
FORMAT = RowFormat((100, 7, 100))


def people(*numbers: int) -> list[bytes]:
    return ids.messages(list(numbers), "integer")


@dataclass
class Holder:
    """A feature holder: its people and their rows, codes from 1."""

    messages: Sequence[bytes]
    rows: np.ndarray

    @classmethod
    def of(cls, numbers: Sequence[int], shift: int = 0) -> "Holder":
        column = np.array([(n + shift) % 100 + 1 for n in numbers], dtype=np.int64)
        return cls(people(*numbers), np.column_stack([column, column % 7 + 1, column]))


@dataclass
class Session:
    """One run.

    Attributes:
        label: Whom the label holder asks about.
        holders: All feature holders.
        night: Which run it is: nonces and pair keys follow from it.
        month: Exponents follow from it.
        held: How many people each holds in memory; others wait on the disk.
    """

    label: Sequence[bytes]
    holders: Sequence[Holder]
    night: int = 0
    month: int = 0
    held: int = 1 << 20
    engine: Engine = field(default_factory=Engine)
    #: By holder, whom it seals in another way: (message index, target) of a wrong share.
    wrong_share: dict[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def scratch(self) -> Scratch:
        return Scratch(Path(tempfile.gettempdir()), self.held)

    def secret(self, j: int) -> bytes:
        return bytes([j + 1]) * 32

    def exponent(self, j: int) -> bytes:
        return bytes([j + 1, self.month]) * 16

    def pairs(self, j: int) -> dict[str, bytes]:
        return {
            str(i): zero_shares.pair_key(bytes([min(i, j), max(i, j)]) * 16, f"run {self.night}")
            for i in range(len(self.holders))
            if i != j
        }

    def everybody(self, j: int) -> list[bytes]:
        return [*self.holders[j].messages, CANARY]

    def points(self, j: int, messages: Sequence[bytes]) -> np.ndarray:
        made = self.engine.hash_and_multiply(
            [messages], oprf.domain_tag(FEDERATION), oprf.evaluation_key(self.exponent(j)),
            "own", len(messages),
        )  # fmt: skip
        return np.concatenate([points for _, points in made])

    @cached_property
    def own_points(self) -> list[np.ndarray]:
        return [self.points(j, self.everybody(j)) for j in range(len(self.holders))]

    def rows(self, j: int) -> np.ndarray:
        canary = np.zeros((1, len(FORMAT.sizes)), dtype=np.int64)
        codes = np.concatenate([self.holders[j].rows, canary])
        return FORMAT.pack(list(codes.T))

    def content(self, j: int, rows: np.ndarray | None) -> bytes:
        found = sealing.ContentHash(keyed_by(self.secret(j), "content"))
        found.add(self.everybody(j), rows)
        return found.digest()

    def nonce(self, j: int, kind: str, rows: np.ndarray | None = None) -> bytes:
        return sealing.nonce(self.secret(j), kind, f"{self.night}", self.content(j, rows))

    def laid_shares(self, j: int) -> tuple[bytes, list[zero_shares.Layout]]:
        key, messages = self.nonce(j, "shares"), self.everybody(j)
        pieces = [(messages[:3], self.own_points[j][:3]), (messages[3:], self.own_points[j][3:])]
        made = zero_shares.layouts(
            self.scratch, pieces, len(messages), self.secret(j), key, self.pairs(j), j
        )
        return key, list(made)

    def stored_shares(self, j: int, messages: Sequence[bytes], points: np.ndarray) -> np.ndarray:
        """A holder's shares as they are without the masks of some points, (n, m - 1, 16)."""
        key, (layout,) = self.laid_shares(j)
        slots, masks = self._slots(key, messages, points)
        values = zero_shares.decode(layout.content, layout.number, slots) ^ masks
        return values.reshape(len(messages), -1, TAG)

    def _slots(
        self, key: bytes, messages: Sequence[bytes], points: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Where shares of people are stored, and their masks there."""
        bytes_of = sealing.keystream(key, "slot", (messages, points, None), TAG * len(self.holders))
        return np.ascontiguousarray(bytes_of[:, :TAG]), bytes_of[:, TAG:]

    def own_sharing(self, j: int, messages: Sequence[bytes]) -> np.ndarray | None:
        if len(self.holders) == 1:
            return None
        return zero_shares.sharings(self.pairs(j), messages)[:, j]

    def sealed(self, j: int) -> tuple[bytes, list[np.ndarray]]:
        rows, messages = self.rows(j), self.everybody(j)
        key = self.nonce(j, "ranks", rows)
        some = (messages, self.own_points[j], self.own_sharing(j, messages))
        made = sealing.seal_rows(
            self.scratch, [(some, rows)], len(messages), key, "ranks", FORMAT.width
        )
        return key, list(made)

    def unblinded(self, j: int) -> np.ndarray:
        """Points of all that were asked about, through query and answer."""
        asked, rows = self.query()
        answer = oprf.evaluate(self.engine, self.exponent(j), [asked], len(asked))
        back = oprf.unblind(self.engine, self.exponent(99), answer, len(asked), "holder")
        points = np.empty((len(asked), 32), dtype=np.uint8)
        points[rows] = np.concatenate(list(back))
        return points

    def query(self) -> tuple[np.ndarray, np.ndarray]:
        """The blinded points, and the row of each."""
        messages = self.label
        asked = list(
            oprf.blind(
                self.engine, self.exponent(99), FEDERATION, [messages], len(messages), self.scratch
            )
        )
        return np.concatenate([a[1] for a in asked]), np.concatenate([a[2] for a in asked])

    def open(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Who is found at each holder, and their rows."""
        return self.open_with([self.unblinded(j) for j in range(len(self.holders))])

    def open_with(
        self, points: Sequence[np.ndarray], messages: Sequence[bytes] | None = None
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        asked = [*self.label, CANARY] if messages is None else list(messages)
        count, m = len(asked), len(self.holders)
        sharings = zero_shares.Sharings(self.scratch, count, m) if m > 1 else None
        for j in range(m if sharings else 0):
            assert sharings is not None
            key, layouts = self.laid_shares(j)
            for at, (place, target) in self.wrong_share.items():
                if at == j:
                    self._spoil(j, key, layouts, place, target)
            people = ((some, theirs) for some, theirs, _ in _keyed(asked, points[j], None))
            sharings.add(j, people, key, len(layouts), layouts.__getitem__)
        found, rows = [], []
        for j in range(m):
            key, parts = self.sealed(j)
            zeros = None if sharings is None else sharings.of(j)
            one = sealing.open_rows(
                self.scratch, _keyed(asked, points[j], zeros), count, key, "ranks", FORMAT.width,
                len(parts), parts.__getitem__,
            )  # fmt: skip
            found.append(one[0])
            rows.append(one[1])
        return found, rows

    def _spoil(
        self, j: int, key: bytes, layouts: list[zero_shares.Layout], place: int, target: int
    ) -> None:
        """Another share of one person for one target, as a hostile holder would store it."""
        slots, _ = self._slots(key, self.everybody(j), self.own_points[j])
        (layout,) = layouts
        values = zero_shares.decode(layout.content, layout.number, slots)
        others = [t for t in range(len(self.holders)) if t != j]
        values[place, TAG * others.index(target)] ^= 1
        content, number = zero_shares.encode(bytes(32), slots, values)
        layouts[0] = zero_shares.Layout(content, number, layout.people)


def _keyed(
    messages: Sequence[bytes], points: np.ndarray, zeros: np.ndarray | None
) -> Iterator[sealing.Keyed]:
    for at in range(0, len(messages), 3):
        part = slice(at, at + 3)
        yield list(messages[part]), points[part], None if zeros is None else zeros[part]


def triples(table: np.ndarray) -> set[bytes]:
    """The XOR of every three slots, one of each segment."""
    words = np.ascontiguousarray(table).view(np.uint64).reshape(3, -1, table.shape[1] // 8)
    a, b, c = words
    pairs = (a[:, None] ^ b[None]).reshape(-1, table.shape[1] // 8)
    found: set[bytes] = set()
    for one in c:
        found.update(map(bytes, (pairs ^ one).view(f"V{table.shape[1]}").ravel()))
    return found
