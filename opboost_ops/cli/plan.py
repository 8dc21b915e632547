"""`opboost plan`: which mechanism keeps most of the order under a party's caps."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opboost_ops.errors import ConfigError, ContractError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from opboost_ops.config.federation import Federation
    from opboost_ops.config.policy import FeatureRule
    from opboost_ops.privacy.planner import Candidate

_ITSELF = (
    "This plan was tuned on the party's own table: a choice that depends on private data tells "
    "something about them, outside any epsilon. Prefer --sample with public rows of the same kind."
)

#: On a picture of one's own data.
_UNCHARGED = "Drawn from the party's own table: choosing by it is not charged. It stays at home."


def command(
    federation: Annotated[Path, typer.Argument(help="federation.yaml")],
    party: Annotated[str | None, typer.Option(help="Which feature holder.")] = None,
    sample: Annotated[
        Path | None, typer.Option(help="Public Parquet rows with the same columns (recommended).")
    ] = None,
    max_loss_1: Annotated[float | None, typer.Option(help="Cap on loss(1) of a feature.")] = None,
    max_loss_whole: Annotated[
        float | None, typer.Option(help="Cap on loss(R - L) of a feature.")
    ] = None,
    total_loss_1: Annotated[
        float | None, typer.Option(help="Divide this over columns: the sum of their loss(1).")
    ] = None,
    total_loss_whole: Annotated[
        float | None, typer.Option(help="The same of their loss(R - L); both may be given.")
    ] = None,
    importance: Annotated[
        list[str] | None,
        typer.Option(help="NAME=WEIGHT, instead of --sample, to divide a total by."),
    ] = None,
    pilot: Annotated[
        str | None,
        typer.Option(help="Divide by this pilot, which has trained, at the label holder."),
    ] = None,
    reach: Annotated[
        float | None,
        typer.Option(help="Least part of the total that keeps this share of the unprotected."),
    ] = None,
    values: Annotated[
        list[int] | None, typer.Option(help="Compare domains of these sizes at one loss.")
    ] = None,
    near: Annotated[
        list[str] | None,
        typer.Option(help="NAME=DISTANCE, in raw units: where --values have the same loss."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where the picture goes; the party's home when absent.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line on stdout.")] = False,
) -> None:
    """Rank mechanisms and parameters by expected order preservation, at the party, with a picture.

    Caps of the party's own policy.yaml hold too, where it lies beside the federation file.

    With a total, propose which columns to release and how to divide it over them, by a public
    sample, declared importances, or a pilot, which has said the total. With --values, compare sizes
    of the domain. Neither reads the party's own table.
    """
    import json

    from opboost_ops.cli import plan_columns, plan_sizes
    from opboost_ops.cli.progress import counting
    from opboost_ops.config.loading import load_federation
    from opboost_ops.pages.plan_report import plan_report
    from opboost_ops.privacy import planner

    declared = load_federation(federation)
    holder = _holder(declared, party)
    rules = _rules(federation, holder)
    totals = (total_loss_1, total_loss_whole)
    total = None if totals == (None, None) else planner.Caps(*totals)
    if pilot is not None or total is not None:
        asked = plan_columns.Asked(
            federation, holder, sample, tuple(importance or ()), pilot, total,
            reach, out, as_json,
        )  # fmt: skip
        plan_columns.divide(declared, asked, rules)
        return
    if importance or reach is not None:
        raise ConfigError(
            "--importance and --reach are for dividing a total.",
            "Give --total-loss-1, --total-loss-whole, or both.",
        )
    if values:
        caps_at = planner.Caps(max_loss_1, max_loss_whole)
        sizes = plan_sizes.Asked(holder, tuple(values), tuple(near or ()), caps_at, sample, as_json)
        plan_sizes.compare_sizes(declared, sizes)
        return
    if near:
        raise ConfigError("--near is for comparing --values.", "Give the sizes to compare.")
    marginals, home = _marginals(federation, declared, holder, sample, rules)
    domain = declared.domain.to_domain()
    caps = {}
    for name in marginals:
        rule = rules.get(name)
        caps[name] = planner.Caps(
            _least(max_loss_1, rule.max_loss_1 if rule else None),
            _least(max_loss_whole, rule.max_loss_whole if rule else None),
        )
    found = {}
    for cap in dict.fromkeys(caps.values()):
        with counting("mechanisms") as progress:
            found[cap] = planner.candidates(domain, cap, progress)
        if not found[cap]:
            raise ConfigError(
                "No mechanism keeps these caps at an epsilon of 0.001 or more.", "Raise a cap."
            )
    ranked = {
        name: planner.rank(found[caps[name]], domain, marginal)
        for name, marginal in marginals.items()
    }
    folder = out or home
    picture = folder / f"plan-{declared.name}-{holder}.html"
    title = f"A plan for {holder} in {declared.name}"
    picture.parent.mkdir(parents=True, exist_ok=True)
    uncharged = "" if sample else f" {_UNCHARGED}"
    picture.write_text(plan_report(title, ranked, uncharged), encoding="utf-8")
    if out is None:
        picture.chmod(0o600)
    result = {
        "federation": declared.name,
        "party": holder,
        "caps": {n: {"loss_1": c.step, "loss_whole": c.whole} for n, c in caps.items()},
        "tuned_on": "public sample" if sample else "private table",
        "features": {
            name: [_entry(s, c, folder) for s, c in pairs] for name, pairs in ranked.items()
        },
        "picture": str(picture),
    }
    if as_json:
        print(json.dumps(result))
        return
    _show(ranked, folder)
    print(f"Picture: {picture}")
    if sample is None:
        print(_ITSELF)


def _least(*caps: float | None) -> float | None:
    return min((cap for cap in caps if cap is not None), default=None)


def _rules(file: Path, holder: str) -> "Mapping[str, FeatureRule]":
    from opboost_ops.config.loading import POLICY, load_policy
    from opboost_ops.run.party_sites import party_site_file

    site = party_site_file(file, holder)
    if site is None or not (site.parent / POLICY).is_file():
        return {}
    return load_policy(site.parent / POLICY).features


def _holder(declared: "Federation", party: str | None) -> str:
    holders = declared.feature_holders
    if not holders:
        raise ConfigError(
            "In horizontal learning nothing is randomised.", "See what is told: docs/horizontal.md."
        )
    if party is None and len(holders) == 1:
        return holders[0]
    if party not in holders:
        raise ConfigError("Name a feature holder with --party.", f"They are {', '.join(holders)}.")
    return party


def _marginals(
    file: Path,
    declared: "Federation",
    holder: str,
    sample: Path | None,
    rules: "Mapping[str, FeatureRule]",
) -> tuple[dict[str, "np.ndarray"], Path]:
    from contextlib import suppress
    from tempfile import TemporaryDirectory

    import numpy as np
    import polars as pl

    from opboost_ops.config.loading import load_site
    from opboost_ops.config.source import Source
    from opboost_ops.run.party_sites import party_site_file
    from opboost_ops.stages import raw_table
    from opboost_ops.stages.sources import copy
    from opboost_ops.stages.table_files import read_all

    home = Path()
    path = sample
    frame: pl.DataFrame | None = None
    if path is None:
        known = party_site_file(file, holder)
        if known is None:
            raise ConfigError(
                f"No site.yaml of {holder} is known.",
                f"Set OPBOOST_SITE_{holder.upper()}, or give --sample.",
            )
        site = load_site(known)
        if declared.name not in site.tables:
            raise ConfigError(f"site.yaml of {holder} names no table for {declared.name}.")
        table, home = site.tables[declared.name].train, site.home / declared.name
        if isinstance(table, Source):
            site.home.mkdir(parents=True, exist_ok=True, mode=0o700)
            with TemporaryDirectory(prefix=".plan-", dir=site.home) as folder:
                path = Path(folder) / f"{holder}.parquet"
                copy(table, holder, path, (), "")
                frame = read_all(path)
        else:
            path = table
    if frame is None and path is not None:
        with suppress(pl.exceptions.PolarsError, OSError):
            frame = read_all(path)
    if frame is None or path is None:
        raise ConfigError(f"{path.name if path else 'It'} is missing or no Parquet file.")
    domain = declared.domain.to_domain()
    found = {}
    for name, feature in declared.parties[holder].features.items():
        if feature.type == "nominal":
            continue
        rule = rules.get(name)
        # A public sample goes by the declared names, the party's own table by those of its policy.
        column = rule.column if rule and rule.column and sample is None else name
        if column not in frame.columns:
            raise ContractError(f"{path.name} has no column {name}.", "Add it to the sample.")
        values = raw_table.numbers(frame.get_column(column), feature)
        codes = feature.domain_map(domain).encode(values[np.isfinite(values)])
        found[name] = np.bincount(codes - domain.lower, minlength=domain.size)
    return found, home


def _entry(score: float, candidate: "Candidate", folder: Path) -> dict[str, Any]:
    from opboost_ops.cli.plan_files import declaration

    return {
        "mechanism": declaration(candidate.mechanism, folder),
        "expected_weighted_kendall": round(score, 6),
        "loss": list(candidate.curve.loss),
        "certificate": candidate.curve.certificate,
    }


def _show(ranked: dict[str, list[tuple[float, "Candidate"]]], folder: Path) -> None:
    import yaml
    from rich.console import Console
    from rich.table import Table

    from opboost_ops.cli.plan_files import declaration

    console = Console()
    for name, pairs in ranked.items():
        table = Table(title=f"{name}: order kept under the caps")
        for head in ("mechanism", "expected weighted Kendall", "loss(1)", "loss(R-L)"):
            table.add_column(head)
        for score, candidate in pairs[:5]:
            first, last = candidate.curve.loss[0], candidate.curve.loss[-1]
            cells = (v if isinstance(v, str) else f"{v:.3f}" for v in (first, last))
            table.add_row(candidate.curve.mechanism, f"{score:.4f}", *cells)
        console.print(table)
    block = {
        name: {"mechanism": declaration(pairs[0][1].mechanism, folder)}
        for name, pairs in ranked.items()
    }
    console.print("For federation.yaml, under the party's features:")
    print(yaml.safe_dump(block, sort_keys=False))
