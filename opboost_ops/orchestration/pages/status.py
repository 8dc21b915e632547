"""The status page: the state of each federation, and the problems that block it."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from opboost_ops.orchestration.pages.airflow import PURPOSES, AirflowRun, duration, elapsed
from opboost_ops.orchestration.pages.runs import RESUME_HINT, failure_notes
from opboost_ops.orchestration.pages.state import Federation, Party, Purpose, Run
from opboost_ops.reports.display.blocks import (
    Block,
    Cell,
    Fact,
    Facts,
    Heading,
    Links,
    Note,
    State,
    Table,
)
from opboost_ops.reports.ledger import RemainingReleases
from opboost_ops.reports.ledger_tables import remaining_cell, remaining_fact

#: Seconds after which a task in progress is highlighted.
_LONG_TASK = 3600


def blocks(federations: Sequence[Federation]) -> list[Block]:
    """Return the blocks of each federation.

    Args:
        federations: The federations' states.
    """
    if not federations:
        return [Note("muted", "No federation of this deployment may be shown to you.")]
    parts: list[Block] = []
    for federation in federations:
        parts.append(Heading(federation.federation))
        parts += _problems(federation)
        parts.append(
            Facts((*_times(federation), _champion(federation), _releases_left(federation)))
        )
        parts.append(_parties(federation))
        actions = ("Promote, roll back, stop, resume", _admin(federation))
        parts.append(Links((actions,)))
    return parts


def _problems(federation: Federation) -> list[Block]:
    notes: list[Block] = []
    if federation.faults:
        # The DAG's documentation has them in a code block.
        block = federation.faults.split("```")
        listed = (block[1] if len(block) > 2 else federation.faults).strip().splitlines()
        lines = [line.strip().removeprefix("- ") for line in listed]
        text = f"The file of {federation.federation} is faulty: no run begins."
        remedy = "Correct federation.yaml; Airflow reads it again by itself."
        notes.append(Note("bad", text, remedy, lines))
    for purpose, of in federation.purposes.items():
        last, words = of.last_run, PURPOSES[purpose]
        if last is not None and last.state == "failed":
            notes.append(_failed(federation, of, last, words))
        if last is not None and last.ongoing:
            longest = max(last.waiting.values(), default=0.0)
            lines = [f"{task}, {duration(seconds)}" for task, seconds in last.waiting.items()]
            text = f"A {words} run started {elapsed(last.began)} ago."
            state: State = "warn" if longest > _LONG_TASK else ""
            notes.append(Note(state, text, "", lines, _links(last)))
    last = federation.last_run
    for party in federation.parties:
        if party.asked and last is not None:
            text = f"{party.party} waits for a person's approval, {elapsed(party.asked)}."
            remedy = f"Its own people see why, and answer: `opboost approve SITE {last.run}`."
            notes.append(Note("warn", text, remedy))
        if party.stopped:
            notes.append(_stopped(federation, party))
        if party.fault:
            notes.append(Note("bad", f"{party.party}: {party.fault}", "See its other pages."))
        if party.store:
            remedy = (
                "No run releases anything until then. See that the share is mounted; where the "
                "store was moved or replaced on purpose: `opboost ledger recover SITE`."
            )
            notes.append(Note("bad", party.store, remedy))
        if party.missing:
            things = "1 thing" if party.missing == 1 else f"{party.missing} things"
            text = (
                f"The state of {party.party} lacked {things} when it was compared with its store, "
                f"{elapsed(party.checked)} ago."
            )
            remedy = "`opboost ledger check SITE` says which, and what to do; no run releases yet."
            notes.append(Note("bad", text, remedy))
    return notes


def _failed(federation: Federation, of: Purpose, last: Run, words: str) -> Note:
    when = f"{elapsed(last.ended or last.began)} ago"
    text = f"The last run of {words} failed, {when}."
    lines = last.failures or ("It left no message: see its page.",)
    if last.marked_by:
        text = f"The last run of {words} was marked as failed by {last.marked_by}, {when}."
        # The tasks' own messages only reflect the user's action.
        lines = ()
    remedy = " ".join((*last.remedies, RESUME_HINT))
    after = failure_notes(last.charged, federation.champion, of.next_run)
    return Note("bad", text, remedy, (*lines, *after), _links(last))


def _stopped(federation: Federation, party: Party) -> Note:
    by = f"{party.stopped_by} through Airflow" if party.stopped_by else "its own people at home"
    text = (
        f"{party.party} has stopped taking part in {federation.federation}: by {by}, at "
        f"{_at(party.stopped)}, {elapsed(party.stopped)} ago."
    )
    paused = [dag for of in federation.purposes.values() for dag in of.paused]
    if party.resumes_at_home:
        remedy = (
            f'Its own people resume: `opboost resume SITE {federation.federation} --because "..."`.'
        )
        if paused:
            commands = ", ".join(f"`airflow dags unpause {dag}`" for dag in paused)
            remedy += f" Then unpause: {commands}."
        return Note("warn", text, remedy)
    remedy = (
        f"`resume` in {federation.federation}_admin lets it take part again and continues the "
        "schedule."
    )
    return Note("warn", text, remedy, links=(("Resume", _admin(federation)),))


def _admin(federation: Federation) -> str:
    return f"/dags/{federation.federation}_admin"


def _links(run: Run) -> tuple[tuple[str, str], ...]:
    airflow_run = AirflowRun(run.dag, run.name, run.state)
    return (("The run's page", f"run?id={run.run}"), ("The run in Airflow", airflow_run.href))


def _times(federation: Federation) -> list[Fact]:
    facts = []
    for purpose, of in federation.purposes.items():
        # Without any scoring run, scoring is not shown.
        if purpose != "train" and of.last_run is None and of.next_run is None:
            continue
        good, words = of.last_success, "" if purpose == "train" else f" of {PURPOSES[purpose]}"
        ended = good.ended or good.began if good else None
        late = of.last_run is not None and of.last_run.state == "failed"
        value = f"{elapsed(ended)} ago" if ended else "never"
        state: State = "warn" if good is None else "" if late else "good"
        href = f"run?id={good.run}" if good else ""
        facts.append(Fact(f"Last success{words}", value, _at(ended), state, href))
        if federation.faults and purpose == "train":
            facts.append(Fact("Next run", "none", "the federation file is faulty", "bad"))
        elif of.next_run is not None:
            facts.append(Fact(f"Next run{words}", _at(of.next_run), of.schedule))
        elif of.paused:
            why = f"paused in Airflow: {', '.join(of.paused)}"
            facts.append(Fact(f"Next run{words}", "none", why, "warn"))
        elif purpose == "train":
            facts.append(Fact("Next run", "none", "no schedule is declared", "warn"))
    return facts


def _champion(federation: Federation) -> Fact:
    if federation.champion is None:
        return Fact("Champion", "none", "or it is kept by another deployment", "muted")
    age = elapsed(federation.champion_since)
    return Fact("Champion's age", age or "unknown", federation.champion, href="models")


def _left(party: Party) -> RemainingReleases:
    first = next((account for account in party.ledger if account.more == party.more), None)
    named = first.feature if first and party.more is not None else ""
    return RemainingReleases(party.more, named, party.budget)


def _releases_left(federation: Federation) -> Fact:
    shown = [(party.party, _left(party)) for party in federation.parties if party.budget]
    left = [replace(of, hint=f"{party}: {of.hint}") for party, of in shown]
    ends = [of for of in left if of.more is not None]
    first = min(ends, key=lambda of: of.more or 0, default=next(iter(left), None))
    if first is None:
        why = "no party here releases a protected column"
        return Fact("Releases left", "unlimited", why, "muted")
    return remaining_fact(first, href="ledger")


def _parties(federation: Federation) -> Table:
    rows = []
    for party in federation.parties:
        left = _left(party)
        rows.append(
            (
                Cell(party.party, href=f"ledger?party={party.party}"),
                len(party.ledger),
                remaining_cell(left) if party.budget else None,
                left.feature,
                _part(party),
                Cell(party.fault or "readable", state="bad" if party.fault else "good"),
                _checked(party),
            )
        )
    heads = ("party", "columns released", "releases left", "first to end", "takes part")
    name = f"parties_{federation.federation}"
    return Table(name, "Parties", (*heads, "site and state", "state and store"), rows)


def _part(party: Party) -> Cell | None:
    if party.fault:
        return None
    return Cell(f"no, since {_at(party.stopped)}", state="warn") if party.stopped else Cell("yes")


def _checked(party: Party) -> Cell:
    if party.checked is None:
        return Cell("never compared" if not party.fault else "")
    if party.store or party.missing:
        words = "another store" if party.store else f"{party.missing} missing"
        return Cell(words, state="bad")
    return Cell(f"nothing missing, {elapsed(party.checked)} ago", state="good")


def _at(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC" if moment else ""
