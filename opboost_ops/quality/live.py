"""Counts of scores and own columns in production, compared with training.

Scoring runs and the endpoint count in bins fixed at training. A record contains no row, ID or
value; there is one per run, and for the endpoint one per day. They stay at the label holder's home.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from opboost_ops.config.schema import Record
from opboost_ops.learning.distribution import MIN_PEOPLE, bin_ends, count_scores
from opboost_ops.learning.metrics import Task
from opboost_ops.learning.registry.registry import DISTRIBUTIONS
from opboost_ops.quality.drift import Profile, stability

#: Folder in the federation's home with each version's bins and training counts.
PROFILES = "profiles"

#: Prefix of the endpoint's records, before day and mode.
SERVED = "served-"

#: Days of production that are included.
DAYS = 30

#: Usual limits of the population stability index for a moderate and a large shift.
MOVED, FAR = 0.1, 0.25

Move = Literal["none", "moved", "far"]


class PartnerCounts(Record):
    """Rows by the state of another party's values.

    Attributes:
        states: Rows by `extras.serving.rows.State`.
        aged: Rows with values, of any age.
        days: Sum of their ages in days.
    """

    states: Mapping[str, int]
    aged: int
    days: float


class Counts(Record):
    """Scored rows in bins.

    Attributes:
        edges: Edges of the scores' bins, one more than bins; empty if unknown.
        scores: Rows by bin.
        rows: Rows with a score.
        refused: Rows without a score.
        columns: By own column, rows by bin of the version's profile, missing values last.
        partners: By other party, for rows scored individually.
    """

    edges: tuple[float, ...] = ()
    scores: tuple[int, ...] = ()
    rows: int = 0
    refused: int = 0
    columns: Mapping[str, tuple[int, ...]] = {}
    partners: Mapping[str, PartnerCounts] = {}

    def __add__(self, other: "Counts") -> "Counts":
        if self.edges and other.edges and self.edges != other.edges:
            raise ValueError("records of one version have other bins")
        left, two = (counts.model_dump(exclude={"edges"}) for counts in (self, other))
        return Counts.model_validate({**_added(left, two), "edges": self.edges or other.edges})


class Shift(Record):
    """A distribution in production compared with training.

    Attributes:
        name: A column, or ``score``.
        index: The population stability index.
        chance: Largest index that counts as chance.
        move: Size of the shift by the usual limits, if above chance.
        missing: Share of rows without a value; None for scores.
        missing_then: The same in training.
    """

    name: str
    index: float
    chance: float
    move: Move
    missing: float | None = None
    missing_then: float | None = None


class PartnerAge(Record):
    """Age of a party's values in rows scored individually.

    Attributes:
        party: Name of the party.
        rows: Number of rows.
        states: Share of the rows by state of the values; None below `LEAST` rows.
        mean_days: Mean age; None below `LEAST` rows with values.
    """

    party: str
    rows: int
    states: Mapping[str, float | None]
    mean_days: float | None


class Live(Record):
    """A version in production, over the last `DAYS` days.

    Attributes:
        version: Name of the version.
        mode: The scoring mode.
        rows: Rows with a score.
        served: Number of these that were scored individually.
        refused: Individually requested rows without a score.
        last: Time of the last record, Unix seconds.
        scores: Held-out rows compared with production; None if either has too few rows.
        columns: The label holder's own columns, largest shift first.
        partners: Other parties.
    """

    version: str
    mode: str
    rows: int
    served: int
    refused: int
    last: float
    scores: Shift | None
    columns: tuple[Shift, ...]
    partners: tuple[PartnerAge, ...]

    @property
    def moved(self) -> tuple[Shift, ...]:
        """Return all shifts above the limits."""
        every = (*([self.scores] if self.scores else []), *self.columns)
        return tuple(shift for shift in every if shift.move != "none")


def score_profile(version: str) -> str:
    """Return the name, in the federation's home, of the bins of a version's scores."""
    return f"{PROFILES}/{version}.scores"


def columns_of(profile: Profile) -> dict[str, tuple[int, ...]]:
    """Return histograms in the form of `Counts.columns`.

    Args:
        profile: The histograms, in the bins of a version's profile.
    """
    return {name: of.counts for name, of in profile.features.items()}


def counts_of(
    home: Path, version: str, mode: str, task: Task, scores: np.ndarray, **more: Any
) -> Counts:
    """Count scores in the bins of training; regression without held-out scores has no bins.

    Args:
        home: The party's folder of the federation.
        version: Name of the version.
        mode: The scoring mode.
        task: The label's task.
        scores: Shape (n,), in memory or mapped.
        more: Other attributes of the counts.
    """
    profile = _profile_of_scores(home, version).get(mode)
    if profile is None and task == "regression":
        return Counts(rows=len(scores), **more)
    ends = bin_ends(task, np.empty(0)) if profile is None else np.array(profile["edges"])
    bins = count_scores(scores, ends)
    return Counts(edges=ends.tolist(), scores=bins.tolist(), rows=len(scores), **more)


def profile_of(home: Path, version: str) -> Profile:
    """Return the histograms of a version's training table; empty if none are stored.

    Args:
        home: The party's folder of the federation.
        version: Name of the version.
    """
    path = home / PROFILES / f"{version}.json"
    return (
        Profile.model_validate_json(path.read_bytes()) if path.is_file() else Profile(features={})
    )


def live_of(home: Path, version: str, mode: str = "") -> Live | None:
    """Return a version in production; None if it scored nothing in the last `DAYS` days.

    Several runs and days may score the same people, so the number of people is that of the largest
    record alone.

    Args:
        home: The party's folder of the federation.
        version: Name of the version.
        mode: The scoring mode; the last one if empty.

    Raises:
        ValueError: A record is damaged.
    """
    every = sorted(_records(home / DISTRIBUTIONS / version), key=lambda entry: entry[0])
    mode = mode or (every[-1][1] if every else "")
    records = [(path, counts) for _, of, path, counts in every if of == mode]
    if not records:
        return None
    whole, alone = Counts(), Counts()
    for path, counts in records:
        whole += counts
        alone += counts if path.name.startswith(SERVED) else Counts()
    then = _profile_of_scores(home, version).get(mode)
    scores = None
    if then is not None and tuple(then["edges"]) == whole.edges:
        # Most scores are in few bins; empty bins would only raise the level of chance.
        pairs = [(a, b) for a, b in zip(then["counts"], whole.scores, strict=True) if a or b]
        people = max(counts.rows for _, counts in records)
        scores = _shift("score", [a for a, _ in pairs] + [0], [b for _, b in pairs] + [0], people)
    profile = profile_of(home, version).features
    columns = [
        _shift(
            name,
            profile[name].counts,
            now,
            max(sum(counts.columns.get(name, ())) for _, counts in records),
            missing=True,
        )
        for name, now in whole.columns.items()
        if name in profile
    ]
    return Live(
        version=version,
        mode=mode,
        rows=whole.rows,
        served=alone.rows,
        refused=alone.refused,
        last=every[-1][0],
        scores=scores,
        columns=tuple(sorted((c for c in columns if c), key=lambda entry: -entry.index)),
        partners=tuple(_age(party, of) for party, of in sorted(alone.partners.items())),
    )


def _records(folder: Path) -> Iterator[tuple[float, str, Path, Counts]]:
    """Yield each record's time, mode, path and counts."""
    begin = time.time() - DAYS * 86_400
    for path in folder.glob("*.json") if folder.is_dir() else ():
        written = path.stat().st_mtime
        if written >= begin:
            record = json.loads(path.read_bytes())
            yield written, record["mode"], path, Counts.model_validate(record["live"])


def _profile_of_scores(home: Path, version: str) -> dict[str, Any]:
    path = home / f"{score_profile(version)}.json"
    profile: dict[str, Any] = json.loads(path.read_bytes()) if path.is_file() else {}
    return profile


def _shift(
    name: str, then: Sequence[int], now: Sequence[int], people: int, missing: bool = False
) -> Shift | None:
    if min(sum(then), sum(now)) < MIN_PEOPLE:
        return None
    index, chance = stability(then, now, people)
    above = index if index > chance else 0.0
    return Shift(
        name=name,
        index=round(index, 4),
        chance=round(chance, 4),
        move="far" if above > FAR else "moved" if above > MOVED else "none",
        missing=now[-1] / sum(now) if missing else None,
        missing_then=then[-1] / sum(then) if missing else None,
    )


def _age(party: str, of: PartnerCounts) -> PartnerAge:
    rows = sum(of.states.values())
    return PartnerAge(
        party=party,
        rows=rows,
        states={
            s: n / rows if n >= MIN_PEOPLE else None for s, n in sorted(of.states.items()) if n
        },
        mean_days=round(of.days / of.aged, 2) if of.aged >= MIN_PEOPLE else None,
    )


def _added(left: Any, other: Any) -> Any:
    if isinstance(left, Mapping):
        names = {**left, **other}
        return {
            n: _added(left[n], other[n]) if n in left and n in other else names[n] for n in names
        }
    if isinstance(left, tuple):
        if left and other:
            return tuple(_added(*pair) for pair in zip(left, other, strict=True))
        return left or other
    return left + other
