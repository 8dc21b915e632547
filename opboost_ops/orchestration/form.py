"""Trigger forms, with the ranges that the configuration itself has."""

from typing import Any, get_args

from airflow.sdk import Param

from opboost_ops.config.agreement import form_epsilons
from opboost_ops.config.federation import Denoise, Federation, Training


def training_form(federation: Federation) -> dict[str, Param]:
    """What may be changed for one training run.

    Args:
        federation: What its file says.
    """
    if federation.learning == "horizontal":
        # All of its training decides which sums leave: that is agreed, and no form changes it.
        return {}
    fields = Training.model_json_schema()["properties"]
    training = federation.training
    offered = list(form_epsilons(federation))
    epsilon = Param(
        None,
        title="Epsilon of all protected features",
        description="Empty: as declared. Offered are the epsilons that the parties have agreed on.",
        type=["null", "number"],
        enum=[None, *offered],
    )
    return {
        **({"epsilon": epsilon} if offered else {}),
        "trees": _field("Trees", fields["trees"], f" ({training.trees})"),
        "learning_rate": _field(
            "Learning rate", fields["learning_rate"], f" ({training.learning_rate:g})"
        ),
        "depth": _field("Depth of a tree", fields["depth"], f" ({training.depth})"),
        "parameters": Param(
            None,
            title="The booster's own parameters",
            description='Empty: as declared. One more, or another value: {"num_leaves": 15}.',
            type=["null", "object"],
        ),
        "denoise": Param(
            None,
            title="Against others' noise",
            description=f"Empty: as declared ({federation.denoising}).",
            type=["null", "string"],
            enum=[None, *get_args(Denoise)],
        ),
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
