"""What Airflow adds: the training DAG of a dataset on a real scheduler, beside `opboost run`.

And where it goes: along the longest path of the run's tasks, from the last one back over those that
each has waited for, how long the scheduler let it wait (``scheduling``), how long it took from the
queue to its process (``starting``), and what it took there beside its stage (``around``). What
is none of the stages' own is ``rest``. ``first_wall`` and ``first_rest`` are those of the first run
after Airflow has started.
"""

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.measure import parser_of, show
from opboost_ops.cli.airflow import follow
from opboost_ops.config.loading import load_federation
from opboost_ops.extras.datasets import load
from opboost_ops.extras.datasets.workspace import write_workspace
from opboost_ops.orchestration.deployment.standalone import Standalone
from opboost_ops.pipeline import phases
from opboost_ops.pipeline.runner.local import run_federation

#: An asset's event starts its run not at once.
SECONDS_QUIET = 4


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = parser_of(__doc__)
    parser.add_argument(
        "--dataset", default="credit", help="a named table; credit has three parties"
    )
    parser.add_argument("--repeats", type=int, default=3, help="the median is printed")
    parser.add_argument("--without", action="store_true", help="no run without Airflow beside it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = {**vars(options), **measured(options, Path(folder))}
    show(result, options)


def measured(options: Any, folder: Path) -> dict[str, Any]:
    """Seconds from trigger to success, and those of the same work without Airflow."""
    file = write_workspace(load(options.dataset), folder / "federation")
    federation = load_federation(file)
    sites = {party: file.parent / party / "site.yaml" for party in federation.parties}
    by_airflow, alone = [], []
    apart: list[dict[str, Any]] = []
    dag = f"{federation.name}_train"
    chains = phases.stages_by_task(federation, "train")
    with Standalone(folder / "airflow", file.parent, sites) as airflow:
        client = airflow.client()
        while not client.has_dag(dag):
            airflow.check()
            time.sleep(0.2)
        # Both by turns, so that the machine's moods meet both; the first pair is not counted.
        for _ in range(options.repeats + 1):
            begin = time.monotonic()
            run = client.trigger(dag)
            finished = follow(airflow, client, file, lambda *_: None, run=run)
            between = time.monotonic()
            apart.append(taken_apart(client, dag, run, finished.spent, chains))
            if not options.without:
                run_federation(file, {})
            by_airflow.append(between - begin)
            alone.append(time.monotonic() - between)
            until_idle(client, f"{federation.name}_score")
    pairs = sorted(zip(by_airflow[1:], alone[1:], strict=True), key=lambda p: p[0] - p[1])
    with_airflow, without = pairs[len(pairs) // 2]
    middle = sorted(apart[1:], key=lambda each: each["rest"])[len(apart[1:]) // 2]
    return {
        "parties": len(federation.parties),
        "load": round(os.getloadavg()[0], 1),
        **middle,
        "first_wall": apart[0]["wall"],
        "first_rest": apart[0]["rest"],
        "all_rests": [each["rest"] for each in apart[1:]],
        "airflow_seconds": round(with_airflow, 3),
        "run_seconds": round(without, 3),
        "added_seconds": round(with_airflow - without, 3),
        "all_added_seconds": [round(a - b, 3) for a, b in pairs],
    }


def until_idle(client: Any, dag: str) -> None:
    """Wait for what a new champion has started, so that nothing runs beside the next run.

    Args:
        client: Of the Airflow.
        dag: That of scoring.
    """
    quiet = 0
    while quiet < SECONDS_QUIET:
        time.sleep(1)
        runs = client.get(f"dags/{dag}/dagRuns", limit=100)["dag_runs"]
        quiet = quiet + 1 if all(run["state"] in ("success", "failed") for run in runs) else 0


def taken_apart(
    client: Any, dag: str, run: str, spent: Any, stages_of_tasks: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Seconds along the longest path of a run that has ended, by what they were spent on.

    Args:
        client: Of its Airflow.
        dag: Its DAG.
        run: Airflow's id of it.
        spent: What each party's stages took.
        stages_of_tasks: The stages of tasks that run several, by id.
    """
    tasks = {task["task_id"]: task for task in client.tasks(dag, run)}
    before: dict[str, list[str]] = {task: [] for task in tasks}
    for task in client.get(f"dags/{dag}/tasks")["tasks"]:
        for after in task["downstream_task_ids"]:
            before[after].append(task["task_id"])
    ended = {name: datetime.fromisoformat(task["end_date"]) for name, task in tasks.items()}
    path = [max(ended, key=ended.__getitem__)]
    while before[path[0]]:
        path.insert(0, max(before[path[0]], key=ended.__getitem__))
    whole = client.run(dag, run)
    found = dict.fromkeys(("scheduling", "starting", "around", "stages"), 0.0)
    begun = at = datetime.fromisoformat(whole["start_date"])
    for name in path:
        queued, start = (
            datetime.fromisoformat(tasks[name][t]) for t in ("queued_when", "start_date")
        )
        group, stage = name.split(".")
        mine = spent[group.rpartition("_")[0]]
        took = [mine.get(each, {}) for each in stages_of_tasks.get(name, (stage,))]
        own = sum(t.get("seconds", 0.0) + t.get("quality_seconds", 0.0) for t in took)
        found["scheduling"] += (queued - at).total_seconds()
        found["starting"] += (start - queued).total_seconds()
        found["around"] += (ended[name] - start).total_seconds() - own
        found["stages"] += own
        at = ended[name]
    wall = (datetime.fromisoformat(whole["end_date"]) - begun).total_seconds()
    found |= {"wall": wall, "rest": wall - found["stages"]}
    return {"tasks": len(tasks), "path": len(path), **{k: round(v, 3) for k, v in found.items()}}


if __name__ == "__main__":
    main()
