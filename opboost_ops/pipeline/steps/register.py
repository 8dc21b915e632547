"""Step: checked and evaluated model -> an immutable version in the registry, with its promise."""

import json
import logging

from opboost_ops.exchange.party_state import open_state
from opboost_ops.learning.boosters.trainer import model_of
from opboost_ops.learning.federboost.declared import sum_guarantee, sum_noise_of
from opboost_ops.learning.registry.card import make_card
from opboost_ops.learning.registry.card_words import Promise
from opboost_ops.learning.registry.importance import (
    Importance,
    ImportanceLine,
    importance_of,
    rows_for,
)
from opboost_ops.learning.registry.registry import Registry
from opboost_ops.pipeline.evaluation.held_out import SCORING
from opboost_ops.pipeline.evaluation.reference import version_files
from opboost_ops.pipeline.evaluation.tuning_search import TUNED
from opboost_ops.pipeline.home import fingerprint, importance_cache, software
from opboost_ops.pipeline.inputs.model_columns import frame_of
from opboost_ops.pipeline.redaction import WORDS
from opboost_ops.pipeline.stage import Context, Outcome
from opboost_ops.pipeline.steps.materialise import materialised_model
from opboost_ops.privacy.ledger.budgets import remaining_models
from opboost_ops.reports.version_page import card_page

_LOG = logging.getLogger("opboost_ops")


def register(context: Context) -> Outcome:
    """Register the model with its card, and make it the champion if it passed the gate.

    Raises:
        ContractError: The model was not checked, or this version exists with other content.
    """
    context.require_passed("checked_model")
    model = materialised_model(context)
    holders = context.federation.feature_holders
    released = {party: context.manifest("ranks", party) for party in holders}
    losses = {
        f"{party}.{name}": curve
        for party, manifest in released.items()
        for name, curve in manifest.losses.items()
    }
    private = context.federation.training.private
    noisy = private is not None and private.metrics_epsilon is not None
    horizontal = context.federation.learning == "horizontal"
    rows = context.home.json("boosted")["rows"] if horizontal else None
    card = make_card(
        federation=context.federation,
        run=context.run,
        evaluation=context.home.json("evaluation"),
        training_rows=rows or context.home.json("alignment")["train"],
        losses=losses,
        splits=model_of(model).split_counts(),
        experiment=any(manifest.experiment for manifest in released.values()),
        classes=context.home.json("frame")["classes"],
        # An exact function of the held-out rows, which the noise of the metrics does not cover.
        importance=None if noisy else _importance(context, model),
        tuned=context.home.json(TUNED) if context.home.has(TUNED) else None,
        promise=promise_of(context),
    )
    evaluation, decision = context.home.json("evaluation"), context.home.json("gate")
    # A version's files stay the same when a run is repeated after another champion's promotion.
    gate_why = decision.get("gate_why", decision["why"])
    fitted = context.home.json(SCORING) if context.home.has(SCORING) else {}
    scoring = fitted.get(evaluation["mode"])
    files = {
        "card.json": card.json_bytes(),
        "card.html": card_page(card, evaluation, scoring, gate_why).encode(),
        "evaluation.json": context.home.read("evaluation.json"),
        "columns.json": context.home.read("frame.json"),
        **version_files(context, model),
    }
    if fitted:
        files[f"{SCORING}.json"] = context.home.read(f"{SCORING}.json")
    registry = Registry(context.site.models, context.federation.name)
    registry.register(context.run, files)
    registry.decide(context.run, decision["promote"], decision["why"])
    champion = registry.champion() == context.run
    if not decision["promote"]:
        why = decision["why"] if horizontal else WORDS
        _LOG.warning("model version %s was not promoted: %s", context.run, why)
    return Outcome(
        documents={"registered": {"version": context.run}},
        summary={"version": context.run, "champion": champion, "why": decision["why"]},
    )


def _importance(context: Context, model: str) -> Importance:
    """Return the importance of the model's features, from the cache if rows are unchanged."""
    federation, plan = context.federation, context.acceptance.plan
    table = context.home.table("holdout_frame")
    places = rows_for(federation, model, table.num_rows)
    rows = frame_of(table.take(places), context.home.json("frame"))
    how = (federation.model_dump_json(), plan.agreement, plan.protocol)
    words = repr((model, how, software(federation.training.trainer)))
    cache, made_of = importance_cache(context.lasting), fingerprint(words, rows)
    if (cached := cache.read(made_of)) is not None:
        lines = tuple(ImportanceLine(**line) for line in json.loads(cached[1]))
        return Importance(cached[0]["rows"], lines)
    importance = importance_of(federation, model, rows)
    if federation.training.private is None:
        content = json.dumps([line.model_dump() for line in importance.lines])
        cache.write(made_of, {"rows": importance.rows}, content.encode())
    return importance


def promise_of(context: Context) -> Promise | None:
    """Return the privacy promise of this run's model; None if it is not differentially private.

    Args:
        context: Context of the party that registers the model and whose ledger was charged.
    """
    private = context.federation.training.private
    if private is None:
        return None
    noise = sum_noise_of(context.federation)
    replaced = 2 * private.epsilon if noise is None else noise.replaced.epsilon
    return Promise(replaced, _further_models(context), sum_guarantee(context.federation))


def _further_models(context: Context) -> str:
    budget = context.policy.model_budget
    if budget is None:
        return ""
    with open_state(context.site) as state:
        more = remaining_models(state.ledger.entries(), budget, context.run)
    if more is None:
        count = "unlimited further models"
    else:
        count = "1 more such model" if more == 1 else f"{more:,} more such models"
    return f"the budget in {context.party}'s policy allows {count}"
