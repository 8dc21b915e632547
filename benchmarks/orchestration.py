"""What Airflow adds: the training DAG of a dataset on a real scheduler, beside `opboost run`."""

import argparse
import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from opboost_ops.cli.demo import follow
from opboost_ops.config.loading import load_federation
from opboost_ops.datasets import load
from opboost_ops.datasets.dataset import ID, Dataset
from opboost_ops.datasets.workspace import write_workspace
from opboost_ops.orchestration.standalone import Standalone
from opboost_ops.run.local import run_federation


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--dataset", default="adult", help="a named table; credit has three parties"
    )
    parser.add_argument("--repeats", type=int, default=3, help="the median is printed")
    parser.add_argument("--json", action="store_true", help="one line")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = {**vars(options), **measured(options, Path(folder))}
    print(json.dumps(result, indent=None if options.json else 1))


def measured(options: Any, folder: Path) -> dict[str, Any]:
    """Seconds from trigger to success, and those of the same work without Airflow."""
    file = write_workspace(three_parties(load(options.dataset)), folder / "federation")
    federation = load_federation(file)
    sites = {party: file.parent / party / "site.yaml" for party in federation.parties}
    by_airflow, alone = [], []
    with Standalone(folder / "airflow", file.parent, sites) as airflow:
        client = airflow.client()
        while not client.has_dag(f"{federation.name}_train"):
            airflow.check()
            time.sleep(0.2)
        # Both by turns, so that the machine's moods meet both; the first pair is not counted.
        for _ in range(options.repeats + 1):
            begin = time.monotonic()
            follow(airflow, client, file, lambda *_: None)
            between = time.monotonic()
            run_federation(file, {})
            by_airflow.append(between - begin)
            alone.append(time.monotonic() - between)
    pairs = sorted(zip(by_airflow[1:], alone[1:], strict=True), key=lambda p: p[0] - p[1])
    with_airflow, without = pairs[len(pairs) // 2]
    return {
        "parties": len(federation.parties),
        "airflow_seconds": round(with_airflow, 3),
        "run_seconds": round(without, 3),
        "added_seconds": round(with_airflow - without, 3),
        "all_added_seconds": [round(a - b, 3) for a, b in pairs],
    }


def three_parties(dataset: Dataset) -> Dataset:
    """The dataset with its one feature holder's columns dealt to two; others as they are."""
    owner = dataset.label_holder
    holders = [party for party in dataset.tables if party != owner]
    if len(holders) != 1:
        return dataset
    (holder,) = holders
    names = list(dataset.features[holder])
    dealt = {holder: names[::2], f"{holder}_too": names[1::2]}
    declared = {p: {n: dataset.features[holder][n] for n in mine} for p, mine in dealt.items()}
    tables = {p: dataset.tables[holder].select(ID, *mine) for p, mine in dealt.items()}
    return replace(
        dataset,
        tables={owner: dataset.tables[owner], **tables},
        features={owner: dataset.features[owner], **declared},
    )


if __name__ == "__main__":
    main()
