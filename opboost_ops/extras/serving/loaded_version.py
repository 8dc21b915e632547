"""A model version in use, with everything that its scores depend on; immutable once loaded."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.config.columns import columns_of, missing_name
from opboost_ops.config.feature import Feature, Fill
from opboost_ops.config.federation import Federation
from opboost_ops.config.policy import Serve
from opboost_ops.config.site import Site
from opboost_ops.domain import Domain
from opboost_ops.errors import ContractError, PolicyError
from opboost_ops.exchange.audit import Entry
from opboost_ops.extras.serving import rows as row_checks
from opboost_ops.extras.serving.releases import Releases, Run
from opboost_ops.extras.serving.rows import STATES
from opboost_ops.learning.metrics import Task
from opboost_ops.learning.splits import domain_thresholds
from opboost_ops.pipeline.evaluation.held_out import COVERAGE, group_codes, group_names
from opboost_ops.pipeline.evaluation.scores import RowScorer
from opboost_ops.pipeline.inputs import raw_table
from opboost_ops.pipeline.inputs.model_columns import own_columns
from opboost_ops.pipeline.inputs.other_columns import local_columns, needed_elsewhere
from opboost_ops.privacy.people import ForgottenPeople
from opboost_ops.tables.raw_values import declared_values

_CURRENT, _OLD, _UNKNOWN, _ABSENT, _WITHDRAWN = range(len(STATES))


class Scored:
    """Scored rows, with the states of their values.

    Attributes:
        table: The columns of a score file without the ID, including refused rows.
        states: Index into `STATES` of each row, by party.
        age_days: Age of each row's values, by party; NaN if there are none.
        used: Whether each score uses the party's values, by party.
        refused: Reason why a row has no score; empty if it has one.
        unseen: Rows with a category that no training row had, by own feature.
        rows: The rows as they were scored, with the label holder's features as declared.
    """

    def __init__(self, count: int) -> None:
        self.rows = pl.DataFrame()
        self.table = pa.table({})
        self.states: dict[str, np.ndarray] = {}
        self.age_days: dict[str, np.ndarray] = {}
        self.used: dict[str, np.ndarray] = {}
        self.refused = np.full(count, "", dtype=object)
        self.unseen: dict[str, np.ndarray] = {}


class LoadedVersion:
    """A model version that scores rows.

    Args:
        site: The label holder's site.
        federation: The federation with which new rows are scored.
        version: Name of the version.
        files: Files of the version.
        rules: The label holder's rules for old and missing values.
        left: Parties that have left the federation since the training.
        forgotten: People that the label holder has forgotten.
        received: Entries of the audit log on received artifacts.
        runs: The label holder's accepted scoring runs.
    """

    def __init__(
        self,
        site: Site,
        federation: Federation,
        version: str,
        files: Mapping[str, bytes],
        rules: Serve,
        left: frozenset[str],
        forgotten: ForgottenPeople,
        received: Iterable[Entry],
        runs: Iterable[Run],
    ) -> None:
        self.version, self.federation = version, federation
        self._scorer = RowScorer.of(files, federation)
        self._used = self._scorer.used()
        self._rules, self._left, self._forgotten = rules, left, forgotten
        self.own_features = own = federation.parties[federation.label_holder].features
        columns = {party: columns_of(federation, party) for party in federation.feature_holders}
        self._columns = {p: [f"{p}.{c.name}" for c in some] for p, some in columns.items()}
        elsewhere: list[str] = []
        self.releases: Releases | None = None
        if federation.scoring.mode == "local":
            for party, features in needed_elsewhere(federation, self._used).items():
                elsewhere += [f"{party}.{feature}" for feature in features]
        else:
            bounds = {
                f"{party}.{column.name}": (column.domain.lower, column.domain.upper)
                for party, some in columns.items()
                for column in some
            }
            thresholds = domain_thresholds(self._scorer.text, bounds)
            self.releases = Releases(site, federation, version, thresholds, received, runs)
            self._fallback = fallback(federation)
            # LightGBM would treat an unfilled value as one below the domain.
            everybody = federation.keeps_all
            self._unfilled = {
                party
                for party, names in self._columns.items()
                if not everybody
                and any(np.isnan(self._fallback[n]) for n in names if n in self._used)
            }
        self.names = list(dict.fromkeys([*federation.id.parts, *own, *elsewhere]))

    @property
    def mode(self) -> str:
        """The scoring mode."""
        return self.federation.scoring.mode

    @property
    def task(self) -> Task:
        """The learning task."""
        task: Task = self._scorer.facts["task"]
        return task

    def frame(self, rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
        """Convert rows to a table for `score`.

        Args:
            rows: Values by declared name.

        Raises:
            ContractError: A column is missing, or has values that its declaration does not allow.
        """
        return self.with_ids(row_checks.frame_of(rows, self.federation, self.names))

    def with_ids(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Add IDs to a table with the columns `names`, for `score`.

        Args:
            frame: Columns by declared name.

        Raises:
            ContractError: A column that IDs are made of has values without a canonical text.
        """
        return row_checks.with_ids(frame, self.federation)

    def score(self, frame: pl.DataFrame, reasons: int = 0) -> Scored:
        """Score rows.

        Args:
            frame: The columns `names` and the ID, shape (n, ...).
            reasons: Number of reasons per score.

        Raises:
            ContractError: A row is not as declared.
            PolicyError: Reasons were requested from a private model.
        """
        if type(reasons) is not int or reasons < 0:
            raise ContractError("The number of reasons must be a whole number from 0.")
        if reasons and self.federation.training.private is not None:
            raise PolicyError(
                "Reasons depend on single rows, and training.private guarantees noise for "
                "everything that does.",
                "Request the score without reasons.",
            )
        row_checks.require_rows(frame, self.federation)
        frame = declared_values(frame, self.own_features)
        for name, feature in self.own_features.items():
            row_checks.require_values(frame.get_column(name), feature)
        scored = Scored(frame.height)
        scored.rows = frame
        columns = own_columns(self.federation, frame, self._scorer.facts["categories"])
        for full in self._scorer.facts["categories"]:
            name = full.partition(".")[2]
            if (gaps := np.isnan(columns[full])).any():
                scored.unseen[name] = gaps & ~raw_table.missing(frame.get_column(name))
        ids = frame.get_column(self.federation.id.column)
        if len(self._forgotten):
            allowed = self._forgotten.keep(ids.to_arrow(), self.federation.id.type)
            scored.refused[~allowed] = "forgotten"
        if self.releases is None:
            columns |= local_columns(self.federation, frame, self._used, frame.height)
        else:
            columns |= self._others(ids, scored)
        more = {}
        if scored.used and self.federation.keeps_all:
            having = np.sum([*scored.used.values()], axis=0)
            more[COVERAGE] = group_names(group_codes(having, len(scored.used)))
        output = self._scorer.score(columns, frame.height, reasons, **more)
        scored.table = pa.table(output)
        return scored

    def _others(self, ids: pl.Series, scored: Scored) -> dict[str, np.ndarray]:
        """Return other parties' columns by full name, and record their states."""
        assert self.releases is not None
        values, rules = self.releases.find(ids, time.time()), self._rules
        columns: dict[str, np.ndarray] = {}
        for party in self.federation.feature_holders:
            # For forgotten people, do not even disclose whether there are values.
            gone = scored.refused == "forgotten"
            age, there = np.where(gone, np.nan, values.age_days[party]), values.present[party]
            dated = ~np.isnan(age)
            state = np.where(dated, _CURRENT, _UNKNOWN)
            if rules.max_age_days is not None:
                state[dated & (age > rules.max_age_days)] = _OLD
            # Old values are as outdated about membership as about the person.
            absent = (state == _CURRENT) & ~there
            absent |= (state == _OLD) & ~there & (rules.old == "flag")
            state[absent] = _ABSENT
            if party in self._left and rules.withdrawn == "missing":
                state[:] = _WITHDRAWN
            used = state == _CURRENT
            used |= (state == _OLD) & (rules.old == "flag")
            for number, rule in (
                (_OLD, rules.old),
                (_UNKNOWN, rules.unknown),
                (_WITHDRAWN, rules.withdrawn),
            ):
                if rule == "refuse" or (rule == "missing" and party in self._unfilled):
                    scored.refused[(state == number) & (scored.refused == "")] = STATES[number]
            scored.states[party], scored.used[party] = state, used
            scored.age_days[party] = np.where(state == _WITHDRAWN, np.nan, age)
            for full in self._columns[party]:
                released = values.columns.get(full)
                default = np.where(state == _ABSENT, np.nan, self._fallback[full])
                columns[full] = default if released is None else np.where(used, released, default)
        return columns


def fallback(federation: Federation) -> dict[str, float]:
    """Return the substitutes for unknown values, by full name.

    They follow the public declaration of missing values: NaN if the version was trained with people
    whom a party does not have, or if nothing is declared; otherwise the fill.

    Args:
        federation: The federation with which the version scores.
    """
    domain = federation.domain.to_domain()
    everybody = federation.keeps_all
    values: dict[str, float] = {}
    for party in federation.feature_holders:
        features = federation.parties[party].features
        for column in columns_of(federation, party):
            feature = features[column.feature]
            value = float("nan")
            if not everybody and isinstance(feature.missing, Fill):
                value = 1.0
                if column.name != missing_name(column.feature) or column.bit is not None:
                    value = _filled(feature, domain, column.bit)
            values[f"{party}.{column.name}"] = value
    return values


def _filled(feature: Feature, domain: Domain, bit: int | None) -> float:
    number = raw_table.numbers(pl.Series([None], dtype=pl.String), feature)
    if bit is not None:
        return float(number[0] == bit)
    return float(feature.domain_map(domain).encode(number)[0])
