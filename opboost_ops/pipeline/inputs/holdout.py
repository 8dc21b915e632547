"""Which rows of a party's table are held out for evaluation: one rule for every way of learning."""

import hashlib
from collections.abc import Iterator, Sequence
from uuid import UUID

import numpy as np
import polars as pl

from opboost_ops.config.federation import Federation
from opboost_ops.exchange.sealed.ids import Reader
from opboost_ops.exchange.sealed.tags import hashed
from opboost_ops.pipeline.inputs.raw_blocks import unchanged_blocks
from opboost_ops.pipeline.stage import Context

#: Bytes of the hash of an ID, which is compared with the share.
_BYTES = 8


def hashed_out(federation: UUID, share: float, messages: Sequence[bytes]) -> np.ndarray:
    """Decide by a public hash of each ID whether its row is held out, bool, shape (n,).

    The hash is keyed by the federation's permanent name, so that the choice stays the same in every
    run and under every agreement, depends on no other row, and is the same at all parties.

    Args:
        federation: The federation's ``uuid``.
        share: The share of all IDs to hold out, between 0 and 1.
        messages: The IDs as `exchange.sealed.ids` writes them, shape (n,).
    """
    keyed = hashlib.blake2b(digest_size=_BYTES, key=federation.bytes)
    numbers = hashed(keyed, messages).view(">u8").ravel()
    return np.asarray(numbers < np.uint64(int(share * 2 ** (8 * _BYTES))))


def held_out_in(federation: Federation, block: pl.DataFrame) -> np.ndarray:
    """Which rows of a block of raw columns are held out, bool, shape (n,).

    Args:
        federation: As declared.
        block: Rows with the ID.
    """
    messages = Reader(federation.id.type).messages(block.get_column(federation.id.column).to_list())
    return hashed_out(federation.uuid, federation.training.holdout, messages)


def held_out_rows(context: Context) -> np.ndarray:
    """Which rows of the party's table are held out, bool, shape (n,).

    Args:
        context: The party's.

    Raises:
        ContractError: The table was rewritten.
    """
    federation, rows = context.federation, context.home.json("table")["rows"]

    def blocks() -> Iterator[np.ndarray]:
        for _, block in unchanged_blocks(context, [federation.id.column]):
            yield held_out_in(federation, block)

    return context.home.scratch.filled(rows, bool, blocks())
