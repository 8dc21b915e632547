"""What it costs a training that its waiting threads spin, on a machine that has other work.

The same model is trained by LightGBM in processes of their own, as OpenMP is by itself and with
`OMP_WAIT_POLICY=PASSIVE`, one after the other, beside processes that never rest.
"""

import argparse
import json
import os
import subprocess
import sys

TRAIN = """
import hashlib, json, os, sys, time
import lightgbm, numpy as np
rows, columns, trees = map(int, sys.argv[1:])
rng = np.random.default_rng(0)
x = rng.integers(1, 11, (rows, columns)).astype(np.float32)
y = (x[:, 0] + rng.normal(0, 3, rows) > 5).astype(int)
data = lightgbm.Dataset(x, y, free_raw_data=False).construct()
wall, processor = time.perf_counter(), time.process_time()
model = lightgbm.train({"objective": "binary", "num_leaves": 8, "verbose": -1}, data, trees)
wall, processor = time.perf_counter() - wall, time.process_time() - processor
digest = hashlib.sha256(model.model_to_string().encode()).hexdigest()
print(json.dumps({"wall": wall, "processor": processor, "model": digest}))
"""


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--trees", type=int, default=20)
    parser.add_argument("--busy", type=int, default=2, help="processes that never rest beside it")
    parser.add_argument("--json", action="store_true", help="one line")
    options = parser.parse_args()
    spinning = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(options.busy)
    ]
    try:
        found = {policy: trained(policy, options) for policy in ("", "PASSIVE", "", "PASSIVE")}
    finally:
        for process in spinning:
            process.kill()
    own, passive = found[""], found["PASSIVE"]
    result = {
        "busy": options.busy,
        "as_it_is": own,
        "passive": passive,
        "ratio_processor": round(own["processor"] / passive["processor"], 2),
        "ratio_wall": round(own["wall"] / passive["wall"], 2),
        "same_model": own["model"] == passive["model"],
    }
    print(json.dumps(result) if options.json else json.dumps(result, indent=1))


def trained(policy: str, options: argparse.Namespace) -> dict[str, float | str]:
    """Train once in a process of its own."""
    environment = {k: v for k, v in os.environ.items() if k != "OMP_WAIT_POLICY"}
    if policy:
        environment["OMP_WAIT_POLICY"] = policy
    sizes = (str(n) for n in (options.rows, options.columns, options.trees))
    done = subprocess.run(
        [sys.executable, "-c", TRAIN, *sizes],
        env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    found: dict[str, float | str] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    main()
