"""Sampling: randomises domain integers through a mechanism's exact channel."""

from collections.abc import Iterator

import numpy as np

from opboost_ops.domain import Domain
from opboost_ops.errors import ContractError
from opboost_ops.mechanisms import Mechanism, MissingBit, UnaryEncoding
from opboost_ops.mechanisms.noise import Words
from opboost_ops.mechanisms.randomised_response import BIT

#: Rows per chunk; the working set fits into the CPU cache, which halves the time.
CHUNK = 32_768


def randomise(
    values: np.ndarray, mechanism: Mechanism | MissingBit, domain: Domain, words: Words
) -> np.ndarray:
    """Draw one output per value from the mechanism's exact channel.

    Args:
        values: Domain integers, shape (n,).
        mechanism: The mechanism.
        domain: Domain of the values.
        words: Source of the noise.

    Returns:
        Domain integers, int64, shape (n,).

    Raises:
        ContractError: A value lies outside the domain.
    """
    if len(values) and not (values.min() >= domain.lower and values.max() <= domain.upper):
        raise ContractError("A value lies outside the declared domain.")
    channel = mechanism.channel(domain)
    released = np.empty(len(values), dtype=np.int64)
    for rows in _chunks(len(values)):
        inputs = values[rows].astype(np.int64) - domain.lower
        released[rows] = channel.outputs[channel.alias.sample(inputs, words.take(len(inputs)))]
    return released


def randomise_bit(
    codes: np.ndarray, categories: int, bit: int, mechanism: UnaryEncoding, words: Words
) -> np.ndarray:
    """Randomise one bit of every one-hot row.

    Args:
        codes: Index of each row's category, integers, shape (n,).
        categories: Number of categories.
        bit: Index of the bit's category.
        mechanism: The mechanism.
        words: Source of the noise.

    Returns:
        Bits, int64, shape (n,).

    Raises:
        ContractError: An index lies outside the declared categories.
    """
    if len(codes) and not (codes.min() >= 0 and codes.max() < categories):
        raise ContractError("A category lies outside the declared categories.")
    return randomise((codes == bit).astype(np.int64), mechanism, BIT, words)


def _chunks(rows: int) -> Iterator[slice]:
    for begin in range(0, rows, CHUNK):
        yield slice(begin, begin + CHUNK)
