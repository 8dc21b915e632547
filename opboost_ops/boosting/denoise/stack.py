"""Training a stack for randomised rows: its parts, and weights that no clear row has judged."""

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize

from opboost_ops.boosting import trainer
from opboost_ops.boosting.denoise import joint
from opboost_ops.boosting.denoise.behind import Behind
from opboost_ops.boosting.denoise.draws import Draws
from opboost_ops.boosting.denoise.parts import Parts, mixed
from opboost_ops.boosting.denoise.rows import drawable
from opboost_ops.boosting.frame import Frame, Parameters, Tell, unheard
from opboost_ops.boosting.stack_text import PARTS
from opboost_ops.mechanisms.channel import Channel

#: One row in so many weighs the parts; that many rows at most learn for it and weigh.
_HELD, _WEIGHED_ROWS = 6, 100_000

#: With fewer rows to weigh by, plain training alone stands: weights would be chance.
_FEWEST = 30

#: A part of less weight is left out, and weights have so many digits.
_LEAST, _DIGITS = 0.01, 4


def train(
    frame: Frame,
    label: np.ndarray,
    parameters: Parameters,
    channels: Mapping[str, Channel],
    seed: bytes,
    tell: Tell = unheard,
) -> str:
    """Train a stack: of predictions for rows that are as randomised as the training rows.

    Everything is a function of the release and of the label holder's own table. A held-out sixth
    of the randomised rows weighs the parts, by squared error or log loss; then those that count
    learn from all rows. ``plain`` is what ``denoise: none`` trains, and asks for the same splits.

    Args:
        frame: Training rows.
        label: Numbers or class indices, shape (n,).
        parameters: How.
        channels: What released others' columns, by name.
        seed: Of all draws, 32 bytes.
        tell: Told after each boosting round of the plain part alone: which others are trained
            hangs on the weights.

    Returns:
        The stack's text.
    """
    laws = drawable(frame, channels)
    outputs = {name: channels[name].outputs for name in laws}

    def learnt(rows: Frame, of: np.ndarray, wanted: Collection[str], tell: Tell = unheard) -> Parts:
        return _learnt(rows, of, parameters, laws, outputs, seed, wanted, tell)

    draws = Draws(seed)
    some = np.arange(len(label))
    if len(label) > _WEIGHED_ROWS:
        order = np.argsort(draws.uniform("weighed", 0, len(label)), kind="stable")
        some = np.sort(order[:_WEIGHED_ROWS])
    held = draws.uniform("stack", 0, len(some)) < 1 / _HELD
    weights = {"plain": 1.0}
    if held.sum() >= _FEWEST:
        tried = learnt(frame.rows(some[~held]), label[some[~held]], PARTS)
        judged = frame.rows(some[held])
        weights = convex(
            parameters.task, label[some[held]], tried.each(judged.matrix), judged.weight
        )
        del tried
    return replace(learnt(frame, label, weights, tell), weights=weights).text()


def _learnt(
    frame: Frame,
    label: np.ndarray,
    parameters: Parameters,
    laws: Mapping[str, np.ndarray],
    outputs: Mapping[str, np.ndarray],
    seed: bytes,
    wanted: Collection[str],
    tell: Tell = unheard,
) -> Parts:
    models = {"plain": trainer.train(frame, label, parameters, tell=tell)}
    own = tuple(name for name in frame.names if name not in frame.ranked)
    if own and "own" in wanted:
        models["own"] = trainer.train(_columns(frame, own), label, parameters)
    behind = None
    if laws and {"means", "behind"} & set(wanted):
        known = _columns(frame, [name for name in frame.names if name in laws or name in own])
        rows = joint.imputed(known, label, parameters, laws, seed)
        behind = Behind.learnt(known, outputs, laws, rows.chosen[0].classes, seed)
        if "behind" in wanted:

            def plain() -> str:
                if known.names == frame.names:
                    return models["plain"]
                return trainer.train(known, label, parameters)

            models["behind"] = joint.learnt(rows, parameters, plain)
        del rows
        if "means" in wanted:
            models["means"] = trainer.train(behind.widened(known), label, parameters)
    return Parts(frame.names, own, models, behind)


def _columns(frame: Frame, names: Collection[str]) -> Frame:
    if tuple(names) == frame.names:
        return frame
    places = [frame.names.index(name) for name in names]
    return replace(
        frame,
        names=tuple(names),
        matrix=np.asfortranarray(frame.matrix[:, places]),
        categorical=tuple(name for name in frame.categorical if name in names),
        ranked=tuple(name for name in frame.ranked if name in names),
    )


def convex(
    task: str,
    label: np.ndarray,
    predictions: Mapping[str, np.ndarray],
    weight: np.ndarray | None = None,
) -> dict[str, float]:
    """Weights of least squared error or log loss, none negative, summing to 1.

    Args:
        task: What is learnt.
        label: Of rows that no part learnt from, shape (n,).
        predictions: For these, by part.
        weight: How much each row counts; None where all count alike.

    Returns:
        By part, in the order of `PARTS`; parts of less than 0.01 are left out.
    """
    names = [name for name in PARTS if name in predictions]
    if len(names) == 1:
        return dict.fromkeys(names, 1.0)

    def loss(given: np.ndarray) -> float:
        found = mixed(dict(zip(names, given, strict=True)), predictions)
        if task == "regression":
            return float(np.average((found - label) ** 2, weights=weight))
        if task == "binary":
            chance = np.where(label == 1, found, 1 - found)
        else:
            chance = found[np.arange(len(label)), label.astype(int)]
        return float(-np.average(np.log(np.maximum(chance, 1e-12)), weights=weight))

    # Squared errors are in the label's unit, and the search ends where they change by little.
    unit = max(loss(np.full(len(names), 1 / len(names))), 1e-300)
    done = minimize(
        lambda given: loss(given) / unit,
        np.full(len(names), 1 / len(names)),
        bounds=[(0, 1)] * len(names),
        method="SLSQP",
        constraints={"type": "eq", "fun": lambda given: given.sum() - 1},
    )
    found = np.clip(done.x, 0, None)
    found[found < _LEAST * found.sum()] = 0.0
    found = np.round(found / found.sum(), _DIGITS)
    found[found.argmax()] += 1 - found.sum()
    return {name: round(float(w), _DIGITS) for name, w in zip(names, found, strict=True) if w > 0}
