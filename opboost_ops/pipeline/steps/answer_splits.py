"""Step: split request -> split values, after checks against policy and released ranks."""

from collections.abc import Mapping, Sequence

import numpy as np

from opboost_ops.config.columns import Column
from opboost_ops.errors import ArtifactError
from opboost_ops.exchange.artifact import Draft
from opboost_ops.learning.splits import split_values
from opboost_ops.pipeline.stage import Context, Outcome
from opboost_ops.privacy.consent.compliance import require_splits_allowed


def answer_splits(context: Context) -> Outcome:
    """Return the midpoint of the two randomised values on either side of each split.

    For a value that stands for a declared bucket, the bucket's nearer end is used. For each
    threshold the answer is the number of ranks whose values are at most the threshold.

    Raises:
        ArtifactError: The request is malformed, or names ranks that were not released.
        PolicyError: It names a feature that the party did not release, or too many splits.
    """
    request = context.receive("split_request", context.party)
    splits, thresholds = _parse(request.document)
    for queried in (splits, thresholds):
        require_splits_allowed(context.policy, context.federation, context.party, queried)
    tables = context.home.json("rank_values")
    values = midpoints(context.columns(), tables, splits)
    ranks = {
        name: np.searchsorted(tables[name], wanted, side="right").tolist()
        for name, wanted in thresholds.items()
    }
    count = sum(len(v) for v in (*values.values(), *ranks.values()))
    draft = Draft(
        kind="split_values",
        about=context.party,
        document={"splits": values, "ranks": ranks},
        rows=count,
        columns=request.manifest.columns,
        answers=request.digest,
    )
    return Outcome(drafts=(draft,), summary={"splits": count})


def midpoints(
    columns: Sequence[Column],
    tables: Mapping[str, Sequence[int]],
    splits: Mapping[str, Sequence[int]],
) -> dict[str, dict[str, float]]:
    """Return the midpoints between the values of the ranks on either side of each split.

    Args:
        columns: The feature holder's columns.
        tables: The value of each rank, by column.
        splits: The lower rank of each split, by column.

    Raises:
        ArtifactError: A rank does not exist.
    """
    channels = {c.name: c.mechanism.channel(c.domain) for c in columns}
    values: dict[str, dict[str, float]] = {}
    for name, ranks in splits.items():
        table = channels[name].span(np.asarray(tables[name]))
        if any(not 1 <= rank < len(table) for rank in ranks):
            raise ArtifactError(
                f"The split request asks for ranks of {name} that were never released.",
                "No split value was given; ask the label holder what it trained on.",
            )
        midpoint_values = split_values(ranks, table)
        values[name] = {str(r): v for r, v in zip(ranks, midpoint_values, strict=True)}
    return values


def _parse(document: object) -> tuple[dict[str, list[int]], dict[str, list[float]]]:
    if isinstance(document, dict) and set(document) == {"splits", "thresholds"}:
        splits, thresholds = document["splits"], document["thresholds"]
        kinds = ((splits, (int,)), (thresholds, (int, float)))
        if all(
            isinstance(mapping, dict)
            and all(
                isinstance(wanted, list)
                and all(type(entry) in types for entry in wanted)
                and len(set(wanted)) == len(wanted)
                for wanted in mapping.values()
            )
            for mapping, types in kinds
        ):
            return splits, thresholds
    raise ArtifactError("The split request is malformed.", "No split value was given.")
