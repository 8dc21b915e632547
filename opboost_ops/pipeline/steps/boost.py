"""Step: every party's rows -> the common model, by masked sums (FederBoost, Protocols 3 to 5)."""

import logging
import time

import numpy as np
import pyarrow as pa

from opboost_ops.config.columns import shared_columns
from opboost_ops.config.federation import Federation
from opboost_ops.exchange.files import integers
from opboost_ops.exchange.rounds.protocol import LOGGER, Round
from opboost_ops.learning.federboost import federboost
from opboost_ops.learning.federboost.declared import private_of, settings_of
from opboost_ops.learning.federboost.histogram_text import ColumnText, text_of
from opboost_ops.learning.federboost.private_federboost import (
    TREES_PER_ROUND,
    learn_private,
    noise_of,
)
from opboost_ops.learning.private import noise, sensitivity
from opboost_ops.pipeline.inputs.model_columns import LABEL
from opboost_ops.pipeline.stage import Context, Outcome
from opboost_ops.pipeline.steps.assemble import CLIPPED
from opboost_ops.pipeline.steps.materialise import model_file

_LOG = logging.getLogger(LOGGER)


def boost(context: Context) -> Outcome:
    """Train together with all other parties, which run this stage at the same time.

    Raises:
        ArtifactError: A party's message did not arrive in time, or is not the expected one.
        ContractError: This party's rows have changed since an earlier attempt of this run.
    """
    begin = time.process_time()
    federation = context.federation
    settings = settings_of(federation)
    columns, label = rows_of(context.home.table("rows"), federation)
    declared = federation.training.private
    if declared is not None and declared.metrics_epsilon is not None:
        # Fail before anything is charged, not when the model is evaluated.
        noise.require("training.private.metrics_epsilon is declared")
    mailbox = context.open_mailbox()
    private = private_of(federation)

    def progress(done: int) -> None:
        context.tell("trees", done, settings.trees)
        if done == settings.trees or done % max(settings.trees // 20, 1) == 0:
            _LOG.info("%s: tree %d of %d", context.party, done, settings.trees)
        rounds = (Round("trees", done - 1, level) for level in range(settings.growth.depth))
        if private is not None:
            rounds = (
                Round("trees", first) for first in [(done - 1) // TREES_PER_ROUND * TREES_PER_ROUND]
            )
        mailbox.forget(each.name for each in rounds)

    if private is None:
        ensemble = federboost.learn(columns, label, settings, mailbox, progress)
    else:
        ensemble = learn_private(columns, label, settings, private, mailbox, progress)
    text = model_text(ensemble, federation)
    context.waited.append(mailbox.traffic.waited)
    facts = {"rows": ensemble.facts.rows, "trees": settings.trees}
    traffic = {"messages": mailbox.traffic.sent, "bytes": mailbox.traffic.bytes}
    sums = sum(mailbox.traffic.sums.values())
    guarantee: dict[str, dict[str, float]] = {}
    clipped: dict[str, dict[str, int]] = {}
    if private is not None:
        clipped = {CLIPPED: {"rows": sensitivity.count_outside(label, settings.objective.bounds)}}
        curve = noise_of(settings, private).curve
        guarantee = {"private": {"epsilon": curve.epsilon, "delta": curve.delta}}
    return Outcome(
        files={model_file(context): text.encode()},
        documents={
            "boosted": {**facts, "head": mailbox.head, "edges": ensemble.edges},
            **clipped,
        },
        summary={
            **facts,
            **traffic,
            "sums": sums,
            "conversation": mailbox.head[:16],
            **guarantee,
        },
        spent={"waited": mailbox.traffic.waited, "cpu": time.process_time() - begin},
    )


def rows_of(table: pa.Table, federation: Federation) -> tuple[list[np.ndarray], np.ndarray]:
    """Return columns as integers of their domains, and the label, for training.

    Args:
        table: The table from `encode_rows`.
        federation: The plan's federation.
    """
    columns = [integers(table, column.name) for column in shared_columns(federation)]
    return columns, np.asarray(table.column(LABEL).to_numpy())


def model_text(ensemble: federboost.Ensemble, federation: Federation) -> str:
    """Return a trained model for raw rows in LightGBM's text format.

    Args:
        ensemble: The model.
        federation: The plan's federation.
    """
    columns = [
        ColumnText(c.name, c.bounds, c.threshold, c.keeps) for c in shared_columns(federation)
    ]
    return text_of(ensemble, settings_of(federation).objective, columns)
