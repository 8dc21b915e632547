"""The state of each federation, as one immutable document for the status page and for programs."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from opboost_ops.config.loading import site_of
from opboost_ops.config.policy import Policy
from opboost_ops.config.schema import Record
from opboost_ops.config.site import Site
from opboost_ops.errors import OpBoostError
from opboost_ops.exchange.party_state import open_state
from opboost_ops.orchestration.pages import airflow, airflow_dags
from opboost_ops.orchestration.pages.access import Query, federations, has_state, parties
from opboost_ops.orchestration.pages.airflow import aware
from opboost_ops.orchestration.pages.runs import Charged, charged_in_run
from opboost_ops.pipeline.party.agreement import stopped
from opboost_ops.pipeline.party.approval import waits_since
from opboost_ops.pipeline.party.trust import folder_fault
from opboost_ops.quality.live import Live, live_of
from opboost_ops.reports.ledger import ledger_of, lines_of, remaining_releases
from opboost_ops.reports.outcomes import Outcomes, outcomes_of
from opboost_ops.reports.versions import Models

#: Maximum number of listed versions.
_VERSIONS = 20

Metrics = Mapping[str, Mapping[str, float]]

#: Airflow's states in words, where they need an explanation.
_WORDS = {
    "up_for_reschedule": "waits, and checks again by itself",
    "up_for_retry": "failed, and will be tried again",
    "deferred": "waits",
}


class Run(Record):
    """A run of a DAG.

    Attributes:
        dag: Id of the DAG.
        name: Airflow's id of the run.
        run: OpBoost's id of the run.
        state: Airflow's state.
        began: When it began, in UTC.
        ended: When it ended.
        failures: Messages of its failed tasks.
        remedies: Their remedies, without duplicates.
        waiting: Its current tasks and states, with seconds in that state.
        marked_by: The Airflow user who marked it as failed; empty if nobody did.
        charged: Releases of a failed run, by party of this deployment.
    """

    dag: str
    name: str
    run: str
    state: str
    began: datetime | None = None
    ended: datetime | None = None
    failures: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
    waiting: Mapping[str, float] = Field(default_factory=dict)
    marked_by: str = ""
    charged: Mapping[str, Charged] = Field(default_factory=dict)

    @property
    def ongoing(self) -> bool:
        """True if the run is in progress."""
        return self.state in ("running", "queued")


class Version(Record):
    """A model version: whether it is champion, the last decision on it, and its metrics by mode.

    Attributes:
        decision: Promoted, rejected or rolled back; empty before a decision.
        live: The champion in production; null for other versions, or without recent scores.
        outcomes: The champion's report on outcomes; null for other versions, or without one.
    """

    version: str
    champion: bool
    decided: datetime | None = None
    decision: str = ""
    why: str = ""
    metrics: Metrics = Field(default_factory=dict)
    live: Live | None = None
    outcomes: Outcomes | None = None


class Account(Record):
    """The releases of a column to one receiver, and their cost.

    Attributes:
        feature: Its name in the federation.
        column: Name of the raw column.
        releases: Number of opened releases.
        loss: Loss of one release; null if infinite.
        spent: Total loss of the raw column; null if infinite.
        budget: Budget of the raw column; null without one.
        since: Date since which its values are unchanged; null without an open release.
        more: Number of further releases that fit the budget; null without one.
    """

    feature: str
    column: str
    releases: int
    loss: float
    spent: float
    budget: float | None = None
    since: date | None = None
    more: int | None = None


#: Fields that an account copies from its column.
_COLUMN = ("feature", "column", "budget", "since", "more")


class Party(Record):
    """A party of this deployment: the cost of its columns, and problems of its state.

    Attributes:
        party: Name of the party.
        ledger: The cost of each column.
        more: Number of further releases that fit its tightest budget; null without one.
        budget: That budget and its remainder; empty if nothing is released.
        fault: The error if its state cannot be read.
        stopped: When it stopped taking part; null if it takes part.
        stopped_by: The Airflow user who stopped it; empty if it was done by command.
        resumes_at_home: True if only a command on the party's own machine can resume it.
        asked: Since when the last run awaits its approval; null if it does not.
        checked: When its state was last compared with the store, by a run or `ledger check`.
        missing: Number of things that were missing then; only the party itself sees which.
        store: Why the current store is not the pinned one; only for a folder, since a page must not
            wait for a server.
    """

    party: str
    ledger: tuple[Account, ...] = ()
    more: int | None = None
    budget: str = ""
    fault: str = ""
    stopped: datetime | None = None
    stopped_by: str = ""
    resumes_at_home: bool = False
    asked: datetime | None = None
    checked: datetime | None = None
    missing: int = 0
    store: str = ""


class Purpose(Record):
    """The state of a federation's training or scoring runs.

    Attributes:
        schedule: Schedule of its DAG, in Airflow's words; empty without one.
        paused: Ids of its paused DAGs.
        next_run: When Airflow creates the next run.
        last_success: The last successful run.
        last_run: The run in progress, or else the last one.
    """

    schedule: str = ""
    paused: tuple[str, ...] = ()
    next_run: datetime | None = None
    last_success: Run | None = None
    last_run: Run | None = None


class Federation(Purpose):
    """The state of a federation; its inherited fields are those of training.

    Attributes:
        federation: Name of the federation.
        faults: Faults of its file, which prevent runs; empty for a valid file.
        purposes: State of its runs, by ``train`` and ``score``.
        champion: Id of the champion.
        champion_since: When it was promoted.
        versions: The newest versions.
        parties: The parties of this deployment.
    """

    federation: str
    faults: str = ""
    purposes: Mapping[str, Purpose] = Field(default_factory=dict)
    champion: str | None = None
    champion_since: datetime | None = None
    versions: tuple[Version, ...] = ()
    parties: tuple[Party, ...] = ()


class State(Record):
    """The whole document; `version` changes with its schema."""

    version: Literal[1] = 1
    at: datetime
    federations: tuple[Federation, ...] = ()


def state(query: Query) -> State:
    """Return the state of all visible federations."""
    names = [n for n in federations(query) if query.federation in (None, n)]
    states = [_federation(name, query) for name in names]
    return State(at=datetime.now(UTC).replace(microsecond=0), federations=tuple(states))


def _federation(name: str, query: Query) -> Federation:
    purposes = {p: _purpose(name, query, p) for p in airflow.PURPOSES}
    training = purposes["train"]
    waits = [of.last_run.run for of in purposes.values() if of.last_run and of.last_run.ongoing]
    shown: list[Party] = []
    versions: tuple[Version, ...] = ()
    for party in parties():
        if query.party not in (None, party):
            continue
        try:
            site, policy = site_of(party)
            if name not in site.tables:
                continue
            shown.append(_party(party, name, site, policy, waits))
            versions = versions or _versions(Models(site.models, name), site.home / name)
        except (OpBoostError, ValueError, OSError) as error:
            text = error.problem if isinstance(error, OpBoostError) else type(error).__name__
            shown.append(Party(party=party, fault=text.partition("\n")[0]))
    champion = next((v for v in versions if v.champion), None)
    return Federation(
        federation=name,
        faults=airflow_dags.file_faults(name),
        **{name: getattr(training, name) for name in Purpose.model_fields},
        purposes=purposes,
        champion=champion.version if champion else None,
        champion_since=champion.decided if champion else None,
        versions=versions,
        parties=tuple(shown),
    )


def _purpose(name: str, query: Query, purpose: str) -> Purpose:
    dags = query.dags(name, purpose)
    schedules = airflow_dags.schedules(dags)
    succeeded = airflow.runs(dags, states=["success"], limit=1)
    # A run that is queued behind a running one has nothing to show yet.
    last = airflow.runs(dags, states=["running"], limit=1) or airflow.runs(dags, limit=1)
    return Purpose(
        schedule=next((schedule.words for schedule in schedules if schedule.words), ""),
        paused=tuple(schedule.dag for schedule in schedules if schedule.paused),
        next_run=min(
            (schedule.next_run for schedule in schedules if schedule.next_run), default=None
        ),
        last_success=_run(name, query, succeeded[0], dags[0]) if succeeded else None,
        last_run=_run(name, query, last[0], dags[0]) if last else None,
    )


def _run(name: str, query: Query, run: airflow.AirflowRun, own: str) -> Run:
    instances = airflow.tasks(run) if run.state != "success" else []
    if run.dag != own:
        # Users of a federation must not see the other tasks of a handwritten DAG.
        instances = [task for task in instances if task.party]
    now = datetime.now(UTC)
    return Run(
        dag=run.dag,
        name=run.name,
        run=run.run,
        state=run.state,
        began=run.began,
        ended=run.ended,
        failures=tuple(
            f"{task.title}: {task.problem}" for task in instances if task.state == "failed"
        ),
        remedies=tuple(
            dict.fromkeys(
                task.failure.remedy
                for task in instances
                if task.state == "failed" and task.failure and task.failure.remedy
            )
        ),
        waiting={
            f"{task.title} ({_WORDS.get(task.state, task.state)})": round(
                (now - aware(task.since)).total_seconds()
            )
            for task in instances
            if task.state in airflow.BUSY and task.since is not None
        },
        marked_by=airflow.marked_by(run),
        charged=charged_in_run(name, run.run, query.party) if run.state == "failed" else {},
    )


def _party(party: str, federation: str, site: Site, policy: Policy, runs: Sequence[str]) -> Party:
    if not has_state(site):
        return Party(party=party)
    with open_state(site) as state:
        stop = stopped(state, federation)
        since = next(filter(None, (waits_since(state, federation, run) for run in runs)), None)
        last = state.stores.last_check()
        fault = folder_fault(state, site, federation)
        agreements = state.agreements.read()
    view = ledger_of(site, policy)
    lines = lines_of(agreements, view, site, federation)
    left = remaining_releases(lines)
    accounts = [
        Account(
            **{name: getattr(column, name) for name in _COLUMN},
            releases=len(column.releases),
            loss=float(column.loss),
            spent=float(column.spent),
        )
        for column in view.of([federation])
    ]
    return Party(
        party=party,
        ledger=tuple(accounts),
        more=left.more,
        budget=left.hint,
        stopped=datetime.fromisoformat(stop.at) if stop else None,
        stopped_by=stop.by if stop else "",
        resumes_at_home=stop is not None and (stop.at_home or "resume" not in policy.acts),
        asked=datetime.fromisoformat(since) if since else None,
        checked=datetime.fromisoformat(last.at) if last else None,
        missing=last.missing if last else 0,
        store=fault,
    )


def _production(home: Path, version: str) -> dict[str, Any]:
    try:
        return {"live": live_of(home, version), "outcomes": outcomes_of(home, version)}
    except (ValueError, KeyError, TypeError, OSError):
        # The version's page shows the error.
        return {}


def _versions(models: Models, home: Path) -> tuple[Version, ...]:
    if models.fault is not None:
        raise models.fault
    names = models.names[:_VERSIONS]
    if models.champion is not None and models.champion not in names:
        names = [*names, models.champion]
    shown = []
    for version in map(models.version, names):
        entry = version.decision
        shown.append(
            Version(
                version=version.name,
                champion=version.champion,
                decided=datetime.fromisoformat(entry.at) if entry else None,
                decision=version.verdict,
                why=entry.why if entry else "",
                metrics=version.metrics,
                **(_production(home, version.name) if version.champion else {}),
            )
        )
    return tuple(shown)
