"""Step: partial model and split values -> a model on domain values, and held-out rows for it."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from opboost_ops.errors import ArtifactError
from opboost_ops.learning import splits
from opboost_ops.learning.boosters.trainer import format_of
from opboost_ops.pipeline import redaction
from opboost_ops.pipeline.stage import Context, Outcome
from opboost_ops.pipeline.steps.assemble import HIGHEST, HOLDOUT_RANKS
from opboost_ops.pipeline.steps.train import partial_model
from opboost_ops.tables.spill.arrays import slices


def materialise(context: Context) -> Outcome:
    """Replace every rank threshold by the value that the feature's holder returned.

    Raises:
        ArtifactError: An answer lacks a split, or its values do not increase with the ranks.
    """
    bounds = {
        f"{party}.{column.name}": (column.domain.lower, column.domain.upper)
        for party in context.federation.feature_holders
        for column in context.columns(party)
    }
    values: dict[str, dict[int, float]] = {}
    compared: dict[str, tuple[list[float], Any]] = {}
    for party in context.federation.feature_holders:
        request = context.receive("split_request", party).document
        answer = context.receive("split_values", party).document
        for name, ranks in request["splits"].items():
            full, by_rank = f"{party}.{name}", _dict(_dict(answer).get("splits")).get(name)
            values[full] = _values(full, ranks, _dict(by_rank), *bounds[full])
        for name, thresholds in request["thresholds"].items():
            compared[f"{party}.{name}"] = (thresholds, _dict(_dict(answer).get("ranks")).get(name))
    highest = context.home.json("frame").get(HIGHEST, {})
    text = splits.materialise(partial_model(context), values, bounds, highest)
    comparisons = splits.domain_thresholds(text, bounds)
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


def _dict(content: Any) -> dict[str, Any]:
    return content if isinstance(content, dict) else {}


def _values(
    name: str, ranks: Sequence[int], by_rank: Mapping[str, Any], lower: int, upper: int
) -> dict[int, float]:
    """Return a column's values at the requested ranks.

    Raises:
        ArtifactError: A value is missing, or values do not increase within the domain.
    """
    answers = [by_rank.get(str(rank)) for rank in ranks]
    numbers = [float(n) for n in answers if isinstance(n, int | float) and lower <= n <= upper]
    if len(numbers) < len(ranks) or any(a >= b for a, b in pairwise(numbers)):
        raise ArtifactError(
            f"The split values of {name} are incomplete, outside the domain, or not in the order "
            "of their ranks.",
            "Nothing was materialised; ask that party to look into its run.",
        )
    return dict(zip(ranks, numbers, strict=True))


def _cells(
    name: str,
    by_rank: Mapping[int, float],
    comparisons: Sequence[float],
    thresholds: Sequence[float],
    ranks: Any,
) -> tuple[np.ndarray, np.ndarray]:
    """Return a column's thresholds, ascending, with the number of ranks at most as large as each.

    Raises:
        ArtifactError: The numbers of ranks do not increase with the thresholds.
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
    """Yield held-out rows with each rank replaced by a value on the same side of all thresholds."""
    table = context.home.table(HOLDOUT_RANKS)
    for rows in slices(max(table.num_rows, 1)):
        some = table.slice(rows.start, rows.stop - rows.start)
        columns = {name: some.column(name) for name in some.column_names}
        for name, least in lower.items():
            thresholds, ranks = cells.get(name, (np.empty(0), np.empty(0)))
            values = np.full(some.num_rows, float(least))
            there = some.column(name).is_valid().to_numpy()
            if len(thresholds):
                # A value is at most a threshold if its rank is at most the threshold's rank.
                mine = some.column(name).fill_null(0).to_numpy()
                places = np.searchsorted(ranks, mine, side="left")
                values = splits.representatives(places, thresholds)
            columns[name] = pa.array(np.where(there, values, np.nan))
        yield pa.table(columns)


def model_file(context: Context) -> str:
    """Return the name of the model's file, as the booster names it."""
    return format_of(context.federation.training.trainer).file


def materialised_model(context: Context) -> str:
    """Return the model on domain values that this run has made."""
    return context.home.read(model_file(context)).decode()
