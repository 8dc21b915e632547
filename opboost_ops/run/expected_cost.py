"""What a run will cost whatever the tables say, held against the budgets before any work.

A draw on values and people that were drawn before costs nothing, and whether they are the same is
known only when it is taken. So a run is refused here only for what it costs in any case: draws
under noise keys that have none yet, partitions that are disclosed exactly, private models, and
budgets that are passed already. What may still be refused later is said, and refuses nothing.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from opboost_ops.boosting.dp import noisy_leaves
from opboost_ops.boosting.private_federboost import noise_of
from opboost_ops.config.columns import Column, columns_of
from opboost_ops.config.federation import Federation, Purpose
from opboost_ops.errors import BudgetError
from opboost_ops.exchange.party_state import PartyState
from opboost_ops.mechanisms import noise as feature_noise
from opboost_ops.privacy.accountant import Totals
from opboost_ops.privacy.budgets import Budget
from opboost_ops.privacy.edge_charges import require_charged
from opboost_ops.privacy.events import Draw, Release
from opboost_ops.privacy.loss import column_losses
from opboost_ops.privacy.renyi import RenyiCurve
from opboost_ops.run.phases import ROUNDS, stages_of
from opboost_ops.run.publication import Publisher
from opboost_ops.stages.boost import private_of, settings_of
from opboost_ops.stages.seal import disclosed_edges
from opboost_ops.stages.train import parameters_of

#: Name of what has not been made yet.
_AHEAD = "expected"


def require_within(
    state: PartyState,
    party: Publisher,
    federation: Federation,
    run: str,
    purpose: Purpose,
) -> str:
    """Refuse a run that would exceed a budget of the party whatever its table says.

    Args:
        state: The party's.
        party: Whose budgets.
        federation: The plan's.
        run: The run's id.
        purpose: What it is for.

    Returns:
        Which budgets it would exceed if anything that it releases has changed, from public facts
        alone; empty if none.

    Raises:
        BudgetError: From public facts alone.
    """
    require_charged(state.ledger, federation, party.name)
    facts: dict[str, Any] = {
        "federation": federation.name,
        "run": run,
        "party": party.name,
        "receiver": federation.label_holder,
        "artifact": _AHEAD,
        "rows": 0,
    }
    stages = stages_of(federation, purpose, party.name)
    surely: list[Release] = []
    perhaps: list[Release] = []
    if "desensitize" in stages:
        for line, drawn_before in _draws(state, party, federation, facts):
            # Without an earlier draw under the key there is none that it could be equal to.
            (perhaps if drawn_before else surely).append(line)
    surely.extend(_models(federation, stages, facts))
    features = {
        feature.uuid: name for name, feature in federation.parties[party.name].features.items()
    }
    mine = features if party.name in federation.feature_holders else {}
    budget = Budget(party.policy, mine)

    def rule(before: Totals, new: Sequence[Release]) -> None:
        # A run that is cleared has been charged for its models.
        mine = {line.kind for line in before.models if line.run == run}
        budget(before, [line for line in new if line.kind not in mine])

    state.ledger.require(surely, rule)
    if perhaps:
        try:
            state.ledger.require([*surely, *perhaps], rule)
        except BudgetError as error:
            return error.problem
    return ""


def _draws(
    state: PartyState,
    party: Publisher,
    federation: Federation,
    facts: dict[str, Any],
) -> Iterator[tuple[Release, bool]]:
    """What draws are charged, and whether something was drawn under their noise key before."""
    columns = columns_of(federation, party.name)
    losses = column_losses(columns)
    receiver = federation.label_holder
    secret = feature_noise.receiver_secret(party.site.noise_secret(), receiver)
    first: dict[str, Column] = {}
    for column in columns:
        first.setdefault(column.charge, column)
    for charge, column in first.items():
        cells = column.noise_context(secret).hex()[:16]
        worst = state.ledger.worst(column.uuid, cells)
        most = party.policy.features[column.feature].max_changes
        inputs = column.source_domain.size
        after = worst.after_draw(most, inputs)
        edges = disclosed_edges(federation, party.name, column)
        of: dict[str, Any] = {
            **facts,
            "kind": "draw",
            "account": "local_dp",
            "feature": charge,
            "column": column.uuid,
            "cells": cells,
            "loss": losses[charge],
        }
        span = federation.parties[party.name].features[column.feature].span if edges else None
        yield Release(**{**of, "kind": "release"}, edges=edges, span=span), False
        draw = Draw(
            number=after.number,
            most=most,
            added=after.values - worst.values,
            worst=after.values,
            base=after.base,
            inputs=inputs,
        )
        yield Release(**of, draw=draw), worst.number > 0


def model_cost(federation: Federation) -> tuple[float, RenyiCurve | None] | None:
    """Epsilon of one private model as declared, and its curve if it has one; None without noise.

    Args:
        federation: As declared.
    """
    private = federation.training.private
    if private is None:
        return None
    if federation.learning == "horizontal":
        sums = private_of(federation)
        curve = noise_of(settings_of(federation), sums).curve if sums is not None else None
        return (curve.epsilon, curve) if curve else None
    if federation.training.trainer != "dpboost":
        return None
    label = federation.parties[federation.label_holder].label
    assert label is not None
    classes = label.classes or ()
    parameters = parameters_of(federation.training, label.task, classes, label.bounds)
    noise = noisy_leaves.noise_of(parameters)
    spent = noise.curve if noise else None
    return spent.epsilon if spent else private.epsilon, spent


def _models(
    federation: Federation, stages: Sequence[str], facts: dict[str, Any]
) -> Iterator[Release]:
    private = federation.training.private
    if private is None:
        return
    if {ROUNDS, "train"} & set(stages) and (cost := model_cost(federation)) is not None:
        epsilon, curve = cost
        yield Release(**facts, kind="model", account="model", epsilon=epsilon, curve=curve)
    if {"evaluate", "evaluate_own"} & set(stages) and private.metrics_epsilon is not None:
        yield Release(**facts, kind="metrics", account="model", epsilon=private.metrics_epsilon)
