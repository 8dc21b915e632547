"""Arrow: a checked release -> the signed ordinal artifact and held-out rows, or new rows."""

import hashlib

import numpy as np
import pyarrow as pa

from opboost_ops.config.columns import Column
from opboost_ops.exchange.artifact import Draft
from opboost_ops.exchange.encoding import narrow_integers
from opboost_ops.exchange.manifest import Kind
from opboost_ops.mechanisms import LocalMap
from opboost_ops.privacy.charges import CellCharge, Charges
from opboost_ops.privacy.consent import require_consent
from opboost_ops.privacy.loss import column_losses
from opboost_ops.stages.desensitize import people_of, person_keys
from opboost_ops.stages.stage import Context, Outcome

#: Rows at a time.
_BLOCK = 131_072


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
    positions = narrow_integers(context.home.table("positions"), "position")
    people = people_of(secret, person_keys(context), positions)
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
            values = narrow_integers(held, column.source)[order]
            cells[column.source] = CellCharge(
                column.uuid, name, rising, values, column.source_domain
            )
        if column.charge not in drawn:
            keys[column.charge] = name.hex()[:16]
            drawn[column.charge] = hashlib.blake2b(name)
            _add(drawn[column.charge], people)
        _add(drawn[column.charge], narrow_integers(released, column.name))
        if isinstance(column.mechanism, LocalMap):
            feature = context.federation.parties[context.party].features[column.feature]
            mapping = feature.domain_map(column.domain)
            starts = column.mechanism.partitions(column.domain).starts[1:]
            edges[column.charge] = tuple(mapping.boundary(start) for start in starts)
    draws = {charge: draw.hexdigest()[:32] for charge, draw in drawn.items()}
    return Charges(keys, draws, edges, tuple(cells.values()))


def _add(draw: hashlib.blake2b, values: np.ndarray) -> None:
    # The name of a draw is made of eight bytes a row, whatever type they are kept in.
    for begin in range(0, len(values), _BLOCK):
        part = values[begin : begin + _BLOCK]
        draw.update(part.astype(np.uint64 if part.dtype == np.uint64 else np.int64).tobytes())
