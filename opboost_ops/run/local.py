"""A run without Airflow: all its parties on this machine, a process or a thread for each.

What the parties' processes import takes longer than all else of a small run, so that is begun
first; this process imports its own part meanwhile.
"""

import secrets
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from opboost_ops.config.federation import Federation, Purpose
from opboost_ops.config.loading import load_federation, load_site
from opboost_ops.errors import ConfigError
from opboost_ops.run.fork_server import ForkServer
from opboost_ops.run.party_sites import common_environment, site_files

if TYPE_CHECKING:
    from opboost_ops.run.inbox import Run

#: Seconds that a party waits for another's artifact.
TIMEOUT = 900.0

Listener = Callable[[str, dict[str, Any]], None]

#: Called with a party's ``site.yaml`` and the run when that waits for a person.
AtWait = Callable[[Path, "Run"], None]

#: Processes keep parties apart; threads start at once, and suit a notebook.
Parties = Literal["processes", "threads"]


@dataclass
class Finished:
    """A run that ended well.

    Attributes:
        run: Its id.
        federation: As it was run.
        summaries: Of each stage, by party and stage.
        spent: Seconds that each stage took, by party and stage, as their homes have them: for
            the one who runs all parties.
    """

    run: str
    federation: Federation
    summaries: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    spent: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)

    def read_homes(self, sites: Mapping[str, Path]) -> None:
        """Add what only the parties' homes know: times, and whole summaries for redacted ones.

        Args:
            sites: ``site.yaml`` of each party.
        """
        from opboost_ops.run.inbox import home_of
        from opboost_ops.run.timings import spent_by
        from opboost_ops.stages.redaction import whole

        for party, site in sites.items():
            self.spent[party] = spent_by(site, self.federation.name, self.run)
            home = home_of(load_site(site), self.federation.name, self.run)
            stages = self.summaries.get(party, {})
            stages.update({stage: whole(home, stage, said) for stage, said in stages.items()})

    def seconds(self, key: str = "seconds") -> dict[str, float]:
        """Seconds by stage: the slowest party where parties run side by side."""
        slowest: dict[str, float] = {}
        for stages in self.spent.values():
            for stage, spent in stages.items():
                slowest[stage] = max(slowest.get(stage, 0.0), spent.get(key, 0.0))
        return slowest


def run_federation(
    federation_file: Path,
    form: Mapping[str, Any],
    listener: Listener | None = None,
    purpose: Purpose = "train",
    parties: Parties = "processes",
    at_wait: AtWait | None = None,
) -> Finished:
    """Run a federation, all its parties on this machine; each knows its own site alone.

    Args:
        federation_file: ``federation.yaml``.
        form: As in the trigger form.
        listener: Called with party and event for every started or finished stage, by one thread
            at a time.
        purpose: What the run is for.
        parties: How they are kept apart.
        at_wait: Answers for a party's people, or raises; without, the run waits for their answer.

    Raises:
        ConfigError: A party has not agreed to the file as it is; nothing was published.
        OpBoostError: All that blocks the run at any party, before it begins; or the first failure
            of any party.
    """
    if parties not in get_args(Parties):
        raise ConfigError(f"parties is {parties}.", "It is processes or threads.")
    federation = load_federation(federation_file)
    sites = site_files(federation_file, federation)
    forks = parties == "processes"
    with ForkServer(common_environment(sites)) if forks else nullcontext() as server:
        from opboost_ops.run.driver import drive
        from opboost_ops.run.form_values import with_form
        from opboost_ops.run.inbox import Run
        from opboost_ops.run.phases import stages_of
        from opboost_ops.run.readiness import require_agreed, require_ready_parties
        from opboost_ops.run.worker import Assignment

        if purpose == "train":
            require_agreed(federation_file, federation)
            federation = with_form(federation, form)
        finished = Finished(secrets.token_hex(8), federation)
        run = Run(federation.name, finished.run, federation.label_holder, TIMEOUT)
        require_ready_parties(federation_file, sites, finished.run, form, purpose)
        assignments = [
            Assignment(party, run, purpose, form, str(federation_file.resolve()))
            for party in federation.parties
            if stages_of(federation, purpose, party)
        ]
        drive(finished, assignments, sites, server, listener, at_wait)
    return finished
