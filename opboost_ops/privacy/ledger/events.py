"""Frozen entries of a party's ledger: what opened, left or was told."""

from functools import lru_cache
from typing import Literal

from opboost_ops.config.schema import Record
from opboost_ops.privacy.ledger.renyi import RenyiCurve
from opboost_ops.privacy.loss import LossCurve

#: In an entry's text, the beginning of its loss curve, and the text after its end.
_CURVE, _AFTER = '"loss": {', '}, "epsilon": '


class LedgerEntry(Record):
    """One entry.

    Attributes:
        federation: In which federation.
        run: In which run; empty outside a run.
        party: Who released it.
        receiver: Who may read it.
        kind: ``release`` and ``edges`` where a release opens and is charged; else the kind of the
            artifact, or the stage that tells it.
        artifact: Id of the release, digest of the artifact, or digest of the stage's place.
        account: ``local_dp`` for randomised responses, ``model`` for differentially private models
            and metrics, ``exact`` for all else that has no epsilon.
        feature: The feature, or its missing bit; empty where an entry is about none.
        column: Name of the raw column, to which losses are charged.
        release: Id of the release that an artifact's responses belong to.
        loss: Loss curve of the responses.
        epsilon: Cost of a differentially private model for a row added or removed.
        curve: Its Renyi curve, for a model that is trained on noisy sums.
        replaced: The same for a row replaced.
        rows: How many rows.
        discloses: In plain words, what a disclosure without epsilon tells its reader.
        experiment: Made with predictable noise, or with edges of a private table: no guarantee.
        recovered: Charged by a recovery, at the worst case.
    """

    federation: str
    run: str
    party: str
    receiver: str
    kind: str
    artifact: str
    account: Literal["local_dp", "model", "exact"]
    feature: str | None = None
    column: str | None = None
    release: str | None = None
    loss: LossCurve | None = None
    epsilon: float | None = None
    curve: RenyiCurve | None = None
    replaced: RenyiCurve | None = None
    rows: int
    discloses: str = ""
    experiment: bool = False
    recovered: bool = False


@lru_cache(maxsize=1 << 16)
def entry_of(text: str) -> LedgerEntry:
    """An entry from its text; equal texts are read once.

    Args:
        text: As it lies in the database.

    Raises:
        ValidationError: It is no entry.
    """
    # Most of it is its loss curve, which is that of the entry before: it is read once, too. A
    # quote inside a string is written with a backslash, so neither mark can be a part of one.
    head, _, rest = text.partition(_CURVE)
    curve, end, tail = rest.partition(_AFTER)
    if not end:
        return LedgerEntry.model_validate_json(text)
    entry = LedgerEntry.model_validate_json(f"{head}{_AFTER[3:]}{tail}")
    return entry.model_copy(update={"loss": curve_of(f"{{{curve}}}")})


@lru_cache(maxsize=1 << 10)
def curve_of(text: str) -> LossCurve:
    """A loss curve from its JSON text."""
    return LossCurve.model_validate_json(text)
