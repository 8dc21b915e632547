"""Figures that a private model's card promises: a replaced row, and how many more models fit."""

from opboost_ops.config.federation import Federation
from opboost_ops.exchange.party_state import open_state
from opboost_ops.learning.federboost.private_federboost import noise_of
from opboost_ops.learning.federboost.sum_noise import SumNoise
from opboost_ops.learning.private import noisy_leaves
from opboost_ops.learning.registry.card_words import Promise
from opboost_ops.pipeline.stage import Context
from opboost_ops.pipeline.steps.boost import private_of, settings_of
from opboost_ops.pipeline.steps.train import parameters_of
from opboost_ops.privacy.ledger.model_account import more_such


def promise_of(context: Context) -> Promise | None:
    """The promise of this run's model; None where it is not differentially private.

    Args:
        context: Of the party that registers the model, whose ledger has charged it.
    """
    private = context.federation.training.private
    if private is None:
        return None
    noise = sum_noise_of(context.federation)
    replaced = 2 * private.epsilon if noise is None else noise.replaced.epsilon
    return Promise(replaced, _left(context), sum_guarantee(context.federation))


def sum_noise_of(federation: Federation) -> SumNoise | None:
    """The noise on the sums of a private training as declared; None without a delta.

    Args:
        federation: As declared.
    """
    training = federation.training
    if (sums := private_of(federation)) is not None:
        return noise_of(settings_of(federation), sums)
    if training.private is None or training.trainer != "dpboost":
        return None
    label = federation.label
    assert label is not None
    parameters = parameters_of(training, label.task, label.classes or (), label.bounds)
    return noisy_leaves.noise_of(parameters)


def sum_guarantee(federation: Federation) -> str:
    """The guarantee of horizontal learning from noisy sums in words; empty for all else.

    Args:
        federation: As declared.
    """
    if private_of(federation) is None:
        return ""
    noise = sum_noise_of(federation)
    assert noise is not None
    return noise.guarantee(len(federation.parties))


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
