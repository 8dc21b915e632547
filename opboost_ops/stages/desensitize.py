"""Arrow: domain integers -> randomised domain integers (OpBoost, section 4)."""

import numpy as np
import pyarrow as pa

from opboost_ops.exchange.encoding import integers, smallest_integers
from opboost_ops.mechanisms import UnaryEncoding, noise
from opboost_ops.mechanisms.release import randomise, randomise_bit
from opboost_ops.privacy.cells import Cells
from opboost_ops.privacy.consent import require_consent
from opboost_ops.stages.stage import Context, Outcome


def desensitize(context: Context) -> Outcome:
    """Randomise every protected cell by its own mechanism, with noise keyed by the person.

    Raises:
        PolicyError: The party's policy does not allow a feature or a mechanism.
    """
    require_consent(context.policy, context.federation, context.party)
    table = context.home.table(context.part("preprocessed"))
    positions = integers(context.home.table(context.part("positions")), "position")
    keys = person_keys(context)[positions]
    secret = context.noise_secret()
    people, cells = noise.person_hashes(secret, keys), Cells(context.site.cells)
    order: np.ndarray | None = None
    held: dict[str, np.ndarray] = {}
    columns: dict[str, pa.Array] = {}
    for column in context.columns():
        mechanism = column.mechanism
        if column.source not in held:
            wanted, name = integers(table, column.source), column.noise_context(secret)
            most = context.policy.features[column.feature].max_changes
            if most is not None and cells.known(column.uuid, name):
                order = np.argsort(people) if order is None else order
                domain, rising = column.source_domain, people[order]
                kept = cells.hold(column.uuid, name, rising, wanted[order], domain, most)
                wanted = wanted.copy()
                wanted[order] = kept
            held[column.source] = wanted
        values = held[column.source]
        if isinstance(mechanism, UnaryEncoding):
            assert column.bit is not None
            released = randomise_bit(
                values,
                column.source_domain.size,
                column.bit,
                keys,
                mechanism,
                column.map_digest,
                secret,
                column.uuid,
            )
        else:
            released = randomise(
                values, keys, mechanism, column.domain, column.map_digest, secret, column.uuid
            )
        columns[column.name] = smallest_integers(released)
    kept = pa.table({name: smallest_integers(values) for name, values in held.items()})
    return Outcome(
        tables={context.part("randomised"): pa.table(columns), context.part("held"): kept},
        summary={"rows": table.num_rows},
    )


def person_keys(context: Context) -> np.ndarray:
    """The table's person keys, shape (n, 16), uint8."""
    column = context.home.table("person_keys").column("key").combine_chunks()
    buffer = column.buffers()[1]
    raw = np.frombuffer(buffer, dtype=np.uint8, count=16 * len(column), offset=16 * column.offset)
    return raw.reshape(-1, 16)
