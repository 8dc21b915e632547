"""Frozen facts of what a party released; what they add up to is the accountant's reading."""

from functools import lru_cache
from typing import Literal
from uuid import UUID

from opboost_ops.config.schema import Record
from opboost_ops.privacy.loss import LossCurve
from opboost_ops.privacy.renyi import RenyiCurve

#: In an entry's text, the beginning of its loss curve, and what comes after its end.
_CURVE, _AFTER = '"loss": {', '}, "epsilon": '


class Draw(Record):
    """What cells were charged for before anything was published: a draw under one noise key.

    Attributes:
        number: Its number under the key, from 1; the cell state has the last one.
        most: How many different values of a cell might be released when it was taken; no cap
            when absent.
        added: By how much it raised the public worst case.
        worst: The public worst case after it: no cell has released more different values.
        base: How much of that is for values of which the cell state knows nothing any more.
        inputs: How many different values a cell can have at all.
        stands_for: How many releases it is the account of: those before the ledger numbered draws.
    """

    number: int
    most: int | None = None
    added: int
    worst: int
    base: int = 0
    inputs: int
    stands_for: int = 1


class Release(Record):
    """One thing that left a party, or one draw that was charged so that it may leave.

    Attributes:
        federation: In which federation.
        run: In which run.
        party: Who released it.
        receiver: Who may read it.
        kind: Kind of the artifact that carries it, or the stage that says it; ``draw`` where cells
            are charged, ``accepted`` where their owner charged what a lost cell state cannot tell,
            ``former`` for what was released before draws were numbered.
        artifact: Digest of that artifact, or of the stage's place in the run; of a draw, its name.
        account: ``local_dp`` for randomised cells; ``structural`` for on which side of disclosed
            thresholds each cell lies, exactly; ``model`` for a differentially private model;
            ``exact`` for all else that has no epsilon.
        feature: What is charged, except in the account ``exact``: a feature, or its missing bit.
        column: Its immutable UUID, to which the loss is charged.
        noise: Fingerprint of the noise secret, for randomised cells: under the same one an
            unchanged cell is the same draw again, under another one a new draw.
        cells: Name of the noise key, under which the states of its cells are kept.
        draws: Name of what was drawn: a keyed digest of the held inputs and the people; before
            ledgers had draws, of the outputs.
        draw: What the draw is charged; an artifact's own lines charge nothing more.
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
        recovered: The line was lost, and rebuilt from what was published, at the worst case.
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
    draw: Draw | None = None
    edges: tuple[float, ...] = ()
    span: tuple[float, float] | None = None
    loss: LossCurve | None = None
    epsilon: float | None = None
    curve: RenyiCurve | None = None
    rows: int
    discloses: str = ""
    experiment: bool = False
    recovered: bool = False


@lru_cache(maxsize=1 << 16)
def release_of(text: str) -> Release:
    """An entry from its text; what the same text says does not change, so it is read once.

    Args:
        text: As it lies in the database.

    Raises:
        ValidationError: It is none of an entry.
    """
    # Most of it is its loss curve, which is that of the entry before: it is read once, too. A
    # quote inside a string is written with a backslash, so neither mark can be a part of one.
    head, _, rest = text.partition(_CURVE)
    curve, end, tail = rest.partition(_AFTER)
    if not end:
        return Release.model_validate_json(text)
    release = Release.model_validate_json(f"{head}{_AFTER[3:]}{tail}")
    return release.model_copy(update={"loss": curve_of(f"{{{curve}}}")})


@lru_cache(maxsize=1 << 10)
def curve_of(text: str) -> LossCurve:
    """A loss curve from its JSON text."""
    return LossCurve.model_validate_json(text)
