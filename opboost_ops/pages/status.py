"""The status page: is each federation on, since when, and what stands in its way."""

from collections.abc import Sequence
from datetime import datetime

from opboost_ops.display.blocks import Block, Cell, Fact, Facts, Heading, Links, Note, State, Table
from opboost_ops.pages.airflow import Seen, ago
from opboost_ops.pages.state import Federation, Party, Run

#: A run that has been under way for longer is looked at, in seconds.
_LONG = 3600


def blocks(found: Sequence[Federation]) -> list[Block]:
    """A part for each federation.

    Args:
        found: How they stand.
    """
    if not found:
        return [Note("muted", "No federation of this deployment may be shown to you.")]
    made: list[Block] = []
    for one in found:
        made.append(Heading(one.federation))
        made += _problems(one)
        made.append(Facts((*_times(one), _champion(one), _nights(one))))
        made.append(_parties(one))
        acts = ("Promote, roll back, stop taking part", f"/dags/{one.federation}_admin")
        made.append(Links((acts,)))
    return made


def _problems(one: Federation) -> list[Block]:
    last = one.last_run
    found: list[Block] = []
    if last is not None and last.state == "failed":
        lines = last.failures or ("It has left no message: its own page says more.",)
        text = f"The last run has failed, {ago(last.ended or last.began)} ago."
        remedy = " ".join(last.remedies) or "Its page says what to do."
        found.append(Note("bad", text, remedy, lines, _links(last)))
    if last is not None and last.state in ("running", "queued"):
        longest = max(last.waiting.values(), default=0.0)
        lines = tuple(f"{task}, {_lasting(seconds)}" for task, seconds in last.waiting.items())
        text = f"A run is under way for {ago(last.began)}."
        state: State = "warn" if longest > _LONG else ""
        found.append(Note(state, text, "", lines, _links(last)))
    for party in one.parties:
        if party.asked and last is not None:
            text = f"{party.party} waits for a person's approval, {ago(party.asked)}."
            remedy = f"Its own people see why, and answer: `opboost approve SITE {last.run}`."
            found.append(Note("warn", text, remedy))
        if party.stopped:
            text = f"{party.party} has stopped taking part, {ago(party.stopped)} ago."
            remedy = "Its own people end that: `opboost resume SITE FEDERATION`."
            found.append(Note("warn", text, remedy))
        if party.fault:
            found.append(Note("bad", f"{party.party}: {party.fault}", "Its other pages say more."))
    return found


def _links(run: Run) -> tuple[tuple[str, str], ...]:
    seen = Seen(run.dag, run.name, run.state)
    return (("The run's page", f"run?id={run.run}"), ("The run in Airflow", seen.href))


def _times(one: Federation) -> list[Fact]:
    good = one.last_success
    ended = good.ended or good.began if good else None
    late = one.last_run is not None and one.last_run.state == "failed"
    succeeded = Fact(
        "Last success",
        f"{ago(ended)} ago" if ended else "never",
        _at(ended),
        "warn" if good is None else "" if late else "good",
        f"run?id={good.run}" if good else "",
    )
    if one.next_run is None:
        ahead = Fact("Next run", "none", "no time is declared, or the DAG is paused", "warn")
    else:
        ahead = Fact("Next run", _at(one.next_run))
    return [succeeded, ahead]


def _champion(one: Federation) -> Fact:
    if one.champion is None:
        return Fact("Champion", "none", "or it is kept by another deployment", "muted")
    age = ago(one.champion_since)
    return Fact("Champion's age", age or "unknown", one.champion, href="models")


def _nights(one: Federation) -> Fact:
    left = [(p.retrainings, p.party) for p in one.parties if p.retrainings is not None]
    if not left:
        return Fact("Budget left", "no end", "no budget ends the retrainings", "muted")
    fits, party = min(left)
    state: State = "bad" if fits == 0 else "warn" if fits < 7 else "good"
    words = "retraining" if fits == 1 else "retrainings"
    return Fact(
        "Budget left", f"{fits} {words}", f"until a budget of {party} ends", state, "ledger"
    )


def _parties(one: Federation) -> Table:
    rows = []
    for party in one.parties:
        tightest = min(
            (a for a in party.ledger if a.retrainings is not None),
            key=lambda account: account.retrainings or 0,
            default=None,
        )
        left = party.retrainings
        state: State = "" if left is None else "bad" if left == 0 else "warn" if left < 7 else ""
        rows.append(
            (
                Cell(party.party, href=f"ledger?party={party.party}"),
                Cell(str(len(party.ledger)), len(party.ledger)),
                Cell("no end" if left is None else f"{left:,}", left, state),
                Cell(tightest.feature if tightest else ""),
                _part(party),
                Cell(party.fault or "can be read", state="bad" if party.fault else "good"),
            )
        )
    heads = (
        "party",
        "columns released",
        "retrainings left",
        "first to end",
        "takes part",
        "site and books",
    )
    return Table(f"parties_{one.federation}"[:40], "Parties", heads, tuple(rows))


def _part(party: Party) -> Cell:
    if party.fault:
        return Cell("", "")
    return Cell(f"no, since {_at(party.stopped)}", state="warn") if party.stopped else Cell("yes")


def _at(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC" if moment else ""


def _lasting(seconds: float) -> str:
    minutes = int(seconds) // 60
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
