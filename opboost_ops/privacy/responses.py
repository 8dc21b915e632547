"""Domain integers of people without a pin -> their pins; pins -> what a run sends."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opboost_ops.config.columns import Column
from opboost_ops.mechanisms import UnaryEncoding, noise
from opboost_ops.mechanisms.release import randomise, randomise_bit
from opboost_ops.privacy.declarations import BITS, EXACT, EXACT_MISSING, RESPONSE, Declaration
from opboost_ops.privacy.match import People
from opboost_ops.tables.spill.arrays import Scratch, slices
from opboost_ops.tables.spill.parts import scatter


@dataclass(frozen=True)
class Draw:
    """The source of noise of one draw.

    Attributes:
        seed: A public seed; None where the operating system gives a key for each draw.
        place: The declaration and receiver, from which a seeded draw follows.
        people: Who is drawn, from whom a seeded draw follows.
    """

    seed: bytes | None
    place: str
    people: People

    def words(self, column: str) -> noise.Words:
        """A generator of uniform words for a column; of its own in each call."""
        if self.seed is None:
            return noise.Words.fresh()
        people = hashlib.sha256(np.ascontiguousarray(self.people.high).data).hexdigest()
        return noise.Words.seeded(self.seed, f"{self.place}/{column}/{people}")


def drawn(
    scratch: Scratch, declaration: Declaration, values: Mapping[str, np.ndarray], draw: Draw
) -> np.ndarray:
    """Draw the pins of some people.

    Args:
        scratch: Where they are, if they are more than it holds.
        declaration: How a value becomes a response.
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
        here = {name: integers[rows] for name, integers in values.items()}
        if (column := declaration.value) is not None:
            pins[RESPONSE][rows] = randomise(
                here[column.source], column.mechanism, column.domain, generators[column.name]
            )
        if declaration.bits:
            bits = np.empty((rows.stop - rows.start, len(declaration.bits)), dtype=np.uint8)
            for number, column in enumerate(declaration.bits):
                bits[:, number] = _bit(column, here[column.source], generators[column.name])
            pins[BITS][rows] = np.packbits(bits, axis=1)
        for name, source_name in zip((EXACT, EXACT_MISSING), declaration.sources, strict=False):
            if name in (declaration.kind.names or ()):
                pins[name][rows] = here[source_name]
    return pins


def responses(
    scratch: Scratch,
    declaration: Declaration,
    pins: np.ndarray,
    at: np.ndarray,
    order: np.ndarray,
    seed: bytes | None,
) -> dict[str, np.ndarray]:
    """The values that a run sends, by released column, in the order of the table.

    Args:
        scratch: Where it is, if it is more than that holds.
        declaration: Of the release.
        pins: Of the release, shape (k,).
        at: The place of each person's pin, by rising person, shape (n,); -1 for somebody forgotten
            since the run read the table, whose row gets a response to the least value.
        order: Which row of the table each is in, shape (n,).
        seed: A public seed, likewise.
    """
    kinds: dict[str, Any] = {}
    for column in declaration.columns:
        kinds[column.name] = declaration.kind[RESPONSE] if column == declaration.value else np.uint8

    def pieces() -> Any:
        for rows in slices(len(at)):
            here = _filled(scratch, declaration, pins, at[rows], seed)
            sent: dict[str, np.ndarray] = {}
            if declaration.value is not None:
                sent[declaration.value.name] = here[RESPONSE]
            if declaration.bits:
                bits = np.unpackbits(here[BITS], axis=1, count=len(declaration.bits))
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
    """The pinned integers of ``routed: once``, by preprocessed column, in the order of the table.

    Args:
        scratch: Where they are, if they are more than it holds.
        declaration: Of the release.
        pins: Of the release, shape (k,).
        at: The place of each person's pin, by rising person, shape (n,).
        order: Which row of the table each is in, shape (n,).
    """
    if declaration.routed != "once":
        return {}
    fields = dict(zip(declaration.sources, (EXACT, EXACT_MISSING), strict=False))
    kinds = {source: declaration.kind[name] for source, name in fields.items()}

    def pieces() -> Any:
        for rows in slices(len(at)):
            here = _filled(scratch, declaration, pins, at[rows], None)
            yield order[rows], {source: here[name] for source, name in fields.items()}

    return scatter(scratch, pieces(), len(at), kinds)


def _filled(
    scratch: Scratch,
    declaration: Declaration,
    pins: np.ndarray,
    at: np.ndarray,
    seed: bytes | None,
) -> np.ndarray:
    """The pins at some places, and a response to the least value where there is none."""
    absent = at < 0
    if not absent.any():
        return np.asarray(pins[at])
    count = int(absent.sum())
    least = {name: np.full(count, d.lower) for name, d in declaration.sources.items()}
    nobody = People(np.zeros(count, np.uint64), np.zeros(count, np.uint64))
    filled = np.empty(len(at), dtype=declaration.kind)
    filled[~absent] = pins[at[~absent]]
    filled[absent] = drawn(scratch, declaration, least, Draw(seed, "nobody", nobody))
    return filled


def _bit(column: Column, values: np.ndarray, words: noise.Words) -> np.ndarray:
    """A response that is a bit: of a category, or of whether a value is missing."""
    if column.bit is None:
        return randomise(values, column.mechanism, column.domain, words)
    assert isinstance(column.mechanism, UnaryEncoding)
    return randomise_bit(values, column.source_domain.size, column.bit, column.mechanism, words)
