"""Frozen facts of what a party released; what they add up to is the accountant's reading."""

from typing import Literal
from uuid import UUID

from opboost_ops.config.schema import Record
from opboost_ops.privacy.loss import LossCurve
from opboost_ops.privacy.renyi import RenyiCurve


class Release(Record):
    """One thing that left a party.

    Attributes:
        federation: In which federation.
        run: In which run.
        party: Who released it.
        receiver: Who may read it.
        kind: Kind of the artifact that carries it, or the stage that says it.
        artifact: Digest of that artifact, or of the stage's place in the run.
        account: ``local_dp`` for randomised cells; ``structural`` for on which side of disclosed
            thresholds each cell lies, exactly; ``model`` for a differentially private model;
            ``exact`` for all else that has no epsilon.
        feature: What is charged, except in the account ``exact``: a feature, or its missing bit.
        column: Its immutable UUID, to which the loss is charged.
        noise: Fingerprint of the noise secret, for randomised cells: under the same one an
            unchanged cell is the same draw again, under another one a new draw.
        cells: Name of the noise key, under which the states of its cells are kept.
        draws: Name of what was drawn: two releases of one column with the same name show the
            same outputs for the same people, and so are charged once.
        edges: Where partitions that the release discloses exactly begin, or thresholds lie, in the
            feature's unit.
        span: The feature's public range in that unit, where there are edges: the outermost cells
            reach to its ends. None where the order of its values means nothing, and in lines that
            are older than this entry.
        loss: Its loss curve.
        epsilon: What a differentially private model costs a row that is added or removed.
        curve: Its curve of Renyi divergences, for a model that is learnt from noisy sums; its
            epsilon is then the curve's at the curve's delta.
        rows: How many rows.
        discloses: In plain words, what a release without epsilon tells its reader.
        experiment: Made with predictable noise, or with edges of a private table: without any
            guarantee.
    """

    federation: str
    run: str
    party: str
    receiver: str
    kind: str
    artifact: str
    account: Literal["local_dp", "structural", "model", "exact"]
    feature: str | None = None
    column: UUID | None = None
    noise: str | None = None
    cells: str | None = None
    draws: str | None = None
    edges: tuple[float, ...] = ()
    span: tuple[float, float] | None = None
    loss: LossCurve | None = None
    epsilon: float | None = None
    curve: RenyiCurve | None = None
    rows: int
    discloses: str = ""
    experiment: bool = False
