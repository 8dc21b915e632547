"""k columns of each person, chosen by a hash, beside all columns and beside `plan`'s for everybody.

All have the same sum of loss(1) over a person's columns: all of party B's columns evenly; k of them
at random for each person, each at 1/k of the sum; and the division that `opboost plan` makes by a
public sample of 1,000 rows. Clamped geometric mechanism on [1, 10], on the cells that `plan`
chooses by the same sample. R2, AUC or accuracy, a line for each table, seed and choice.

Randomised rows are scored by plain LightGBM, with k columns of each person, too. With `--clear`,
clear rows are scored by a model of joint imputations: a column that is not released of a person is
one more output of the channel, equally likely behind every value.
"""

import argparse
import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from benchmarks.papers.accuracy import DEPTH, HELD_OUT, RATE, TREES
from benchmarks.papers.denoise import HALVED, halved
from benchmarks.papers.two_parties import TwoParties
from benchmarks.plan_choice import only, proposed, some_rows
from benchmarks.private_edges import DATASETS, planned
from opboost_ops.boosting import trainer
from opboost_ops.boosting.denoise.joint import imputed, learnt
from opboost_ops.boosting.frame import Frame, Parameters
from opboost_ops.datasets import load
from opboost_ops.domain import Domain
from opboost_ops.mechanisms import Geometric, Mechanism

DOMAIN = Domain(1, 10)


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default=",".join(DATASETS))
    parser.add_argument("--total", type=float, default=1.28, help="sum of loss(1)")
    parser.add_argument("--columns", default="1,2", help="how many are released of a person")
    parser.add_argument("--rows", type=int, default=12_500, help="most rows of a table")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--clear", action="store_true", help="joint imputations, too: slow")
    options = parser.parse_args()
    several = [int(k) for k in options.columns.split(",")]
    for seed in range(options.seeds):
        for name in options.dataset.split(","):
            for line in measured(name, options, several, seed):
                print(json.dumps({"dataset": name, "seed": seed, **line}), flush=True)


def measured(
    name: str, options: argparse.Namespace, several: list[int], seed: int
) -> Iterator[dict[str, object]]:
    """Both metrics by what is released of a person."""
    dataset = some_rows(load(name), options.rows, seed)
    if name in HALVED:
        dataset = halved(dataset)
    (holder,) = (party for party in dataset.tables if party != dataset.label_holder)
    scale = partial(planned, seed=seed)
    table = TwoParties(dataset, DOMAIN, scale, HELD_OUT, seed)
    names = list(table.maps)
    for k in (len(names), *several):
        chosen = dict.fromkeys(names, Geometric(epsilon=float(f"{options.total / k:.6g}")))
        arm = "all" if k == len(names) else f"{k} a person"
        yield {"arm": arm, **_figures(table, chosen, k, seed, options.clear)}
    best, _ = proposed(dataset, holder, options.total, seed)
    fewer = TwoParties(only(dataset, holder, best), DOMAIN, scale, HELD_OUT, seed)
    figures = _figures(fewer, best, len(best), seed, options.clear)
    yield {"arm": "plan", "columns": len(best), **figures}
    if table.own:
        frame, test = table.frames("alone")
        label, parameters = table.label[: table.train], _parameters(table, seed)
        alone = _figure(table, trainer.predict(trainer.train(frame, label, parameters), test))
        yield {"arm": "alone", "desensitised": alone}


def _figures(
    table: TwoParties, chosen: Mapping[str, Mechanism], k: int, seed: int, joint: bool
) -> dict[str, float]:
    """The metric on clear and on randomised test rows."""
    frame, clear = table.frames("released", chosen)
    own, count = len(table.own), len(chosen)
    random = np.random.default_rng(seed)
    released = np.column_stack([table.released(chosen)[n] for n in frame.ranked]).astype(float)
    noisy = table.desensitised(chosen)
    for values in (released, noisy[:, own:]):
        values[random.random(values.shape).argsort(axis=1) >= k] = np.nan
    label, parameters = table.label[: table.train], _parameters(table, seed)
    matrix = np.asfortranarray(np.column_stack([frame.matrix[:, :own], released]))
    plain = trainer.train(
        Frame(frame.names, matrix, frame.categorical, frame.ranked), label, parameters
    )
    found = {"desensitised": _figure(table, trainer.predict(plain, noisy))}
    if not joint:
        return found
    laws = {n: chosen[n].channel(DOMAIN).probabilities() for n in frame.ranked}
    coded = matrix
    if k < count:
        # The rows of a law are as many as its columns: the last value stands there twice.
        for name, law in laws.items():
            wider = np.column_stack([law * (k / count), np.full(DOMAIN.size, 1 - k / count)])
            laws[name] = np.vstack([wider, wider[-1:]])
        coded = matrix.copy(order="F")
        theirs = coded[:, own:]
        theirs[np.isnan(theirs)] = DOMAIN.upper + 1
    seen = Frame(frame.names, coded, frame.categorical, frame.ranked)
    key = hashlib.sha256(f"columns {seed}".encode()).digest()
    drawn = imputed(seen, label, parameters, laws, key)
    theirs = drawn.frame.matrix[:, own:]
    np.minimum(theirs, DOMAIN.upper, out=theirs)
    model = learnt(drawn, parameters, lambda: plain)
    return {"clear": _figure(table, trainer.predict(model, clear)), **found}


def _parameters(table: TwoParties, seed: int) -> Parameters:
    return Parameters(table.task, table.classes, TREES, RATE, DEPTH, seed)


def _figure(table: TwoParties, prediction: np.ndarray) -> float:
    figures = table.evaluated(prediction)
    return round(figures["metric" if table.task == "multiclass" else "second"], 4)


if __name__ == "__main__":
    main()
