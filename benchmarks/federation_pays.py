"""Does federation pay? Mean metrics over seeds, beside training on everything and alone."""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from opboost_ops.datasets import load
from opboost_ops.datasets.workspace import write_workspace
from opboost_ops.evaluation import harness
from opboost_ops.local_run import run_federation, site_files

CASES = (("adult", 0.08), ("adult", 5.12), ("powerplant", 1.28))


def main() -> None:
    """Run the cases of the README and print their means, a JSON line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="seeds 0, 1, ...")
    options = parser.parse_args()
    for dataset, epsilon in CASES:
        runs = [one_run(dataset, epsilon, seed) for seed in range(options.seeds)]
        means = {
            mode: {
                name: round(sum(run[mode][name] for run in runs) / len(runs), 4)
                for name in runs[0][mode]
            }
            for mode in runs[0]
        }
        case = {"dataset": dataset, "epsilon": epsilon, "domain": [1, 10], "seeds": options.seeds}
        print(json.dumps({**case, "means": means}), flush=True)


def one_run(dataset: str, epsilon: float, seed: int) -> Any:
    """Metrics of one federation run."""
    with tempfile.TemporaryDirectory() as folder:
        path = write_workspace(
            load(dataset), Path(folder) / "w", epsilon=epsilon, lower=1, upper=10, seed=seed
        )
        done = run_federation(path, {})
        sites = site_files(path, done.federation)
        return harness.metrics(sites, done.federation.name, done.federation.label_holder, done.run)


if __name__ == "__main__":
    main()
