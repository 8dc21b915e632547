"""The page of one run: all that each party's own pages say of it, in one place."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache, partial

from opboost_ops.config.loading import site_of
from opboost_ops.errors import OpBoostError
from opboost_ops.exchange.party_state import open_state
from opboost_ops.orchestration.pages import exchange, ledger, models, quality, scored_runs
from opboost_ops.orchestration.pages.access import Query, guarded, has_state, parties
from opboost_ops.orchestration.pages.airflow import Task, ago, lasting, place_of
from opboost_ops.orchestration.pages.airflow_database import aware
from opboost_ops.orchestration.pages.models import MODEL
from opboost_ops.pipeline.party.approval import asked_since
from opboost_ops.pipeline.phases import stages_in
from opboost_ops.pipeline.runner import progress
from opboost_ops.reports.display.blocks import (
    Block,
    Fact,
    Facts,
    Fold,
    Heading,
    Links,
    Note,
    Section,
)
from opboost_ops.reports.ledger import charged, ledger_of_run, sum_of
from opboost_ops.reports.ledger_figures import loss_curves
from opboost_ops.reports.ledger_tables import odds_of, warnings


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
    text = f"{far.done:,} of {far.of:,} {far.what}"
    if stage != name:
        text = f"{stage}: {text}"
    # All are done: what the stage does besides is not counted.
    if not far.left:
        return text
    return f"{text}, about {lasting(far.left)} more"


def build(party: str, query: Query) -> list[Block]:
    """A party's part of a run, in each federation of the query that has a run of this id.

    Args:
        party: Whose.
        query: Names the run, and perhaps its federation.
    """
    names = [*_federations(party, query)]
    blocks: list[Block] = []
    for name in names:
        blocks += [Heading(name)] if len(names) > 1 else []
        blocks += _part(party, name, query)
    return blocks or [_nothing(party)]


def _part(party: str, federation: str, query: Query) -> list[Block]:
    run = query.run or ""
    # The log is searched once, for both parts that speak of it.
    entries = cache(partial(exchange.run_entries, party, federation, run))
    blocks = guarded(lambda: _asked(party, federation, run, entries()))
    blocks += guarded(partial(models.run_blocks, party, federation, run))
    blocks += guarded(partial(scored_runs.run_blocks, party, federation, run))
    charged = guarded(partial(_charged, party, federation, query))
    important = [block for block in charged if isinstance(block, Note | Facts)]
    blocks += [Heading("Privacy"), *important] if important else []
    checks = guarded(partial(quality.run_blocks, party, federation, run))
    blocks += [Heading("Data quality"), *checks] if checks else []
    exchanged = guarded(lambda: exchange.run_blocks(party, federation, run, entries()))
    notes = [block for block in exchanged if isinstance(block, Note)]
    blocks += [block for block in notes if block not in blocks]
    blocks.append(Fold("Exchange", [block for block in exchanged if block not in notes]))
    rest = tuple(block for block in charged if block not in important)
    if rest:
        blocks.append(Fold("Privacy ledger", rest))
    pages = {"ledger": "privacy ledger", "exchange": "exchange", "quality": "data quality"}
    links = [(f"Whole {words} of {party}", f"{p}?party={party}") for p, words in pages.items()]
    return [*blocks, Links(links)]


def _asked(party: str, federation: str, run: str, entries: exchange.Entries) -> list[Block]:
    since = asked_since((entry for _, entry in entries), federation, run)
    if since is None:
        return []
    text = f"{party} waits for a person's approval, {ago(datetime.fromisoformat(since))}."
    remedy = f"Nothing of it was released. Its own people answer: `opboost approve SITE {run}`."
    return [Note("warn", text, remedy)]


def worth_a_section(parts: Sequence[Section]) -> list[Section]:
    """One sentence instead of a part for each party that has nothing of a run.

    Args:
        parts: All parties' parts.
    """
    idle = [s.party for s in parts if s.blocks == (_nothing(s.party),)]
    if len(idle) < 2:
        return [*parts]
    note = Note("muted", f"{', '.join(idle[:-1])} and {idle[-1]} have nothing of this run.")
    return [*(s for s in parts if s.party not in idle), Section("", (note,))]


def _nothing(party: str) -> Note:
    return Note("muted", f"{party} has nothing of this run.")


def first(section: Section) -> tuple[bool, str]:
    """By what parties are sorted: who has the verdict comes first.

    Args:
        section: A party's part.
    """
    verdicts = (MODEL, scored_runs.SCORES)
    return not any(
        isinstance(b, Heading) and b.text in verdicts for b in section.blocks
    ), section.party


def _federations(party: str, query: Query) -> Iterator[str]:
    """Federations that the reader may see, in which a party has something of the run."""
    run = query.run or ""
    site, _ = site_of(party)
    for name in sorted(site.tables):
        if not query.wants(name, run):
            continue
        if (site.home / name / run).is_dir():
            yield name
        elif has_state(site):
            with open_state(site) as state:
                charged = state.ledger.of_run(name, run)
            if charged:
                yield name


def _charged(party: str, federation: str, query: Query) -> list[Block]:
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
