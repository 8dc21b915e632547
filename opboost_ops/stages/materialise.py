"""Arrow: partial model and split values -> a model on domain values."""

from itertools import pairwise
from typing import Any

from opboost_ops.boosting import splits
from opboost_ops.boosting.trainer import format_of
from opboost_ops.domain import Domain
from opboost_ops.errors import ArtifactError
from opboost_ops.stages import brevity
from opboost_ops.stages.answer_splits import midpoints
from opboost_ops.stages.chosen import RANK_VALUES
from opboost_ops.stages.request_splits import splits_used
from opboost_ops.stages.stage import Context, Outcome
from opboost_ops.stages.train import partial_model


def materialise(context: Context) -> Outcome:
    """Replace every rank threshold by the value that its feature's holder gave.

    Raises:
        ArtifactError: An answer lacks a split, or its values do not rise with the ranks.
    """
    partial = partial_model(context)
    values: dict[str, dict[int, float]] = {}
    bounds: dict[str, tuple[int, int]] = {}
    for party in context.federation.feature_holders:
        domains = {column.name: column.domain for column in context.columns(party)}
        bounds |= {f"{party}.{name}": (d.lower, d.upper) for name, d in domains.items()}
        asked, given = _answered(context, party)
        for name, ranks in asked.items():
            found = given.get(name) if isinstance(given, dict) else None
            numbers = [found.get(str(r)) if isinstance(found, dict) else None for r in ranks]
            if not _rising(numbers, domains[name]):
                raise ArtifactError(
                    f"The split values of {party}.{name} are incomplete, outside the domain, or "
                    "not in the order of their ranks.",
                    "Nothing was materialised; ask that party to look into its run.",
                )
            values[f"{party}.{name}"] = dict(
                zip(ranks, (float(n) for n in numbers if n is not None), strict=True)
            )
    text = splits.materialise(partial, values, bounds)
    return Outcome(
        files={model_file(context): text.encode()},
        documents={"split_values": values},
        summary={"splits": brevity.counts({name: len(v) for name, v in values.items()})},
    )


def _answered(context: Context, party: str) -> tuple[dict[str, list[int]], Any]:
    """The splits on a feature holder's columns, and the values that it gave.

    With decoys these follow from its release.
    """
    if context.federation.has_decoys:
        asked = splits_used(context)[party]
        tables = context.home.json(RANK_VALUES)[party]
        return asked, midpoints(context.columns(party), tables, asked)
    request = context.receive("split_request", party)
    answer = context.receive("split_values", party)
    given = answer.document.get("splits") if isinstance(answer.document, dict) else None
    return request.document["splits"], given


def model_file(context: Context) -> str:
    """Name of the model's file, as its booster calls it."""
    return format_of(context.federation.training.trainer).file


def materialised_model(context: Context) -> str:
    """The model on domain values that this run has made."""
    return context.home.read(model_file(context)).decode()


def _rising(numbers: list[float | None], domain: Domain) -> bool:
    real = [n for n in numbers if isinstance(n, int | float) and domain.lower <= n <= domain.upper]
    return len(real) == len(numbers) and all(a < b for a, b in pairwise(real))
