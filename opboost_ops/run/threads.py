"""A federation in this process: in each phase a thread a party, which knows its own site alone.

For notebooks and tests. Where parties must be kept apart, processes do it (`local`).
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any
from uuid import uuid4

from opboost_ops.config.federation import Purpose
from opboost_ops.config.loading import load_federation, site_of, sites_known
from opboost_ops.errors import ConfigError
from opboost_ops.run.all_ready import require_all_ready
from opboost_ops.run.form_values import with_form
from opboost_ops.run.inbox import Run, home_of
from opboost_ops.run.local import TIMEOUT, Finished, Listener, require_agreed, site_files
from opboost_ops.run.opening import open_run
from opboost_ops.run.phases import Phase, phases, stages_of
from opboost_ops.run.runner import run_stage
from opboost_ops.run.timings import spent_by
from opboost_ops.stages.stage import SKIP
from opboost_ops.stages.untold import whole


def run_in_threads(
    federation_file: Path,
    form: Mapping[str, Any],
    listener: Listener | None = None,
    purpose: Purpose = "train",
) -> Finished:
    """Run a federation, phase by phase; each begins when the one before has ended everywhere.

    Args:
        federation_file: ``federation.yaml``.
        form: As in the trigger form.
        listener: Called with party and event for every started or finished stage, by one thread
            at a time.
        purpose: What the run is for.

    Returns:
        What each stage said.

    Raises:
        ConfigError: A party has not agreed to the file as it is; nothing was published.
        OpBoostError: The first failure of a phase, after the other parties' part of it.
    """
    federation = load_federation(federation_file)
    if purpose == "train":
        require_agreed(federation_file, federation)
        federation = with_form(federation, form)
    finished = Finished(uuid4().hex[:16], federation)
    sites = site_files(federation_file, federation)
    owner, alone = federation.label_holder, Lock()
    require_all_ready(federation_file, sites, finished.run, form, purpose)
    this = Run(federation.name, finished.run, owner, TIMEOUT)

    place = (federation.name, finished.run)

    def tell(party: str, **event: Any) -> None:
        if listener is not None:
            with alone:
                listener(party, event)

    def done(party: str, stage: str, summary: dict[str, Any]) -> None:
        with alone:
            finished.summaries.setdefault(party, {})[stage] = summary
        tell(party, event="finished", stage=stage, summary=summary)

    def part(party: str, phase: Phase) -> None:
        with sites_known({party: sites[party]}):
            for stage in phase.stages_at(federation.parties[party]):
                of = len(stages_of(federation, purpose, party))
                tell(party, event="started", stage=stage, of=of + (party == owner))
                said = run_stage(party, stage, this)
                done(party, stage, whole(home_of(site_of(party)[0], *place), stage, said))

    with sites_known({owner: sites[owner]}):
        opened = open_run(federation_file, finished.run, form, purpose)
    if SKIP in opened:
        raise ConfigError(f"Nothing was done: {opened[SKIP]}.")
    done(owner, "open_run", opened)
    with ThreadPoolExecutor(len(federation.parties)) as pool:
        for phase in phases(federation, purpose):
            jobs = [pool.submit(part, party, phase) for party in phase.parties(federation)]
            failures = [error for job in jobs if (error := job.exception()) is not None]
            if failures:
                raise failures[0]
    for party, file in sites.items():
        finished.spent[party] = spent_by(file, federation.name, finished.run)
    return finished
