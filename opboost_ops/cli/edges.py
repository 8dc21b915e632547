"""`opboost edges`: quantile edges from a public sample, to be declared in the federation file."""

from pathlib import Path
from typing import Annotated, Any

import typer

from opboost_ops.errors import ConfigError


def command(
    sample: Annotated[Path, typer.Argument(help="A Parquet or CSV file of public rows.")],
    column: Annotated[str, typer.Option(help="Its numeric column.")],
    cells: Annotated[int, typer.Option(help="How many cells; |D| at most.")] = 10,
    private: Annotated[
        bool, typer.Option(help="The rows are private: for experiments, without guarantee.")
    ] = False,
    epsilon: Annotated[
        float | None, typer.Option(min=0, help="Also a bucket_response, with a bucket a cell.")
    ] = None,
    lower: Annotated[int, typer.Option(help="L of the domain, for its buckets.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line on stdout.")] = False,
) -> None:
    """Print the `scale` entry whose cells hold equal shares of the sample, as far as ties allow."""
    import json

    import polars as pl
    import yaml

    from opboost_ops.domain import quantile_edges

    frame: pl.DataFrame | None = None
    try:
        frame = pl.read_csv(sample) if sample.suffix == ".csv" else pl.read_parquet(sample)
    except (pl.exceptions.PolarsError, OSError):
        frame = None
    if frame is None:
        raise ConfigError(f"{sample.name} is missing, or neither Parquet nor CSV.")
    if column not in frame.columns or not frame.schema[column].is_numeric():
        raise ConfigError(f"{sample.name} has no numeric column {column}.")
    values = frame.get_column(column).cast(pl.Float64).drop_nulls().drop_nans()
    edges = quantile_edges(values.to_numpy(), cells)
    source = "private_table" if private else "public_sample"
    entry: dict[str, Any] = {"scale": {"edges": list(edges), "source": source}}
    if epsilon is not None:
        # The cells are the domain's first integers: no bucket stays empty, and noise counts these.
        starts = list(range(lower + 1, lower + 1 + len(edges)))
        entry["mechanism"] = {"name": "bucket_response", "epsilon": epsilon, "edges": starts}
    print(json.dumps(entry) if as_json else yaml.safe_dump(entry, sort_keys=False), end="\n")
