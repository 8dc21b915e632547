"""From how many rows on private horizontal learning pays: AUC beside a party's own rows alone.

python benchmarks/horizontal_rows.py --dataset give_me_some_credit --parties 3 --epsilon 4
"""

import argparse
import json

import numpy as np

from opboost_ops.lab.horizontal import DATASETS
from opboost_ops.lab.horizontal_private import measure


def main() -> None:
    """Print a line of JSON for each number of rows of a party."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--dataset", choices=DATASETS, default=DATASETS[0])
    asked.add_argument("--parties", type=int, default=3)
    asked.add_argument("--epsilon", type=float, default=4.0)
    asked.add_argument("--rows", type=int, nargs="+", default=[500, 1000, 2000, 4000, 8000, 16000])
    asked.add_argument("--seeds", type=int, default=5)
    given = asked.parse_args()
    for each in given.rows:
        cell = {"dataset": given.dataset, "parties": given.parties, "rows": each * given.parties}
        found = {
            method: [
                measure({**cell, "method": method, "epsilon": given.epsilon, "seed": seed})["auc"]
                for seed in range(given.seeds)
            ]
            for method in ("exact", "alone", "noisy")
        }
        gains = np.subtract(found["noisy"], found["alone"])
        line = {
            "rows of a party": each,
            **{n: round(float(np.mean(f)), 2) for n, f in found.items()},
        }
        line["gain"], line["gain sd"] = round(float(gains.mean()), 2), round(float(gains.std()), 2)
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
