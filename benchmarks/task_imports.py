"""What a task still imports when it is forked: processor seconds, with and without preloading.

A process imports what the scheduler has imported anyway, then what its `airflow_local_settings.py`
says, or nothing of that; and forks. The child imports what a task of ours takes from there to its
stage: Airflow's task runner, the DAG file's room, and the stages. No stage runs.
"""

import argparse
import json
import logging
import os
import sys
import time
from importlib import import_module

#: What Airflow's scheduler has loaded before it forks a task.
SCHEDULER = ("airflow.jobs.scheduler_job_runner", "airflow.executors.local_executor")

#: What a task comes by, in this order.
TASK = (
    "airflow.sdk.execution_time.task_runner",
    "airflow.dag_processing.dagbag",
    "opboost_ops.orchestration.dags",
    "opboost_ops.orchestration.tasks",
    "opboost_ops.run.opening",
    "opboost_ops.run.runner",
    "opboost_ops.quality.checks",
    "great_expectations",
    "lightgbm",
)


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="the least is printed")
    options = parser.parse_args()
    logging.disable(logging.INFO)
    found = {}
    for name, preloaded in (("bare", False), ("preloaded", True)):
        runs = [forked(preloaded) for _ in range(options.repeats)]
        least = min(runs, key=lambda run: sum(run.values()))
        found[name] = {**least, "all": round(sum(least.values()), 3)}
    print(json.dumps({"load": round(os.getloadavg()[0], 1), **found}, indent=1))


def forked(preloaded: bool) -> dict[str, float]:
    """Processor seconds by module, of a task forked from a process of its own."""
    read, write = os.pipe()
    child = os.fork()
    if child:
        os.close(write)
        with os.fdopen(read) as told:
            text = told.read()
        os.waitpid(child, 0)
        took: dict[str, float] = json.loads(text)
        return took
    for module in SCHEDULER:
        import_module(module)
    if preloaded:
        from opboost_ops.orchestration.standalone import LOCAL_SETTINGS

        sys.argv.append("scheduler")
        exec(LOCAL_SETTINGS, {})
    if not os.fork():
        spent = {}
        for module in TASK:
            before = time.process_time()
            import_module(module)
            spent[module] = round(time.process_time() - before, 3)
        os.write(write, json.dumps(spent).encode())
        os._exit(0)
    os.wait()
    os._exit(0)


if __name__ == "__main__":
    main()
