"""How often split-conformal intervals hold, in each mode of scoring.

A federation of a public data set is trained once and evaluated in all modes. Then its held-out rows
are split in two, again and again: one half gives the width, the other one is asked how often a
number lies in its interval.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from opboost_ops.boosting.decisions import half_width
from opboost_ops.config.loading import load_federation, load_site
from opboost_ops.datasets import load
from opboost_ops.datasets.workspace import write_workspace
from opboost_ops.run.local import run_federation
from opboost_ops.stages.assemble import LABEL
from opboost_ops.stages.stage import Home


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="powerplant", help="one of a number")
    parser.add_argument("--epsilon", type=float, default=1.28)
    parser.add_argument("--level", type=float, default=0.9)
    parser.add_argument("--splits", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps({**vars(options), **measured(options, Path(folder) / "federation")}))


def measured(options: Any, folder: Path) -> dict[str, Any]:
    """Mean, least and greatest coverage by mode, with the mean half width."""
    modes = {"mode": "desensitised", "evaluate": ["routed", "local"]}
    training = {"trees": 80, "depth": 3, "learning_rate": 0.1, "holdout": 0.2}
    dataset = load(options.dataset, seed=0)
    write_workspace(
        dataset, folder, epsilon=options.epsilon, seed=0, training=training, scoring=modes
    )
    federation = load_federation(folder / "federation.yaml")
    owner, identity = federation.label_holder, federation.id.column
    # Mode local: the label holder's own table has everybody's raw columns.
    path = folder / owner / "tables" / "train.parquet"
    table = pl.read_parquet(path)
    for party in federation.feature_holders:
        other = pl.read_parquet(folder / party / "tables" / "train.parquet")
        names = {c: f"{party}.{c}" for c in other.columns if c != identity}
        table = table.join(other.rename(names), on=identity, how="left")
    table.write_parquet(path)
    finished = run_federation(folder / "federation.yaml", {})
    site = load_site(folder / owner / "site.yaml")
    home = Home(site.home / federation.name / finished.run)
    truth = home.table("holdout_frame").column(LABEL).to_numpy()
    predictions = home.table("predictions")
    found: dict[str, Any] = {"held_out": len(truth)}
    for mode in predictions.column_names:
        prediction = predictions.column(mode).to_numpy()
        found[mode] = coverage(truth, prediction, options.level, options.splits)
    return found


def coverage(
    truth: np.ndarray, prediction: np.ndarray, level: float, splits: int
) -> dict[str, float]:
    """Of one mode, over splits of the held-out rows into halves."""
    shares, widths = [], []
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(len(truth))
        fit, ask = np.array_split(order, 2)
        half = half_width(level, truth[fit], prediction[fit])
        assert half is not None
        widths.append(half)
        shares.append(np.mean(np.abs(truth[ask] - prediction[ask]) <= half))
    numbers = {"mean": np.mean(shares), "least": min(shares), "most": max(shares)}
    return {k: round(float(v), 4) for k, v in {**numbers, "half_width": np.mean(widths)}.items()}


if __name__ == "__main__":
    main()
