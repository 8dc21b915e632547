"""Arrow: published artifacts -> verified and checked ones, remembered by digest."""

import numpy as np

from opboost_ops.errors import ArtifactError
from opboost_ops.exchange.artifact import Artifact
from opboost_ops.exchange.encoding import integers
from opboost_ops.quality import suites
from opboost_ops.stages.checks import check
from opboost_ops.stages.stage import Context, Outcome


def accept(context: Context) -> Outcome:
    """Verify every feature holder's release, and check its ranks.

    Raises:
        ArtifactError: A release is missing or is not what it must be.
    """
    rows = context.home.json("alignment")
    accepted: dict[str, dict[str, str]] = {}
    boundaries = {}
    for party in context.federation.feature_holders:
        domains = {column.name: column.domain for column in context.columns(party)}
        ranks = context.receive("ranks", party, rows=rows["train"])
        holdout = context.receive("holdout", party, rows=rows["holdout"])
        _require_dense(party, ranks)
        accepted[party] = {"ranks": ranks.digest, "holdout": holdout.digest}
        boundaries[f"acceptance_{party}"] = (
            suites.acceptance(domains, rows["train"]),
            ranks.table,
        )
        boundaries[f"acceptance_{party}_holdout"] = (
            suites.preprocessed_table(domains, rows["holdout"]),
            holdout.table,
        )
    outcome = check(context, boundaries)
    return Outcome(
        documents={"accepted": accepted} if outcome.failure is None else {},
        files=outcome.files,
        summary={**outcome.summary, "accepted": {p: a["ranks"][:16] for p, a in accepted.items()}},
        discloses=outcome.discloses,
        quality_seconds=outcome.quality_seconds,
        failure=outcome.failure,
    )


def _require_dense(party: str, ranks: Artifact) -> None:
    table = ranks.table
    for name in ranks.manifest.columns:
        present = np.unique(integers(table, name))
        if present[0] != 1 or present[-1] != len(present):
            raise ArtifactError(
                f"The ranks of {party}.{name} are not dense: some between 1 and the highest are "
                "missing.",
                "Nothing was trained; ask that party to look into its run.",
            )
