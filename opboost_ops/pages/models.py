"""The models' page: champion and history, and metrics over versions."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from opboost_ops.config.loading import site_of
from opboost_ops.errors import ContractError
from opboost_ops.models.registry import Decision, Registry
from opboost_ops.pages.blocks import (
    Block,
    Cell,
    Fact,
    Facts,
    Heading,
    Note,
    Pager,
    State,
    Table,
    moment,
    number,
)
from opboost_ops.pages.deployment import Query, guarded
from opboost_ops.pages.model_pictures import over_versions
from opboost_ops.pages.version_facts import (
    ALONE,
    MAIN_MODE,
    VersionFacts,
    by_rank,
    mode_words,
    version_facts,
)

#: Versions on a page and in a plot.
_VERSIONS = 20
_PLOTTED = 30

#: How the verdict on a version stands; a model that is no better is no fault.
_VERDICTS: Mapping[str, State] = {
    "promoted": "good",
    "champion again": "good",
    "kept aside": "",
}

#: The heading of what a run has made.
MODEL = "Model"

_MODES = (
    "Every metric names its mode: desensitised means that the protected features of the held-out "
    "rows were randomised too, as those of new rows will be."
)


def build(party: str, query: Query) -> list[Block]:
    """The versions of every federation whose models a party keeps.

    Args:
        party: Whose.
        query: What is asked for.
    """
    site, _ = site_of(party)
    blocks: list[Block] = []
    kept = federations(site.models)
    for name in kept:
        if not query.sees(name) or query.federation not in (None, name):
            continue
        if len(kept) > 1:
            blocks.append(Heading(name))
        registry = Registry(site.models, name)
        blocks += guarded(partial(_federation, party, name, registry, query))
    return blocks


def federations(models: Path) -> list[str]:
    """Federations that have models in a folder.

    Args:
        models: The label holder's folder of models.
    """
    if not models.is_dir():
        return []
    return sorted(p.name for p in models.iterdir() if p.is_dir() and p.name[0] != ".")


def _federation(party: str, name: str, registry: Registry, query: Query) -> list[Block]:
    blocks: list[Block] = []
    champion: str | None = None
    try:
        champion = registry.champion()
    except ContractError as error:
        blocks.append(Note("bad", error.problem, error.remedy))
    versions = [v for v in registry.versions()[::-1] if query.run in (None, v)]
    history = registry.history()
    decided = {entry.version: entry for entry in history}
    # Only what is shown or plotted is read.
    page, pager = query.paged(versions, _VERSIONS)
    plotted = versions[:_PLOTTED]
    wanted = dict.fromkeys([*page, *plotted, *([champion] if champion else [])])
    facts = {version: version_facts(registry, version) for version in wanted}
    blocks.append(_champion(party, name, champion, facts, decided, len(versions)))
    if versions and versions[0] != champion and (last := decided.get(versions[0])):
        blocks.append(_newest(party, name, champion, last))
    if len(versions) > 1:
        blocks.append(over_versions(plotted[::-1], champion, facts, decided))
    blocks.append(_versions(party, name, champion, page, pager, facts, decided))
    blocks.append(_metrics(party, name, page, pager, facts))
    rows = history[::-1] if query.whole else history[: -_VERSIONS - 1 : -1]
    blocks.append(
        Table(
            f"history_{name}"[:40],
            "Decisions",
            ("at (UTC)", "version", "what", "why"),
            tuple(
                (
                    moment(entry.at),
                    Cell(entry.version, href=f"models/{party}/{name}/{entry.version}"),
                    Cell(entry.event),
                    Cell(entry.why),
                )
                for entry in rows
                if query.run in (None, entry.version)
            ),
            federation=name,
        )
    )
    return blocks


def _versions(
    party: str,
    name: str,
    champion: str | None,
    page: Sequence[str],
    pager: Pager | None,
    facts: Mapping[str, VersionFacts],
    decided: Mapping[str, Decision],
) -> Table:
    main = facts[page[0]].main if page else ""
    start = f"models/{party}/{name}"
    return Table(
        f"versions_{name}"[:40],
        "Versions",
        (
            "version",
            "in use",
            "decided (UTC)",
            "decision",
            "epsilon",
            "trained with",
            f"{main or 'metric'} (95 %)",
            "gain over alone (95 %)",
        ),
        tuple(
            (
                Cell(version, href=f"{start}/{version}"),
                _use(start, version, champion),
                moment(decided[version].at) if version in decided else Cell("", ""),
                Cell(decided[version].event, title=decided[version].why)
                if version in decided
                else Cell("", ""),
                facts[version].epsilon(),
                Cell(facts[version].parameters()),
                found.cell() if (found := facts[version].judged(main)) else Cell("", ""),
                gain.cell("+") if (gain := facts[version].gains.get(main)) else Cell("", ""),
            )
            for version in page
        ),
        "On held-out rows, in the mode of scoring; the gain is over the label holder's columns "
        "alone. Why each was decided stands below.",
        "No version was registered yet.",
        pager,
        federation=name,
    )


def _use(start: str, version: str, champion: str | None) -> Cell:
    if version == champion:
        return Cell("champion", state="good")
    # To look at it beside the champion is what one does with any other; in the CSV it is empty.
    beside = f"{start}/{champion}/beside/{version}"
    return Cell("compare", "", href=beside) if champion else Cell("", "")


def _metrics(
    party: str,
    name: str,
    page: Sequence[str],
    pager: Pager | None,
    facts: Mapping[str, VersionFacts],
) -> Table:
    """All metrics of all modes, which have no room beside all else."""
    found = {(m, k) for v in page for m, of in facts[v].metrics.items() for k in of}
    ranks = by_rank({metric for _, metric in found})
    names = sorted(found, key=lambda pair: (pair[0] != MAIN_MODE, pair[0], ranks.index(pair[1])))
    return Table(
        f"metrics_{name}"[:40],
        "Metrics by mode",
        ("version", *(f"{metric}, {mode_words(mode)}" for mode, metric in names)),
        tuple(
            (
                Cell(version, href=f"models/{party}/{name}/{version}"),
                *(number(facts[version].metrics.get(mode, {}).get(k), 4) for mode, k in names),
            )
            for version in page
        ),
        _MODES,
        "No version was registered yet.",
        pager,
        federation=name,
    )


def _champion(
    party: str,
    name: str,
    champion: str | None,
    facts: Mapping[str, VersionFacts],
    decided: Mapping[str, Decision],
    versions: int,
) -> Facts:
    found = [
        Fact(
            "Champion",
            champion or "none",
            _since(decided.get(champion or "")),
            "good" if champion else "warn",
            f"models/{party}/{name}/{champion}" if champion else "",
        ),
        Fact("Versions", f"{versions:,}"),
    ]
    mine = facts[champion].metrics if champion in facts and champion else {}
    alone = mine.get(ALONE, {})
    for mode, of in mine.items():
        if mode == ALONE:
            continue
        for metric in by_rank(of):
            hint = mode_words(mode)
            if metric in alone:
                hint += f"; label holder alone {alone[metric]:.4f}"
            found.append(Fact(metric, f"{of[metric]:.4f}", hint))
    return Facts(tuple(found))


def _newest(party: str, name: str, champion: str | None, last: Decision) -> Note:
    """What everybody asks first: is the new one better, and by how much."""
    links = [("The newest version", f"models/{party}/{name}/{last.version}")]
    if champion:
        beside = f"models/{party}/{name}/{champion}/beside/{last.version}"
        links.append(("Beside the champion", beside))
    text = f"The newest version is {last.version}: {last.event}, {moment(last.at).text} UTC."
    return Note("", text, lines=(last.why,), links=tuple(links))


def _since(decision: Decision | None) -> str:
    return f"since {moment(decision.at).text} UTC" if decision else ""


def run_blocks(party: str, federation: str, run: str) -> list[Block]:
    """What a run made, for the page of a run; nothing if it registered no version here.

    Args:
        party: Whose view.
        federation: The run's federation.
        run: Its id, which is also the version's name.
    """
    site, _ = site_of(party)
    if federation not in federations(site.models):
        return []
    registry = Registry(site.models, federation)
    if run not in registry.versions():
        return []
    last = next((e for e in reversed(registry.history()) if e.version == run), None)
    made = version_facts(registry, run)
    verdict = {"promoted": "promoted", "rolled back": "champion again"}.get(
        last.event if last else "", "kept aside"
    )
    facts = [Fact("Verdict", verdict, last.why, _VERDICTS[verdict])] if last else []
    facts.append(Fact("Model version", run, href=f"models/{party}/{federation}/{run}"))
    for metric in by_rank(made.metrics.get(made.mode, {})):
        of = made.judged(metric)
        assert of is not None
        told = "" if of.low is None else f", 95 %: {of.low:.4f} to {of.high:.4f}"
        facts.append(Fact(metric, f"{of.value:.4f}", f"{mode_words(made.mode)}{told}"))
    return [Heading(MODEL), Facts(tuple(facts))]
