"""Arrow: domain integers -> randomised domain integers (OpBoost, section 4)."""

from typing import Any

import numpy as np
import pyarrow as pa

from opboost_ops.config.columns import Column
from opboost_ops.exchange.encoding import narrow_integers, smallest_integers
from opboost_ops.mechanisms import UnaryEncoding, noise
from opboost_ops.mechanisms.release import randomise, randomise_bit
from opboost_ops.privacy.cells import Cells
from opboost_ops.privacy.consent import require_consent
from opboost_ops.stages.rank import PRESENT, present_values
from opboost_ops.stages.stage import SHARDS, Context, Outcome

#: Rows at a time: keys and wide integers of no more of them are in memory.
_BLOCK = 131_072


def desensitize(context: Context) -> Outcome:
    """Randomise every protected cell by its own mechanism, with noise keyed by the person.

    Raises:
        PolicyError: The party's policy does not allow a feature or a mechanism.
    """
    require_consent(context.policy, context.federation, context.party)
    table = context.home.table(context.part("preprocessed"))
    positions = narrow_integers(context.home.table(context.part("positions")), "position")
    every = person_keys(context)
    secret, columns = context.noise_secret(), context.columns()
    held = _held(context, table, every, positions)
    released = {c.name: np.empty(table.num_rows, dtype=_kind(c)) for c in columns}
    for begin in range(0, table.num_rows, _BLOCK):
        rows = slice(begin, begin + _BLOCK)
        keys = every[positions[rows]]
        wide = {source: values[rows].astype(np.int64) for source, values in held.items()}
        for column in columns:
            released[column.name][rows] = _randomised(column, wide[column.source], keys, secret)
    return Outcome(
        tables={context.part("randomised"): _table(released), context.part("held"): _table(held)},
        documents=_present(context, released),
        summary={"rows": table.num_rows} if context.shard is None else {},
    )


def _present(context: Context, released: dict[str, np.ndarray]) -> dict[str, Any]:
    """Of a shard: which values its training rows have; all shards' together make the ranks."""
    if context.shard is None or context.purpose != "train":
        return {}
    places = narrow_integers(context.home.table(context.part("positions")), "place")
    train = places < context.home.json(SHARDS)["train"]
    found = {name: present_values(values[train]).tolist() for name, values in released.items()}
    return {context.part(PRESENT): found}


def _held(
    context: Context, table: pa.Table, keys: np.ndarray, positions: np.ndarray
) -> dict[str, np.ndarray]:
    """The values to release, by source: where a cell is at its cap, the one charged last."""
    secret, cells = context.noise_secret(), Cells(context.site.cells)
    rising: np.ndarray | None = None
    order: np.ndarray | None = None
    held: dict[str, np.ndarray] = {}
    for column in context.columns():
        if column.source in held:
            continue
        wanted, name = narrow_integers(table, column.source), column.noise_context(secret)
        most = context.policy.features[column.feature].max_changes
        if most is not None and cells.known(column.uuid, name):
            if order is None or rising is None:
                people = people_of(secret, keys, positions)
                order = np.argsort(people)
                rising = people[order]
            kept = cells.hold(column.uuid, name, rising, wanted[order], column.source_domain, most)
            wanted = np.empty(len(kept), dtype=kept.dtype)
            wanted[order] = kept
        held[column.source] = wanted
    return held


def _randomised(column: Column, values: np.ndarray, keys: np.ndarray, secret: bytes) -> np.ndarray:
    mechanism = column.mechanism
    if not isinstance(mechanism, UnaryEncoding):
        return randomise(
            values, keys, mechanism, column.domain, column.map_digest, secret, column.uuid
        )
    assert column.bit is not None
    size, bit = column.source_domain.size, column.bit
    return randomise_bit(values, size, bit, keys, mechanism, column.map_digest, secret, column.uuid)


def _kind(column: Column) -> np.dtype[Any]:
    """A small type that holds whatever a column may release."""
    outputs = column.mechanism.channel(column.domain).outputs
    return np.dtype(np.int64) if outputs.min() < 0 else np.min_scalar_type(int(outputs.max()))


def _table(columns: dict[str, np.ndarray]) -> pa.Table:
    return pa.table({name: smallest_integers(values) for name, values in columns.items()})


def people_of(secret: bytes, keys: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Keyed hashes of the persons in some rows, uint64, shape (n,).

    Args:
        secret: The receiver's secret.
        keys: The table's person keys, shape (rows, 16), uint8.
        positions: Which rows, integers, shape (n,).
    """
    people = np.empty(len(positions), dtype=np.uint64)
    for begin in range(0, len(positions), _BLOCK):
        rows = slice(begin, begin + _BLOCK)
        people[rows] = noise.person_hashes(secret, keys[positions[rows]])
    return people


def person_keys(context: Context) -> np.ndarray:
    """The table's person keys, shape (n, 16), uint8."""
    column = context.home.table("person_keys").column("key").combine_chunks()
    buffer = column.buffers()[1]
    raw = np.frombuffer(buffer, dtype=np.uint8, count=16 * len(column), offset=16 * column.offset)
    return raw.reshape(-1, 16)
