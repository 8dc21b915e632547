"""`opboost plan`, `channel`, `edges`: mechanisms, their channels, and edges of cells."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from opboost_ops.cli.arguments import AsJson, FederationFile
from opboost_ops.errors import ConfigError

if TYPE_CHECKING:
    from opboost_ops.extras.lab.division import Proposal
    from opboost_ops.extras.lab.ranking import Ranking
    from opboost_ops.extras.setup.federation_file import EdgesWritten

#: Column heads of the ends of a loss curve.
_LOSSES = ("loss(1)", "loss(R-L)")


def channel_command(
    mechanism: Annotated[
        str,
        typer.Argument(help="global, geometric, designed, adj, local, bucket, grr or piecewise"),
    ],
    lower: Annotated[int, typer.Option(help="L of the domain.")] = 1,
    upper: Annotated[int, typer.Option(help="R of the domain.")] = 10,
    epsilon: Annotated[float, typer.Option(help="Nominal loss.")] = 1.0,
    theta: Annotated[int, typer.Option(help="Length of a partition (adj, local).")] = 2,
    alpha: Annotated[float, typer.Option(help="Share of the budget (adj).")] = 1.0,
    buckets: Annotated[int, typer.Option(help="How many (bucket).")] = 4,
    most: Annotated[
        float | None, typer.Option(help="Loss between any two values (designed).")
    ] = None,
    cost: Annotated[str, typer.Option(help="absolute or squared (designed).")] = "absolute",
    prior: Annotated[
        str | None,
        typer.Option(help="Weights of all values, with commas; default: even (designed)."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A new file for the table (designed).")] = None,
    as_json: AsJson = False,
) -> None:
    """Print a mechanism's probabilities, counts out of 2^64, and certified loss curve."""
    import json

    from opboost_ops import api
    from opboost_ops.privacy.design import Cost

    measured = api.channel(
        mechanism,
        lower,
        upper,
        most=most,
        cost=cast(Cost, cost),
        prior=prior,
        out=out,
        epsilon=epsilon,
        theta=theta,
        alpha=alpha,
        buckets=buckets,
    )
    channel, curve, design = measured.channel, measured.curve, measured.design
    if as_json:
        print(json.dumps(measured.document()))
        return
    print(f"{curve.mechanism} on [{lower}, {upper}]")
    print("Pr[y | x], a row an input:")
    for x, row in zip(channel.inputs, channel.probabilities(), strict=True):
        print(f"{x:>6} " + " ".join(f"{p:.4f}" for p in row))
    for t, loss in enumerate(curve.loss, start=1):
        print(f"loss({t}) = {loss if isinstance(loss, str) else f'{loss:.4f}'}")
    print(f"loss(t) <= t epsilon {'holds' if curve.certificate else 'does not hold'}")
    if design:
        expected = design["expected_cost"]
        print(
            f"Expected {cost} cost {expected['channel']:.6g}, of the linear programme "
            f"{expected['programme']:.6g}."
        )
        if out is not None:
            print(f"Beside federation.yaml: {out}\nmechanism: {json.dumps(design['declaration'])}")


def edges_command(
    source: Annotated[
        Path,
        typer.Argument(
            help="A Parquet or CSV file of public rows; with --private the party's own folder."
        ),
    ],
    column: Annotated[str, typer.Option(help="Its numeric column.")],
    cells: Annotated[int, typer.Option(help="How many cells, at most |D|.")] = 10,
    private: Annotated[
        float | None,
        typer.Option(help="Draw them from the party's own table; this epsilon is charged."),
    ] = None,
    number: Annotated[
        int, typer.Option(min=1, help="With --private: of the draw; another one costs again.")
    ] = 1,
    federation: Annotated[
        Path | None,
        typer.Option(
            help="With --private: the federation.yaml to write into; default: the party's offer."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find edges of cells that hold about equal shares of the rows.

    For a public sample, prints the `scale` entry. With --private, draws differentially private
    quantiles from the party's own table, charges them to the column in its ledger, and writes them
    into its offer or the federation file. Asked for again, they are the same at no further cost.
    """
    if private is None:
        if federation is not None:
            raise ConfigError("--federation is for edges by --private.")
        _print_sampled(source, column, cells, as_json)
        return
    from opboost_ops import api

    _print_private(api.private_edges(source, private, {column: cells}, federation, number), as_json)


def _print_sampled(sample: Path, column: str, cells: int, as_json: bool) -> None:
    import json

    import polars as pl
    import yaml

    from opboost_ops.domain import quantile_edges
    from opboost_ops.tables.local import read_rows

    frame = read_rows(sample)
    if column not in frame.columns or not frame.schema[column].is_numeric():
        raise ConfigError(f"{sample.name} has no numeric column {column}.")
    values = frame.get_column(column).cast(pl.Float64).drop_nulls().drop_nans()
    edges = quantile_edges(values.to_numpy(), cells)
    entry = {"scale": {"edges": list(edges)}}
    print(json.dumps(entry) if as_json else yaml.safe_dump(entry, sort_keys=False), end="\n")


def _print_private(written: "EdgesWritten", as_json: bool) -> None:
    import json

    from opboost_ops.extras.lab.advice import compare_scales

    compared = {
        name: compare_scales(written.federation, written.party, name) for name in written.columns
    }
    if as_json:
        columns = {
            name: {"scale": edges.scale, "loss": edges.loss, "charged": edges.charged,
                   "compared": [vars(line) for line in compared[name]]}
            for name, edges in written.columns.items()
        }  # fmt: skip
        print(json.dumps({"file": str(written.file), "columns": columns}))
        return
    from opboost_ops.cli.output import print_scales

    for name, edges in written.columns.items():
        charge = (
            "charged to its account" if edges.charged else "the same draw as before, at no cost"
        )
        print(f"{name}: {', '.join(f'{edge:g}' for edge in edges.edges)}")
        print(f"Epsilon {edges.epsilon:g} for a person added, removed or replaced: {charge}.")
        print_scales(name, compared[name])
    print(f"Written into {written.file}. The edges are public from now on.")


def plan_command(
    federation: FederationFile,
    party: Annotated[str | None, typer.Option(help="The feature holder.")] = None,
    sample: Annotated[
        Path | None, typer.Option(help="Public Parquet rows with the same columns (recommended).")
    ] = None,
    max_guess: Annotated[
        float | None,
        typer.Option(help="Cap on the share of values guessed right, all equally likely before."),
    ] = None,
    max_loss_1: Annotated[float | None, typer.Option(help="Cap on a feature's loss(1).")] = None,
    max_loss_whole: Annotated[
        float | None, typer.Option(help="Cap on a feature's loss(R - L).")
    ] = None,
    total_loss_1: Annotated[
        float | None, typer.Option(help="Divide this over columns: the sum of their loss(1).")
    ] = None,
    total_loss_whole: Annotated[
        float | None, typer.Option(help="The same for loss(R - L); may be combined.")
    ] = None,
    importance: Annotated[
        list[str] | None,
        typer.Option(help="NAME=WEIGHT, instead of --sample, to divide a total by."),
    ] = None,
    reach: Annotated[
        float | None,
        typer.Option(help="Find the least total that keeps this share of the unprotected gain."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The picture's file; default: in the party's home.")
    ] = None,
    write: Annotated[
        bool,
        typer.Option(
            "--write", help="Also choose cells, and write the result into federation.yaml."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Rank mechanisms and parameters by the order that they are expected to preserve.

    Without a cap, holds guess rates fixed at those of the declared mechanism: how often the best
    attack guesses a value right, all equally likely before, or between any two. Also applies the
    budgets of the policy.yaml beside the party's site.yaml, which is the file that
    OPBOOST_SITE_<PARTY> names, else PARTY/site.yaml beside federation.yaml. Without --sample, reads
    the party's own table, too. --write judges by the label in the sample, keeps both losses, and
    changes nothing that would not gain.

    With a total, proposes which columns to release and how to divide it among them, from a public
    sample or declared importances. This does not read the party's own table.
    """
    import json

    from opboost_ops import api
    from opboost_ops.cli.output import counting

    totals = {"total_loss_1": total_loss_1, "total_loss_whole": total_loss_whole}
    caps = {"max_loss_1": max_loss_1, "max_loss_whole": max_loss_whole, "max_guess": max_guess}
    weights = _weights(importance or [])
    divided = any(total is not None for total in totals.values())
    if not divided and (weights or reach is not None):
        raise ConfigError(
            "--importance and --reach are for dividing a total.",
            "Give --total-loss-1, --total-loss-whole, or both.",
        )
    result: Proposal | Ranking
    if divided:
        with counting("channels") as progress:
            result = api.divide(
                federation, party, sample=sample, importance=weights, reach=reach,
                out=out, progress=progress, write=write, **totals,
            )  # fmt: skip
        show: Any = _show_proposal
    else:
        with counting("mechanisms") as progress:
            result = api.plan(
                federation, party, sample=sample, out=out, progress=progress, write=write, **caps
            )
        show = _show_ranking
    if as_json:
        print(json.dumps(result.document()))
    else:
        show(result)
        if write:
            print("Written into federation.yaml. Every party has to agree to it.")
        else:
            _show_tables(result.mechanisms, result.picture.parent)


def _weights(texts: list[str]) -> dict[str, float]:
    """Parse weights of the form NAME=NUMBER."""
    weights: dict[str, float] = {}
    for text in texts:
        name, equals, number = text.partition("=")
        if not equals:
            raise ConfigError(f"--importance takes NAME=NUMBER, and {text} has no number.")
        try:
            weights[name] = float(number)
        except ValueError:
            weights[name] = math.nan
    return weights


def _print_block(mechanisms: Mapping[str, Any]) -> None:
    import yaml

    print("For federation.yaml, under the party's features:")
    block = {name: {"mechanism": mechanism} for name, mechanism in mechanisms.items()}
    print(yaml.safe_dump(block, sort_keys=False))


def _show_tables(mechanisms: Mapping[str, Any], folder: Path) -> None:
    names = dict.fromkeys(str(entry["table"]) for entry in mechanisms.values() if "table" in entry)
    if tables := [name for name in names if (folder / name).is_file()]:
        print(f"Put {', '.join(tables)} of {folder} beside federation.yaml.")


def _show_ranking(ranking: "Ranking") -> None:
    from opboost_ops.cli.output import print_fillings, print_scales, print_table
    from opboost_ops.extras.lab.ranking import PRIVATE
    from opboost_ops.privacy.consent.exposure import share_words

    print_fillings(ranking.party, list(ranking.fillings.values()))
    for name, pairs in ranking.candidates.items():
        heads = ("mechanism", "expected weighted Kendall", "guessed", "of two", *_LOSSES)
        rows = []
        for score, candidate in pairs[:5]:
            first, last = candidate.curve.loss[0], candidate.curve.loss[-1]
            cells = (v if isinstance(v, str) else f"{v:.3f}" for v in (first, last))
            guesses = (share_words(candidate.guess), share_words(candidate.of_two))
            rows.append((candidate.curve.mechanism, f"{score:.4f}", *guesses, *cells))
        print_table(f"{name}: order kept, {ranking.caps[name]}", heads, rows)
    for name, lines in ranking.scales.items():
        print_scales(name, lines)
    _print_block(ranking.mechanisms)
    print(f"Picture: {ranking.picture}")
    if not ranking.public:
        print(PRIVATE)


def _show_proposal(proposal: "Proposal") -> None:
    from opboost_ops.cli.output import print_table
    from opboost_ops.extras.lab.division import CHOSEN

    result = proposal.details
    total = {"loss(1)": result["total"]["loss_1"], "loss(R-L)": result["total"]["loss_whole"]}
    caps = ", ".join(f"{name} {cap:.4g}" for name, cap in total.items() if cap is not None)
    heads = ("column", "share", "loss(1)", "loss(R-L)", "policy")
    rows = []
    for line in result["columns"]:
        losses = (f"{line[name]:.3f}" for name in ("loss_1", "loss_whole"))
        verdict = "over its cap" if line["over_policy"] else "keeps its caps"
        rows.append((line["name"], f"{line['share']:.0%}", *losses, verdict))
    print_table(f"{result['party']}: in all at most {caps}", heads, rows)
    left = " that the label holder's own columns leave" if result["beyond_own"] else ""
    print(
        f"Of the label's variance{left} these keep {result['kept']:.3f}; divided evenly over all "
        f"columns {result['kept_evenly']:.3f}; without protection "
        f"{result['kept_unprotected']:.3f}."
    )
    if result["left_out"]:
        print(f"Not released: {', '.join(result['left_out'])}.")
    print(CHOSEN)
    _print_block(proposal.mechanisms)
    print(f"Picture: {proposal.picture}")
