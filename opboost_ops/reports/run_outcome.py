"""The result of a training run: the gain over the label holder alone, the decision, the cost."""

import json
from collections.abc import Mapping
from typing import Any

from opboost_ops.config.columns import columns_of
from opboost_ops.config.federation import Federation
from opboost_ops.learning.metrics import main_metric
from opboost_ops.privacy.loss import column_losses
from opboost_ops.reports.display.blocks import finite

#: How the label holder's own columns are called among the gains.
_ALONE = "label_holder_alone"


def outcome(
    federation: Federation, files: Mapping[str, bytes], registered: Mapping[str, Any]
) -> dict[str, Any]:
    """The result of a training run.

    Args:
        federation: As it was run; vertical.
        files: Of the version that it made.
        registered: What `register` says: ``champion`` and ``why``.

    Returns:
        ``metric``; the ``gain`` over the label holder's columns alone with its 95 % interval, in
        the mode of scoring, None where it is not measured; ``mode``, ``champion``, ``why``; and
        ``cost``, by party the loss(R - L) of one release.
    """
    evaluation = json.loads(files["evaluation.json"])
    facts = json.loads(files["columns.json"])
    metric = main_metric(facts["task"])
    gain = evaluation.get("gains", {}).get(_ALONE, {}).get(metric)
    cost = {
        party: sum(
            float(curve.loss[-1]) for curve in column_losses(columns_of(federation, party)).values()
        )
        for party in federation.feature_holders
    }
    return {
        "metric": metric,
        "gain": gain,
        "mode": evaluation["mode"],
        "champion": registered["champion"],
        "why": registered["why"],
        "cost": {party: finite(loss) for party, loss in cost.items()},
    }


def outcome_words(result: Mapping[str, Any]) -> str:
    """The same in words: what was gained, what became of the model, what it cost.

    Args:
        result: What `outcome` returns.
    """
    became = "became champion" if result["champion"] else "did not become champion"
    paid = ", ".join(f"{party} {float(loss):.1f}" for party, loss in result["cost"].items())
    cost = (
        f"One release costs a person a loss of at most {paid}, summed over the columns: a loss L "
        "changes the odds between any two records by at most e^L. Retraining costs nothing."
    )
    return f"{_gain_words(result)}; the model {became} ({result['why']}). {cost}"


def _gain_words(result: Mapping[str, Any]) -> str:
    gain, metric = result["gain"], result["metric"]
    if gain is None:
        return "The gain over the label holder alone is not measured"
    interval = f"{gain['value']:+.4f} (95 %: {gain['low']:+.4f} to {gain['high']:+.4f})"
    against = f"{metric} {interval} over the label holder alone, in mode {result['mode']}"
    if gain["low"] > 0:
        return f"The other parties' columns help: {against}"
    if gain["high"] < 0:
        return f"The other parties' columns make it worse: {against}; see `opboost plan`"
    return f"No gain is shown: {against}; see `opboost plan`"
