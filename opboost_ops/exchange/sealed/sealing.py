"""Sealed rows: who knows a person's point opens that person's row, and nobody else does.

A feature holder publishes one entry for each person of its table, a tag beside a row under a pad.
Both come from the person's point F(id), which only the holder's key of the month, or an answer to
a query, gives; with several holders also from a zero sharing that only all holders' shares
together give. A fresh public nonce in every artifact keeps those of two runs apart.

    slot | mask   H(nonce, slot;  counter | F | id)        where the holder's shares are stored
    tag  | pad    H(nonce, kind;  counter | F | Z | id)    10 bytes, and as many as a row has
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import add

import numpy as np
import pyarrow as pa

from opboost_ops.config.columns import Column
from opboost_ops.exchange.files import narrow_integers
from opboost_ops.exchange.sealed.curve import POINT
from opboost_ops.exchange.sealed.ids import TAG, hashed, pieces_of, positions_in, strictly_rising
from opboost_ops.exchange.sealed.parts import (
    by_part,
    numbered,
    part_count,
    record,
    rising_parts,
    whole_parts,
)
from opboost_ops.mechanisms.noise import keyed_by
from opboost_ops.tables.spill.arrays import Scratch, release_memory
from opboost_ops.tables.spill.parts import scatter

#: Bytes of the tag in front of a sealed row, and of a nonce.
ROW_TAG, NONCE = 10, 32

#: Attempts with another nonce where two tags of one table agree.
MOST_ATTEMPTS = 16

#: Some people: messages; their points, uint8, (k, 32); and with several holders their zero
#: sharing, uint8, (k, 16).
Keyed = tuple[Sequence[bytes], np.ndarray, np.ndarray | None]

_BLOCK = 64
_MODULUS = 1 << 8 * _BLOCK


@dataclass(frozen=True)
class RowFormat:
    """The columns of a row.

    Attributes:
        sizes: How many different values each column may have, as declared. A value's code is its
            number from 1; 0 stands for none.
    """

    sizes: tuple[int, ...]

    @property
    def width(self) -> int:
        """Bytes of a row; one that is empty is a byte of zeros."""
        return max(-(-sum(size.bit_length() for size in self.sizes) // 8), 1)

    def pack(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        """Rows of codes, uint8, shape (n, width).

        Args:
            columns: Codes of each column, integers from 0 to its size, shape (n,).
        """
        rows = len(columns[0]) if columns else 0
        packed = np.zeros((rows, self.width), dtype=np.uint8)
        for (first, last, shift), column in zip(self._places(), columns, strict=True):
            value = column.astype(np.uint64) << np.uint64(shift)
            for at in range(first, last + 1):
                packed[:, at] |= (value >> np.uint64(8 * (last - at))).astype(np.uint8)
        return packed

    def unpack(self, packed: np.ndarray) -> list[np.ndarray]:
        """The codes of each column, in the smallest type, shape (n,).

        Args:
            packed: uint8, shape (n, width).
        """
        columns = []
        for (first, last, shift), size in zip(self._places(), self.sizes, strict=True):
            value = np.zeros(len(packed), dtype=np.uint64)
            for at in range(first, last + 1):
                value = value << np.uint64(8) | packed[:, at]
            mask = (1 << size.bit_length()) - 1
            code = (value >> np.uint64(shift)) & np.uint64(mask)
            columns.append(code.astype(np.min_scalar_type(mask)))
        return columns

    def _places(self) -> list[tuple[int, int, int]]:
        """First and last byte of each column, and by how many bits it is shifted in the last."""
        places, end = [], 0
        for size in self.sizes:
            begin, end = end, end + size.bit_length()
            last = max(end - 1, begin) // 8
            places.append((begin // 8, last, 8 * (last + 1) - end))
        return places


class Rows:
    """The rows of one kind of a feature holder.

    Args:
        kind: Ranks, values, or cells between thresholds.
        columns: Those in a row.
        thresholds: Of cells, the thresholds between them, by column.
    """

    def __init__(
        self,
        kind: str,
        columns: Sequence[Column],
        thresholds: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        self.kind = kind
        self._columns = columns
        #: What has the code 1.
        self._first: list[int] = []
        sizes = []
        for column in columns:
            if thresholds is not None:
                self._first.append(0)
                sizes.append(len(thresholds[column.name]) + 1)
                continue
            outputs = column.mechanism.channel(column.domain).outputs
            least, most = int(outputs.min()), int(outputs.max())
            self._first.append(1 if kind == "ranks" else least)
            sizes.append(max(column.domain.size, most - least + 1))
        self.format = RowFormat(tuple(sizes))

    def pack(self, table: pa.Table, rows: slice) -> np.ndarray:
        """Some rows, packed, uint8, shape (k, width).

        Args:
            table: Ranks, values or cells of all rows, by column.
            rows: Which.
        """
        some = table.slice(rows.start, rows.stop - rows.start)
        codes = [
            narrow_integers(some, column.name).astype(np.int64) - first + 1
            for column, first in zip(self._columns, self._first, strict=True)
        ]
        return (
            self.format.pack(codes)
            if codes
            else np.zeros((some.num_rows, self.format.width), np.uint8)
        )

    def unpack(self, packed: np.ndarray) -> dict[str, np.ndarray]:
        """Ranks, values or cells by column, shape (k,) each.

        What is outside of what is declared is clipped, so that no run depends on a single row.

        Args:
            packed: uint8, shape (k, width).
        """
        codes = self.format.unpack(packed)
        return {
            column.name: np.clip(code.astype(np.int64), 1, size) + (first - 1)
            for column, first, size, code in zip(
                self._columns, self._first, self.format.sizes, codes, strict=True
            )
        }


class SameTagError(Exception):
    """Two people of a table have one tag under this nonce; another nonce is to be taken."""


def nonce(secret: bytes, kind: str, place: str, content: bytes, attempt: int = 0) -> bytes:
    """The public nonce of an artifact: the same for the same content in the same run alone.

    Args:
        secret: The holder's, so that nobody else chooses a nonce.
        kind: Of the artifact.
        place: Federation, run, plan.
        content: What tells the content from any other, and the holder's exponent.
        attempt: Raised where two tags agree.
    """
    body = hashlib.blake2b(content, digest_size=32).hexdigest()
    return keyed_by(secret, f"seal:{kind}:{place}:{body}:{attempt}")


class ContentHash:
    """A keyed hash of a multiset, whatever its order (MSet-Add-Hash, Clarke et al. 2003).

    Args:
        key: The party's.
    """

    def __init__(self, key: bytes) -> None:
        self._start = hashlib.blake2b(key=key, digest_size=_BLOCK)
        self._total = 0

    def add(self, messages: Sequence[bytes], rows: np.ndarray | None = None) -> None:
        """Add people, and what is in their rows.

        Args:
            messages: Theirs.
            rows: uint8, shape (k, width).
        """
        # A row has a fixed width, so the two parts cannot be mistaken for one another.
        parts = messages if rows is None else map(add, pieces_of(rows), messages)
        digits = hashed(self._start, parts).view("<u4").sum(axis=0, dtype=np.uint64)
        total = sum(digit << 32 * place for place, digit in enumerate(digits.tolist()))
        self._total = (self._total + total) % _MODULUS

    def digest(self) -> bytes:
        """64 bytes."""
        return self._total.to_bytes(_BLOCK, "little")


def derived(key: bytes, use: str, people: Keyed, width: int) -> np.ndarray:
    """Bytes that follow from a nonce and what is known of a person, uint8, shape (k, width).

    Args:
        key: The nonce.
        use: What for; other uses give unrelated bytes.
        people: Some.
        width: How many bytes per person.
    """
    messages, points, zeros = people
    # Another person string where there is no sharing, so that no input of one is one of the other.
    person = f"opboost-{use}{'' if zeros is None else '-z'}".encode()
    fixed = np.zeros((len(messages), POINT + TAG), dtype=np.uint8)
    fixed[:, :POINT] = points
    if zeros is not None:
        fixed[:, POINT:] = zeros
    pieces = pieces_of(fixed)
    blocks = []
    for counter in range(-(-width // _BLOCK)):
        start = hashlib.blake2b(bytes([counter]), digest_size=_BLOCK, key=key, person=person)
        blocks.append(hashed(start, map(add, pieces, messages)))
    return np.concatenate(blocks, axis=1)[:, :width]


def row_tags(entries: np.ndarray) -> np.ndarray:
    """The tags in front of rows, zeros behind them, uint8, shape (k, 16).

    Args:
        entries: uint8, shape (k, 10 and more).
    """
    tags = np.zeros((len(entries), TAG), dtype=np.uint8)
    tags[:, :ROW_TAG] = entries[:, :ROW_TAG]
    return tags


def sealed(
    scratch: Scratch,
    people: Iterable[tuple[Keyed, np.ndarray]],
    count: int,
    key: bytes,
    kind: str,
    width: int,
) -> Iterator[np.ndarray]:
    """A table of sealed rows in the order of their tags, part by part.

    Args:
        scratch: Where they wait, if they are more than it holds.
        people: Some, and their rows, uint8, shape (k, width).
        count: How many they are.
        key: The artifact's nonce.
        kind: What the rows are of.
        width: Bytes of a row.

    Yields:
        Entries, uint8, shape (k, 10 + width).

    Raises:
        SameTagError: Two people have one tag.
    """
    entry = np.dtype([("key", "u1", (TAG,)), ("body", "u1", (width,))])

    def records() -> Iterator[np.ndarray]:
        for some, rows in people:
            bytes_of = derived(key, kind, some, ROW_TAG + width)
            batch = np.empty(len(rows), dtype=entry)
            batch["key"] = row_tags(bytes_of)
            batch["body"] = rows ^ bytes_of[:, ROW_TAG:]
            yield batch
            release_memory()

    parts = part_count(count)
    for batch in whole_parts(rising_parts(scratch, records(), count, parts), parts, entry):
        if not strictly_rising(batch["key"]):
            raise SameTagError
        yield np.concatenate([batch["key"][:, :ROW_TAG], batch["body"]], axis=1)


def opened(
    scratch: Scratch,
    people: Iterable[Keyed],
    count: int,
    key: bytes,
    kind: str,
    width: int,
    parts: int,
    part: Callable[[int], np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """The rows of people whose points are known.

    Args:
        scratch: Where they wait, if they are more than it holds.
        people: All that were asked about, some at a time.
        count: How many they are.
        key: The artifact's nonce.
        kind: What the rows are of.
        width: Bytes of a row.
        parts: How many parts the table has.
        part: Gives one, uint8, shape (k, 10 + width).

    Returns:
        Who is in the table, bool, shape (count,); and their rows, uint8, shape (count, width),
        zeros for who is not.
    """
    keystreams = (derived(key, kind, some, ROW_TAG + width) for some in people)
    fields = ({"key": row_tags(each), "pad": each[:, ROW_TAG:]} for each in keystreams)
    records = numbered(fields, record(count, pad=width))

    def opened_rows() -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
        at, entries = -1, np.empty((0, ROW_TAG + width), dtype=np.uint8)
        for number, piece in by_part(scratch, records, count, parts):
            if number != at:
                at, entries = number, part(number)
                there = row_tags(entries)
            places = positions_in(there, np.ascontiguousarray(piece["key"]))
            hit = places >= 0
            yield (
                piece["row"][hit],
                {
                    "found": np.ones(int(hit.sum()), dtype=bool),
                    "row": entries[places[hit], ROW_TAG:] ^ piece["pad"][hit],
                },
            )

    columns = scatter(scratch, opened_rows(), count, {"found": bool, "row": ("u1", (width,))})
    return columns["found"], columns["row"]
