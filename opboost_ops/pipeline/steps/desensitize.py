"""Step: domain integers -> randomised responses, drawn once per person and pinned."""

from typing import Any

import numpy as np
import pyarrow as pa

from opboost_ops.exchange.files import narrow_integers, smallest_integers
from opboost_ops.pipeline.inputs import own_copy
from opboost_ops.pipeline.stage import Context, Outcome
from opboost_ops.pipeline.steps.preprocess import PREPROCESSED
from opboost_ops.privacy.consent.compliance import require_consent
from opboost_ops.tables.spill.arrays import Scratch

#: Names of the table of responses, the table of pinned integers, and the run's releases.
RANDOMISED, PINNED, RECORDED = "randomised", "pinned", "recorded"


def desensitize(context: Context) -> Outcome:
    """Take the run's responses: charged and pinned in one transaction, before anything is sent.

    Raises:
        BudgetError: A budget would be exceeded, pins are lost, or a release of the run has ended;
            nothing was charged.
        PolicyError: The party's policy does not allow a feature or a mechanism.
    """
    require_consent(context.policy, context.federation, context.party)
    table = context.home.table(PREPROCESSED)
    rows = narrow_integers(table, own_copy.ROW).astype(np.int64)
    values = {
        name: narrow_integers(table, name) for name in table.column_names if name != own_copy.ROW
    }
    taken = context.releases.take(own_copy.person_keys(context), rows, values)
    responses = {name: values for sent in taken.values() for name, values in sent.responses.items()}
    ordered = {column.name: responses[column.name] for column in context.columns()}
    exact = {name: values for sent in taken.values() for name, values in sent.exact.items()}
    scratch = context.home.scratch
    return Outcome(
        tables={RANDOMISED: as_table(ordered, scratch), PINNED: as_table(exact, scratch)},
        documents={RECORDED: {feature: sent.release for feature, sent in taken.items()}},
        summary={"rows": context.home.json("table")["rows"]},
    )


def as_table(columns: dict[str, np.ndarray], scratch: Scratch | None = None) -> pa.Table:
    """Return columns in the smallest integer types that hold them.

    Args:
        columns: Integers, shape (n,) each, by name.
        scratch: Holds the columns on disk if they are too large for memory.
    """
    arrays: dict[str, Any] = {n: smallest_integers(v, scratch) for n, v in columns.items()}
    return pa.table(arrays)
