"""Arrow: partial model and split values -> a model on domain values."""

from itertools import pairwise

from opboost_ops.boosting import splits
from opboost_ops.errors import ArtifactError
from opboost_ops.stages.stage import Context, Outcome


def materialise(context: Context) -> Outcome:
    """Replace every rank threshold by the value that its feature's holder gave.

    Raises:
        ArtifactError: An answer lacks a split, or its values do not rise with the ranks.
    """
    partial = context.home.read("partial_model.txt").decode()
    domain = context.federation.domain
    values: dict[str, dict[int, float]] = {}
    for party in context.federation.feature_holders:
        request = context.receive("split_request", party)
        answer = context.receive("split_values", party, answers=request.digest)
        asked = request.document["splits"]
        given = answer.document.get("splits") if isinstance(answer.document, dict) else None
        for name, ranks in asked.items():
            found = given.get(name) if isinstance(given, dict) else None
            numbers = [found.get(str(r)) if isinstance(found, dict) else None for r in ranks]
            if not _rising(numbers, domain.lower, domain.upper):
                raise ArtifactError(
                    f"The split values of {party}.{name} are incomplete, outside the domain, or "
                    "not in the order of their ranks.",
                    "Nothing was materialised; ask that party to look into its run.",
                )
            values[f"{party}.{name}"] = dict(
                zip(ranks, (float(n) for n in numbers if n is not None), strict=True)
            )
    ranked = context.home.json("frame")["ranked"]
    bounds = dict.fromkeys(ranked, (domain.lower, domain.upper))
    text = splits.materialise(partial, values, bounds)
    return Outcome(
        files={"model.txt": text.encode()},
        documents={"split_values": values},
        summary={"splits": {name: len(v) for name, v in values.items()}},
    )


def _rising(numbers: list[float | None], lower: int, upper: int) -> bool:
    real = [n for n in numbers if isinstance(n, int | float) and lower <= n <= upper]
    return len(real) == len(numbers) and all(a < b for a, b in pairwise(real))
