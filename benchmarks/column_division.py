"""Whether dividing a total loss as `opboost plan` proposes trains better models than evenly.

A third of the training rows stands for the public sample from which the division is proposed; the
others are randomised and trained on, and tested on randomised rows (desensitised) and clear ones.
With --pilot a share of the total goes to a release of all columns of these others, and by that the
rest is divided: all three at the same total.

    python benchmarks/column_division.py --total 1.28 --json
    python benchmarks/column_division.py --total 1.28 --pilot 0.25 --pilot 0.5 --json
"""

import argparse
import json
import os
from typing import Any

import numpy as np

from opboost_ops.boosting import trainer
from opboost_ops.boosting.denoise.evidence import evidence_of
from opboost_ops.boosting.frame import Frame, Parameters
from opboost_ops.datasets import load
from opboost_ops.domain import Domain
from opboost_ops.lab.accuracy import DEPTH, HELD_OUT, QUANTILE_TABLES, RATE, TREES
from opboost_ops.lab.two_parties import TwoParties
from opboost_ops.mechanisms import Geometric, Mechanism
from opboost_ops.privacy.division import Divider, sampled
from opboost_ops.privacy.planner import Caps

DOMAIN = Domain(1, 10)


def figures(
    table: TwoParties, chosen: dict[str, Mechanism], first: int, last: int, seed: int
) -> dict[str, float]:
    """R2 or accuracy on desensitised and clear rows, of a model on some columns and rows."""
    frame, test = table.frames("divided", chosen)
    noisy = table.desensitised(chosen)
    kept = [i for i, n in enumerate(frame.names) if n in chosen or n not in frame.ranked]
    names = tuple(frame.names[i] for i in kept)
    few = Frame(
        names,
        np.asfortranarray(frame.matrix[first:last][:, kept]),
        frame.categorical,
        tuple(n for n in frame.ranked if n in chosen),
    )
    parameters = Parameters(table.task, table.classes, TREES, RATE, DEPTH, seed)
    text = trainer.train(few, table.label[first:last], parameters)
    model = table.materialised(text, few)
    figure = "metric" if table.task == "multiclass" else "second"
    return {
        mode: table.evaluated(trainer.predict(model, np.asfortranarray(rows[:, kept])))[figure]
        for mode, rows in (("desensitised", noisy), ("clear", test))
    }


def piloted(table: TwoParties, share: float, total: float, rows: slice) -> dict[str, Mechanism]:
    """What a pilot at a share of the total, evenly over all columns, proposes for the rest."""
    columns = tuple(table.protected)
    pilot = Geometric(epsilon=share * total / len(columns))
    frame, _ = table.frames("divided", pilot)
    few = Frame(frame.names, frame.matrix[rows], frame.categorical, frame.ranked)
    parameters = Parameters(table.task, table.classes, TREES, RATE, DEPTH, 0)
    channels = dict.fromkeys(columns, pilot.channel(DOMAIN))
    label = table.label[: table.train][rows]
    evidence = evidence_of(few, label, parameters, channels, columns)
    return proposal(Divider(evidence, DOMAIN, Caps(step=(1 - share) * total)))


def proposal(divider: Divider) -> dict[str, Mechanism]:
    """The best division's mechanisms."""
    found = divider.best(divider.units).shares
    made = {name: divider.mechanism(share) for name, share in found.items()}
    return {name: mechanism for name, mechanism in made.items() if mechanism is not None}


def main() -> None:
    """Print one line a table and total."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--total", action="append", type=float, default=None, help="of loss(1)")
    parser.add_argument("--table", action="append", default=None)
    parser.add_argument(
        "--pilot", action="append", type=float, default=None, help="share of the total"
    )
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in given.table or ["powerplant", "pendigits", "casp"]:
        scale = "quantile" if name in QUANTILE_TABLES else "linear"
        for total in given.total or (1.28, 2.56, 5.12):
            each = []
            for seed in range(given.seeds):
                table = TwoParties(load(name), DOMAIN, scale, HELD_OUT, seed)
                last = min(table.train, given.rows)
                first = last // 3
                columns = tuple(table.protected)
                codes = np.column_stack([table.protected[c][:first] - 1 for c in columns])
                evidence = sampled(columns, codes, table.label[:first], table.classes, DOMAIN.size)
                proposed = proposal(Divider(evidence, DOMAIN, Caps(step=total)))
                even = dict.fromkeys(columns, Geometric(epsilon=total / len(columns)))
                tried: dict[str, dict[str, Mechanism]] = {"proposed": proposed, "even": even}
                for share in given.pilot or ():
                    tried[f"pilot_{share:g}"] = piloted(table, share, total, slice(first, last))
                found: dict[str, Any] = {}
                for what, chosen in tried.items():
                    found[f"{what}_columns"] = len(chosen)
                    for mode, figure in figures(table, chosen, first, last, seed).items():
                        found[f"{what}_{mode}"] = figure
                each.append(found)
            mean = {key: round(float(np.mean([e[key] for e in each])), 4) for key in each[0]}
            rows.append({"table": name, "total": total, "all": len(columns), **mean})
            if not given.json:
                print(rows[-1], flush=True)
    if given.json:
        print(json.dumps({"rows": rows, "load": os.getloadavg()[0]}))


if __name__ == "__main__":
    main()
