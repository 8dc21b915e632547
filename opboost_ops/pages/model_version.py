"""One model version's page: metrics, importance, files and card."""

import json
from collections.abc import Mapping
from typing import Any

from opboost_ops.config.loading import site_of
from opboost_ops.config.shared_columns import EVERYONE
from opboost_ops.errors import ContractError
from opboost_ops.models.registry import Registry
from opboost_ops.pages.acting import on_version
from opboost_ops.pages.blocks import (
    Block,
    Cell,
    Fact,
    Facts,
    Figure,
    Figures,
    Frame,
    Heading,
    Links,
    Note,
    Table,
    count,
    number,
)
from opboost_ops.pages.curve_figures import curve_blocks
from opboost_ops.pages.deployment import guarded
from opboost_ops.pages.models import federations
from opboost_ops.pages.pictures import bars
from opboost_ops.pages.score_figures import held_out_blocks
from opboost_ops.pages.scored_runs import since
from opboost_ops.pages.version_facts import by_rank, mode_words

#: Features in the picture of importance.
_FEATURES = 20

#: A smaller share is none to the digit that is shown.
_LEAST = 0.0005

#: What may be downloaded of a version, and how it is served.
FILES: Mapping[str, str] = {
    "model.txt": "text/plain; charset=utf-8",
    "model.json": "application/json",
    "card.json": "application/json",
    "card.html": "text/html; charset=utf-8",
    "evaluation.json": "application/json",
    "scoring.json": "application/json",
}


def version(party: str, federation: str, name: str) -> list[Block]:
    """One version: what it is made of, and its card.

    Args:
        party: The label holder.
        federation: Whose model.
        name: The version.
    """
    registry = _registry(party, federation)
    made = registry.file(name, "card.json")
    start = f"models/{party}/{federation}/{name}"
    there = registry.names(name)
    links = Links(
        (
            ("The run that made it", f"run?id={name}"),
            *((f"Download {file}", f"{start}/{file}?save=1") for file in FILES if file in there),
        )
    )
    blocks: list[Block] = guarded(lambda: _card(json.loads(made), registry.champion() == name))
    held_out = json.loads(registry.file(name, "evaluation.json"))
    blocks += guarded(lambda: curve_blocks(held_out))
    blocks += guarded(lambda: held_out_blocks(held_out))
    home = site_of(party)[0].home / federation
    blocks += guarded(lambda: since(home, name, held_out))
    blocks += guarded(lambda: [_acts(party, federation, name, registry)])
    return [*blocks, links, Heading("Card"), Frame(f"Card of {name}", f"{start}/card.html")]


def version_file(party: str, federation: str, name: str, file: str) -> bytes:
    """A file of a version.

    Args:
        party: The label holder.
        federation: Whose model.
        name: The version.
        file: One of `FILES`.

    Raises:
        ContractError: There is none.
    """
    return _registry(party, federation).file(name, file)


def _registry(party: str, federation: str) -> Registry:
    site, _ = site_of(party)
    if federation not in federations(site.models):
        raise ContractError(f"{party} keeps no models of {federation}.")
    return Registry(site.models, federation)


def _acts(party: str, federation: str, name: str, registry: Registry) -> Note:
    _, policy = site_of(party)
    used = any(e.version == name and e.event != "kept" for e in registry.history())
    champion = registry.champion() == name
    return on_version(party, federation, name, champion=champion, former=used, allowed=policy.acts)


def _card(card: Mapping[str, Any], champion: bool) -> list[Block]:
    # Read as plain JSON: a version keeps the card of the software that made it.
    blocks: list[Block] = []
    if card.get("experiment"):
        blocks.append(Note("warn", "An experiment, without any guarantee."))
    training = card.get("training", {})
    blocks.append(
        Facts(
            (
                Fact("In use", "champion" if champion else "no", state="good" if champion else ""),
                Fact("Predicts", str(card.get("label", "")), _target(card)),
                Fact("Trees", str(training.get("trees", "")), f"depth {training.get('depth', '')}"),
                Fact("Held-out rows", f"{card.get('held_out_rows', 0):,}"),
            )
        )
    )
    if words := tuple(card.get("training_words", ())):
        blocks.append(Note("", "How it was trained", lines=words))
    metrics = card.get("metrics", {})
    names = by_rank({name for of in metrics.values() for name in of})
    titles = {line["name"]: str(line["title"]) for line in card.get("modes", ())}
    blocks.append(
        Table(
            "metrics",
            "Metrics on held-out rows",
            ("trained on", *names),
            tuple(
                (
                    Cell(titles.get(mode, mode_words(mode))),
                    *(number(of.get(name), 4) for name in names),
                )
                for mode, of in metrics.items()
            ),
        )
    )
    return [*blocks, *_importance(card)]


def _target(card: Mapping[str, Any]) -> str:
    task, classes = str(card.get("task", "")), list(card.get("classes") or ())
    return f"{task}, positive: {classes[1]}" if len(classes) == 2 else task


def _importance(card: Mapping[str, Any]) -> list[Block]:
    parties = [p["name"] for p in card.get("parties", [])]
    splits = {(f["party"], f["name"]): int(f["splits"]) for f in card.get("features", [])}
    listed = card.get("importance") or []
    shares = {(i["party"], i["feature"]): float(i["share"]) for i in listed}
    told = "Share of the mean absolute contribution to held-out predictions."
    if not shares:
        whole = sum(splits.values()) or 1
        shares = {key: found / whole for key, found in splits.items()}
        told = "Share of all splits of the trees."
    mechanisms = {(f["party"], f["name"]): f.get("mechanism") for f in card.get("features", [])}
    unprotected = "none: it stays with the label holder"
    common = any(p == EVERYONE for p, _ in splits)
    if common:
        unprotected = "none: it stays at home, and sums leave"
    keys = sorted({*shares, *splits}, key=lambda key: -shares.get(key, 0.0))
    group = {name: at for at, name in enumerate(parties)}
    by_party = {p: sum(s for (of, _), s in shares.items() if of == p) for p in parties}
    shown = [key for key in keys[:_FEATURES] if shares.get(key, 0.0) >= _LEAST] or keys[:1]
    features = Figure(
        bars(
            [(f"{p}.{f}", 100 * shares.get((p, f), 0.0), group.get(p, 0)) for p, f in shown],
            title="Importance of features",
            unit=" %",
        ),
        "by feature"
        if len(shown) == len(keys)
        else f"the {len(shown)} first of {len(keys)} features",
    )
    whole_parties = Figure(
        bars(
            [
                (p, 100 * share, group[p])
                for p, share in sorted(by_party.items(), key=lambda one: -one[1])
            ],
            title="Importance of parties",
            unit=" %",
        ),
        "by party",
    )
    rows = tuple(
        (
            Cell(p),
            Cell(f),
            Cell(mechanisms.get((p, f)) or unprotected),
            Cell(
                f"{100 * shares.get((p, f), 0.0):.1f} %",
                shares.get((p, f), 0.0),
                share=shares.get((p, f), 0.0) / (max(shares.values(), default=0.0) or 1.0),
            ),
            count(splits.get((p, f))),
        )
        for p, f in keys
    )
    return [
        Figures("Importance", (features,) if common else (whole_parties, features), told),
        Table("features", "Features", ("party", "feature", "protection", "share", "splits"), rows),
    ]
