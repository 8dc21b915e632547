"""How far a task is that runs now, where its party says so to its own pages."""

from opboost_ops.config.loading import site_of
from opboost_ops.errors import OpBoostError
from opboost_ops.orchestration.pages.access import Query, parties
from opboost_ops.orchestration.pages.airflow import Task, lasting, place_of
from opboost_ops.orchestration.pages.airflow_database import aware
from opboost_ops.pipeline.phases import stages_in
from opboost_ops.pipeline.runner import progress


def progress_text(query: Query, task: Task) -> str:
    """In words; empty where nothing is known, or it is not this deployment's or reader's.

    Args:
        query: Names the run and its federation.
        task: One of its tasks.
    """
    mine = task.party in parties() and query.party in (None, task.party)
    federation, run = query.federation, query.run
    if task.state != "running" or task.since is None or not mine:
        return ""
    if federation is None or run is None or not query.sees(federation):
        return ""
    try:
        site, _ = site_of(task.party)
    except (OpBoostError, OSError):
        # The party's own part of the page says it.
        return ""
    folder, (_, name) = site.home / federation / run, place_of(task.name)
    stages = {stage: progress.read(folder, stage) for stage in stages_in(name)}
    # Both by the clock of the worker: what an earlier try left behind when it was killed is older.
    since = aware(task.since)
    running = {stage: far for stage, far in stages.items() if far and far.began >= since}
    if not running:
        return ""
    stage, far = max(running.items(), key=lambda pair: pair[1].started)
    told = f"{far.done:,} of {far.of:,} {far.what}"
    if stage != name:
        told = f"{stage}: {told}"
    # All are done: what the stage does besides is not counted.
    if not far.left:
        return told
    return f"{told}, about {lasting(far.left)} more"
