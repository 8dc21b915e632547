"""Whether a stack is worth it where production scores randomised rows: the study behind ADR 20.

Plain training on randomised rows is compared with convex mixtures, whose weights are those of least
loss on a held-out sixth of the randomised rows. ``one`` mixes raw scores of models that look at the
released row alone, and so would be one LightGBM text: plain training; ``again``, trained on rows
that were drawn back jointly and randomised anew; and own columns alone. ``all`` mixes predictions
of plain training, own columns alone, ``means`` (the posterior mean of each value behind the row as
a further column) and ``behind`` (what the joint model says of 20 draws of what is behind the row):
it needs the latent classes wherever it scores. At most 10,000 training rows, [1, 10].

    python benchmarks/stacking.py --dataset powerplant,pendigits --epsilon 0.64,1.28 --json
"""

import argparse
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from statistics import fmean
from typing import Any
from uuid import UUID

import lightgbm
import numpy as np
from scipy.optimize import minimize

from opboost_ops.boosting import trainer
from opboost_ops.boosting.denoise.classes import Classes
from opboost_ops.boosting.denoise.draws import Draws
from opboost_ops.boosting.denoise.imputation import impute
from opboost_ops.boosting.denoise.joint import _groups, _labelled
from opboost_ops.boosting.denoise.rows import Rows, drawable, rows_of
from opboost_ops.boosting.denoise.seen import Seen
from opboost_ops.boosting.denoise.selection import choose
from opboost_ops.boosting.denoise.starts import grid
from opboost_ops.boosting.frame import Frame, Parameters
from opboost_ops.boosting.mixture import even_mixture
from opboost_ops.datasets import load
from opboost_ops.lab import denoise
from opboost_ops.lab.accuracy import DEPTH, HELD_OUT, QUANTILE_TABLES, RATE, TREES
from opboost_ops.lab.experiment import run
from opboost_ops.lab.harm import half_width
from opboost_ops.lab.two_parties import TwoParties
from opboost_ops.mechanisms import noise
from opboost_ops.mechanisms.channel import Channel

IMPUTATIONS, DRAWS, HELD, MOST_ROWS = 5, 20, 6, 10_000
FIGURES = ("plain", "again", "means", "behind", "one", "all")
#: What each mixture is made of; own columns only where there are any.
MIXED = {"one": ("plain", "again", "own"), "all": ("plain", "means", "behind", "own")}
_LEAF = 20
_AGAIN = UUID(int=77)


def main() -> None:
    """Measure all settings that the file does not hold yet; print gains with 95 % intervals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="powerplant,pendigits,abalone,casp")
    parser.add_argument("--epsilon", default="0.32,0.64,1.28,5.12")
    parser.add_argument("--mechanism", default="global_map")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trees", type=int, default=TREES)
    parser.add_argument("--depth", type=int, default=DEPTH)
    parser.add_argument("--work", type=Path, default=Path("runs/evaluation"))
    parser.add_argument("--json", action="store_true", help="one line")
    options = parser.parse_args()
    cells = [
        {"dataset": dataset, "mechanism": mechanism, "epsilon": float(epsilon), "seed": seed}
        for mechanism in options.mechanism.split(",")
        for epsilon in options.epsilon.split(",")
        for dataset in options.dataset.split(",")
        for seed in range(options.seeds)
    ]
    trees, depth = options.trees, options.depth
    kept = options.work / f"stacking-{trees}x{depth}.parquet"
    rows = run(cells, partial(measure, trees=trees, depth=depth), kept)
    lines = []
    for names, group in rows.group_by("dataset", "mechanism", "epsilon", maintain_order=True):
        line: dict[str, Any] = dict(zip(("dataset", "mechanism", "epsilon"), names, strict=True))
        line["plain"] = round(fmean(group.get_column("plain")), 4)
        for name in FIGURES[1:]:
            gains = (group.get_column(name) - group.get_column("plain")).to_list()
            half = half_width(gains)
            line[name] = [round(fmean(gains), 4), None if half is None else round(half, 4)]
        lines.append(line)
        if not options.json:
            print(json.dumps(line))
    if options.json:
        print(json.dumps({"rows": lines}))


@lru_cache(maxsize=1)
def _table(name: str, seed: int) -> TwoParties:
    dataset = load(name)
    dataset = denoise.halved(dataset) if name in denoise.HALVED else dataset
    scale = "quantile" if name in QUANTILE_TABLES else "linear"
    return TwoParties(dataset, denoise.DOMAIN, scale, HELD_OUT, seed)


def measure(cell: Mapping[str, Any], trees: int, depth: int) -> dict[str, float]:
    """Train all estimators of one setting, and test them on randomised rows.

    Args:
        cell: Dataset, mechanism, epsilon and seed.
        trees: Of every model.
        depth: Of each of them.
    """
    table = _table(cell["dataset"], cell["seed"])
    mechanism = denoise.mechanism_of(cell["mechanism"], cell["epsilon"])
    parameters = Parameters(table.task, table.classes, trees, RATE, depth, cell["seed"])
    frame, _ = table.frames(cell["mechanism"], mechanism)
    test = table.desensitised(mechanism)
    for name in frame.ranked:
        place = frame.names.index(name)
        # Ranks, as the models know them: each value's place among those that were released.
        released = table._values[name][:, 0]
        test[:, place] = np.searchsorted(released, test[:, place], side="right")
    label = table.label[: table.train][:MOST_ROWS]
    frame = replace(frame, matrix=np.asfortranarray(frame.matrix[:MOST_ROWS]))
    channels = dict.fromkeys(frame.ranked, mechanism.channel(denoise.DOMAIN))
    draws = Draws(hashlib.sha256(f"stack {cell['seed']}".encode()).digest())
    held = draws.uniform("stack", 0, len(label)) < 1 / HELD
    some = replace(frame, matrix=np.asfortranarray(frame.matrix[~held]))
    learnt = Parts(some, label[~held], parameters, channels, draws)
    tried = learnt.predicted(np.asfortranarray(frame.matrix[held]))
    final = Parts(frame, label, parameters, channels, draws).predicted(test)
    found = {n: denoise._figure(table, final[n]) for n in FIGURES if n in final}
    for name, parts in MIXED.items():
        raw = name == "one"
        kept = ["raw_" * raw + part for part in parts if "raw_" * raw + part in final]
        weights = convex(table.task, label[held], [tried[part] for part in kept], raw)
        mixed = np.sum([w * final[part] for w, part in zip(weights, kept, strict=True)], axis=0)
        found[name] = denoise._figure(table, linked(table.task, mixed) if raw else mixed)
    return found


class Parts:
    """Models of some training rows, and what they predict for released rows."""

    def __init__(
        self,
        frame: Frame,
        label: np.ndarray,
        parameters: Parameters,
        channels: Mapping[str, Channel],
        draws: Draws,
    ) -> None:
        self._frame, self._channels, self._draws = frame, channels, draws
        self._laws = drawable(frame, channels)
        kept = [i for i, name in enumerate(frame.names) if name not in frame.ranked]
        rows, own = rows_of(frame, self._laws), bool(kept)
        group, groups = _groups(frame, label, parameters, draws) if own else (None, 1)
        levels = {
            start: _labelled(rows, label, parameters, start, group, groups)
            for start in grid(own, parameters.task == "regression")
        }
        chosen = choose(list(levels.items()), draws)
        self._classes = chosen[0].classes
        weights = np.cumsum([c.weight for c in chosen])
        picks = np.searchsorted(weights, draws.uniform("model", 0, IMPUTATIONS))
        clear, again = [], []
        for draw, pick in enumerate(np.minimum(picks, len(chosen) - 1)):
            model = chosen[pick]
            clear.append(frame.matrix.copy())
            again.append(frame.matrix.copy())
            for name, values in impute(model.classes, levels[model.start], draws, draw).items():
                place = frame.names.index(name)
                clear[-1][:, place] = values + 1.0
                again[-1][:, place] = self._randomised(name, values.astype(np.int64), draw) + 1.0
        many = np.tile(label, IMPUTATIONS)
        stacked = replace(parameters, least_leaf=_LEAF * IMPUTATIONS)
        self._plain = trainer.train(frame, label, parameters)
        joint = trainer.train(_with(frame, clear), many, stacked)
        self._joint = even_mixture(self._plain, joint) if own else joint
        self._again = trainer.train(_with(frame, again), many, stacked)
        named = (*frame.names, *(f"mean_{name}" for name in self._laws))
        further = np.asfortranarray(np.column_stack([frame.matrix, self._means(frame.matrix)]))
        widened = replace(frame, names=named, matrix=further)
        self._means_model = trainer.train(widened, label, parameters)
        self._own: tuple[str, list[int]] | None = None
        if own:
            names = tuple(frame.names[i] for i in kept)
            categorical = tuple(name for name in frame.categorical if name in names)
            alone = Frame(names, np.asfortranarray(frame.matrix[:, kept]), categorical, ())
            self._own = trainer.train(alone, label, parameters), kept

    def predicted(self, matrix: np.ndarray) -> dict[str, np.ndarray]:
        """What each part says of released rows; raw scores of those that see the row alone."""
        further = np.asfortranarray(np.column_stack([matrix, self._means(matrix)]))
        found = {
            "plain": trainer.predict(self._plain, matrix),
            "again": trainer.predict(self._again, matrix),
            "means": trainer.predict(self._means_model, further),
            "raw_plain": scores(self._plain, matrix),
            "raw_again": scores(self._again, matrix),
        }
        classes, rows = self._unlabelled(matrix)
        drawn = []
        for draw in range(DRAWS):
            clear = matrix.copy(order="F")
            for name, values in impute(classes, rows, self._draws, 1000 + draw).items():
                clear[:, self._frame.names.index(name)] = values + 1.0
            drawn.append(trainer.predict(self._joint, clear))
        found["behind"] = np.mean(drawn, axis=0)
        if self._own is not None:
            model, kept = self._own
            part = np.asfortranarray(matrix[:, kept])
            found["own"], found["raw_own"] = trainer.predict(model, part), scores(model, part)
        return found

    def _randomised(self, name: str, values: np.ndarray, draw: int) -> np.ndarray:
        places = np.arange(len(values), dtype=np.uint64)
        keys = np.column_stack([places, places]).view(np.uint8)
        purpose = f"again {draw}/{name}".encode()
        words = noise.cell_words(self._draws._seed, _AGAIN, purpose, keys, values)
        return np.asarray(self._channels[name].alias.sample(values, words))

    def _unlabelled(self, matrix: np.ndarray) -> tuple[Classes, Rows]:
        """Classes that know no label, and rows as codes of the training rows' cells."""
        both = np.asfortranarray(np.vstack([self._frame.matrix, matrix]))
        rows = rows_of(replace(self._frame, matrix=both), self._laws)
        rows = rows.at(slice(len(self._frame.matrix), None))
        classes = self._classes
        sizes = {name: len(psi) for name, psi in classes.psi.items()}
        own = {name: np.minimum(codes, sizes[name] - 1) for name, codes in rows.own.items()}
        phi = np.ones((1, len(classes.pi)))
        return replace(classes, phi=phi, fixed=False), replace(rows, own=own, sizes=sizes)

    def _means(self, matrix: np.ndarray) -> np.ndarray:
        classes, rows = self._unlabelled(matrix)
        likely = Seen(rows, classes).responsibilities(classes)
        found = []
        for name, outputs in rows.noisy.items():
            law, theta = self._laws[name], classes.theta[name]
            values = np.arange(len(law)) + 1.0
            mean = (law.T @ (values[:, None] * theta)) / np.maximum(law.T @ theta, 1e-300)
            found.append((likely * mean[outputs]).sum(axis=1))
        return np.column_stack(found)


def convex(
    task: str, label: np.ndarray, predictions: Sequence[np.ndarray], raw: bool
) -> np.ndarray:
    """Weights of least squared error or log loss, none negative, summing to 1."""

    def loss(weights: np.ndarray) -> float:
        mixed = np.sum([w * p for w, p in zip(weights, predictions, strict=True)], axis=0)
        found = linked(task, mixed) if raw else mixed
        if task == "regression":
            return float(np.mean((found - label) ** 2))
        if task == "binary":
            chance = np.where(label == 1, found, 1 - found)
        else:
            chance = found[np.arange(len(label)), label.astype(int)]
        return float(-np.mean(np.log(np.maximum(chance, 1e-12))))

    count = len(predictions)
    even, whole = np.full(count, 1 / count), {"type": "eq", "fun": lambda w: w.sum() - 1}
    done = minimize(loss, even, bounds=[(0, 1)] * count, method="SLSQP", constraints=whole)
    weights = np.clip(done.x, 0, None)
    return np.asarray(weights / weights.sum())


def linked(task: str, raw: np.ndarray) -> np.ndarray:
    """Predictions of raw scores."""
    if task == "regression":
        return raw
    if task == "binary":
        return np.asarray(1 / (1 + np.exp(-raw)))
    powers = np.exp(raw - raw.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def scores(model: str, matrix: np.ndarray) -> np.ndarray:
    """Raw scores."""
    booster = lightgbm.Booster(model_str=model)
    return np.asarray(booster.predict(matrix, raw_score=True, num_threads=1))


def _with(frame: Frame, matrices: Sequence[np.ndarray]) -> Frame:
    return replace(frame, matrix=np.asfortranarray(np.vstack(matrices)))


if __name__ == "__main__":
    main()
