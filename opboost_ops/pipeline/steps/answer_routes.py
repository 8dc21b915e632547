"""Step: route request -> exact comparisons of every row with every threshold."""

import hashlib
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from opboost_ops.config.columns import Column
from opboost_ops.errors import ArtifactError
from opboost_ops.exchange.artifact import Draft
from opboost_ops.exchange.files import narrow_integers, smallest_integers
from opboost_ops.exchange.sealed.sealing import Rows
from opboost_ops.learning import splits
from opboost_ops.pipeline.inputs import own_copy
from opboost_ops.pipeline.inputs.holdout import held_out_rows
from opboost_ops.pipeline.matching import session_of
from opboost_ops.pipeline.stage import Context, Outcome
from opboost_ops.pipeline.steps.desensitize import PINNED, RECORDED
from opboost_ops.pipeline.steps.seal import sealed_table
from opboost_ops.privacy.consent.compliance import require_consent, require_splits_allowed
from opboost_ops.privacy.declarations import Declaration
from opboost_ops.tables.spill.arrays import Scratch, slices


def answer_routes(context: Context) -> Outcome:
    """Answer every comparison for every held-out or new row, sealed, never a row's path alone.

    A path would show one feature holder's branches to another's; all comparisons of a row do not
    reveal which of them a tree evaluated. Rows that are not held out are sealed dummies, so that
    the number of rows depends on the table alone.

    Raises:
        ArtifactError: The request is malformed.
        PolicyError: The party's policy does not allow routed answers for a feature.
    """
    require_consent(context.policy, context.federation, context.party)
    request = context.receive("route_request", context.party)
    columns = {column.name: column for column in context.columns()}
    requested = _parse(request.document, columns)
    require_splits_allowed(context.policy, context.federation, context.party, requested)
    scratch = context.home.scratch
    rows_in = held_out_rows(context) if context.purpose == "train" else None
    declared = context.declarations()
    values = _exact_values(context, {columns[name].feature for name in requested})
    answers: dict[str, pa.Array] = {}
    for name, thresholds in requested.items():
        column = columns[name]
        answers[name] = _answered(scratch, values[column.source], column, thresholds, rows_in)
    session = session_of(context)
    rows = Rows("routes", [columns[name] for name in requested], requested)
    entries, layout = sealed_table(
        context, session, rows, pa.table(answers), request.digest.encode()
    )
    draft = Draft(
        kind="routes",
        about=context.party,
        entries=entries,
        document=layout.document(),
        rows=session.rows,
        columns=tuple(answers),
        answers=request.digest,
        disclosures=dict(
            _disclosure(context, declared[feature])
            for feature in sorted({columns[name].feature for name in requested})
        ),
        discloses="" if answers else "nothing: the model uses no feature of this party",
    )
    return Outcome(drafts=(draft,), summary={"answered": len(answers)})


def _answered(
    scratch: Scratch,
    values: np.ndarray,
    column: Column,
    thresholds: list[float],
    rows_in: np.ndarray | None,
) -> pa.Array:
    """Return the interval between thresholds of each value; 0 in rows that are not selected."""
    edges, kind = np.asarray(thresholds), np.min_scalar_type(len(thresholds))

    def blocks() -> Iterator[np.ndarray]:
        for rows in slices(len(values)):
            block = values[rows] if column.bit is None else values[rows] == column.bit
            cells = splits.cells(block.astype(np.int64), edges)
            yield cells if rows_in is None else np.where(rows_in[rows], cells, 0)

    return smallest_integers(scratch.filled(len(values), kind, blocks()), scratch)


def _exact_values(context: Context, features: set[str]) -> dict[str, np.ndarray]:
    """Return domain integers by preprocessed column: pinned ones, or this run's current ones."""
    integers: dict[str, np.ndarray] = {}
    declared = context.declarations()
    for feature in features:
        declaration = declared[feature]
        table = context.home.table(PINNED if declaration.routed == "once" else own_copy.TODAY)
        integers |= {source: narrow_integers(table, source) for source in declaration.sources}
    return integers


def _disclosure(context: Context, declaration: Declaration) -> tuple[str, tuple[str, str]]:
    """Return the exact ledger entry of a feature's routed answers: one per release or per run."""
    feature = declaration.feature
    if declaration.routed == "once":
        place = f"routed/{context.home.json(RECORDED)[feature]}"
        words = "the pinned domain value of each person queried, exactly, and whether it is missing"
    else:
        place = f"routed/{context.federation.name}/{context.run}/{feature}"
        words = (
            "the domain value of the day of each person queried, exactly: no guarantee covers it"
        )
    return hashlib.sha256(place.encode()).hexdigest(), (feature, words)


def _parse(document: object, columns: dict[str, Column]) -> dict[str, list[float]]:
    requested = document.get("thresholds") if isinstance(document, dict) else None
    if isinstance(requested, dict) and all(
        name in columns
        and isinstance(thresholds, list)
        and len(thresholds) > 0
        and all(type(t) in (int, float) for t in thresholds)
        # A threshold outside the domain separates no values.
        and all(columns[name].domain.lower <= t < columns[name].domain.upper for t in thresholds)
        and all(a < b for a, b in pairwise(thresholds))
        for name, thresholds in requested.items()
    ):
        return requested
    raise ArtifactError("The route request is malformed.", "Nothing was answered.")
