"""A federation on one page for who looks once a month: is it on, worth it, and at what cost."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial

from opboost_ops.config.loading import site_of
from opboost_ops.display.blocks import (
    Block,
    Cell,
    Fact,
    Facts,
    Figure,
    Figures,
    Heading,
    Note,
    State,
    Table,
    number,
)
from opboost_ops.display.charts import bars, colour_of
from opboost_ops.errors import ArtifactError
from opboost_ops.exchange.books import open_books
from opboost_ops.models.versions import Version, federations_in, models_of
from opboost_ops.pages import airflow
from opboost_ops.pages.deployment import Query, federations, guarded, has_books, parties
from opboost_ops.pages.kept_ledger import ledger_of
from opboost_ops.pages.ledger import pace
from opboost_ops.pages.period import Period, asked_for, sums
from opboost_ops.privacy.statement import forecasts_of

#: Incidents that are listed.
_INCIDENTS = 20

#: Parties that are named with their shares in one figure.
_NAMED = 4

Incident = tuple[str, str, str, str]


def blocks(query: Query) -> list[Block]:
    """A part for each federation.

    Args:
        query: What is asked for, with the period's days.
    """
    period = asked_for(query)
    names = [name for name in federations(query) if query.federation in (None, name)]
    if not names:
        return [Note("muted", "No federation of this deployment may be shown to you.")]
    made: list[Block] = []
    for name in names:
        made.append(Heading(f"{name}, {period.words}"))
        made += guarded(partial(_federation, name, period, query.dags(name, "train")))
    return made


def _federation(name: str, period: Period, dags: Sequence[str]) -> list[Block]:
    runs = _runs(dags, period)
    found = _champion(name)
    incidents = [
        (at.isoformat(timespec="seconds"), "a run has failed", run.run, _why(run, own=dags[0]))
        for run in runs
        if run.state == "failed" and (at := run.ended or run.began)
    ]
    rows: list[tuple[Cell, ...]] = []
    told: list[Block] = []
    for party in parties():
        # The fault of one party spares the others.
        told += guarded(partial(_party, party, name, period, rows, incidents))
    made: list[Block] = [Facts((*_on(dags, runs), *_worth(found)))]
    made += [_cost(name, rows), *told, _table(name, incidents)]
    if found is not None and found.shares:
        made.append(_brings(found))
    return made


def _runs(dags: Sequence[str], period: Period) -> list[airflow.Seen]:
    begin, end = (datetime.fromisoformat(at) for at in (period.begin, period.end))
    return airflow.between(dags, begin, end)


def _on(dags: Sequence[str], runs: Sequence[airflow.Seen]) -> list[Fact]:
    ahead = min((at for at in airflow.next_times(dags).values() if at is not None), default=None)
    last = airflow.latest(dags, ["success"])
    ended = (last[0].ended or last[0].began) if last else None
    failed = sum(run.state == "failed" for run in runs)
    state: State = "good" if ended and ahead else "warn"
    when = f"next run {ahead:%Y-%m-%d %H:%M} UTC" if ahead else "no next run is planned"
    is_on = "on" if ahead else "by hand, or paused"
    success = f"last success {ended:%Y-%m-%d}" if ended else "no success yet"
    bad: State = "bad" if failed else ""
    return [
        Fact("Is it on", is_on, f"{success}; {when}", state),
        Fact("Runs in these days", f"{len(runs):,}", f"{failed:,} failed", bad),
    ]


def _why(run: airflow.Seen, own: str) -> str:
    """What the first of its failed tasks says; elsewhere than in our own DAG only a party's."""
    failed = (t for t in airflow.tasks(run) if t.state == "failed" and (t.party or run.dag == own))
    first = next(failed, None)
    if first is None:
        return run.name
    said = (first.failure or {}).get("problem", "ended without a message")
    return f"{first.title}: {said}".partition("\n")[0]


def _champion(name: str) -> Version | None:
    """The champion's facts, at the party of this deployment that keeps the models, if any does."""
    for party in parties():
        site, _ = site_of(party)
        if name in federations_in(site.models):
            models = models_of(party, site.models, name)
            return models.version(models.champion) if models.champion else None
    return None


def _worth(found: Version | None) -> list[Fact]:
    if found is None:
        return [Fact("What is it worth", "unknown", "the label holder keeps the model", "muted")]
    main = found.main
    judged, gain = found.judged(main), found.gains.get(main)
    facts = []
    if judged is not None:
        span = "" if judged.low is None else f"95 %: {judged.low:.3f} to {judged.high:.3f}"
        facts.append(Fact(f"The model's {main}", f"{judged.value:.3f}", span))
    if gain is not None and gain.low is not None and gain.high is not None:
        # An interval that holds zero does not show that the others' columns are worth anything.
        shown = gain.low > 0
        told = f"95 %: {gain.low:+.3f} to {gain.high:+.3f}"
        told += "" if shown else "; zero is among them: not shown to be worth anything"
        state: State = "good" if shown else "warn"
        facts.append(Fact("Gain over alone", f"{gain.value:+.3f}", told, state))
    if brought := [*found.shares_by_party.items()]:
        party, share = brought[0]
        rest = ", ".join(f"{name} {100 * of:.1f} %" for name, of in brought[1:_NAMED])
        rest += ", others less" if len(brought) > _NAMED else ""
        facts.append(Fact("Columns that bring most", f"{party} {100 * share:.1f} %", rest))
    return facts


def _brings(found: Version) -> Figures:
    rows = [
        (party, 100 * share, colour_of(party, found.parties))
        for party, share in found.shares_by_party.items()
    ]
    told = "splits of the trees" if found.by_splits else "the mean absolute contribution (SHAP)"
    svg = bars(rows, title="What each party's columns bring", unit=" %")
    note = f"Share of {told} to the champion's predictions of held-out rows."
    return Figures("What each party's columns bring", (Figure(svg, "by party"),), note)


def _party(
    party: str,
    name: str,
    period: Period,
    rows: list[tuple[Cell, ...]],
    incidents: list[Incident],
) -> list[Block]:
    """Add a party's line of costs, and what went wrong at it."""
    site, policy = site_of(party)
    if name not in site.tables or not has_books(site):
        return []
    ledger = ledger_of(site)
    with open_books(site) as books:
        try:
            entries = books.audit.of("refused", "rejected")
        except ArtifactError:
            entries = []
    until = ledger.before(period.end)
    then, now = sums(ledger.before(period.begin)), sums(until)
    mine = ledger.columns.get(name, set())
    found = [one for uuid, one in forecasts_of(until, policy).items() if uuid in mine]
    left = [one for one in found if one.retrainings is not None]
    tightest = min(left, key=lambda one: one.retrainings or 0, default=None)
    fits = None if tightest is None else tightest.retrainings
    state: State = "" if fits is None else "bad" if fits == 0 else "warn" if fits < 7 else ""
    ends = "" if not fits else pace(ledger.lines.between("", period.end), fits)
    caps = policy.all_features
    endless = "no end" if any(one.lasts for one in found) else "no budget" if found else ""
    row = (
        Cell(party, href=f"ledger?party={party}"),
        *(number(b - a if b != float("inf") else b) for a, b in zip(then, now, strict=True)),
        number(now[0]),
        number(now[1]),
        number(caps.budget_whole),
        Cell(endless if fits is None else f"{fits:,}", fits, state),
        Cell(ends),
    )
    words: Mapping[str, str] = {"refused": "a release was refused", "rejected": "was rejected"}
    rows.append(row)
    for entry in entries:
        parts = entry.place.split("/")
        if entry.action in words and period.has(entry.at) and parts[0] == name and len(parts) > 1:
            what = f"{party}: {words[entry.action]}"
            incidents.append((entry.at, what, parts[1], entry.detail.replace("_", " ")))
    return []


def _cost(name: str, rows: Sequence[tuple[Cell, ...]]) -> Table:
    heads = (
        "party",
        "loss(1) in these days",
        "loss(R-L) in these days",
        "loss(1) in all",
        "loss(R-L) in all",
        "budget(R-L), a person",
        "retrainings left",
        "ends about",
    )
    note = (
        "What a person was charged at worst, over all features and federations of the party; "
        "loss(1) for a move by one step, loss(R-L) for one across the domain."
    )
    title = "What it has cost in privacy, and what is left"
    return Table(f"cost_{name}"[:40], title, heads, tuple(rows), note, federation=name)


def _table(name: str, incidents: Sequence[Incident]) -> Table:
    ordered = sorted(incidents, reverse=True)
    note = f"{len(ordered):,} in these days" if ordered else ""
    if len(ordered) > _INCIDENTS:
        note += f", of which the {_INCIDENTS} newest are shown"
    return Table(
        f"incidents_{name}"[:40],
        "Incidents",
        ("at (UTC)", "what", "run", "more"),
        tuple(
            (
                Cell(at[:16].replace("T", " "), at),
                Cell(what),
                Cell(run, href=f"run?id={run}"),
                Cell(more),
            )
            for at, what, run, more in ordered[:_INCIDENTS]
        ),
        note,
        "No run has failed, and nothing was refused or rejected.",
        federation=name,
    )
