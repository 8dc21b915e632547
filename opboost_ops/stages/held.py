"""Domain integers -> those that may go: the draw, charged before anything is randomised."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from opboost_ops.config.columns import Column
from opboost_ops.config.site import Site
from opboost_ops.errors import ContractError
from opboost_ops.exchange.encoding import narrow_integers, smallest_integers
from opboost_ops.mechanisms import noise
from opboost_ops.privacy.draws import Asked, draw_name
from opboost_ops.privacy.loss import column_losses
from opboost_ops.stages.positions import keys_of
from opboost_ops.stages.stage import Context

#: Name of the table of values that may go, and of what is known of them.
HELD = "held"

#: Where kept person keys name the secret that made them.
_MADE_UNDER = "noise_secret"

#: Rows at a time.
_BLOCK = 131_072


@dataclass(frozen=True)
class Held:
    """What may go.

    Attributes:
        values: Domain integers by source, shape (n,), in the order of the rows.
        draws: Names of the draws, by charge.
        shares: By feature, which share of its cells releases an earlier value, and how far that
            moves the column: half the sum of the differences between shares of values. It stays
            home.
    """

    values: dict[str, np.ndarray]
    draws: dict[str, str]
    shares: dict[str, dict[str, float]]

    def document(self) -> dict[str, Any]:
        """As it is kept at home, a JSON value."""
        return {"draws": self.draws, "columns": self.shares}


def held_values(context: Context, table: pa.Table, keys: np.ndarray, positions: np.ndarray) -> Held:
    """Take the run's draw: where a cell is at its cap, the value that was charged last.

    A retry on the same values takes the same draw again, whatever other runs have drawn since.

    Args:
        context: A stage's.
        table: Preprocessed rows.
        keys: The party's person keys, shape (rows of its table, 16), uint8.
        positions: Which of them the rows are, integers, shape (n,).

    Raises:
        BudgetError: A budget would be passed, or a cell state is lost; nothing was charged.
    """
    assert context.take_draw is not None
    rising, order = rising_people(context, keys, positions)
    columns = sources(context)
    losses = column_losses(context.columns())
    wanted = {c.source: narrow_integers(table, c.source)[order] for c in columns}
    meant = {source: _meant(rising, values) for source, values in wanted.items()}
    before = _before(context, meant, order)
    secret = context.noise_secret()
    asked = [
        Asked(
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

    def in_rows(held: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        found: dict[str, np.ndarray] = {}
        for column, values in zip(columns, held, strict=True):
            found[column.source] = np.empty(len(values), dtype=values.dtype)
            found[column.source][order] = values
        return found

    def keep(held: Sequence[np.ndarray]) -> None:
        arrays = {name: smallest_integers(values) for name, values in in_rows(held).items()}
        kept = pa.table(arrays).replace_schema_metadata(meant)
        context.home.write_table(HELD, kept)

    held = context.take_draw(asked, keep)
    shares: dict[str, dict[str, float]] = {}
    for one, values in zip(asked, held, strict=True):
        shares[one.charge] = {
            "held": round(float(np.mean(values != one.values)) if len(values) else 0.0, 6),
            "moved": round(_moved(one.values, values), 6),
        }
    draws = {
        one.charge: draw_name(one.column, one.context, one.people, values)
        for one, values in zip(asked, held, strict=True)
    }
    return Held(in_rows(held), draws, shares)


def charged_draws(context: Context, keys: np.ndarray, positions: np.ndarray) -> dict[str, str]:
    """Names of the draws that the randomised rows were made from, by charge.

    Args:
        context: A stage's.
        keys: The party's person keys, shape (rows of its table, 16), uint8.
        positions: Which of them the rows are, integers, shape (n,).

    Raises:
        ContractError: What is kept at home is not what was drawn.
    """
    rising, order = rising_people(context, keys, positions)
    table, secret = context.home.table(HELD), context.noise_secret()
    found = {
        c.charge: draw_name(
            c.uuid, c.noise_context(secret), rising, narrow_integers(table, c.source)[order]
        )
        for c in sources(context)
    }
    if found != context.home.json(HELD)["draws"]:
        raise ContractError(
            f"What {context.party} has randomised in this run is not what it has drawn.",
            "Clear its desensitize, and what comes after it.",
        )
    return found


def last_held(site: Site) -> list[dict[str, Any]]:
    """Of each federation's last draw, by feature: what was held back, and how far that moves it.

    Args:
        site: The party's.
    """
    found: list[dict[str, Any]] = []
    for folder in sorted(site.home.glob("*/")):
        files = sorted(folder.glob(f"*/{HELD}.json"), key=lambda path: path.stat().st_mtime_ns)
        if files:
            kept = json.loads(files[-1].read_bytes())["columns"]
            place = {"federation": folder.name, "run": files[-1].parent.name}
            found += [{**place, "feature": name, **shares} for name, shares in kept.items()]
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
    context: Context, keys: np.ndarray, positions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Keyed hashes of the persons in some rows, rising, and the rows in that order.

    Args:
        context: A stage's.
        keys: The table's person keys, shape (rows, 16), uint8.
        positions: Which rows, integers, shape (n,).

    Returns:
        uint64 and integers, shape (n,) each.
    """
    secret = context.noise_secret()
    people = np.empty(len(positions), dtype=np.uint64)
    for begin in range(0, len(positions), _BLOCK):
        rows = slice(begin, begin + _BLOCK)
        people[rows] = noise.person_hashes(secret, keys[positions[rows]])
        context.home.let_go()
    order = np.argsort(people).astype(np.min_scalar_type(len(people)))
    return people[order], order


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
    table = context.home.table(HELD)
    metadata = table.schema.metadata or {}
    return {
        source: narrow_integers(table, source)[order]
        for source, digest in meant.items()
        if metadata.get(source.encode()) == digest.encode() and source in table.column_names
    }


def _meant(people: np.ndarray, values: np.ndarray) -> str:
    """Digest of people and values before any is held; it stays home."""
    digest = hashlib.blake2b(people.tobytes(), digest_size=32)
    for begin in range(0, len(values), _BLOCK):
        digest.update(values[begin : begin + _BLOCK].astype(np.int64).tobytes())
    return digest.hexdigest()


def _moved(wanted: np.ndarray, held: np.ndarray) -> float:
    """Total variation distance between the values of two columns."""
    if not len(wanted):
        return 0.0
    least = min(int(wanted.min()), int(held.min()))
    size = max(int(wanted.max()), int(held.max())) - least + 1
    ones = np.bincount(wanted.astype(np.int64) - least, minlength=size)
    others = np.bincount(held.astype(np.int64) - least, minlength=size)
    return float(np.abs(ones - others).sum()) / (2 * len(wanted))
