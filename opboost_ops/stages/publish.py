"""Arrow: a checked release -> the signed ordinal artifact and held-out rows, or new rows."""

import hashlib

import numpy as np
import pyarrow as pa

from opboost_ops.config.columns import Column
from opboost_ops.exchange.artifact import Draft
from opboost_ops.exchange.encoding import integers
from opboost_ops.exchange.manifest import Kind
from opboost_ops.mechanisms import LocalMap, noise
from opboost_ops.privacy.charges import CellCharge, Charges
from opboost_ops.privacy.consent import require_consent
from opboost_ops.privacy.loss import column_losses
from opboost_ops.stages.desensitize import person_keys
from opboost_ops.stages.stage import Context, Outcome


def publish(context: Context) -> Outcome:
    """Publish ranks of the training rows and randomised values of the held-out or new rows.

    Raises:
        ContractError: The release was not checked.
        PolicyError: The party's policy does not allow it.
    """
    context.home.json("checked_release")
    require_consent(context.policy, context.federation, context.party)
    facts = context.home.json("preprocessed")
    columns = context.columns()
    losses = column_losses(columns)
    names = tuple(column.name for column in columns)

    def draft(kind: Kind, table: pa.Table) -> Draft:
        return Draft(
            kind=kind,
            about=context.party,
            table=table,
            rows=table.num_rows,
            columns=names,
            losses=losses,
            answers=facts["alignment"],
            discloses="",
        )

    held_out = context.home.table("randomised").slice(facts["train"])
    drafts: tuple[Draft, ...] = (draft("values", held_out),)
    if context.purpose == "train":
        drafts = (draft("ranks", context.home.table("ranks")), draft("holdout", held_out))
    charges = _charges(context, columns)
    return Outcome(
        drafts=drafts,
        charges=charges,
        summary={"rows": facts["train"], "holdout": facts["holdout"]},
    )


def _charges(context: Context, columns: tuple[Column, ...]) -> Charges:
    secret = context.noise_secret()
    positions = integers(context.home.table("positions"), "position")
    people = noise.person_hashes(secret, person_keys(context)[positions])
    order = np.argsort(people)
    rising = people[order]
    held, released = context.home.table("held"), context.home.table("randomised")
    cells: dict[str, CellCharge] = {}
    drawn: dict[str, hashlib.blake2b] = {}
    keys: dict[str, str] = {}
    edges: dict[str, tuple[float, ...]] = {}
    for column in columns:
        name = column.noise_context(secret)
        if column.source not in cells:
            values = _taken(held.column(column.source), order)
            cells[column.source] = CellCharge(
                column.uuid, name, rising, values, column.source_domain
            )
        if column.charge not in drawn:
            keys[column.charge] = name.hex()[:16]
            drawn[column.charge] = hashlib.blake2b(name + people.tobytes())
        drawn[column.charge].update(integers(released, column.name).tobytes())
        if isinstance(column.mechanism, LocalMap):
            feature = context.federation.parties[context.party].features[column.feature]
            mapping = feature.domain_map(column.domain)
            starts = column.mechanism.partitions(column.domain).starts[1:]
            edges[column.charge] = tuple(mapping.boundary(start) for start in starts)
    draws = {charge: draw.hexdigest()[:32] for charge, draw in drawn.items()}
    return Charges(keys, draws, edges, tuple(cells.values()))


def _taken(column: pa.ChunkedArray, order: np.ndarray) -> np.ndarray:
    # Small integers stay in the cache while they are put into another order; wide ones do not.
    narrow: np.ndarray = column.to_numpy()
    return np.asarray(narrow[order], dtype=np.int64)
