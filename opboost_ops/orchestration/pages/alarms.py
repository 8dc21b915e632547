"""The top of a run's page and of a task's: how it stands, and what to do now."""

from collections.abc import Callable, Sequence

from opboost_ops.orchestration.pages.aftermath import GO_ON
from opboost_ops.orchestration.pages.airflow import (
    BUSY,
    ENDED,
    AirflowRun,
    Task,
    ago,
    marked_by,
    place_of,
    tasks,
)
from opboost_ops.pipeline.phases import tasks_with
from opboost_ops.pipeline.protocol import STEPS
from opboost_ops.reports.display.blocks import Block, Cell, Fold, Links, Note, State, Table

#: Failures that are told one by one.
_TOLD = 4

#: Says how far a task is, in words; nothing where that is not known.
Far = Callable[[Task], str]

#: How a task stands, by Airflow's words.
_STATES: dict[str, State] = {"success": "good", "failed": "bad", "upstream_failed": "warn"}


def of_run(
    run: AirflowRun | None, far: Far = lambda _: "", after: Sequence[str] = ()
) -> list[Block]:
    """One box: why a run has failed, or how far it is.

    Args:
        run: The run, as Airflow knows it; None where it does not.
        far: How far each of its tasks is.
        after: What else people ask after a failed run.
    """
    if run is None:
        return []
    instances = tasks(run)
    failed = [task for task in instances if task.state == "failed"]
    if who := marked_by(run):
        links = (("The run in Airflow", run.href),)
        return [Note("bad", f"{who} marked this run as failed, in Airflow.", GO_ON, after, links)]
    if failed:
        return [_failed(run, failed, after)]
    if run.state in ("running", "queued"):
        return [_running(run, instances, far)]
    if run.state == "failed":
        waited = [task for task in instances if task.state not in ("success", "skipped")]
        names = ", ".join(task.title for task in waited[:_TOLD]) or "its tasks"
        return [
            Note(
                "bad",
                f"This run has failed: it timed out before {names} ended.",
                "See whether the workers of these parties run, then clear the failed tasks.",
                after,
                links=(("The run in Airflow", run.href),),
            )
        ]
    if run.state == "success" and instances and all(task.state == "skipped" for task in instances):
        return [
            Note(
                "warn",
                "Nothing was done in this run: all its tasks were skipped.",
                "The log of its first task says why.",
                links=(("The first task and its log", instances[0].href(run)),),
            )
        ]
    return []


def ways_of_run(run: AirflowRun | None, box: Sequence[Block] = ()) -> list[Block]:
    """From a run to its page in Airflow, and to each of its tasks with its log.

    Args:
        run: The run, as Airflow knows it; None where it does not.
        box: What stands above, which may lead there already.
    """
    if run is None:
        return []
    rows = [
        (
            Cell(task.title, href=task.href(run)),
            Cell(task.state.replace("_", " ") or "not begun", state=_STATES.get(task.state, "")),
            Cell(f"{task.since:%Y-%m-%d %H:%M}" if task.since else ""),
            ago(task.since, task.ended),
            Cell(task.failure.problem if task.failure else ""),
        )
        for task in tasks(run)
    ]
    heads = ("task and its log", "state", "began (UTC)", "took", "what it says")
    way = ("The run in Airflow", run.href)
    led = any(isinstance(block, Note) and way in block.links for block in box)
    return [
        *(() if led else (Links((way,)),)),
        Fold("Tasks", (Table("tasks", "Tasks of this run", heads, rows),)),
    ]


def ways_of_check(airflow_run: AirflowRun | None, party: str, run: str, boundary: str) -> Links:
    """From a check to its run, and to the task that made it.

    Args:
        airflow_run: The run, as Airflow knows it; None where it does not.
        party: Whose check it is.
        run: OpBoost's id of the run.
        boundary: Of the check.
    """
    ways = [(f"Run {run}", f"run?id={run}")]
    if airflow_run is not None:
        stages = [s.name for s in STEPS.values() if s.checks and boundary.startswith(s.checks)]
        places = [(party, task) for stage in stages for task in tasks_with(stage)]
        mine = [t for t in tasks(airflow_run) if place_of(t.name) in places]
        ways += [("The task and its log", mine[0].href(airflow_run))] if mine else []
    return Links(ways)


def _failed(run: AirflowRun, failed: Sequence[Task], after: Sequence[str] = ()) -> Note:
    first = failed[0]
    failure = first.failure
    refused = failure is not None and failure.refused
    what = "was refused by the budget" if refused else "has failed"
    problem = failure.problem if failure else "Its process ended without a message."
    others = [f"{task.title}: {task.problem}" for task in failed[1:_TOLD]]
    if len(failed) > _TOLD:
        others.append(f"and {len(failed) - _TOLD} more")
    remedy = failure.remedy if failure else "See its log, and whether its worker still runs."
    if after or failure is None:
        remedy = f"{remedy} {GO_ON}".strip()
    return Note(
        "bad",
        f"{first.title} {what}.",
        remedy,
        (*_lines(problem), *(f"Also {text}" for text in others), *after),
        (("The task and its log", first.href(run)), ("The run in Airflow", run.href)),
    )


def _lines(problem: str) -> list[str]:
    """Of a list of faults each by itself, without its dash."""
    return [line.strip().removeprefix("- ") for line in problem.splitlines()]


def _running(run: AirflowRun, instances: Sequence[Task], far: Far) -> Note:
    done = sum(task.state in ENDED for task in instances)
    busy = [task for task in instances if task.state in BUSY]
    lines = []
    for task in busy[:_TOLD]:
        if task.state == "queued":
            lines.append(
                f"{task.title} waits for a worker of the queue {task.queue}, {ago(task.since)}"
            )
        else:
            text = f"{task.title}: {task.state.replace('_', ' ')}, {ago(task.since)}"
            lines.append(": ".join(filter(None, (text, far(task)))))
    return Note(
        "",
        f"This run is under way: {done} of {len(instances)} tasks have ended, "
        f"after {ago(run.began)}.",
        "This page refreshes every ten seconds.",
        lines,
        (("The run in Airflow", run.href),),
    )
