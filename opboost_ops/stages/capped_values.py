"""Domain integers -> those that may go: the draw, charged before anything is randomised."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from opboost_ops.config.columns import Column
from opboost_ops.errors import ContractError
from opboost_ops.exchange.encoding import narrow_integers, smallest_integers
from opboost_ops.mechanisms import noise
from opboost_ops.privacy.draws import DrawRequest, draw_name
from opboost_ops.privacy.loss import column_losses
from opboost_ops.scratch.arrays import Scratch, release_memory, slices
from opboost_ops.scratch.parts import gather, partition_by_hash, scatter
from opboost_ops.stages.id_digests import keys_of
from opboost_ops.stages.stage import Context

#: Name of the table of values that may go, and of what is known of them.
HELD = "held"

#: Where kept person keys name the secret that made them.
_MADE_UNDER = "noise_secret"


def capped_values(
    context: Context, table: pa.Table, keys: np.ndarray
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Take the run's draw: where a cell is at its cap, the value that was charged last.

    A retry on the same values takes the same draw again, whatever other runs have drawn since.

    Args:
        context: A stage's.
        table: Preprocessed rows.
        keys: Their person keys, shape (n, 16), uint8.

    Returns:
        Domain integers by source, shape (n,), in the order of the rows; and the names of the draws
        by charge.

    Raises:
        BudgetError: A budget would be exceeded, or a cell state is lost; nothing was charged.
    """
    assert context.take_draw is not None
    columns, scratch = sources(context), context.home.scratch
    given = {c.source: narrow_integers(table, c.source) for c in columns}
    hashes = hashes_of(context, keys)
    rising, order, wanted = rising_people(scratch, hashes, given)
    del hashes
    losses = column_losses(context.columns())
    meant = _meant(rising, wanted)
    before = _before(context, meant, order)
    secret = context.noise_secret()
    asked = [
        DrawRequest(
            column=c.uuid,
            charge=c.charge,
            context=c.noise_context(secret),
            people=rising,
            values=wanted[c.source],
            domain=c.source_domain,
            most=context.policy.features[c.feature].max_changes,
            loss=losses[c.charge],
            kept=before.get(c.source),
        )
        for c in columns
    ]

    in_rows: dict[str, np.ndarray] = {}

    def keep(held: Sequence[np.ndarray]) -> None:
        found = {column.source: values for column, values in zip(columns, held, strict=True)}
        pieces = (
            (order[rows], {name: values[rows] for name, values in found.items()})
            for rows in slices(len(order))
        )
        kinds = {name: values.dtype for name, values in found.items()}
        in_rows.update(scatter(scratch, pieces, len(order), kinds))
        arrays = {name: smallest_integers(values, scratch) for name, values in in_rows.items()}
        kept = pa.table(arrays).replace_schema_metadata(meant)
        context.home.write_table(HELD, kept)

    drawn = context.take_draw(asked, keep)
    return in_rows, {one.charge: each.name for one, each in zip(asked, drawn, strict=True)}


def charged_draws(context: Context) -> dict[str, str]:
    """Names of the draws that the randomised rows were made from, by charge.

    Args:
        context: A stage's.

    Raises:
        ContractError: What is kept at home is not what was drawn.
    """
    scratch, keys = context.home.scratch, person_keys(context)
    hashes = hashes_of(context, keys)
    table, secret = context.home.table(HELD), context.noise_secret()
    kept = {c.source: narrow_integers(table, c.source) for c in sources(context)}
    rising, _, values = rising_people(scratch, hashes, kept)
    found = {
        c.charge: draw_name(c.uuid, c.noise_context(secret), rising, values[c.source])
        for c in sources(context)
    }
    if found != context.home.json(HELD)["draws"]:
        raise ContractError(
            f"What {context.party} randomised in this run is not what it drew.",
            "Clear its task `desensitize`, and what comes after it.",
        )
    return found


def sources(context: Context) -> list[Column]:
    """One column for each source: the bits of a category are made from the same values.

    Args:
        context: A stage's.
    """
    first: dict[str, Column] = {}
    for column in context.columns():
        first.setdefault(column.source, column)
    return list(first.values())


def rising_people(
    scratch: Scratch, hashes: np.ndarray, columns: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Rows in the order of the persons in them.

    Args:
        scratch: Where they wait, if they are more than it holds.
        hashes: Keyed hashes of the persons, uint64, shape (n,).
        columns: Of the rows, integers, shape (n,) each.

    Returns:
        The hashes, rising; which row each is of, integers; and the columns in that order.
    """
    count, row = len(hashes), np.min_scalar_type(len(hashes))
    if scratch.holds(count):
        order = np.argsort(hashes).astype(row)
        return hashes[order], order, {name: values[order] for name, values in columns.items()}
    names = {name: f"f{i}" for i, name in enumerate(columns)}
    fields = [(field, columns[name].dtype) for name, field in names.items()]
    records = np.dtype([("hash", np.uint64), ("row", row), *fields])

    def pieces() -> Iterator[np.ndarray]:
        for rows in slices(count):
            piece = np.empty(rows.stop - rows.start, dtype=records)
            piece["hash"], piece["row"] = hashes[rows], np.arange(rows.start, rows.stop)
            for name, field in names.items():
                piece[field] = columns[name][rows]
            yield piece

    people, order = scratch.zeros(count, np.uint64), scratch.zeros(count, row)
    found, end = {name: scratch.zeros(count, v.dtype) for name, v in columns.items()}, 0
    for part in partition_by_hash(scratch, pieces(), count, lambda p: p["hash"] >> np.uint64(48)):
        rising = np.argsort(part["hash"])
        begin, end = end, end + len(part)
        people[begin:end], order[begin:end] = part["hash"][rising], part["row"][rising]
        for name, field in names.items():
            found[name][begin:end] = part[field][rising]
        release_memory()
    return people, order, found


def hashes_of(context: Context, keys: np.ndarray) -> np.ndarray:
    """Keyed hashes of persons, uint64, shape (n,).

    Args:
        context: A stage's.
        keys: Their person keys, shape (n, 16), uint8.
    """
    secret = context.noise_secret()
    people = (noise.person_hashes(secret, keys[rows]) for rows in slices(len(keys)))
    return context.home.scratch.filled(len(keys), np.uint64, people)


def keyed_people(keys: pa.Array, secret: bytes) -> pa.Table:
    """Person keys as a run keeps them at home, with the name of the secret that made them.

    Args:
        keys: The table's person keys, 16 bytes each.
        secret: Under which they are.
    """
    made = {_MADE_UNDER: noise.fingerprint(secret)}
    return pa.table({"key": keys}).replace_schema_metadata(made)


def person_keys(context: Context) -> np.ndarray:
    """The table's person keys, shape (n, 16), uint8.

    Raises:
        ContractError: They are under another secret than the present one. Cells drawn by them
            would be charged to nobody, and the next run would draw each of them once more.
    """
    table = context.home.table("person_keys")
    made = (table.schema.metadata or {}).get(_MADE_UNDER.encode(), b"").decode()
    if made != noise.fingerprint(context.noise_secret()):
        raise ContractError(
            f"The noise secret of {context.party} was replaced since this run read its table.",
            "Nothing was drawn under the new one. Trigger a new run.",
        )
    return keys_of(table.column("key"))


def _before(context: Context, meant: dict[str, str], order: np.ndarray) -> dict[str, np.ndarray]:
    """What an earlier try of the stage held for the very same values, rising by person."""
    if not (context.home.folder / f"{HELD}.arrow").is_file():
        return {}
    table, scratch = context.home.table(HELD), context.home.scratch
    metadata = table.schema.metadata or {}
    return {
        source: gather(scratch, narrow_integers(table, source), order)
        for source, digest in meant.items()
        if metadata.get(source.encode()) == digest.encode() and source in table.column_names
    }


def _meant(people: np.ndarray, columns: Mapping[str, np.ndarray]) -> dict[str, str]:
    """By source, a digest of people and values before any is held; it stays home."""
    whose, found = hashlib.blake2b(digest_size=32), {}
    _update(whose, people, np.uint64)
    for source, values in columns.items():
        digest = whose.copy()
        _update(digest, values, np.int64)
        found[source] = digest.hexdigest()
    return found


def _update(digest: hashlib.blake2b, column: np.ndarray, kind: type[np.integer]) -> None:
    for rows in slices(len(column)):
        digest.update(column[rows].astype(kind, copy=False).tobytes())
