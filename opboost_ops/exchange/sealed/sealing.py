"""Sealed rows: a person's row can be opened only by a party that knows the person's point.

A feature holder publishes one entry per person of its table: a tag, and the row under a one-time
pad. Both are derived from the person's point F(id), which takes the holder's month key or an answer
to a query. With several holders they also depend on a zero sharing Z, which takes the shares of all
holders. A fresh public nonce per artifact makes the entries of two runs unlinkable.

    slot | mask   H(nonce, slot;  counter | F | id)        slot and mask of the holder's shares
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
from opboost_ops.exchange.sealed.ids import (
    TAG,
    hash_each,
    pieces_of,
    positions_in,
    strictly_increasing,
)
from opboost_ops.exchange.sealed.parts import (
    by_part,
    number_rows,
    part_count,
    record,
    sorted_parts,
    whole_parts,
)
from opboost_ops.mechanisms.noise import keyed_by
from opboost_ops.tables.spill.arrays import Scratch, release_memory
from opboost_ops.tables.spill.parts import scatter

#: Bytes of a sealed row's tag, and of a nonce.
ROW_TAG, NONCE = 10, 32

#: Maximum attempts with another nonce if two tags of a table are equal.
MOST_ATTEMPTS = 16

#: A batch of people: their messages; their points, uint8, shape (k, 32); and with several holders
#: their zero sharing, uint8, shape (k, 16), otherwise None.
Keyed = tuple[Sequence[bytes], np.ndarray, np.ndarray | None]

_BLOCK = 64
_MODULUS = 1 << 8 * _BLOCK


@dataclass(frozen=True)
class RowFormat:
    """The bit layout of a row.

    Attributes:
        sizes: Number of values that each column may have, as declared. Codes of values start at 1;
            0 stands for no value.
    """

    sizes: tuple[int, ...]

    @property
    def width(self) -> int:
        """Bytes of a row, at least 1."""
        return max(-(-sum(size.bit_length() for size in self.sizes) // 8), 1)

    def pack(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        """Pack rows of codes, uint8, shape (n, width).

        Args:
            columns: Codes of each column, integers from 0 to the column's size, shape (n,).
        """
        rows = len(columns[0]) if columns else 0
        packed = np.zeros((rows, self.width), dtype=np.uint8)
        for (first, last, shift), column in zip(self._places(), columns, strict=True):
            value = column.astype(np.uint64) << np.uint64(shift)
            for at in range(first, last + 1):
                packed[:, at] |= (value >> np.uint64(8 * (last - at))).astype(np.uint8)
        return packed

    def unpack(self, packed: np.ndarray) -> list[np.ndarray]:
        """Return the codes of each column, in the smallest unsigned type, shape (n,).

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
        """Return each column's first and last byte, and its shift in bits within the last."""
        places, end = [], 0
        for size in self.sizes:
            begin, end = end, end + size.bit_length()
            last = max(end - 1, begin) // 8
            places.append((begin // 8, last, 8 * (last + 1) - end))
        return places


class Rows:
    """Packs and unpacks a feature holder's rows of one kind.

    Args:
        kind: ``ranks``, ``values``, or ``cells``, the intervals between thresholds.
        columns: Columns of a row.
        thresholds: For cells, the thresholds of each column.
    """

    def __init__(
        self,
        kind: str,
        columns: Sequence[Column],
        thresholds: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        self.kind = kind
        self._columns = columns
        #: The value with code 1, by column.
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
        """Pack some rows of a table, uint8, shape (k, width).

        Args:
            table: Ranks, values or cells of all rows, by column.
            rows: The rows to pack.
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
        """Return ranks, values or cells by column, shape (k,) each.

        Undeclared codes are clipped instead of rejected, so that no single row can stop a run.

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
    """Two people of a table have the same tag under this nonce; retry with another nonce."""


def nonce(secret: bytes, kind: str, place: str, content: bytes, attempt: int = 0) -> bytes:
    """Return the public nonce of an artifact, the same only for the same content in the same run.

    Args:
        secret: The holder's secret, so that nobody else can choose a nonce.
        kind: Kind of the artifact.
        place: Federation, run and plan.
        content: Bytes that identify the content and the holder's exponent.
        attempt: Number of the attempt, from 0; see `SameTagError`.
    """
    body = hashlib.blake2b(content, digest_size=32).hexdigest()
    return keyed_by(secret, f"seal:{kind}:{place}:{body}:{attempt}")


class ContentHash:
    """A keyed hash of a multiset, independent of order (MSet-Add-Hash, Clarke et al. 2003).

    Args:
        key: Key of the party.
    """

    def __init__(self, key: bytes) -> None:
        self._start = hashlib.blake2b(key=key, digest_size=_BLOCK)
        self._total = 0

    def add(self, messages: Sequence[bytes], rows: np.ndarray | None = None) -> None:
        """Add people and their rows.

        Args:
            messages: The people's messages.
            rows: Packed rows, uint8, shape (k, width).
        """
        # All rows have one width, so row and message cannot be confused.
        parts = messages if rows is None else map(add, pieces_of(rows), messages)
        digits = hash_each(self._start, parts).view("<u4").sum(axis=0, dtype=np.uint64)
        total = sum(digit << 32 * place for place, digit in enumerate(digits.tolist()))
        self._total = (self._total + total) % _MODULUS

    def digest(self) -> bytes:
        """Return the hash, 64 bytes."""
        return self._total.to_bytes(_BLOCK, "little")


def keystream(key: bytes, use: str, people: Keyed, width: int) -> np.ndarray:
    """Derive bytes from a nonce and people's points, uint8, shape (k, width).

    Args:
        key: The nonce.
        use: Purpose of the bytes; different uses give unrelated bytes.
        people: A batch of people.
        width: Bytes per person.
    """
    messages, points, zeros = people
    # Separate the domains with and without zero sharing.
    person = f"opboost-{use}{'' if zeros is None else '-z'}".encode()
    fixed = np.zeros((len(messages), POINT + TAG), dtype=np.uint8)
    fixed[:, :POINT] = points
    if zeros is not None:
        fixed[:, POINT:] = zeros
    pieces = pieces_of(fixed)
    blocks = []
    for counter in range(-(-width // _BLOCK)):
        start = hashlib.blake2b(bytes([counter]), digest_size=_BLOCK, key=key, person=person)
        blocks.append(hash_each(start, map(add, pieces, messages)))
    return np.concatenate(blocks, axis=1)[:, :width]


def row_tags(entries: np.ndarray) -> np.ndarray:
    """Return the tags of entries, padded with zeros, uint8, shape (k, 16).

    Args:
        entries: uint8, shape (k, at least 10).
    """
    tags = np.zeros((len(entries), TAG), dtype=np.uint8)
    tags[:, :ROW_TAG] = entries[:, :ROW_TAG]
    return tags


def seal_rows(
    scratch: Scratch,
    people: Iterable[tuple[Keyed, np.ndarray]],
    count: int,
    key: bytes,
    kind: str,
    width: int,
) -> Iterator[np.ndarray]:
    """Seal rows, and yield the entries sorted by tag, part by part.

    Args:
        scratch: Spills entries to disk if they exceed its memory limit.
        people: Batches of people with their packed rows, uint8, shape (k, width).
        count: Number of people.
        key: The artifact's nonce.
        kind: Kind of the rows.
        width: Bytes of a row.

    Yields:
        Entries, uint8, shape (k, 10 + width).

    Raises:
        SameTagError: Two people have the same tag.
    """
    entry = np.dtype([("key", "u1", (TAG,)), ("body", "u1", (width,))])

    def records() -> Iterator[np.ndarray]:
        for some, rows in people:
            stream = keystream(key, kind, some, ROW_TAG + width)
            batch = np.empty(len(rows), dtype=entry)
            batch["key"] = row_tags(stream)
            batch["body"] = rows ^ stream[:, ROW_TAG:]
            yield batch
            release_memory()

    parts = part_count(count)
    for batch in whole_parts(sorted_parts(scratch, records(), count, parts), parts, entry):
        if not strictly_increasing(batch["key"]):
            raise SameTagError
        yield np.concatenate([batch["key"][:, :ROW_TAG], batch["body"]], axis=1)


def open_rows(
    scratch: Scratch,
    people: Iterable[Keyed],
    count: int,
    key: bytes,
    kind: str,
    width: int,
    parts: int,
    part: Callable[[int], np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """Open the rows of people whose points are known.

    Args:
        scratch: Spills rows to disk if they exceed its memory limit.
        people: Batches of all queried people.
        count: Number of people.
        key: The artifact's nonce.
        kind: Kind of the rows.
        width: Bytes of a row.
        parts: Number of parts of the table.
        part: Returns a part of the table, uint8, shape (k, 10 + width).

    Returns:
        True for people in the table, bool, shape (count,); and the packed rows, uint8, shape
        (count, width), zeros for people who are not in it.
    """
    keystreams = (keystream(key, kind, some, ROW_TAG + width) for some in people)
    fields = ({"key": row_tags(each), "pad": each[:, ROW_TAG:]} for each in keystreams)
    records = number_rows(fields, record(count, pad=width))

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
