"""Step: training frame -> partial model, with ranks as thresholds on other parties' features."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from opboost_ops.config.columns import released_channels
from opboost_ops.learning.boosters import lightgbm_backend, trainer
from opboost_ops.learning.boosters.backend import Engine, Rows
from opboost_ops.learning.boosters.dask_engine import DaskEngine
from opboost_ops.learning.boosters.trainer import Parameters, format_of, parameters_of
from opboost_ops.learning.denoise import joint
from opboost_ops.learning.private import noisy_leaves, sensitivity
from opboost_ops.pipeline.evaluation.tuning_search import TUNED, search, with_trial
from opboost_ops.pipeline.home import ResumeLog, model_cache, software
from opboost_ops.pipeline.inputs.holdout import WEIGHT
from opboost_ops.pipeline.inputs.model_columns import LABEL, frame_of
from opboost_ops.pipeline.stage import Context, Outcome
from opboost_ops.pipeline.steps.assemble import CLIPPED
from opboost_ops.privacy.ledger.budgets import ModelCharge


def train(context: Context) -> Outcome:
    """Train on own values and other parties' ranks.

    Raises:
        ContractError: The training frame was not checked.
    """
    context.require_passed("checked_frame")
    training = context.federation.training
    declared = context.declared.label
    assert declared is not None
    facts = context.home.json("frame")
    parameters = parameters_of(training, facts["task"], facts["classes"], declared.bounds)
    rows = context.home.json("alignment")["train"]
    model = None
    documents: dict[str, Any] = {}
    if training.private is None:
        text, tuned = _unless_unchanged(context, parameters)
    else:
        memory = ResumeLog(context.home)
        text, tuned = _trained(context, parameters, memory)
        noise = noisy_leaves.noise_of(parameters)
        curve = noise.curve if noise else None
        epsilon = curve.epsilon if curve else training.private.epsilon
        replaced = noise.replaced if noise else None
        model = ModelCharge(epsilon, memory.name(), rows, curve=curve, replaced=replaced)
        documents[CLIPPED] = {"rows": _clipped(context, declared.bounds)}
    documents |= {TUNED: tuned} if tuned else {}
    return Outcome(
        files={_partial(context): text.encode()},
        documents=documents,
        # The declared number of trees: the actual one would disclose something about the rows.
        summary={"rows": rows, "trees": training.trees},
        model=model,
    )


def _clipped(context: Context, bounds: tuple[float, float] | None) -> int:
    label = context.home.table("frame").column(LABEL).to_numpy()
    return sensitivity.count_outside(np.asarray(label), bounds)


def _unless_unchanged(context: Context, parameters: Parameters) -> tuple[str, Mapping[str, Any]]:
    """Return the partial model and the tuned parameters, cached if nothing has changed.

    A cluster that trains again might also differ in the last digits.
    """
    digest = hashlib.sha256(context.home.read("frame.json"))
    with (context.home.folder / "frame.arrow").open("rb") as file:
        digest.update(hashlib.file_digest(file, "sha256").digest())
    digest.update(context.federation.model_dump_json().encode())
    plan = context.acceptance.plan
    how = (parameters, plan.agreement, plan.protocol, software(parameters.trainer))
    digest.update(repr(how).encode())
    cache, made_of = model_cache(context.lasting), digest.hexdigest()
    if (cached := cache.read(made_of)) is not None:
        return cached[1].decode(), cached[0]
    text, tuned = _trained(context, parameters)
    cache.write(made_of, tuned, text.encode())
    return text, tuned


def _trained(
    context: Context, parameters: Parameters, memory: ResumeLog | None = None
) -> tuple[str, dict[str, Any]]:
    """Train; return the partial model and the tuned parameters."""
    table, facts = context.home.table("frame"), context.home.json("frame")
    if engine := _engine(context, table.num_rows * len(facts["names"])):
        weight = WEIGHT if WEIGHT in table.column_names else ""
        for name in filter(None, (LABEL, weight)):
            # LightGBM's own type.
            at, column = table.column_names.index(name), table.column(name).cast(pa.float32())
            table = table.set_column(at, name, column)
        rows = Rows(frame_of(table.slice(0, 0), facts), table, LABEL, weight)
        return engine.train(rows, parameters, context.tell), {}
    frame = frame_of(table, facts)
    # Copy, so that the table can be freed: training uses the most memory of all stages.
    label = np.array(table.column(LABEL).to_numpy())
    del table
    if context.federation.denoising == "joint":
        channels = released_channels(context.federation)
        seed = hashlib.sha256(b"joint 0").digest()
        return joint.train(frame, label, parameters, channels, seed, context.tell), {}
    tuning, tuned = context.federation.training.tuning, {}
    if tuning is not None:
        tuned = search(context.home, frame, label, parameters, tuning, context.tell)
        parameters = with_trial(parameters, tuned)
    return trainer.train(frame, label, parameters, memory, context.tell), tuned


def _engine(context: Context, cells: int) -> Engine | None:
    """Return the engine that trains on the table; None to read it into a frame.

    Args:
        context: The run.
        cells: Number of the table's cells.
    """
    if not context.federation.trains_by_blocks:
        return None
    if context.site.dask:
        return DaskEngine(context.site.dask_address())
    # Too large to fit into memory as float64.
    return lightgbm_backend.LocalEngine() if cells > lightgbm_backend.FRAME_CELLS else None


def partial_model(context: Context) -> str:
    """Return the partial model that this run has trained."""
    return context.home.read(_partial(context)).decode()


def _partial(context: Context) -> str:
    return f"partial_{format_of(context.federation.training.trainer).file}"
