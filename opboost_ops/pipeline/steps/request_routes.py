"""Step: model -> route request with all thresholds of its trees on other parties' features."""

from opboost_ops.exchange.artifact import Draft
from opboost_ops.learning.registry.registry import model_in
from opboost_ops.learning.splits import domain_thresholds
from opboost_ops.pipeline import redaction
from opboost_ops.pipeline.evaluation.reference import same_columns
from opboost_ops.pipeline.stage import Context, Outcome
from opboost_ops.pipeline.steps.checks import bounds_of
from opboost_ops.pipeline.steps.materialise import materialised_model
from opboost_ops.pipeline.steps.request_splits import by_holder


def request_routes(context: Context) -> Outcome:
    """Request every comparison of each feature holder's features.

    A training run also requests those of the reference version, so that both models can be
    compared on the same rows.

    Raises:
        ContractError: The model is missing or damaged.
    """
    texts = []
    registry = context.registry
    if context.purpose == "train":
        texts.append(materialised_model(context))
    before = context.reference if context.purpose == "train" else context.model
    if before is not None:
        files = registry.files(before)
        facts = context.home.json("frame") if context.purpose == "train" else None
        if facts is None or same_columns(context.federation, facts, files):
            texts.append(model_in(files))
    wanted: dict[str, set[float]] = {}
    for text in texts:
        for name, thresholds in domain_thresholds(text, bounds_of(context)).items():
            wanted.setdefault(name, set()).update(thresholds)
    drafts = []
    counts: dict[str, int] = {}
    rising = {name: sorted(thresholds) for name, thresholds in wanted.items()}
    for party, thresholds_of in by_holder(context, rising).items():
        counts[party] = sum(len(thresholds) for thresholds in thresholds_of.values())
        drafts.append(
            Draft(
                kind="route_request",
                about=party,
                document={"thresholds": thresholds_of},
                rows=counts[party],
                columns=tuple(thresholds_of),
                answers=context.manifest("split_values", party).digest
                if context.purpose == "train"
                else context.plan,
            )
        )
    return Outcome(drafts=tuple(drafts), summary={"thresholds": redaction.counts(counts)})
