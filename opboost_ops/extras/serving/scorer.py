"""Scores rows with the present champion; all rows of a call have the same version."""

import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from opboost_ops.config.agreement import digest_of, document
from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import POLICY, load_federation, load_policy, load_site
from opboost_ops.config.policy import Policy
from opboost_ops.config.site import Site
from opboost_ops.errors import ConfigError, ContractError, OpBoostError, PolicyError
from opboost_ops.exchange.party_state import open_state
from opboost_ops.extras.serving.loaded_version import LoadedVersion, Scored
from opboost_ops.extras.serving.recording import Recorder
from opboost_ops.extras.serving.releases import accepted_runs
from opboost_ops.extras.serving.rows import STATES, Partner, Reason, Reasons, Score
from opboost_ops.learning.registry.registry import Registry, federation_in
from opboost_ops.pipeline.evaluation.scores import CLASS, PROBABILITY, SCORE
from opboost_ops.pipeline.party.agreement import stopped
from opboost_ops.pipeline.party.party_sites import federation_file
from opboost_ops.pipeline.party.trust import scored_under
from opboost_ops.pipeline.runner.opening import for_model
from opboost_ops.privacy.consent.agreements import Agreements
from opboost_ops.quality.live import Live, live_of
from opboost_ops.reports.outcomes import Outcomes, outcomes_of

#: Seconds between two refreshes of champion, agreement, policy and accepted runs.
POLL_SECONDS = 1.0

#: Maximum seconds since the last successful refresh, if later ones fail for technical reasons.
MAX_STALE_SECONDS = 60.0

_VERSION = "model_version"


class Scorer:
    """Scores single rows and frames at the label holder, without the other parties.

    Own columns come from the caller, other parties' from the last accepted scoring run that has
    the person. Promotions, rollbacks, new scoring runs, changed policies, stops and forgotten
    people take effect at the next refresh, within a second.

    Args:
        site: Folder of the label holder's ``site.yaml``.
        federation: ``federation.yaml``, or its folder.
        record: Whether its rows count as production on the version's page. Only counts by bin and
            day are stored; `refresh` adds the last ones.

    Raises:
        OpBoostError: There is no champion, or the label holder may not score.
    """

    def __init__(self, site: str | Path, federation: str | Path, *, record: bool = False) -> None:
        self._site_file = Path(site) / "site.yaml"
        self._federation_file = federation_file(Path(federation))
        self._refreshing = threading.Lock()
        self._began = self._refreshed = float("-inf")
        self._loaded_from: Any = None
        self._served: LoadedVersion | None = None
        self._failure: OpBoostError | None = None
        self._declared: tuple[Any, Site, Policy, Federation] | None = None
        self._recorder: Recorder | None = None
        self.refresh()
        self._now()
        if record:
            self._recorder = Recorder(self._home)

    def __repr__(self) -> str:
        return f"Scorer({self._federation_file.parent.name}, {self._site_file.parent.name})"

    @property
    def version(self) -> str:
        """The version in use."""
        return self._now().version

    @property
    def mode(self) -> str:
        """The scoring mode of the version in use."""
        return self._now().mode

    def score(self, row: Mapping[str, Any], reasons: int = 0) -> Score:
        """Score one row.

        Args:
            row: The ID and every own feature by declared name; missing values are None. In mode
                ``local`` also other parties' features as ``party.feature``.
            reasons: Number of reasons.

        Raises:
            OpBoostError: The row is not as declared, or nothing may be scored.
        """
        return self.score_rows([row], reasons)[0]

    def score_rows(self, rows: Iterable[Mapping[str, Any]], reasons: int = 0) -> list[Score]:
        """Score rows, in their order, all with one version.

        Args:
            rows: Rows; see `score`.
            reasons: Number of reasons per row.

        Raises:
            OpBoostError: A row is not as declared, or nothing may be scored.
        """
        served, rows = self._now(), list(rows)
        if not rows:
            return []
        return to_scores(served, self._score(served, served.frame(rows), reasons))

    def score_frame(self, frame: pl.DataFrame, reasons: int = 0) -> pl.DataFrame:
        """Score a table.

        Args:
            frame: Table of polars or pandas with the columns of `score`; others are ignored.
            reasons: Number of reasons per row.

        Returns:
            The columns of a score file, then for each other party ``state_<party>`` and
            ``age_days_<party>``, and ``refused``; in the order of the rows.

        Raises:
            OpBoostError: The table is not as declared, or nothing may be scored.
        """
        served, frame = self._now(), pl.DataFrame(frame)
        absent = [name for name in served.names if name not in frame.columns]
        if absent:
            raise ContractError(f"The table has no column {', '.join(absent)}.", "Add it.")
        frame = served.with_ids(frame.select(served.names))
        scored = self._score(served, frame, reasons)
        columns = pl.from_arrow(scored.table)
        assert isinstance(columns, pl.DataFrame)
        names = np.array(STATES)
        more = {_VERSION: pl.lit(served.version)}
        for party, states in scored.states.items():
            more[f"state_{party}"] = pl.lit(pl.Series(names[states]))
            ages = pl.Series(scored.age_days[party]).fill_nan(None)
            more[f"age_days_{party}"] = pl.lit(ages)
        refused = pl.Series(scored.refused.astype(str), dtype=pl.String)
        columns = columns.select(pl.when(refused == "").then(pl.all()))
        result = columns.with_columns(**more, refused=refused)
        return result.insert_column(0, frame.get_column(served.federation.id.column))

    def refresh(self) -> None:
        """Reload everything that scores depend on, if it has changed."""
        with self._refreshing:
            self._refresh()

    def live(self) -> Live | None:
        """Return the production counts of the version in use; None if it has scored nothing lately.

        Raises:
            OpBoostError: Nothing may be scored.
            ValueError: A record is damaged.
        """
        served = self._now()
        return live_of(self._home, served.version, served.mode)

    def outcomes(self) -> Outcomes | None:
        """Return the last report on outcomes of the version in use; None if there is none.

        Raises:
            OpBoostError: Nothing may be scored.
            ValueError: The report is damaged.
        """
        return outcomes_of(self._home, self.version)

    @property
    def _home(self) -> Path:
        assert self._declared is not None
        _, site, _, declared = self._declared
        return site.home / declared.name

    def _score(self, served: LoadedVersion, frame: pl.DataFrame, reasons: int) -> Scored:
        scored = served.score(frame, reasons)
        if self._recorder is not None and frame.height:
            self._recorder.add(served, scored)
        return scored

    def _now(self) -> LoadedVersion:
        """Return the version in use; if it is due, one thread refreshes it first."""
        if time.monotonic() - self._began > POLL_SECONDS and self._refreshing.acquire(
            blocking=False
        ):
            try:
                self._refresh()
            finally:
                self._refreshing.release()
        served, failure = self._served, self._failure
        if failure is not None:
            raise failure.with_traceback(None)
        if served is None or time.monotonic() - self._refreshed > MAX_STALE_SECONDS:
            raise ContractError(
                "The label holder's files or database cannot be read.",
                "Nothing is scored until they can: check its disk, and `ledger` in site.yaml.",
            )
        return served

    def _refresh(self) -> None:
        self._began = time.monotonic()
        if self._recorder is not None:
            self._recorder.flush()
        try:
            self._load()
            self._failure = None
        except OpBoostError as error:
            # Stop scoring with a version that may no longer be used.
            self._failure, self._loaded_from = error, None
        except Exception:
            # Disk or database are temporarily unavailable; `_now` limits for how long.
            return
        self._refreshed = time.monotonic()

    def _load(self) -> None:
        site, policy, declared = self._files()
        name = declared.name
        with open_state(site) as state:
            agreements = state.agreements.read()
            since = stopped(state, name)
            forgotten = state.forgotten.read()
            registry, runs = Registry(site.models, name), accepted_runs(site, name)
            champion = registry.champion()
            if since is not None:
                raise PolicyError(
                    f"{site.party} has stopped taking part in {name}: nothing is scored.",
                    "Its own people may resume with `opboost resume`.",
                )
            if champion is None:
                raise ContractError(
                    f"{name} has no champion to score with.", "Train or promote a model."
                )
            key = (self._declared and self._declared[0], champion, agreements, forgotten, runs)
            if key == self._loaded_from and self._served is not None:
                return
            files = registry.files(champion)
            federation, left = scoring_federation(declared, champion, files, agreements, policy)
            received = state.audit.of("received")
        self._served = LoadedVersion(
            site, federation, champion, files, policy.serve, left, forgotten, received, runs
        )
        self._loaded_from = key

    def _files(self) -> tuple[Site, Policy, Federation]:
        """Return site, policy and federation, read again if a file has changed."""
        policy_file = self._site_file.parent / POLICY
        paths = (self._site_file, policy_file, self._federation_file)
        marks = [_mark(path) for path in paths]
        if self._declared is None or self._declared[0] != marks:
            site, declared = load_site(self._site_file), load_federation(self._federation_file)
            if site.party != declared.label_holder:
                raise ConfigError(
                    f"{site.party} is not the label holder of {declared.name}.",
                    f"Only {declared.label_holder} scores: name its site.",
                )
            if declared.learning == "horizontal":
                raise ConfigError(
                    f"{declared.name} learns horizontally, so each row belongs to one party.",
                    "Use `opboost score`.",
                )
            self._declared = (marks, site, load_policy(policy_file), declared)
        return self._declared[1:]


def scoring_federation(
    declared: Federation,
    version: str,
    files: Mapping[str, bytes],
    agreements: Agreements,
    policy: Policy,
) -> tuple[Federation, frozenset[str]]:
    """Return the federation with which a version scores, and the parties that have left it.

    Args:
        declared: The present federation file.
        version: The version.
        files: Files of the version.
        agreements: The label holder's agreements.
        policy: The label holder's policy.

    Raises:
        PolicyError: The label holder's agreement was withdrawn, or does not cover the version.
        ContractError: The version does not fit the federation file.
    """
    if agreements.newest(declared.name) is None:
        raise PolicyError(
            f"{policy.party} has no agreement with {declared.name}: nothing is scored.",
            "Its own people may agree again with `opboost agree`.",
        )
    trained = federation_in(files)
    left = frozenset(trained.parties) - frozenset(declared.parties)
    if left and policy.serve.withdrawn != "refuse":
        return for_model(trained, version, files, lambda _: True), left

    def is_in_force(digest: str) -> bool:
        return scored_under(agreements, declared.name, digest, version) is not None

    planned = for_model(declared, version, files, is_in_force)
    if not is_in_force(digest_of(document(planned))):
        raise PolicyError(
            f"{policy.party} has no agreement that allows scoring with version {version}.",
            "Agree to the present federation file, or keep the version with `opboost agree "
            "--keep-version`.",
        )
    return planned, left


def to_scores(served: LoadedVersion, scored: Scored) -> list[Score]:
    """Convert scored rows to `Score` objects, in their order.

    Args:
        served: The version.
        scored: The rows.
    """
    scores = []
    for i, row in enumerate(scored.table.to_pylist()):
        if scored.refused[i]:
            row = dict.fromkeys(row)
        partners = {
            party: Partner(
                STATES[states[i]],
                None if np.isnan(age := scored.age_days[party][i]) else float(age),
                bool(scored.used[party][i]),
            )
            for party, states in scored.states.items()
        }
        classes = {
            name.removeprefix(PROBABILITY): value
            for name, value in row.items()
            if name.startswith(PROBABILITY) and value is not None
        }
        low, high = row.get("low"), row.get("high")
        scores.append(
            Score(
                version=served.version,
                mode=served.mode,
                score=row[SCORE],
                decision=row[CLASS],
                probabilities=classes,
                uncalibrated=row.get("uncalibrated"),
                interval=None if low is None or high is None else (low, high),
                partners=partners,
                unseen=tuple(name for name, rows in scored.unseen.items() if rows[i]),
                refused=str(scored.refused[i]),
                reasons=_reasons(row),
            )
        )
    return scores


def _reasons(row: Mapping[str, Any]) -> Reasons | None:
    if row.get("raw_score") is None:
        return None
    named: list[Reason] = []
    while (at := f"reason_{len(named) + 1}") + "_party" in row:
        fields = (row[f"{at}_party"], row[f"{at}_feature"], row[f"{at}_contribution"])
        named.append(Reason(*fields))
    return Reasons(tuple(named), row["reasons_base"], row["reasons_rest"], row["raw_score"])


def _mark(path: Path) -> tuple[int, ...] | None:
    """Return a value that changes when a file is written or replaced; None if it is missing."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
