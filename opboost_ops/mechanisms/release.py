"""Domain integers in, randomised domain integers out."""

import hashlib
from collections.abc import Iterator
from uuid import UUID

import numpy as np

from opboost_ops.domain import Domain
from opboost_ops.errors import ContractError
from opboost_ops.mechanisms import Mechanism, MissingBit, UnaryEncoding, noise
from opboost_ops.mechanisms.bits import BIT

#: Rows at a time: what they need stays in a core's cache, which halves the time.
CHUNK = 32_768


def randomise(
    values: np.ndarray,
    person_keys: np.ndarray,
    mechanism: Mechanism | MissingBit,
    domain: Domain,
    map_digest: bytes,
    secret: bytes,
    column_uuid: UUID,
) -> np.ndarray:
    """Release one output a cell from the mechanism's exact channel.

    Args:
        values: Domain integers, int64, shape (n,).
        person_keys: uint8, shape (n, 16).
        mechanism: What randomises them.
        domain: Where they lie.
        map_digest: Digest of the map that made them.
        secret: The receiver's secret, 32 bytes.
        column_uuid: The column's immutable UUID.

    Returns:
        Domain integers, int64, shape (n,).

    Raises:
        ContractError: A value lies outside the domain.
    """
    if len(values) and not (values.min() >= domain.lower and values.max() <= domain.upper):
        raise ContractError("A value lies outside the declared domain.")
    channel = mechanism.channel(domain)
    context = hashlib.sha256(map_digest + channel.digest()).digest()
    released = np.empty(len(values), dtype=np.int64)
    for rows in _chunks(len(values)):
        words = noise.cell_words(secret, column_uuid, context, person_keys[rows], values[rows])
        index = channel.alias.sample(values[rows] - domain.lower, words)
        released[rows] = channel.outputs[index]
    return released


def randomise_bit(
    codes: np.ndarray,
    categories: int,
    bit: int,
    person_keys: np.ndarray,
    mechanism: UnaryEncoding,
    map_digest: bytes,
    secret: bytes,
    column_uuid: UUID,
) -> np.ndarray:
    """Release one bit of a one-hot row.

    Its noise is keyed by the whole category and the bit's index: a changed category changes all
    bits, so that bits which stay 0 do not tell that the category changed twice.

    Args:
        codes: Positions of the categories, int64, shape (n,).
        categories: How many categories there are.
        bit: Whose bit.
        person_keys: uint8, shape (n, 16).
        mechanism: What randomises it.
        map_digest: Digest of the declared categories.
        secret: The receiver's secret, 32 bytes.
        column_uuid: The feature's immutable UUID.

    Returns:
        Bits, int64, shape (n,).

    Raises:
        ContractError: A position lies outside the declared categories.
    """
    if len(codes) and not (codes.min() >= 0 and codes.max() < categories):
        raise ContractError("A category lies outside the declared ones.")
    channel = mechanism.channel(BIT)
    context = hashlib.sha256(map_digest + channel.digest()).digest()
    released = np.empty(len(codes), dtype=np.int64)
    for rows in _chunks(len(codes)):
        words = noise.cell_words(
            secret, column_uuid, context, person_keys[rows], codes[rows], output=bit
        )
        index = channel.alias.sample((codes[rows] == bit).astype(np.int64), words)
        released[rows] = channel.outputs[index]
    return released


def _chunks(rows: int) -> Iterator[slice]:
    for begin in range(0, rows, CHUNK):
        yield slice(begin, begin + CHUNK)
