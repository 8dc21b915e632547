"""Arrow: published artifacts -> verified and checked ones, remembered by digest."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from opboost_ops.domain import Domain
from opboost_ops.errors import ArtifactError
from opboost_ops.exchange.artifact import Artifact
from opboost_ops.exchange.encoding import narrow_integers
from opboost_ops.exchange.manifest import Kind
from opboost_ops.quality import suites
from opboost_ops.scratch.blocks import Blocks, blocks_of
from opboost_ops.stages import brevity
from opboost_ops.stages.checks import check
from opboost_ops.stages.stage import Context, Outcome


def accept(context: Context) -> Outcome:
    """Verify every feature holder's release, and check its ranks, or its new rows.

    Raises:
        ArtifactError: A release is missing or is not what it must be.
    """
    if context.purpose == "score":
        return _accept_new_rows(context)
    rows = context.home.json("alignment")
    accepted: dict[str, dict[str, str]] = {}
    boundaries: dict[str, tuple[suites.Suite, pa.Table | Blocks]] = {}
    present: list[_Present] = []
    if context.federation.has_decoys:
        return _accept_everybody(context)
    for party in context.federation.feature_holders:
        domains = {column.name: column.domain for column in context.columns(party)}
        ranks = context.receive("ranks", party, rows=rows["train"])
        holdout = context.receive("holdout", party, rows=rows["holdout"])
        dense = context.federation.training.trainer != "dpboost"
        present.append(_Present(party, ranks.manifest.columns if dense else ()))
        accepted[party] = {"ranks": ranks.digest, "holdout": holdout.digest}
        boundaries[f"acceptance_{party}"] = (
            suites.acceptance(domains, rows["train"], dense),
            _parts(ranks, present[-1].look),
        )
        boundaries[f"acceptance_{party}_holdout"] = (
            suites.preprocessed_table(domains, rows["holdout"]),
            _parts(holdout),
        )
    outcome = _checked(context, boundaries, accepted)
    for ranks_of in present:
        ranks_of.require_dense()
    return outcome


def _accept_everybody(context: Context) -> Outcome:
    """Values of all of the feature holder's people, as many as it has laid out."""
    (party,) = context.federation.feature_holders
    released = context.receive("values", party)
    domains = {column.name: column.domain for column in context.columns(party)}
    suite = suites.preprocessed_table(domains, released.manifest.rows)
    boundaries: dict[str, tuple[suites.Suite, pa.Table | Blocks]] = {
        f"acceptance_{party}": (suite, _parts(released))
    }
    return _checked(context, boundaries, {party: {"values": released.digest}})


def _accept_new_rows(context: Context) -> Outcome:
    if context.federation.has_decoys:
        return _accept_everybody(context)
    rows = context.home.json("alignment")["holdout"]
    routed = context.federation.scoring.mode == "routed"
    kind: Kind = "routes" if routed else "values"
    accepted: dict[str, dict[str, str]] = {}
    boundaries: dict[str, tuple[suites.Suite, pa.Table | Blocks]] = {}
    for party in context.federation.feature_holders:
        released = context.receive(kind, party, rows=rows)
        accepted[party] = {kind: released.digest}
        domains = {column.name: column.domain for column in context.columns(party)}
        if routed:
            asked = context.receive("route_request", party).document["thresholds"]
            # Cells between k thresholds are numbered from 0 to k.
            domains = {name: Domain(0, len(thresholds)) for name, thresholds in asked.items()}
        if domains:
            boundaries[f"acceptance_{party}"] = (
                suites.preprocessed_table(domains, rows),
                _parts(released),
            )
    return _checked(context, boundaries, accepted)


def _checked(
    context: Context,
    boundaries: dict[str, tuple[suites.Suite, pa.Table | Blocks]],
    accepted: Mapping[str, Mapping[str, str]],
) -> Outcome:
    outcome = check(context, boundaries)
    found = [digest for digests in accepted.values() for digest in digests.values()]
    return replace(
        outcome,
        documents={"accepted": accepted} if outcome.failure is None else {},
        summary={**outcome.summary, "accepted": brevity.digests(found)},
    )


def _parts(
    artifact: Artifact, look: Callable[[pa.Table], None] = lambda _: None
) -> pa.Table | Blocks:
    """Its table as checks take it: no more than a part is in memory.

    Args:
        artifact: It.
        look: Sees all of it, too: to decrypt a part once more would take longer.
    """
    if artifact.parts == 1:
        look(artifact.table)
        return artifact.table

    def read(columns: Sequence[str]) -> Iterator[pa.Table]:
        for part in artifact.tables():
            if not columns:
                look(part)
            yield from blocks_of(part)(columns)

    return read


class _Present:
    """Which ranks of each column there are.

    Args:
        party: Whose they are.
        columns: Which ones are to be dense.
    """

    def __init__(self, party: str, columns: Sequence[str]) -> None:
        self._party = party
        self._found = {name: np.empty(0, dtype=np.int64) for name in columns}

    def look(self, ranks: pa.Table) -> None:
        """Take note of a part of the rows."""
        for name, found in self._found.items():
            self._found[name] = np.union1d(found, np.unique(narrow_integers(ranks, name)))

    def require_dense(self) -> None:
        """Refuse columns that lack a rank between 1 and their highest.

        Raises:
            ArtifactError: Which one.
        """
        for name, found in self._found.items():
            if found[0] != 1 or found[-1] != len(found):
                raise ArtifactError(
                    f"The ranks of {self._party}.{name} are not dense: some between 1 and the "
                    "highest are missing.",
                    "Nothing was trained; ask that party to look into its run.",
                )
