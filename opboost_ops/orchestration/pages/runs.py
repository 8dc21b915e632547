"""The page of a run: its state, what to do next, and each party's records of it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache, partial

from opboost_ops.config.loading import site_of
from opboost_ops.config.schema import Record
from opboost_ops.errors import OpBoostError
from opboost_ops.exchange.party_state import open_state
from opboost_ops.orchestration.pages import exchange, ledger, models, quality
from opboost_ops.orchestration.pages.access import Query, guarded, has_state, parties
from opboost_ops.orchestration.pages.airflow import (
    BUSY,
    ENDED,
    AirflowRun,
    Task,
    aware,
    duration,
    elapsed,
    marked_by,
    place_of,
    tasks,
)
from opboost_ops.orchestration.pages.models import MODEL
from opboost_ops.pipeline.party.approval import asked_since
from opboost_ops.pipeline.phases import stages_in, tasks_with
from opboost_ops.pipeline.protocol import STEPS
from opboost_ops.pipeline.runner import progress
from opboost_ops.reports.display.blocks import (
    Block,
    Cell,
    Fact,
    Facts,
    Fold,
    Heading,
    Links,
    Note,
    Section,
    State,
    Table,
)
from opboost_ops.reports.ledger import charged, ledger_of_run, sum_of
from opboost_ops.reports.ledger_tables import loss_curves, odds_of, warnings
from opboost_ops.reports.versions import Models, Version

#: Returns a task's progress in words; empty if unknown.
ProgressText = Callable[[Task], str]

RESUME_HINT = (
    "Fix the cause, then clear the failed task to continue this run. If a table, a file or the "
    "form has changed, trigger a new run. No release is charged twice."
)

#: Maximum number of failures or tasks that are listed individually.
_MAX_LISTED = 4

#: Display state by Airflow's state of a task.
_STATES: dict[str, State] = {"success": "good", "failed": "bad", "upstream_failed": "warn"}


def build(party: str, query: Query) -> list[Block]:
    """Return a party's section of a run, for each matching federation.

    Args:
        party: Name of the party.
        query: Names the run, and optionally its federation.
    """
    names = [*_federations(party, query)]
    blocks: list[Block] = []
    for name in names:
        blocks += [Heading(name)] if len(names) > 1 else []
        blocks += _party_blocks(party, name, query)
    return blocks or [_nothing_of_run(party)]


def _party_blocks(party: str, federation: str, query: Query) -> list[Block]:
    run = query.run or ""
    # The log is searched only once, for both parts that need it.
    entries = cache(partial(exchange.run_entries, party, federation, run))
    blocks = guarded(lambda: _waiting_approval(party, federation, run, entries()))
    blocks += guarded(partial(models.run_blocks, party, federation, run))
    blocks += guarded(partial(models.score_blocks, party, federation, run))
    charges = guarded(partial(_charges, party, federation, query))
    important = [block for block in charges if isinstance(block, Note | Facts)]
    blocks += [Heading("Privacy"), *important] if important else []
    checks = guarded(partial(quality.run_blocks, party, federation, run))
    blocks += [Heading("Data quality"), *checks] if checks else []
    exchanged = guarded(lambda: exchange.run_blocks(party, federation, run, entries()))
    notes = [block for block in exchanged if isinstance(block, Note)]
    blocks += [block for block in notes if block not in blocks]
    blocks.append(Fold("Exchange", [block for block in exchanged if block not in notes]))
    rest = tuple(block for block in charges if block not in important)
    if rest:
        blocks.append(Fold("Privacy ledger", rest))
    pages = {"ledger": "privacy ledger", "exchange": "exchange", "quality": "data quality"}
    links = [(f"Whole {words} of {party}", f"{p}?party={party}") for p, words in pages.items()]
    return [*blocks, Links(links)]


def _waiting_approval(
    party: str, federation: str, run: str, entries: exchange.Entries
) -> list[Block]:
    since = asked_since((entry for _, entry in entries), federation, run)
    if since is None:
        return []
    text = f"{party} waits for a person's approval, {elapsed(datetime.fromisoformat(since))}."
    remedy = f"Nothing of it was released. Its own people answer: `opboost approve SITE {run}`."
    return [Note("warn", text, remedy)]


def worth_a_section(parts: Sequence[Section]) -> list[Section]:
    """Replace the sections of parties without records of a run by one sentence.

    Args:
        parts: The sections of all parties.
    """
    idle = [s.party for s in parts if s.blocks == (_nothing_of_run(s.party),)]
    if len(idle) < 2:
        return [*parts]
    note = Note("muted", f"{', '.join(idle[:-1])} and {idle[-1]} have nothing of this run.")
    return [*(s for s in parts if s.party not in idle), Section("", (note,))]


def _nothing_of_run(party: str) -> Note:
    return Note("muted", f"{party} has nothing of this run.")


def verdict_first(section: Section) -> tuple[bool, str]:
    """Sort key of sections: parties with a model or scores come first."""
    verdicts = (MODEL, models.SCORES)
    return not any(
        isinstance(b, Heading) and b.text in verdicts for b in section.blocks
    ), section.party


def _federations(party: str, query: Query) -> Iterator[str]:
    """Yield the visible federations in which a party has records of the run."""
    run = query.run or ""
    site, _ = site_of(party)
    for name in sorted(site.tables):
        if not query.wants(name, run):
            continue
        if (site.home / name / run).is_dir():
            yield name
        elif has_state(site):
            with open_state(site) as state:
                entries = state.ledger.of_run(name, run)
            if entries:
                yield name


def _charges(party: str, federation: str, query: Query) -> list[Block]:
    site, policy = site_of(party)
    if not has_state(site):
        return []
    with open_state(site) as state:
        view = ledger_of_run(state, policy, federation, query.run or "")
    lines = view.entries
    spent = charged(entry for _, entry in lines)
    cost = sum_of(spent)
    facts = Facts(
        (
            Fact("Charged: odds for a person", odds_of(cost), f"all columns; loss {cost:.3f}"),
            Fact("Ledger entries", f"{len(lines):,}"),
        )
    )
    blocks: list[Block] = warnings(view.waiting, lines)
    if spent:
        blocks += [facts, loss_curves(release for _, release in lines)]
    return [*blocks, ledger.entries(lines, query, view)]


class Charged(Record):
    """A run's releases at one party, and their worst-case cost for a person.

    Attributes:
        entries: Number of ledger entries, including those without an epsilon.
        loss: Sum of loss(R - L) over the releases that the run opened; null if infinite.
    """

    entries: int
    loss: float = 0


def charged_in_run(federation: str, run: str, only: str | None) -> dict[str, Charged]:
    """Return a run's charges at each party of this deployment whose ledger is readable.

    Args:
        federation: Name of the federation.
        run: OpBoost's id of the run.
        only: A single party; all by default.
    """
    charges = {}
    for party in parties() if only is None else [only]:
        # The party's own section shows the error.
        with suppress(OpBoostError, ValueError, OSError):
            site, _ = site_of(party)
            if federation not in site.tables or not has_state(site):
                continue
            with open_state(site) as state:
                entries = state.ledger.of_run(federation, run)
            loss = sum_of(charged(entry for _, entry in entries))
            charges[party] = Charged(entries=len(entries), loss=loss)
    return charges


def champion_of(federation: str) -> Version | None:
    """Return the champion, if a party of this deployment has the federation's models."""
    for party in parties():
        # The party's own section shows the error.
        with suppress(OpBoostError, ValueError, OSError):
            models = Models(site_of(party)[0].models, federation)
            if models.champion:
                return models.version(models.champion)
    return None


def failure_notes(
    charges: Mapping[str, Charged], champion: str | None, next_run: datetime | None
) -> tuple[str, ...]:
    """Describe what a failed run released, the champion, and the next scheduled run.

    Args:
        charges: The run's charges by party.
        champion: Id of the champion; None if there is none, or it is unknown here.
        next_run: When Airflow creates the next run.
    """
    released = [
        f"{party}: {_charge_count(charge)}, loss {charge.loss:.4g} for one person"
        for party, charge in charges.items()
        if charge.entries
    ]
    idle = [party for party, charge in charges.items() if not charge.entries]
    lines = [f"Released before it failed: {text}." for text in released]
    if idle:
        lines.append(f"Released and charged nothing: {', '.join(idle)}.")
    if champion is not None:
        lines.append(f"The champion, version {champion}, stays in use.")
    when = f"is due at {next_run:%Y-%m-%d %H:%M} UTC" if next_run else "is not scheduled"
    lines.append(f"The next run {when}.")
    return tuple(lines)


def _charge_count(charge: Charged) -> str:
    return "1 ledger entry" if charge.entries == 1 else f"{charge.entries:,} ledger entries"


def of_run(
    run: AirflowRun | None, progress: ProgressText = lambda _: "", after: Sequence[str] = ()
) -> list[Block]:
    """Return a note on a run: the reason of its failure, or its progress.

    Args:
        run: The run in Airflow; None if Airflow does not know it.
        progress: Returns a task's progress.
        after: Notes to add after a failed run, from `failure_notes`.
    """
    if run is None:
        return []
    instances = tasks(run)
    failed = [task for task in instances if task.state == "failed"]
    if who := marked_by(run):
        links = (("The run in Airflow", run.href),)
        return [
            Note("bad", f"{who} marked this run as failed, in Airflow.", RESUME_HINT, after, links)
        ]
    if failed:
        return [_failure_note(run, failed, after)]
    if run.state in ("running", "queued"):
        return [_progress_note(run, instances, progress)]
    if run.state == "failed":
        waited = [task for task in instances if task.state not in ("success", "skipped")]
        names = ", ".join(task.title for task in waited[:_MAX_LISTED]) or "its tasks"
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


def run_links(run: AirflowRun | None, notes: Sequence[Block] = ()) -> list[Block]:
    """Return links from a run to its page in Airflow, and to each task and its log.

    Args:
        run: The run in Airflow; None if Airflow does not know it.
        notes: Blocks above, which may already link to the run.
    """
    if run is None:
        return []
    rows = [
        (
            Cell(task.title, href=task.href(run)),
            Cell(task.state.replace("_", " ") or "not begun", state=_STATES.get(task.state, "")),
            Cell(f"{task.since:%Y-%m-%d %H:%M}" if task.since else ""),
            elapsed(task.since, task.ended),
            Cell(task.failure.problem if task.failure else ""),
        )
        for task in tasks(run)
    ]
    heads = ("task and its log", "state", "began (UTC)", "took", "what it says")
    link = ("The run in Airflow", run.href)
    linked = any(isinstance(block, Note) and link in block.links for block in notes)
    return [
        *(() if linked else (Links((link,)),)),
        Fold("Tasks", (Table("tasks", "Tasks of this run", heads, rows),)),
    ]


def check_links(airflow_run: AirflowRun | None, party: str, run: str, boundary: str) -> Links:
    """Return links from a quality check to its run and its task.

    Args:
        airflow_run: The run in Airflow; None if Airflow does not know it.
        party: Name of the party.
        run: OpBoost's id of the run.
        boundary: Name of the check's boundary.
    """
    links = [(f"Run {run}", f"run?id={run}")]
    if airflow_run is not None:
        stages = [s.name for s in STEPS.values() if s.checks and boundary.startswith(s.checks)]
        places = [(party, task) for stage in stages for task in tasks_with(stage)]
        mine = [t for t in tasks(airflow_run) if place_of(t.name) in places]
        links += [("The task and its log", mine[0].href(airflow_run))] if mine else []
    return Links(links)


def _failure_note(run: AirflowRun, failed: Sequence[Task], after: Sequence[str] = ()) -> Note:
    first = failed[0]
    failure = first.failure
    refused = failure is not None and failure.refused
    what = "was refused by the budget" if refused else "has failed"
    problem = failure.problem if failure else "Its process ended without a message."
    others = [f"{task.title}: {task.problem}" for task in failed[1:_MAX_LISTED]]
    if len(failed) > _MAX_LISTED:
        others.append(f"and {len(failed) - _MAX_LISTED} more")
    remedy = failure.remedy if failure else "See its log, and whether its worker still runs."
    if after or failure is None:
        remedy = f"{remedy} {RESUME_HINT}".strip()
    return Note(
        "bad",
        f"{first.title} {what}.",
        remedy,
        (*_fault_lines(problem), *(f"Also {text}" for text in others), *after),
        (("The task and its log", first.href(run)), ("The run in Airflow", run.href)),
    )


def _fault_lines(problem: str) -> list[str]:
    """Split a list of faults into lines, without dashes."""
    return [line.strip().removeprefix("- ") for line in problem.splitlines()]


def _progress_note(run: AirflowRun, instances: Sequence[Task], progress: ProgressText) -> Note:
    done = sum(task.state in ENDED for task in instances)
    busy = [task for task in instances if task.state in BUSY]
    lines = []
    for task in busy[:_MAX_LISTED]:
        if task.state == "queued":
            lines.append(
                f"{task.title} waits for a worker of the queue {task.queue}, {elapsed(task.since)}"
            )
        else:
            text = f"{task.title}: {task.state.replace('_', ' ')}, {elapsed(task.since)}"
            lines.append(": ".join(filter(None, (text, progress(task)))))
    return Note(
        "",
        f"This run is under way: {done} of {len(instances)} tasks have ended, "
        f"after {elapsed(run.began)}.",
        "This page refreshes every ten seconds.",
        lines,
        (("The run in Airflow", run.href),),
    )


def progress_text(query: Query, task: Task) -> str:
    """Describe a running task's progress; empty if it is unknown or not visible here.

    Args:
        query: Names the run and its federation.
        task: A task of the run.
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
        # The party's own section shows the error.
        return ""
    folder, (_, name) = site.home / federation / run, place_of(task.name)
    stages = {stage: progress.read(folder, stage) for stage in stages_in(name)}
    # Both times are by the worker's clock. Progress left by an earlier, killed try is older.
    since = aware(task.since)
    running = {stage: step for stage, step in stages.items() if step and step.began >= since}
    if not running:
        return ""
    stage, step = max(running.items(), key=lambda pair: pair[1].started)
    text = f"{step.done:,} of {step.of:,} {step.what}"
    if stage != name:
        text = f"{stage}: {text}"
    # All counted steps are done; the rest of the stage is not counted.
    if not step.left:
        return text
    return f"{text}, about {duration(step.left)} more"
