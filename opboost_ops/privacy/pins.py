"""Pins: one response per person and release, drawn once and sent again in every run.

Pin files are immutable. Pinning new people writes a new file, and the ledger transaction that
charges or records the release points to it. Rows have a fixed width and are encrypted under the
party's secret, so a file's size discloses only the number of people.
"""

import hashlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

from opboost_ops.config.columns import Column
from opboost_ops.errors import BudgetError
from opboost_ops.mechanisms import UnaryEncoding, noise
from opboost_ops.mechanisms.release import randomise, randomise_bit
from opboost_ops.privacy.declarations import BITS, EXACT, EXACT_MISSING, RESPONSE, Declaration
from opboost_ops.privacy.people import People, nobody, places
from opboost_ops.tables.spill.arrays import Scratch, release_memory, slices
from opboost_ops.tables.spill.files import whole_file
from opboost_ops.tables.spill.parts import scatter

#: Field with a person's hash in a row of a file.
_PERSON = "person"

_MAGIC = b"opboost pins 1\n\n"
_NONCE = 16


@dataclass(frozen=True)
class PinFile:
    """A reference from the database to the pin file of a release.

    Attributes:
        name: Name of the file.
        digest: Keyed BLAKE2b of the file, 64 hex digits.
        rows: Number of people in the file.
    """

    name: str
    digest: str
    rows: int


@dataclass(frozen=True)
class Pinned:
    """The pins of a release.

    Attributes:
        people: The pinned people, shape (n,).
        rows: Their pins, a structured array of the release's fields, shape (n,).
    """

    people: People
    rows: np.ndarray


class Pins:
    """The pin files in a party's folder.

    Args:
        folder: The folder.
        scratch: Spills arrays to disk if they exceed its memory limit.
        key: Returns the 32-byte encryption key.
    """

    def __init__(self, folder: Path, scratch: Scratch, key: Callable[[], bytes]) -> None:
        self.folder = folder
        self.scratch = scratch
        self._key = key

    def read(self, file: PinFile | None, kind: np.dtype[Any]) -> Pinned:
        """Read the pins of a file; there are none before the first file.

        Args:
            file: The file.
            kind: Dtype of a pin.

        Raises:
            BudgetError: The file is missing, damaged, or not the one that the database refers to.
        """
        if file is None:
            return Pinned(nobody(), np.empty(0, kind))
        row = _row(kind)
        high, low = (self.scratch.zeros(file.rows, np.uint64) for _ in range(2))
        rows = self.scratch.zeros(file.rows, kind)
        end = 0
        for piece in self._verified(file, row.itemsize):
            part = np.frombuffer(piece, dtype=row)
            begin, end = end, end + len(part)
            words = np.ascontiguousarray(part[_PERSON]).view(">u8").reshape(-1, 2)
            high[begin:end], low[begin:end] = words[:, 0], words[:, 1]
            for name in kind.names or ():
                rows[name][begin:end] = part[name]
            release_memory()
        return Pinned(People(high, low), rows)

    def write(self, release: str, pinned: Pinned) -> PinFile:
        """Write a new file and sync it to disk.

        Args:
            release: ID of the release.
            pinned: The people and their pins.
        """
        kind = _row(pinned.rows.dtype)
        path = self.folder / f"{release}.{uuid4().hex[:8]}.pins"
        nonce = os.urandom(_NONCE)  # noqa: TID251  # A nonce, not noise.
        digest = self._hash()
        encrypt = self._cipher(nonce)
        with whole_file(path) as file:

            def write(content: bytes) -> None:
                digest.update(content)
                file.write(content)

            write(_MAGIC + nonce)
            for rows in slices(len(pinned.people)):
                part = np.empty(rows.stop - rows.start, dtype=kind)
                words = np.stack([pinned.people.high[rows], pinned.people.low[rows]], axis=1)
                part[_PERSON] = words.astype(">u8").view(np.uint8).reshape(-1, 16)
                for name in pinned.rows.dtype.names or ():
                    part[name] = pinned.rows[name][rows]
                write(encrypt.update(part.tobytes()))
                release_memory()
        return PinFile(path.name, digest.hexdigest(), len(pinned.people))

    def without(self, release: str, file: PinFile, people: People) -> tuple[PinFile, int]:
        """Write a copy of a file without some people, for any dtype of pin.

        Args:
            release: ID of the release.
            file: Its current file.
            people: The people to remove.

        Returns:
            The new file and the number of people removed; the current file if there were none.
        """
        size = (self.folder / file.name).stat().st_size - len(_MAGIC) - _NONCE
        width = size // file.rows - 16 if file.rows else 0
        pinned = self.read(file, np.dtype([("pin", np.uint8, (width,))]))
        stay = np.ones(file.rows, dtype=bool)
        at = places(self.scratch, pinned.people, people)
        stay[at[at >= 0]] = False
        count = int((~stay).sum())
        if not count:
            return file, 0
        remaining = People(pinned.people.high[stay], pinned.people.low[stay])
        return self.write(release, Pinned(remaining, pinned.rows[stay])), count

    def is_intact(self, file: PinFile) -> bool:
        """Return whether a file has the digest that the database recorded."""
        with suppress(OSError), (self.folder / file.name).open("rb") as opened:
            return hashlib.file_digest(opened, self._hash).hexdigest() == file.digest
        return False

    def remove_except(self, names: Collection[str]) -> None:
        """Remove all pin files except the named ones; the caller holds the write lock.

        Args:
            names: Names of the files that the database refers to.
        """
        for path in [*self.folder.glob("*.pins"), *self.folder.glob(".*.pins.*.new")]:
            if path.name not in names:
                path.unlink(missing_ok=True)

    def _verified(self, file: PinFile, width: int) -> Iterator[bytes]:
        """Verify a file's digest, then yield its decrypted rows in blocks."""
        if not self.is_intact(file):
            raise BudgetError(
                f"The pin file {file.name} is missing, damaged or older than the ledger.",
                "Restore the newest copy, or end its release: `opboost ledger recover SITE`.",
            )
        with (self.folder / file.name).open("rb") as opened:
            decrypt = self._cipher(opened.read(len(_MAGIC) + _NONCE)[len(_MAGIC) :])
            for rows in slices(file.rows):
                yield decrypt.update(opened.read((rows.stop - rows.start) * width))

    def _hash(self) -> Any:
        return hashlib.blake2b(digest_size=32, key=self._key())

    def _cipher(self, nonce: bytes) -> CipherContext:
        return Cipher(algorithms.AES(self._key()), modes.CTR(nonce)).encryptor()


def _row(kind: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of a file's row: the person, then the pin."""
    fields = [(name, kind[name]) for name in kind.names or ()]
    return np.dtype([(_PERSON, np.uint8, (16,)), *fields])


@dataclass(frozen=True)
class Draw:
    """The source of noise for one draw.

    Attributes:
        seed: A public seed; None if the operating system provides a key for each draw.
        place: The declaration and receiver, which determine a seeded draw.
        people: The people to draw for, who determine a seeded draw.
    """

    seed: bytes | None
    place: str
    people: People

    def words(self, column: str) -> noise.Words:
        """Return a new generator of uniform words for a column."""
        if self.seed is None:
            return noise.Words.fresh()
        people = hashlib.sha256(np.ascontiguousarray(self.people.high).data).hexdigest()
        return noise.Words.seeded(self.seed, f"{self.place}/{column}/{people}")


def draw_pins(
    scratch: Scratch, declaration: Declaration, values: Mapping[str, np.ndarray], draw: Draw
) -> np.ndarray:
    """Draw the pins of some people.

    Args:
        scratch: Spills arrays to disk if they exceed its memory limit.
        declaration: The declaration of the release.
        values: Domain integers by preprocessed column, shape (m,) each.
        draw: Source of the noise.

    Returns:
        A structured array of the declaration's fields, shape (m,).

    Raises:
        ContractError: A value lies outside the domain.
    """
    count = len(draw.people)
    pins = scratch.zeros(count, declaration.kind)
    generators = {column.name: draw.words(column.name) for column in declaration.columns}
    for rows in slices(count):
        block = {name: integers[rows] for name, integers in values.items()}
        if (column := declaration.value) is not None:
            pins[RESPONSE][rows] = randomise(
                block[column.source], column.mechanism, column.domain, generators[column.name]
            )
        if declaration.bits:
            bits = np.empty((rows.stop - rows.start, len(declaration.bits)), dtype=np.uint8)
            for number, column in enumerate(declaration.bits):
                bits[:, number] = _bit(column, block[column.source], generators[column.name])
            pins[BITS][rows] = np.packbits(bits, axis=1)
        for name, source_name in zip((EXACT, EXACT_MISSING), declaration.sources, strict=False):
            if name in (declaration.kind.names or ()):
                pins[name][rows] = block[source_name]
    return pins


def responses(
    scratch: Scratch,
    declaration: Declaration,
    pins: np.ndarray,
    at: np.ndarray,
    order: np.ndarray,
    seed: bytes | None,
) -> dict[str, np.ndarray]:
    """Return the values that a run sends, by released column, in table order.

    Args:
        scratch: Spills arrays to disk if they exceed its memory limit.
        declaration: The declaration of the release.
        pins: The pins of the release, shape (k,).
        at: Index of each person's pin, in hash order, shape (n,); -1 for a person who was
            forgotten after the run read the table, whose row gets a response to the lowest value.
        order: Index of each person's table row, shape (n,).
        seed: A public seed; only for experiments.
    """
    kinds: dict[str, Any] = {}
    for column in declaration.columns:
        kinds[column.name] = declaration.kind[RESPONSE] if column == declaration.value else np.uint8

    def pieces() -> Any:
        for rows in slices(len(at)):
            block = _filled(scratch, declaration, pins, at[rows], seed)
            sent: dict[str, np.ndarray] = {}
            if declaration.value is not None:
                sent[declaration.value.name] = block[RESPONSE]
            if declaration.bits:
                bits = np.unpackbits(block[BITS], axis=1, count=len(declaration.bits))
                sent |= {c.name: bits[:, i] for i, c in enumerate(declaration.bits)}
            yield order[rows], sent

    return scatter(scratch, pieces(), len(at), kinds)


def exact_values(
    scratch: Scratch,
    declaration: Declaration,
    pins: np.ndarray,
    at: np.ndarray,
    order: np.ndarray,
) -> dict[str, np.ndarray]:
    """Return the pinned integers of ``routed: once``, by preprocessed column, in table order.

    Args:
        scratch: Spills arrays to disk if they exceed its memory limit.
        declaration: The declaration of the release.
        pins: The pins of the release, shape (k,).
        at: Index of each person's pin, in hash order, shape (n,).
        order: Index of each person's table row, shape (n,).
    """
    if declaration.routed != "once":
        return {}
    fields = dict(zip(declaration.sources, (EXACT, EXACT_MISSING), strict=False))
    kinds = {source: declaration.kind[name] for source, name in fields.items()}

    def pieces() -> Any:
        for rows in slices(len(at)):
            block = _filled(scratch, declaration, pins, at[rows], None)
            yield order[rows], {source: block[name] for source, name in fields.items()}

    return scatter(scratch, pieces(), len(at), kinds)


def _filled(
    scratch: Scratch,
    declaration: Declaration,
    pins: np.ndarray,
    at: np.ndarray,
    seed: bytes | None,
) -> np.ndarray:
    """Return the pins at some indices, with a response to the lowest value where there is none."""
    absent = at < 0
    if not absent.any():
        return np.asarray(pins[at])
    count = int(absent.sum())
    least = {name: np.full(count, d.lower) for name, d in declaration.sources.items()}
    people = People(np.zeros(count, np.uint64), np.zeros(count, np.uint64))
    filled = np.empty(len(at), dtype=declaration.kind)
    filled[~absent] = pins[at[~absent]]
    filled[absent] = draw_pins(scratch, declaration, least, Draw(seed, "nobody", people))
    return filled


def _bit(column: Column, values: np.ndarray, words: noise.Words) -> np.ndarray:
    """Return response bits: of a category, or of whether a value is missing."""
    if column.bit is None:
        return randomise(values, column.mechanism, column.domain, words)
    assert isinstance(column.mechanism, UnaryEncoding)
    return randomise_bit(values, column.source_domain.size, column.bit, column.mechanism, words)
