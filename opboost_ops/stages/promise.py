"""What a private model's card promises in figures: a replaced row, and how many more models fit."""

from opboost_ops.boosting.dp import noisy_leaves
from opboost_ops.boosting.private_federboost import noise_of
from opboost_ops.exchange.party_state import open_state
from opboost_ops.models.private_words import Promise
from opboost_ops.privacy.model_account import more_such
from opboost_ops.stages.boost import private_of, settings_of
from opboost_ops.stages.stage import Context
from opboost_ops.stages.train import parameters_of


def promise_of(context: Context) -> Promise | None:
    """What the model of this run promises; None where it is not differentially private.

    Args:
        context: Of the party that registers the model, whose ledger has charged it.
    """
    private = context.federation.training.private
    if private is None:
        return None
    return Promise(_replaced(context) or 2 * private.epsilon, _left(context))


def _replaced(context: Context) -> float | None:
    """Epsilon of a replaced row at the declared delta, by the curve; None without a delta."""
    federation = context.federation
    sums = private_of(federation)
    if sums is not None:
        return noise_of(settings_of(federation), sums).replaced.epsilon
    label = federation.parties[context.party].label
    assert label is not None
    parameters = parameters_of(federation.training, label.task, label.classes or (), label.bounds)
    noise = noisy_leaves.noise_of(parameters)
    return None if noise is None else noise.replaced.epsilon


def _left(context: Context) -> str:
    budget = context.policy.model_budget
    if budget is None:
        return ""
    with open_state(context.site) as state:
        more = more_such(state.ledger.entries(), budget, context.run)
    if more is None:
        count = "unlimited further models"
    else:
        count = "1 more such model" if more == 1 else f"{more:,} more such models"
    return f"the budget in {context.party}'s policy allows {count}"
