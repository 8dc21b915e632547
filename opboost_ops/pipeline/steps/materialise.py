"""Arrow: partial model and split values -> a model on domain values, and held-out rows for it."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from opboost_ops.domain import Domain
from opboost_ops.errors import ArtifactError
from opboost_ops.learning import splits
from opboost_ops.learning.boosters.trainer import format_of
from opboost_ops.pipeline import redaction
from opboost_ops.pipeline.stage import Context, Outcome
from opboost_ops.pipeline.steps.assemble import HIGHEST, HOLDOUT_RANKS
from opboost_ops.pipeline.steps.train import partial_model
from opboost_ops.tables.spill.arrays import slices


def materialise(context: Context) -> Outcome:
    """Replace every rank threshold by the value that its feature's holder gave.

    Raises:
        ArtifactError: An answer lacks a split, or its values do not rise with the ranks.
    """
    partial = partial_model(context)
    values: dict[str, dict[int, float]] = {}
    bounds: dict[str, tuple[int, int]] = {}
    compared: dict[str, tuple[list[float], Any]] = {}
    for party in context.federation.feature_holders:
        domains = {column.name: column.domain for column in context.columns(party)}
        bounds |= {f"{party}.{name}": (d.lower, d.upper) for name, d in domains.items()}
        request, answer = _answered(context, party)
        answers, ranks_of = answer.get("splits"), answer.get("ranks")
        for name, ranks in request["splits"].items():
            values_of = answers.get(name) if isinstance(answers, dict) else None
            numbers = [
                values_of.get(str(r)) if isinstance(values_of, dict) else None for r in ranks
            ]
            if not _rising(numbers, domains[name]):
                raise ArtifactError(
                    f"The split values of {party}.{name} are incomplete, outside the domain, or "
                    "not in the order of their ranks.",
                    "Nothing was materialised; ask that party to look into its run.",
                )
            values[f"{party}.{name}"] = dict(
                zip(ranks, (float(n) for n in numbers if n is not None), strict=True)
            )
        for name, thresholds in request["thresholds"].items():
            ranks = ranks_of.get(name) if isinstance(ranks_of, dict) else None
            compared[f"{party}.{name}"] = (thresholds, ranks)
    highest = context.home.json("frame").get(HIGHEST, {})
    text = splits.materialise(partial, values, bounds, highest)
    comparisons = splits.comparisons(text, bounds)
    cells = {
        name: _cells(
            name, values.get(name, {}), comparisons.get(name, []), *compared.get(name, ([], []))
        )
        for name in bounds
    }
    lower = {name: low for name, (low, _) in bounds.items()}
    return Outcome(
        tables={"holdout_frame": _in_values(context, cells, lower)},
        files={model_file(context): text.encode()},
        summary={"splits": redaction.counts({name: len(v) for name, v in values.items()})},
    )


def _answered(context: Context, party: str) -> tuple[Any, Any]:
    """The request to a feature holder, and its answer."""
    request = context.receive("split_request", party)
    answer = context.receive("split_values", party)
    values = answer.document if isinstance(answer.document, dict) else {}
    return request.document, values


def _cells(
    name: str,
    by_rank: Mapping[int, float],
    comparisons: Sequence[float],
    thresholds: Sequence[float],
    ranks: Any,
) -> tuple[np.ndarray, np.ndarray]:
    """Thresholds on a column, rising, and how many ranks are at most as large as each.

    Raises:
        ArtifactError: They do not rise together.
    """
    both: dict[float, Any] = dict(zip(comparisons, sorted(by_rank), strict=True))
    if not isinstance(ranks, list) or len(ranks) != len(thresholds):
        ranks = [-1] * len(thresholds)
    for threshold, rank in zip(thresholds, ranks, strict=True):
        both[threshold] = rank if both.get(threshold, rank) == rank else -1
    rising = [both[threshold] for threshold in sorted(both)]
    if any(type(rank) is not int or rank < 0 for rank in rising) or rising != sorted(rising):
        raise ArtifactError(
            f"The ranks at thresholds on {name} are incomplete, or not in the thresholds' order.",
            "Nothing was materialised; ask that party to look into its run.",
        )
    return np.array(sorted(both), dtype=np.float64), np.array(rising, dtype=np.int64)


def _in_values(
    context: Context, cells: Mapping[str, tuple[np.ndarray, np.ndarray]], lower: Mapping[str, int]
) -> Iterator[pa.Table]:
    """Held-out rows, each rank replaced by a value on the same side of every threshold."""
    table = context.home.table(HOLDOUT_RANKS)
    for rows in slices(max(table.num_rows, 1)):
        some = table.slice(rows.start, rows.stop - rows.start)
        columns = {name: some.column(name) for name in some.column_names}
        for name, least in lower.items():
            thresholds, ranks = cells.get(name, (np.empty(0), np.empty(0)))
            values = np.full(some.num_rows, float(least))
            there = some.column(name).is_valid().to_numpy()
            if len(thresholds):
                # A value is at most a threshold where its rank is at most the threshold's.
                mine = some.column(name).fill_null(0).to_numpy()
                places = np.searchsorted(ranks, mine, side="left")
                values = splits.stand_ins(places, thresholds)
            columns[name] = pa.array(np.where(there, values, np.nan))
        yield pa.table(columns)


def model_file(context: Context) -> str:
    """Name of the model's file, as its booster calls it."""
    return format_of(context.federation.training.trainer).file


def materialised_model(context: Context) -> str:
    """The model on domain values that this run has made."""
    return context.home.read(model_file(context)).decode()


def _rising(numbers: list[float | None], domain: Domain) -> bool:
    real = [n for n in numbers if isinstance(n, int | float) and domain.lower <= n <= domain.upper]
    return len(real) == len(numbers) and all(a < b for a, b in pairwise(real))
