"""k columns a person, chosen by a keyed hash, beside all columns at a smaller epsilon each.

Both have the same sum of loss(1) over a person's columns. A column that is not released is one more
output of the channel, equally likely behind every value, so that `denoise: joint` takes it for what
it is: missing by a public rule. Party B has all columns, clamped geometric mechanism on [1, 10],
trained on joint imputations, tested on clear rows: R2 or accuracy.
"""

import argparse
import hashlib
import json
from collections.abc import Iterator

import numpy as np

from benchmarks.papers.accuracy import DEPTH, HELD_OUT, QUANTILE_TABLES, RATE, TREES
from benchmarks.papers.two_parties import TwoParties
from opboost_ops.boosting import trainer
from opboost_ops.boosting.denoise.joint import imputed, learnt
from opboost_ops.boosting.frame import Frame, Parameters
from opboost_ops.datasets import load
from opboost_ops.domain import Domain
from opboost_ops.mechanisms import Geometric

DOMAIN = Domain(1, 10)


def main() -> None:
    """Run the benchmark and print its figures, a line for each table, seed and k."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="pendigits,casp,powerplant")
    parser.add_argument("--total", type=float, default=1.28, help="sum of loss(1)")
    parser.add_argument("--columns", default="1,2", help="how many are released of a person")
    parser.add_argument("--rows", type=int, default=10_000, help="most training rows")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    several = [int(k) for k in options.columns.split(",")]
    for seed in range(options.seeds):
        for name in options.dataset.split(","):
            for k, figure in measured(name, options.total, several, options.rows, seed):
                line = {"dataset": name, "seed": seed, "columns": k, "metric": round(figure, 4)}
                print(json.dumps(line), flush=True)


def measured(
    name: str, total: float, several: list[int], rows: int, seed: int
) -> Iterator[tuple[int, float]]:
    """The metric on clear rows by how many columns a person releases; all of them first."""
    scale = "quantile" if name in QUANTILE_TABLES else "linear"
    table = TwoParties(load(name), DOMAIN, scale, HELD_OUT, seed)
    frame, test = table.frames("geometric")
    some = slice(min(rows, table.train))
    label = table.label[some]
    count = len(frame.names)
    random = np.random.default_rng(seed)
    order = random.random((len(label), count)).argsort(axis=1)
    parameters = Parameters(table.task, table.classes, TREES, RATE, DEPTH, seed)
    for k in (count, *several):
        mechanism = Geometric(epsilon=float(f"{total / k:.6g}"))
        law = mechanism.channel(DOMAIN).probabilities()
        released = table.released(mechanism)
        matrix = np.column_stack([released[n][some] for n in frame.names]).astype(float)
        laws = dict.fromkeys(frame.names, law)
        if k < count:
            matrix[order >= k] = DOMAIN.upper + 1
            # The rows of a law are as many as its columns: the last value stands there twice.
            wider = np.column_stack([law * (k / count), np.full(DOMAIN.size, 1 - k / count)])
            laws = dict.fromkeys(frame.names, np.vstack([wider, wider[-1:]]))
        seen = Frame(frame.names, np.asfortranarray(matrix), (), frame.names)
        key = hashlib.sha256(f"columns {seed}".encode()).digest()
        drawn = imputed(seen, label, parameters, laws, key)
        np.minimum(drawn.frame.matrix, DOMAIN.upper, out=drawn.frame.matrix)
        model = learnt(drawn, parameters, str)
        figures = table.evaluated(trainer.predict(model, test))
        yield k, figures["metric" if table.task == "multiclass" else "second"]


if __name__ == "__main__":
    main()
