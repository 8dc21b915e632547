"""What a designed channel keeps under one loss curve, beside all other mechanisms under the same.

The curve is min(c t, E). Any mechanism keeps it if its loss(1) is at most c and its loss(R - L) at
most E: steps multiply, and losses grow with the distance. Of each mechanism the parameters that
err least stand here. First exactly, by the channel: expected error of the posterior mean under a
uniform prior, and expected weighted Kendall. Then in models: R2 or accuracy on randomised rows
(desensitised) and on clear ones, both after plain training, and on clear ones after what
`denoise: joint` draws back.

    python benchmarks/designed_channels.py --curve 0.64,4 --curve 1.28,4 --json
"""

import argparse
import hashlib
import json
import os
import time
from dataclasses import replace
from typing import Any

import numpy as np

from opboost_ops.boosting import trainer
from opboost_ops.boosting.denoise import joint
from opboost_ops.boosting.frame import Parameters
from opboost_ops.datasets import load
from opboost_ops.domain import Domain
from opboost_ops.lab.accuracy import DEPTH, HELD_OUT, QUANTILE_TABLES, RATE, TREES
from opboost_ops.lab.two_parties import TwoParties
from opboost_ops.mechanisms import Mechanism
from opboost_ops.privacy.design import Cost, design
from opboost_ops.privacy.loss import end_losses
from opboost_ops.privacy.order import expected_weighted_kendall
from opboost_ops.privacy.planner import Caps, candidates


def rivals(domain: Domain, step: float, whole: float) -> dict[str, Mechanism]:
    """The best of each mechanism under a curve, and two designed channels."""
    best: dict[str, tuple[float, Mechanism]] = {}
    for candidate in candidates(domain, Caps(step, whole)):
        mechanism = candidate.mechanism
        found = (posterior_error(mechanism, domain), mechanism)
        if mechanism.name != "designed":
            best[mechanism.name] = min(best.get(mechanism.name, found), found, key=lambda f: f[0])
    named = {name: mechanism for name, (_, mechanism) in best.items()}
    costs: tuple[Cost, ...] = ("absolute", "squared")
    for cost in costs:
        made = design(domain, step, whole, cost)
        if made is not None:
            named[f"designed, {cost}"] = made.mechanism
    return named


def posterior_error(mechanism: Mechanism, domain: Domain) -> float:
    """Expected distance of the posterior mean, where all values are equally likely."""
    table = mechanism.channel(domain).probabilities() / domain.size
    values = domain.values().astype(float)[:, None]
    mean = (values * table).sum(axis=0) / table.sum(axis=0)
    return float((table * np.abs(values - mean)).sum())


def cut(table: TwoParties, rows: int) -> TwoParties:
    """What remains of the training rows; all held-out ones stay."""
    keep = min(rows, table.train)
    order = np.r_[0:keep, table.train : len(table.label)]
    table.label, table._keys, table.train = table.label[order], table._keys[order], keep
    table.own = {name: values[order] for name, values in table.own.items()}
    table._raw = {name: values[order] for name, values in table._raw.items()}
    table._clear = {name: values[order] for name, values in table._clear.items()}
    return table


def figures(
    table: TwoParties, name: str, mechanism: Mechanism, domain: Domain, seed: int, drawn: bool
) -> dict[str, float]:
    """Accuracy of one mechanism on one table, split and draw."""
    parameters = Parameters(table.task, table.classes, TREES, RATE, DEPTH, seed)
    label = table.label[: table.train]
    frame, test = table.frames(name, mechanism)
    figure = "metric" if table.task == "multiclass" else "second"
    plain = table.materialised(trainer.train(frame, label, parameters), frame)
    noisy = table.desensitised(mechanism)
    found = {
        "desensitised": table.evaluated(trainer.predict(plain, noisy))[figure],
        "clear": table.evaluated(trainer.predict(plain, test))[figure],
    }
    if drawn:
        word = hashlib.sha256(f"joint {seed}".encode()).digest()
        channels = dict.fromkeys(frame.ranked, mechanism.channel(domain))
        model = joint.train(frame, label, replace(parameters), channels, word)
        prediction = trainer.predict(table.materialised(model, frame), test)
        found["joint"] = table.evaluated(prediction)[figure]
    return found


def main() -> None:
    """Print one line a curve and mechanism, and one a table besides."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--curve", action="append", default=None, help="c,E")
    parser.add_argument("--table", action="append", default=None)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--values", type=int, default=10, help="|D|")
    parser.add_argument("--joint", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    domain = Domain(1, given.values)
    rows: list[dict[str, Any]] = []
    begun = time.process_time()
    curves = [c.split(",") for c in given.curve or ("0.32,2", "0.64,4", "1.28,4", "1.28,8")]
    tables = given.table if given.table is not None else ["powerplant", "pendigits", "casp"]
    prepared = {
        (name, seed): cut(
            TwoParties(
                load(name), domain, "quantile" if name in QUANTILE_TABLES else "linear",
                HELD_OUT, seed,
            ),
            given.rows,
        )
        for name in tables if name
        for seed in range(given.seeds)
    }  # fmt: skip
    for step, whole in curves:
        for name, mechanism in rivals(domain, float(step), float(whole)).items():
            channel = mechanism.channel(domain)
            row: dict[str, Any] = {
                "step": float(step), "whole": float(whole), "mechanism": name,
                "parameters": mechanism.label(), "outputs": len(channel.outputs),
                "losses": [round(loss, 4) for loss in end_losses(channel)],
                "error": round(posterior_error(mechanism, domain), 4),
                "kendall": round(
                    expected_weighted_kendall(np.ones(domain.size), channel), 4
                ),
            }  # fmt: skip
            for table in dict.fromkeys(table for table, _ in prepared):
                each = [
                    figures(prepared[table, seed], name, mechanism, domain, seed, given.joint)
                    for seed in range(given.seeds)
                ]
                row[table] = {
                    key: round(float(np.mean([found[key] for found in each])), 4) for key in each[0]
                }
            rows.append(row)
            if not given.json:
                print(row, flush=True)
    if given.json:
        seconds = round(time.process_time() - begun, 1)
        print(json.dumps({"rows": rows, "seconds": seconds, "load": os.getloadavg()[0]}))


if __name__ == "__main__":
    main()
