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
    order = np.argsort(people)
    held: dict[str, np.ndarray] = {}
    columns: dict[str, pa.Array] = {}
    for column in context.columns():
        mechanism = column.mechanism
        if column.source not in held:
            wanted = integers(table, column.source)
            held[column.source] = wanted.copy()
            held[column.source][order] = cells.hold(
                column.uuid,
                column.noise_context(secret),
                people[order],
                wanted[order],
                column.source_domain,
                context.policy.features[column.feature].max_changes,
            )
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
