"""How the cost of a run grows: processor seconds of all parties as one thing grows.

Rows, columns, parties, trees and values of the domain are run as `pipeline.py` runs them, on a
generated table, checks of data quality included; federations are parsed as
Airflow parses the folder. `order` is log(seconds) over log(size) from one size to the next: 1 is
linear, less has a part that does not grow. Stages of order above 1.1 that take a tenth of a second
or more are named. A ledger's lines have a benchmark of their own, `ledger.py`.
"""

import argparse
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from pipeline import generate, one_run

#: What is run where nothing else is said.
BASE = {"rows": 20_000, "features": 10, "trees": 20, "depth": 3, "parties": 2, "values": 10}
#: What grows, through which sizes, and what else differs from `BASE` there.
AXES: dict[str, tuple[tuple[int, ...], dict[str, int]]] = {
    "rows": ((1_000_000, 4_000_000, 16_000_000), {"features": 3}),
    "features": ((10, 100, 1_000), {}),
    "parties": ((2, 8, 64), {"rows": 2_000, "features": 64}),
    "trees": ((20, 200, 2_000), {"depth": 8, "rows": 8_192, "features": 11}),
    "values": ((16, 128, 1_024), {}),
    "federations": ((2, 20, 200), {}),
}
PARSE = """
import json, resource, runpy, sys
from airflow.sdk import DAG
import opboost_ops.orchestration.federations
begin = resource.getrusage(resource.RUSAGE_SELF)
found = runpy.run_path(sys.argv[2])
end = resource.getrusage(resource.RUSAGE_SELF)
dags = sum(isinstance(each, DAG) for each in found.values())
spent = end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime
print(json.dumps({"dags": dags, "parse": spent}))
"""


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--axis", choices=AXES, nargs="+", default=list(AXES))
    parser.add_argument("--smallest", type=int, default=3, help="so many sizes of each axis")
    parser.add_argument("--json", action="store_true", help="one line instead of a table")
    options = parser.parse_args()
    found = []
    for axis in options.axis:
        sizes, other = AXES[axis]
        for size in sizes[: options.smallest]:
            found.append(measured(axis, size, {**BASE, **other}))
            print(f"{axis} {size}: {found[-1]['processor']} s", file=sys.stderr)
    ordered(found)
    print(json.dumps(found) if options.json else table(found))


def measured(axis: str, size: int, base: dict[str, int]) -> dict[str, Any]:
    """Processor seconds at one size, by stage."""
    if axis == "federations":
        stages = parsed(size)
    else:
        options = argparse.Namespace(**{**base, axis: size}, epsilon=1.28)
        run = one_run(options, *generate(options.rows, options.features))
        stages = dict(run["processor_of_all_parties"])
        stages |= {f"checks of {name}": s for name, s in run["checks_processor"].items()}
    load = round(os.getloadavg()[0], 1)
    whole = round(sum(stages.values()), 3)
    return {"axis": axis, "size": size, "processor": whole, "load": load, "stages": stages}


def parsed(federations: int) -> dict[str, float]:
    """What Airflow's parse of a folder of so many federations costs, imports apart.

    Args:
        federations: How many.
    """
    from opboost_ops.datasets import load
    from opboost_ops.datasets.workspace import write_workspace

    with tempfile.TemporaryDirectory() as folder:
        file = write_workspace(load("credit", rows=200), Path(folder) / "one")
        text = file.read_text()
        declared = Path(folder) / "declared"
        declared.mkdir()
        for i in range(federations):
            renamed = text.replace("name: credit_scoring", f"name: credit_scoring_{i}", 1)
            assert renamed != text
            (declared / f"federation_{i}.yaml").write_text(renamed)
        dag_file = Path(__file__).parents[1] / "dags" / "federations.py"
        named = {"OPBOOST_FEDERATIONS": str(declared), "AIRFLOW_HOME": str(Path(folder) / "home")}
        done = subprocess.run(
            [sys.executable, "-c", PARSE, "dag-processor", str(dag_file)],
            env={**os.environ, **named},
            check=True,
            capture_output=True,
            text=True,
        )
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["dags"] >= federations
    return {"parse": told["parse"]}


def ordered(found: list[dict[str, Any]]) -> None:
    """Note beside each size the order of growth since the one before."""
    for before, after in itertools.pairwise(found):
        if before["axis"] == after["axis"]:
            step = math.log(after["size"] / before["size"])
            after["order"] = round(math.log(after["processor"] / before["processor"]) / step, 2)
            after["fast"] = {
                name: round(math.log(seconds / before["stages"][name]) / step, 2)
                for name, seconds in after["stages"].items()
                if seconds >= 0.1
                and before["stages"].get(name)
                and math.log(seconds / before["stages"][name]) / step > 1.1
            }


def table(found: list[dict[str, Any]]) -> str:
    """The figures as Markdown."""
    lines = ["| what grows | size | processor s | order | of order above 1.1 |", "| --- " * 5 + "|"]
    for each in found:
        fast = ", ".join(f"`{name}` {order}" for name, order in each.get("fast", {}).items())
        cells = [each["axis"], f"{each['size']:,}", f"{each['processor']:.2f}"]
        lines.append("| " + " | ".join([*cells, str(each.get("order", "")), fast]) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
