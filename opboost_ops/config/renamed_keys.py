"""Keys of older releases that have another name now: they are read, with one message a file."""

import logging
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

_LOG = logging.getLogger("opboost_ops")


def with_new_names(model: str, data: dict[str, Any], file: str) -> dict[str, Any]:
    """A file's content under the present names; a key that is there twice stays, and is a fault.

    Args:
        model: Which file it is, by the name of its model.
        data: As read; it stays as it is.
        file: Its name, for the message.
    """
    models = data.get("models")
    if model != "Policy" or not isinstance(models, Mapping) or "model_budget" in data:
        return data
    if set(models) - {"budget_epsilon"}:
        return data
    found = {name: value for name, value in data.items() if name != "models"}
    if models.get("budget_epsilon") is not None:
        found["model_budget"] = {"epsilon": models["budget_epsilon"]}
        _say(file, str(models["budget_epsilon"]))
    return found


@lru_cache(maxsize=64)
def _say(file: str, epsilon: str) -> None:
    """Once a process: stages read the policy again and again."""
    _LOG.warning(
        "%s: models.budget_epsilon is now model_budget.epsilon. It is read as it was; write "
        "model_budget: {epsilon: %s, delta: 1.0e-6} instead.",
        file,
        epsilon,
    )
