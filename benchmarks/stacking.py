"""What a stack gains where production scores randomised rows: the study behind ADR 20.

`denoise: stack` against plain training, both as a run trains them, on randomised test rows: at most
10,000 training rows, [1, 10]. The clamped geometric mechanism stands at Global-map's loss(1).
Beside the gain stands the mean weight of each part.

    python benchmarks/stacking.py --dataset powerplant,pendigits --epsilon 0.64,1.28 --json
"""

import argparse
import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from statistics import fmean
from typing import Any

from opboost_ops.boosting import trainer
from opboost_ops.boosting.denoise import stack
from opboost_ops.boosting.frame import Parameters
from opboost_ops.boosting.stack_text import PARTS, read
from opboost_ops.datasets import load
from opboost_ops.lab import denoise
from opboost_ops.lab.accuracy import DEPTH, HELD_OUT, QUANTILE_TABLES, RATE, TREES
from opboost_ops.lab.experiment import run
from opboost_ops.lab.harm import half_width
from opboost_ops.lab.two_parties import TwoParties

MOST_ROWS = 10_000


def main() -> None:
    """Measure all settings that the file does not hold yet; print gains with 95 % intervals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="powerplant,pendigits,abalone,casp")
    parser.add_argument("--epsilon", default="0.08,0.32,0.64,1.28,5.12")
    parser.add_argument("--mechanism", default="global_map")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--trees", type=int, default=TREES)
    parser.add_argument("--depth", type=int, default=DEPTH)
    parser.add_argument("--work", type=Path, default=Path("runs/evaluation"))
    parser.add_argument("--json", action="store_true", help="one line")
    options = parser.parse_args()
    cells = [
        {"dataset": dataset, "mechanism": mechanism, "epsilon": float(epsilon), "seed": seed}
        for seed in range(options.seeds)
        for mechanism in options.mechanism.split(",")
        for epsilon in options.epsilon.split(",")
        for dataset in options.dataset.split(",")
    ]
    trees, depth = options.trees, options.depth
    kept = options.work / f"stack-{trees}x{depth}.parquet"
    rows = run(cells, partial(measure, trees=trees, depth=depth), kept)
    lines = []
    for names, group in rows.group_by("dataset", "mechanism", "epsilon", maintain_order=True):
        line: dict[str, Any] = dict(zip(("dataset", "mechanism", "epsilon"), names, strict=True))
        gains = (group.get_column("stack") - group.get_column("plain")).to_list()
        half = half_width(gains)
        line |= {"seeds": group.height, "plain": round(fmean(group.get_column("plain")), 4)}
        line["gain"] = [round(fmean(gains), 4), None if half is None else round(half, 4)]
        line |= {f"weight_{p}": round(fmean(group.get_column(f"weight_{p}")), 2) for p in PARTS}
        line |= {n: round(fmean(group.get_column(n)), 1) for n in ("processor", "processor_stack")}
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
    """Train plainly and a stack in one setting, and test both on randomised rows.

    Args:
        cell: Dataset, mechanism, epsilon and seed.
        trees: Of every model.
        depth: Of each of them.

    Returns:
        ``plain`` and ``stack``: AUC, accuracy or R2; ``weight_<part>``; seconds of processor of
        both trainings.
    """
    table = _table(cell["dataset"], cell["seed"])
    mechanism = denoise.mechanism_of(cell["mechanism"], cell["epsilon"])
    parameters = Parameters(table.task, table.classes, trees, RATE, depth, cell["seed"])
    frame, _ = table.frames(cell["mechanism"], mechanism)
    test = table.desensitised(mechanism)
    label = table.label[: table.train][:MOST_ROWS]
    some = replace(frame, matrix=frame.matrix[:MOST_ROWS])
    channels = dict.fromkeys(frame.ranked, mechanism.channel(denoise.DOMAIN))
    seed = hashlib.sha256(f"stack {cell['seed']}".encode()).digest()
    begun = time.process_time()
    plain = trainer.train(some, label, parameters)
    between = time.process_time()
    text = stack.train(some, label, parameters, channels, seed)
    found = {"processor": between - begun, "processor_stack": time.process_time() - between}
    for name, model in (("plain", plain), ("stack", text)):
        predicted = trainer.predict(table.materialised(model, frame), test)
        found[name] = denoise._figure(table, predicted)
    weights = read(text)["weights"]
    return found | {f"weight_{part}": float(weights.get(part, 0.0)) for part in PARTS}


if __name__ == "__main__":
    main()
