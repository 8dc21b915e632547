"""Arrow: checked ranks -> the signed ordinal artifact, and the held-out rows' release."""

from opboost_ops.exchange.artifact import Draft
from opboost_ops.privacy.consent import require_consent
from opboost_ops.privacy.loss import column_losses
from opboost_ops.stages.stage import Context, Outcome


def publish(context: Context) -> Outcome:
    """Publish ranks of the training rows and randomised values of the held-out rows.

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
    held_out = context.home.table("randomised").slice(facts["train"])
    drafts = (
        Draft(
            kind="ranks",
            about=context.party,
            table=context.home.table("ranks"),
            rows=facts["train"],
            columns=names,
            losses=losses,
            answers=facts["alignment"],
            discloses="",
        ),
        Draft(
            kind="holdout",
            about=context.party,
            table=held_out,
            rows=facts["holdout"],
            columns=names,
            losses=losses,
            answers=facts["alignment"],
            discloses="",
        ),
    )
    return Outcome(drafts=drafts, summary={"rows": facts["train"], "holdout": facts["holdout"]})
