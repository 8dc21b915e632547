"""Step: partial model -> split request with only the ranks that its trees use."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from opboost_ops.exchange.artifact import Draft
from opboost_ops.learning.splits import domain_thresholds, used_splits
from opboost_ops.pipeline import redaction
from opboost_ops.pipeline.evaluation.reference import comparable_reference
from opboost_ops.pipeline.stage import Context, Outcome
from opboost_ops.pipeline.steps.assemble import HIGHEST
from opboost_ops.pipeline.steps.checks import bounds_of
from opboost_ops.pipeline.steps.train import partial_model

T = TypeVar("T")


def request_splits(context: Context) -> Outcome:
    """Request the values of the splits on each feature holder's features.

    For the thresholds of the reference version it requests the reverse: the number of ranks at or
    below each. Held-out rows are known by rank, so both models can be evaluated on them.
    """
    used = splits_used(context)
    compared = reference_thresholds(context)
    drafts = []
    counts: dict[str, int] = {}
    for party in context.federation.feature_holders:
        splits, thresholds = used[party], compared[party]
        counts[party] = sum(len(ranks) for ranks in splits.values())
        more = sum(len(values) for values in thresholds.values())
        names = [c.name for c in context.columns(party) if c.name in splits or c.name in thresholds]
        drafts.append(
            Draft(
                kind="split_request",
                about=party,
                document={"splits": splits, "thresholds": thresholds},
                rows=counts[party] + more,
                columns=tuple(names),
                answers=context.manifest("ranks", party).digest,
            )
        )
    return Outcome(drafts=tuple(drafts), summary={"splits": redaction.counts(counts)})


def reference_thresholds(context: Context) -> dict[str, dict[str, list[float]]]:
    """Return the thresholds of the reference version, by feature holder and column.

    Args:
        context: The label holder's context.
    """
    text = comparable_reference(context, context.home.json("frame"), context.reference)
    return by_holder(context, {} if text is None else domain_thresholds(text, bounds_of(context)))


def splits_used(context: Context) -> dict[str, dict[str, list[int]]]:
    """Return the ranks at which trees split, by feature holder and column.

    Args:
        context: The label holder's context, after training.
    """
    facts = context.home.json("frame")
    used = used_splits(partial_model(context), facts["ranked"], facts.get(HIGHEST, {}))
    return by_holder(context, used)


def by_holder(context: Context, wanted: Mapping[str, Iterable[T]]) -> dict[str, dict[str, list[T]]]:
    """Group entries by feature holder and column; columns without entries are left out.

    Args:
        context: The label holder's context.
        wanted: Entries by full column name.
    """
    return {
        party: {
            column.name: list(entries)
            for column in context.columns(party)
            if (entries := wanted.get(f"{party}.{column.name}"))
        }
        for party in context.federation.feature_holders
    }
