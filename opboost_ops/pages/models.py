"""The models' pages: champion and history, metrics over versions, and one version's card."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from opboost_ops.config.loading import site_of
from opboost_ops.errors import ContractError, OpBoostError
from opboost_ops.models.registry import Decision, Registry
from opboost_ops.pages.blocks import (
    Block,
    Cell,
    Fact,
    Facts,
    Figure,
    Figures,
    Heading,
    Note,
    Table,
    moment,
    number,
)
from opboost_ops.pages.deployment import Query, guarded
from opboost_ops.pages.pictures import Curve, chart

#: Versions on a page and in a plot.
_VERSIONS = 20
_PLOTTED = 30

#: The heading of what a run has made.
MODEL = "Model"

#: The mode by which versions are compared, where they have it.
_MAIN_MODE = "federated_desensitised"


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
    decided: dict[str, Decision] = {}
    for entry in history:
        decided[entry.version] = entry
    # Only what is shown or plotted is read.
    page, pager = query.paged(versions, _VERSIONS)
    wanted = dict.fromkeys([*page, *versions[:_PLOTTED]])
    metrics = {version: _metrics(registry, version) for version in wanted}
    blocks.append(_champion(party, name, champion, metrics, decided, len(versions)))
    if len(versions) > 1:
        blocks.append(_plots(versions[:_PLOTTED][::-1], champion, metrics))
    names = sorted({(m, k) for found in metrics.values() for m, of in found.items() for k in of})
    names.sort(key=lambda pair: pair[0] != _MAIN_MODE)
    blocks.append(
        Table(
            f"versions_{name}"[:40],
            "Versions",
            (
                "version",
                "in use",
                "decided (UTC)",
                "decision",
                *(f"{metric}, {mode.replace('_', ' ')}" for mode, metric in names),
                "why",
            ),
            tuple(
                (
                    Cell(version, href=f"models/{party}/{name}/{version}"),
                    Cell("champion", state="good") if version == champion else Cell("", ""),
                    moment(decided[version].at) if version in decided else Cell("", ""),
                    Cell(decided[version].event if version in decided else ""),
                    *(number(metrics[version].get(mode, {}).get(k), 4) for mode, k in names),
                    Cell(decided[version].why if version in decided else ""),
                )
                for version in page
            ),
            "Every metric names its mode: desensitised means that the protected features of the "
            "held-out rows were randomised too, as those of new rows will be.",
            "No version was registered yet.",
            pager,
        )
    )
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
                for entry in (history[::-1] if query.whole else history[: -_VERSIONS - 1 : -1])
                if query.run in (None, entry.version)
            ),
        )
    )
    return blocks


def _metrics(registry: Registry, version: str) -> Mapping[str, Mapping[str, float]]:
    try:
        found = json.loads(registry.file(version, "evaluation.json"))["metrics"]
        return {str(mode): {str(k): float(v) for k, v in of.items()} for mode, of in found.items()}
    except (OpBoostError, ValueError, KeyError, TypeError, AttributeError):
        # The version's own page says what is wrong; the others are shown.
        return {}


def _champion(
    party: str,
    name: str,
    champion: str | None,
    metrics: Mapping[str, Mapping[str, Mapping[str, float]]],
    decided: Mapping[str, Decision],
    versions: int,
) -> Facts:
    facts = [
        Fact(
            "Champion",
            champion or "none",
            _since(decided.get(champion or "")),
            "good" if champion else "warn",
            f"models/{party}/{name}/{champion}" if champion else "",
        ),
        Fact("Versions", f"{versions:,}"),
    ]
    mine = metrics.get(champion or "", {})
    alone = mine.get("label_holder_alone", {})
    for mode, found in mine.items():
        if mode == "label_holder_alone":
            continue
        for metric, value in found.items():
            hint = f"{mode.replace('_', ' ')}"
            if metric in alone:
                hint += f"; label holder alone {alone[metric]:.4f}"
            facts.append(Fact(metric, f"{value:.4f}", hint))
    return Facts(tuple(facts))


def _since(decision: Decision | None) -> str:
    return f"since {moment(decision.at).text} UTC" if decision else ""


def _plots(
    versions: Sequence[str],
    champion: str | None,
    metrics: Mapping[str, Mapping[str, Mapping[str, float]]],
) -> Figures:
    modes = sorted({m for v in versions for m in metrics[v]}, key=lambda m: m != _MAIN_MODE)
    names = sorted({k for v in versions for of in metrics[v].values() for k in of})
    figures = []
    for metric in names:
        curves = []
        for mode in modes:
            found = [
                (float(at), metrics[v][mode][metric], v)
                for at, v in enumerate(versions)
                if metric in metrics[v].get(mode, {})
            ]
            rings = tuple(
                i for i, (_, _, v) in enumerate(found) if (v, mode) == (champion, modes[0])
            )
            points = [(x, y) for x, y, _ in found]
            curves.append(Curve(mode.replace("_", " "), points, rings=rings))
        ends = {0: versions[0], len(versions) - 1: versions[-1]}
        svg = chart(
            curves,
            title=f"{metric} over versions",
            x_ticks=[(float(at), version[:8]) for at, version in ends.items()],
            from_zero=False,
        )
        figures.append(Figure(svg, metric))
    return Figures(
        "Metrics over versions",
        tuple(figures),
        "Oldest to the left; a ring marks the champion. On held-out rows.",
    )


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
    metrics = _metrics(registry, run).get(_MAIN_MODE, {})
    facts = [
        Fact(
            "Model version",
            run,
            last.why if last else "",
            href=f"models/{party}/{federation}/{run}",
        ),
        *(Fact(k, f"{v:.4f}", "federated desensitised") for k, v in metrics.items()),
    ]
    return [Heading(MODEL), Facts(tuple(facts))]
