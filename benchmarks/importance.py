"""What a card's importance takes, beside training: seconds of processor by trees and depth."""

import argparse
import json
import os
import time

os.environ["OMP_WAIT_POLICY"] = "PASSIVE"

import numpy as np

from opboost_ops.boosting.trainer import Frame, Parameters, contributions, model_of, train
from opboost_ops.config.federation import Training
from opboost_ops.models.importance import row_cap


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--trees", type=int, default=2_000)
    parser.add_argument("--depths", type=int, nargs="+", default=[3, 8])
    parser.add_argument("--json", action="store_true", help="one line")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    matrix = rng.integers(1, 11, (options.rows, options.columns)).astype(np.float64)
    label = (matrix[:, 0] * matrix[:, 1] + rng.normal(0, 20, options.rows) > 30).astype(np.float64)
    names = tuple(f"x{i}" for i in range(options.columns))
    found = []
    for depth in options.depths:
        parameters = Parameters("binary", 2, options.trees, 0.1, depth, seed=0)
        begin = time.process_time()
        text = train(Frame(names, matrix, (), names), label, parameters)
        trained = time.process_time()
        splits = sum(model_of(text).split_counts().values())
        rows = min(row_cap(Training(trees=options.trees, depth=depth), splits), len(matrix))
        read = time.process_time()
        contributions(text, matrix[:rows])
        explained = time.process_time()
        found.append(
            {
                "trees": options.trees,
                "depth": depth,
                "splits": splits,
                "rows": rows,
                "train_seconds": round(trained - begin, 2),
                "read_seconds": round(read - trained, 2),
                "shap_seconds": round(explained - read, 2),
            }
        )
    print(json.dumps(found, indent=None if options.json else 1))


if __name__ == "__main__":
    main()
