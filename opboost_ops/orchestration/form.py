"""Trigger forms, with the ranges that the configuration itself has."""

from typing import Any

from airflow.sdk import Param

from opboost_ops.config.federation import Federation, Training
from opboost_ops.mechanisms.global_map import GlobalMap


def training_form(federation: Federation) -> dict[str, Param]:
    """What may be changed for one training run.

    Args:
        federation: What its file says.
    """
    fields = Training.model_json_schema()["properties"]
    training = federation.training
    epsilon = GlobalMap.model_json_schema()["properties"]["epsilon"]
    noise = {"epsilon": _field("Epsilon of all protected features", epsilon, "")}
    return {
        **(noise if federation.learning == "vertical" else {}),
        "trees": _field("Trees", fields["trees"], f" ({training.trees})"),
        "learning_rate": _field(
            "Learning rate", fields["learning_rate"], f" ({training.learning_rate:g})"
        ),
        "depth": _field("Depth of a tree", fields["depth"], f" ({training.depth})"),
    }


def scoring_form() -> dict[str, Param]:
    """What may be changed for one scoring run."""
    return {
        "version": Param(
            None,
            title="Model version",
            description="Empty: the champion.",
            type=["null", "string"],
            pattern="^([0-9a-f]{16})?$",
        )
    }


def _field(title: str, schema: dict[str, Any], declared: str) -> Param:
    limits = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
    return Param(
        None,
        title=title,
        description=f"Empty: as declared{declared}.",
        type=["null", schema["type"]],
        **{name: schema[name] for name in limits if name in schema},
    )
