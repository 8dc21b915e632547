"""Python API: the commands as functions that return typed objects and polars frames.

Examples:
    >>> from opboost_ops import api
    >>> api.check("credit/federation.yaml").faults
    ()
    >>> trained = api.run("credit/federation.yaml", parameters={"num_leaves": 7})
    >>> trained.metrics
    shape: (2, 3)
    ...
    >>> api.score("credit/federation.yaml").scores
    shape: (1_000, 4)
    ...
    >>> api.Scorer("credit/lender", "credit").score({"id": "p00017", "income": 41_000.0}).score
    0.73
    >>> api.models("credit/federation.yaml").model().predict_proba(raw_columns)
    array(...)

Name a federation by its ``federation.yaml`` or that file's folder, and a party by the folder of
its ``site.yaml``. An object holds data of the parties on this machine only.
"""

from opboost_ops.api.model import Model
from opboost_ops.api.models import Models, card, models, outcomes
from opboost_ops.api.party import (
    Checked,
    Consent,
    Statement,
    agree,
    bounds,
    check,
    federate,
    init,
    ledger,
    private_edges,
)
from opboost_ops.api.plans import channel, divide, leakage, plan, simulate
from opboost_ops.api.runs import Scored, Trained, run, score
from opboost_ops.extras.serving.rows import Score
from opboost_ops.extras.serving.scorer import Scorer

__all__ = [
    "Checked",
    "Consent",
    "Model",
    "Models",
    "Score",
    "Scored",
    "Scorer",
    "Statement",
    "Trained",
    "agree",
    "bounds",
    "card",
    "channel",
    "check",
    "divide",
    "federate",
    "init",
    "leakage",
    "ledger",
    "models",
    "outcomes",
    "plan",
    "private_edges",
    "run",
    "score",
    "simulate",
]
