"""Other parties' values from accepted scoring runs, in the label holder's home."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.config.columns import columns_of
from opboost_ops.config.federation import Federation, ScoringMode
from opboost_ops.config.site import Site
from opboost_ops.exchange.audit import Entry
from opboost_ops.exchange.kinds import kinds_of
from opboost_ops.learning.registry.registry import DISTRIBUTIONS, Registry, federation_in
from opboost_ops.mechanisms import noise
from opboost_ops.pipeline.evaluation.reference import maps
from opboost_ops.pipeline.home import Home
from opboost_ops.pipeline.inputs.common_rows import DIGESTS, keys_of, tails
from opboost_ops.pipeline.inputs.other_columns import of_cells
from opboost_ops.pipeline.stage import alignment_key
from opboost_ops.pipeline.steps.open_rows import members_table, opened_table

#: Document that `write_scores` writes last into a run's home.
WRITTEN = "written"

_SECONDS_A_DAY = 86_400.0


@dataclass(frozen=True)
class Run:
    """An accepted scoring run.

    Attributes:
        version: The model version that it scored with.
        run: ID of the run.
    """

    version: str
    run: str


def accepted_runs(site: Site, federation: str) -> frozenset[Run]:
    """Return the scoring runs whose scores were accepted, and whose tables still exist.

    Args:
        site: The label holder's site.
        federation: Name of the federation.
    """
    home = site.home / federation
    return frozenset(
        Run(path.parent.name, path.stem)
        for path in (home / DISTRIBUTIONS).glob("*/*.json")
        if (home / path.stem / f"{WRITTEN}.json").is_file()
    )


@dataclass(frozen=True)
class Values:
    """Known values of some people, shape (n,) each.

    Attributes:
        columns: Values by full name, float64; NaN if unknown.
        age_days: Ages by party, float64; NaN if the party has released nothing of the person.
        present: Whether the party has the person, by party; True if unknown.
    """

    columns: Mapping[str, np.ndarray]
    age_days: Mapping[str, np.ndarray]
    present: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class _Release:
    """The opened rows of a run, memory-mapped, in the order of its scores."""

    ids: pa.ChunkedArray
    columns: Mapping[str, Mapping[str, np.ndarray]]
    present: Mapping[str, np.ndarray]
    received: Mapping[str, float]
    queried: np.ndarray

    def has_queried(self, digests: np.ndarray) -> np.ndarray:
        """Return for each digest whether the run queried this person."""
        at = np.minimum(np.searchsorted(self.queried, digests), len(self.queried) - 1)
        hits: np.ndarray = self.queried[at] == digests
        return hits


class Releases:
    """The newest values of each person.

    A person whom a later run queried without a match at all parties has no values, because values
    that a party no longer releases must not be used.

    Args:
        site: The label holder's site.
        federation: The federation with which the version scores.
        version: The version in use.
        thresholds: Thresholds of its trees, by full column name.
        received: Entries of the audit log on received artifacts.
        runs: Accepted scoring runs.
    """

    def __init__(
        self,
        site: Site,
        federation: Federation,
        version: str,
        thresholds: Mapping[str, Sequence[float]],
        received: Iterable[Entry],
        runs: Iterable[Run],
    ) -> None:
        self._federation = federation
        self._thresholds = thresholds
        self._columns = {
            party: columns_of(federation, party) for party in federation.feature_holders
        }
        self._key = alignment_key(site, federation.name)
        times = {entry.place: datetime.fromisoformat(entry.at) for entry in reversed([*received])}
        compatibility = _Compatibility(site, federation, version)
        releases = [
            release
            for run in runs
            if compatibility.accepts(run) and (release := _read(site, federation, run.run, times))
        ]
        self._releases = self._with_same_key(
            sorted(releases, key=lambda r: -min(r.received.values()))
        )
        keys = [_hashes(_texts(release.ids)) for release in self._releases]
        lengths = [len(each) for each in keys]
        joined = np.concatenate(keys) if keys else np.empty(0, dtype=np.uint64)
        # The first of a person's places is that of the newest run.
        self._keys, first = np.unique(joined, return_index=True)
        owners = np.repeat(np.arange(len(keys), dtype=np.int32), lengths)
        begins = np.repeat(np.cumsum([0, *lengths])[:-1], lengths)
        self._owner, self._row = owners[first], first - begins[first]

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, ids: pl.Series, now: float) -> Values:
        """Look up the known values of people.

        Args:
            ids: Their IDs, of the declared type, shape (n,).
            now: Present time in seconds since 1970-01-01 (UTC).
        """
        count, parties = len(ids), self._federation.feature_holders
        columns: dict[str, np.ndarray] = {}
        ages = {party: np.full(count, np.nan) for party in parties}
        present = {party: np.ones(count, dtype=bool) for party in parties}
        owner, row = self._places(ids)
        for number in np.unique(owner[owner >= 0]):
            release, people = self._releases[number], np.flatnonzero(owner == number)
            rows = row[people]
            for party in parties:
                members = release.present.get(party)
                here = np.ones(len(rows), bool) if members is None else members[rows]
                ages[party][people] = max(now - release.received[party], 0.0) / _SECONDS_A_DAY
                present[party][people] = here
                for full, values in self._values(release, party, rows, here).items():
                    columns.setdefault(full, np.full(count, np.nan))[people] = values
        return Values(columns, ages, present)

    def _values(
        self, release: _Release, party: str, rows: np.ndarray, there: np.ndarray
    ) -> dict[str, np.ndarray]:
        codes = {name: values[rows] for name, values in release.columns[party].items()}
        if self._federation.scoring.mode != "routed":
            return {f"{party}.{n}": np.where(there, v, np.nan) for n, v in codes.items()}
        thresholds = {name: self._thresholds[f"{party}.{name}"] for name in codes}
        return of_cells(party, self._columns[party], thresholds, codes, there)

    def _places(self, ids: pl.Series) -> tuple[np.ndarray, np.ndarray]:
        """Return the run of each person's newest values, -1 for none, and the row in it."""
        count = len(ids)
        owner, row = np.full(count, -1, dtype=np.int32), np.zeros(count, dtype=np.int64)
        if not len(self._keys):
            return owner, row
        texts = ids.cast(pl.String)
        hashes = _hashes(texts)
        at = np.minimum(np.searchsorted(self._keys, hashes), len(self._keys) - 1)
        hit = self._keys[at] == hashes
        owner[hit], row[hit] = self._owner[at[hit]], self._row[at[hit]]
        for number in np.unique(owner[hit]):
            people = np.flatnonzero(owner == number)
            stored = _texts(self._releases[number].ids.take(pa.array(row[people])))
            # Compare IDs, because two may have the same hash.
            owner[people[(stored != texts[people]).to_numpy()]] = -1
        older = np.flatnonzero(owner > 0)
        if len(older):
            owner[older[self._queried_since(ids[older], owner[older])]] = -1
        return owner, row

    def _queried_since(self, ids: pl.Series, owner: np.ndarray) -> np.ndarray:
        """Return True for people whom a newer run queried without a match, bool, shape (n,)."""
        wanted = self._digests(ids)
        newer = np.zeros(len(ids), dtype=bool)
        for number, release in enumerate(self._releases[: int(owner.max())]):
            newer |= (owner > number) & release.has_queried(wanted)
        return newer

    def _with_same_key(self, releases: list[_Release]) -> list[_Release]:
        """Drop releases before a run with another key, whose queries are unknown."""
        for number, release in enumerate(releases):
            if not release.has_queried(self._digests(_texts(release.ids.slice(0, 1)))).any():
                return releases[: number + 1]
        return releases

    def _digests(self, ids: pl.Series) -> np.ndarray:
        typed = ids.cast(pl.String if self._federation.id.type == "string" else pl.Int64)
        keys = noise.person_keys(self._key, typed.to_arrow(), self._federation.id.type)
        return _first_bytes(keys)


class _Compatibility:
    """Tells which runs' values a version can use, by maps, overlap, mode and trees."""

    def __init__(self, site: Site, federation: Federation, version: str) -> None:
        self._registry = Registry(site.models, federation.name)
        self._home = site.home / federation.name
        self._version, self._mode = version, federation.scoring.mode
        self._required = self._properties(federation)
        self._by_version = {version: True}

    def accepts(self, run: Run) -> bool:
        if self._mode_of(run) != self._mode or (
            self._mode == "routed" and run.version != self._version
        ):
            return False
        if run.version not in self._by_version:
            self._by_version[run.version] = self._same_maps(run.version)
        return self._by_version[run.version]

    def _mode_of(self, run: Run) -> ScoringMode | None:
        path = self._home / DISTRIBUTIONS / run.version / f"{run.run}.json"
        try:
            mode: ScoringMode = json.loads(path.read_bytes())["mode"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return mode

    def _same_maps(self, version: str) -> bool:
        if version not in self._registry.versions():
            return False
        return self._properties(federation_in(self._registry.files(version))) == self._required

    @staticmethod
    def _properties(federation: Federation) -> object:
        # With `overlap: left` a run's tables include people whom a party does not have.
        return maps(federation), federation.alignment.overlap


def _read(
    site: Site, federation: Federation, run: str, times: Mapping[str, datetime]
) -> _Release | None:
    """Read a run's opened rows; return None if home or audit log no longer have all of them."""
    home = Home(site.home / federation.name / run, site.block_rows)
    holders = federation.feature_holders
    kinds = kinds_of(federation, "score")
    kind = next(kind.name for kind in kinds if kind.content == "sealed_rows")
    places = {party: f"{federation.name}/{run}/{kind}/{party}" for party in holders}
    left = federation.keeps_all
    names = ["scores", DIGESTS, *(opened_table(party) for party in holders)]
    names += [members_table(party) for party in holders if left]
    complete = all((home.folder / f"{name}.arrow").is_file() for name in names)
    if not complete or not all(place in times for place in places.values()):
        return None
    tables = {party: home.table(opened_table(party)) for party in holders}
    return _Release(
        ids=home.table("scores").column(federation.id.column),
        columns={
            party: {name: _numbers(table.column(name)) for name in table.column_names}
            for party, table in tables.items()
        },
        present={
            party: home.table(members_table(party)).column("there").to_numpy()
            for party in holders
            if left
        },
        received={party: times[place].timestamp() for party, place in places.items()},
        queried=_first_bytes(keys_of(home.table(DIGESTS).column("digest"))),
    )


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    """Return a column as integers; 0 for people whom the party does not have."""
    numbers: np.ndarray = (column.fill_null(0) if column.null_count else column).to_numpy()
    return numbers


def _texts(ids: pa.ChunkedArray) -> pl.Series:
    series = pl.from_arrow(ids)
    assert isinstance(series, pl.Series)
    return series.cast(pl.String)


def _hashes(texts: pl.Series) -> np.ndarray:
    return texts.hash(seed=0).to_numpy()


def _first_bytes(digests: np.ndarray) -> np.ndarray:
    """Return the first eight bytes of sorted digests, uint64."""
    return tails(np.roll(digests, 8, axis=1))
