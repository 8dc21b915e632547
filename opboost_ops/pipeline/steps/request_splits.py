"""Arrow: partial model -> split request, only the ranks that trees use."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from opboost_ops.exchange.artifact import Draft
from opboost_ops.learning.splits import comparisons, used_splits
from opboost_ops.pipeline import redaction
from opboost_ops.pipeline.evaluation.gate import comparable_reference
from opboost_ops.pipeline.stage import Context, Outcome
from opboost_ops.pipeline.steps.assemble import HIGHEST
from opboost_ops.pipeline.steps.checks import bounds_of
from opboost_ops.pipeline.steps.train import partial_model

T = TypeVar("T")


def request_splits(context: Context) -> Outcome:
    """Ask each feature holder for the values of the splits on its features.

    With the thresholds of the version that the model is compared to come questions the other way
    round: how many ranks lie below them. Held-out rows are known by rank, and so both models can
    be judged by them.
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
    """The thresholds of the version to compare to, by feature holder and column.

    Args:
        context: The label holder's.
    """
    text = comparable_reference(context, context.home.json("frame"), context.reference)
    return by_holder(context, {} if text is None else comparisons(text, bounds_of(context)))


def splits_used(context: Context) -> dict[str, dict[str, list[int]]]:
    """The ranks at which trees split, by feature holder and column.

    Args:
        context: The label holder's, which has trained.
    """
    facts = context.home.json("frame")
    used = used_splits(partial_model(context), facts["ranked"], facts.get(HIGHEST, {}))
    return by_holder(context, used)


def by_holder(context: Context, wanted: Mapping[str, Iterable[T]]) -> dict[str, dict[str, list[T]]]:
    """Requests by feature holder and column; of some columns nothing is requested.

    Args:
        context: The label holder's.
        wanted: By full name.
    """
    return {
        party: {
            column.name: list(entries)
            for column in context.columns(party)
            if (entries := wanted.get(f"{party}.{column.name}"))
        }
        for party in context.federation.feature_holders
    }
