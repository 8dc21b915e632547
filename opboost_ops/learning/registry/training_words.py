"""How a model was trained, in words for its card: objective, weights, early stopping, tuning."""

from collections.abc import Iterator, Mapping
from typing import Any

from opboost_ops.config.federation import Federation

_MEANS = {
    "l1": "Its predictions are medians, not means.",
    "quantile": "Its predictions are quantiles, not means: as many labels lie below as declared.",
    "poisson": "Its predictions are expected counts: the exponential of the raw score.",
    "tweedie": "Its predictions are expected amounts: the exponential of the raw score.",
}


def training_words(
    federation: Federation, tuned: Mapping[str, Any], alone: Mapping[str, Any]
) -> Iterator[str]:
    """What the line of parameters does not say by itself.

    Args:
        federation: As it was run.
        tuned: What tuning found; empty where nothing was looked for.
        alone: How the label holder's columns alone were trained; empty where they were not.
    """
    training = federation.training
    if training.objective in _MEANS:
        yield _MEANS[training.objective]
    own = federation.parties[federation.label_holder].features.values()
    keeps = federation.keeps_all or any(feature.missing == "keep" for feature in own)
    if keeps and training.trainer == "lightgbm":
        yield (
            "Where no training row lacked a value, a split sends a missing one where most training "
            "rows went."
        )
    if (column := training.weight_column) is not None:
        yield f"Training rows counted by the column {column}; metrics count all rows alike."
    if (rounds := training.early_stopping) is not None:
        yield (
            f"Boosting ended after {rounds} rounds without a gain on 10% of the "
            "training rows, which no tree learnt from, or when all trees were there."
        )
    if tuned:
        won = "the declared ones were the best" if tuned["declared_won"] else "these won"
        yield (
            f"Parameters were searched in {tuned['trials']} trials, by {tuned['metric']} in "
            f"{tuned['folds']} folds of the training rows: {won}. Trials use released values and "
            "send no requests; only the winner requested split values."
        )
        if federation.scoring.mode != "desensitised":
            yield (
                f"That is a proxy: trials were judged on released values, and new rows are scored "
                f"in mode {federation.scoring.mode}, on clear ones."
            )
    if alone:
        several = f"in {alone['folds']} folds of the training rows"
        judged = several if alone["folds"] > 1 else "on training rows that they had not seen"
        yield (
            f"The columns of {federation.label_holder} alone have their own parameters, the best "
            f"of {alone['trials']}, by {alone['metric']} {judged}: {alone['trees']} trees, depth "
            f"{alone['depth']}, learning rate {alone['learning_rate']:.3g}."
        )
