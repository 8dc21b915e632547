"""`opboost edges`: edges of a column's cells, of a public sample or privately of the own table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opboost_ops.cli.arguments import AsJson
from opboost_ops.errors import ConfigError

if TYPE_CHECKING:
    from opboost_ops.extras.setup.private_edges import EdgesWritten


def command(
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

    from opboost_ops.extras.lab.scales import compare_scales

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
    from opboost_ops.cli.output.tables import print_scales

    for name, edges in written.columns.items():
        charge = (
            "charged to its account" if edges.charged else "the same draw as before, at no cost"
        )
        print(f"{name}: {', '.join(f'{edge:g}' for edge in edges.edges)}")
        print(f"Epsilon {edges.epsilon:g} for a person added, removed or replaced: {charge}.")
        print_scales(name, compared[name])
    print(f"Written into {written.file}. The edges are public from now on.")
