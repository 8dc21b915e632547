"""Whether a run repeats the champion: then nothing has changed, and there is nothing to promote."""

import json
from typing import Any

from opboost_ops.pipeline.evaluation.gate import present_champion
from opboost_ops.pipeline.stage import Context
from opboost_ops.pipeline.steps.materialise import model_file


def declaration_files(context: Context) -> dict[str, bytes]:
    """What a version keeps of the declaration under which it was trained.

    Args:
        context: The label holder's, or in horizontal learning any party's.
    """
    assert context.acceptance is not None
    plan = context.acceptance.plan
    return {
        "federation.json": context.federation.model_dump_json(indent=1).encode(),
        # New rows are scored under what was agreed when the version was made.
        "agreement.json": json.dumps(
            {"digest": plan.agreement, "protocol": plan.protocol}
        ).encode(),
    }


def unless_repeated(context: Context, model: str, decision: dict[str, Any]) -> dict[str, Any]:
    """The gate's decision; a repetition of the champion is rejected.

    Another declaration is a change even where the trees are the same, because new rows are scored
    under a version's own declaration.

    Args:
        context: The label holder's, or in horizontal learning any party's.
        model: The new model.
        decision: What the gate returned.
    """
    champion = present_champion(context)
    if champion is None:
        return decision
    registry = context.registry
    kept = registry.names(champion)
    new = {model_file(context): model.encode(), **declaration_files(context)}
    if any(name not in kept or registry.file(champion, name) != raw for name, raw in new.items()):
        return decision
    why = (
        f"nothing has changed: the model is that of version {champion}, the champion, trained "
        "under the same declaration"
    )
    return {**decision, "promote": False, "why": why}
