"""Many measurements, each kept as soon as it is made: an interrupted experiment goes on."""

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import polars as pl

from benchmarks.papers.experiment import Options

#: One measurement's setting: what it is about, and its seed.
Cell = Mapping[str, Any]


def measure_all(
    cells: Sequence[Cell],
    measure: Callable[[Cell], Mapping[str, float]],
    name: str,
    options: Options,
) -> pl.DataFrame:
    """Measure all cells, but those that are cached already.

    Args:
        cells: Settings, plain values by name, the same names in all.
        measure: Gives figures by name for one setting.
        name: Of the cache, a Parquet file in the experiment's folder of work.
        options: The experiment's.

    Returns:
        A row for each of ``cells``, in their order: setting and figures.
    """
    path = options.work / f"{name}.parquet"
    known = pl.read_parquet(path).to_dicts() if path.is_file() else []
    names = sorted({name for cell in cells for name in cell})
    found = {_key(row, names): row for row in known}
    for done, cell in enumerate(cells, start=1):
        key = _key(cell, names)
        if key not in found:
            found[key] = {**cell, **measure(cell)}
            _write(path, found.values())
        if options.progress is not None:
            options.progress(done, len(cells))
    return pl.DataFrame([found[_key(cell, names)] for cell in cells], infer_schema_length=None)


def summary(rows: pl.DataFrame, by: Sequence[str], figures: Sequence[str]) -> list[dict[str, Any]]:
    """Mean and spread of figures over seeds.

    Args:
        rows: As `run` gives them, with a column ``seed``.
        by: Columns that name a setting.
        figures: Columns to average.

    Returns:
        For each setting its names, ``seeds``, and for each figure its mean and, as
        ``<figure>_sd``, its standard deviation over seeds (0 for a single one).
    """
    lines = []
    for names, group in rows.group_by(by, maintain_order=True):
        line: dict[str, Any] = dict(zip(by, names, strict=True))
        line["seeds"] = group.height
        for figure in figures:
            values = [v for v in group.get_column(figure).to_list() if v is not None]
            line[figure] = round(fmean(values), 6) if values else None
            line[f"{figure}_sd"] = round(stdev(values), 6) if len(values) > 1 else 0.0
        lines.append(line)
    return lines


def _key(row: Mapping[str, Any], names: Iterable[str]) -> str:
    return json.dumps({name: _plain(row.get(name)) for name in names}, sort_keys=True)


def _plain(value: Any) -> Any:
    # A whole number comes back from a file as a float where others of its column are floats.
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        return int(value)
    return value


def _write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    pl.DataFrame(list(rows), infer_schema_length=None).write_parquet(temporary)
    temporary.replace(path)
