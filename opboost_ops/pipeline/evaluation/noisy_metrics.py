"""Metrics of held-out rows with noise, drawn once a run, by `training.private`."""

import hashlib
import json
from collections.abc import Mapping

import numpy as np

from opboost_ops.errors import ContractError
from opboost_ops.learning.metrics import Task
from opboost_ops.learning.private import budget
from opboost_ops.learning.private.metrics import loss_sum, noisy_metric, noisy_sums
from opboost_ops.pipeline.resume_log import ResumeLog
from opboost_ops.pipeline.stage import Context
from opboost_ops.privacy.ledger.charges import ModelCharge

#: Of two classes, whose losses have no bounds of their own.
CLASSES = (0.0, 1.0)


def noisy_metrics(
    context: Context,
    task: Task,
    truth: np.ndarray,
    predictions: Mapping[str, np.ndarray],
    epsilon: float,
) -> tuple[dict[str, dict[str, float]], ModelCharge]:
    """Evaluate predictions of the same rows, all together at the cost of one epsilon.

    What is drawn is on the disk before it is used, so that a retry draws nothing again.

    Args:
        context: The label holder's; in horizontal learning that of a party.
        task: ``binary`` or ``regression``.
        truth: Labels, shape (n,).
        predictions: Of each model and mode, shape (n,).
        epsilon: Of all of them together.

    Returns:
        Metrics by the predictions' names, and what they cost.

    Raises:
        ContractError: The run has drawn metrics of other predictions.
    """
    label = context.declared.label
    assert label is not None
    bounds = label.bounds or CLASSES
    digest = hashlib.sha256(repr((sorted(predictions), task, bounds, epsilon)).encode())
    for name in sorted(predictions):
        digest.update(np.ascontiguousarray(predictions[name]).tobytes())
    digest.update(truth.tobytes())
    memory = ResumeLog(context.home, "drawn_metrics.jsonl")
    if not memory.lines():
        sums = [loss_sum(task, truth, predictions[name], bounds) for name in sorted(predictions)]
        drawn = noisy_sums(task, sums, budget.exactly(epsilon))
        memory.append(json.dumps({"of": digest.hexdigest(), "sums": drawn}).encode())
    line = json.loads(memory.lines()[0])
    if line["of"] != digest.hexdigest():
        raise ContractError(
            "This run evaluated other predictions, and its noise is final.",
            "Trigger a new run.",
        )
    found = {
        name: noisy_metric(task, total, len(truth), bounds)
        for name, total in zip(sorted(predictions), line["sums"], strict=True)
    }
    return found, ModelCharge(epsilon, memory.name(), len(truth), "metrics")
