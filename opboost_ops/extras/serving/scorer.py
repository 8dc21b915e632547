"""Scores rows with the champion, whichever it is now; each answer is of one version."""

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

#: Seconds between two looks at champion, agreement, policy and accepted runs.
LOOK = 1.0

#: So many seconds an answer may rest on a look, where later ones fail by the machine.
LONGEST = 60.0

_VERSION = "model_version"


class Scorer:
    """Scores single rows and frames at the label holder, without the other parties.

    Own columns come from the caller, other parties' from the last accepted scoring run that has
    the person. A promotion, a rollback, a new scoring run, a changed policy, a stop and a forgotten
    person count from the next look on, a second later.

    Args:
        site: The folder of the label holder's ``site.yaml``.
        federation: ``federation.yaml``, or its folder.
        record: Whether its rows count as production on the version's page. The counts, by bins and
            day, are all that it keeps; `look` adds the last ones.

    Raises:
        OpBoostError: There is nothing to score with, or the label holder may not.
    """

    def __init__(self, site: str | Path, federation: str | Path, *, record: bool = False) -> None:
        self._site_file = Path(site) / "site.yaml"
        self._federation_file = federation_file(Path(federation))
        self._looking = threading.Lock()
        self._began = self._looked = float("-inf")
        self._seen: Any = None
        self._served: LoadedVersion | None = None
        self._failure: OpBoostError | None = None
        self._declared: tuple[Any, Site, Policy, Federation] | None = None
        self._recorder: Recorder | None = None
        self.look()
        self._now()
        if record:
            self._recorder = Recorder(self._home)

    def __repr__(self) -> str:
        return f"Scorer({self._federation_file.parent.name}, {self._site_file.parent.name})"

    @property
    def version(self) -> str:
        """The version that scores now."""
        return self._now().version

    @property
    def mode(self) -> str:
        """Its mode of scoring."""
        return self._now().mode

    def score(self, row: Mapping[str, Any], reasons: int = 0) -> Score:
        """Score one row.

        Args:
            row: The ID and every own feature by declared name; a missing value is None. In mode
                ``local`` also the others' as ``party.feature``.
            reasons: How many features are named that contribute most.

        Raises:
            OpBoostError: The row is not as declared, or nothing may be scored.
        """
        return self.score_rows([row], reasons)[0]

    def score_rows(self, rows: Iterable[Mapping[str, Any]], reasons: int = 0) -> list[Score]:
        """Score rows, in their order, all with one version.

        Args:
            rows: As for `score`.
            reasons: How many features are named that contribute most.

        Raises:
            OpBoostError: A row is not as declared, or nothing may be scored.
        """
        served, rows = self._now(), list(rows)
        if not rows:
            return []
        return answers(served, self._score(served, served.frame(rows), reasons))

    def score_frame(self, frame: pl.DataFrame, reasons: int = 0) -> pl.DataFrame:
        """Score a table.

        Args:
            frame: Columns as for `score`, of polars or pandas; others are left out.
            reasons: How many features are named that contribute most.

        Returns:
            The columns of a file of scores, then for each other party ``state_<party>`` and
            ``age_days_<party>``, and ``refused``; rows in their order.

        Raises:
            OpBoostError: The table is not as declared, or nothing may be scored.
        """
        served, frame = self._now(), pl.DataFrame(frame)
        absent = [name for name in served.names if name not in frame.columns]
        if absent:
            raise ContractError(f"The table lacks {', '.join(absent)}.", "Add them.")
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

    def look(self) -> None:
        """Look at everything that a score follows from, and load what has changed."""
        with self._looking:
            self._look()

    def live(self) -> Live | None:
        """The version in use in production; None where it has scored nothing lately.

        Raises:
            OpBoostError: Nothing may be scored.
            ValueError: A record is damaged.
        """
        served = self._now()
        return live_of(self._home, served.version, served.mode)

    def outcomes(self) -> Outcomes | None:
        """The last report on outcomes of the version in use; None where there is none.

        Raises:
            OpBoostError: Nothing may be scored.
            ValueError: It is damaged.
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
        """The version in use. One thread looks when it is time; the others use what is there."""
        if time.monotonic() - self._began > LOOK and self._looking.acquire(blocking=False):
            try:
                self._look()
            finally:
                self._looking.release()
        served, failure = self._served, self._failure
        if failure is not None:
            raise failure.with_traceback(None)
        if served is None or time.monotonic() - self._looked > LONGEST:
            raise ContractError(
                "The label holder's files or database cannot be read.",
                "Nothing is scored until they can: look at its disk, and at `ledger` in site.yaml.",
            )
        return served

    def _look(self) -> None:
        self._began = time.monotonic()
        if self._recorder is not None:
            self._recorder.flush()
        try:
            self._load()
            self._failure = None
        except OpBoostError as error:
            # Nothing is scored by what may no longer be used.
            self._failure, self._seen = error, None
        except Exception:
            # A disk or a database that does not answer for a moment: `_now` counts the seconds.
            return
        self._looked = time.monotonic()

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
                    "Its own people decide when it does again, by `opboost resume`.",
                )
            if champion is None:
                raise ContractError(
                    f"{name} has no champion to score with.", "Train or promote a model."
                )
            key = (self._declared and self._declared[0], champion, agreements, forgotten, runs)
            if key == self._seen and self._served is not None:
                return
            files = registry.files(champion)
            federation, left = allowed(declared, champion, files, agreements, policy)
            received = state.audit.of("received")
        self._served = LoadedVersion(
            site, federation, champion, files, policy.serve, left, forgotten, received, runs
        )
        self._seen = key

    def _files(self) -> tuple[Site, Policy, Federation]:
        """Site, policy and federation, read again when a file was written."""
        policy_file = self._site_file.parent / POLICY
        paths = (self._site_file, policy_file, self._federation_file)
        marks = [_mark(path) for path in paths]
        if self._declared is None or self._declared[0] != marks:
            site, declared = load_site(self._site_file), load_federation(self._federation_file)
            if site.party != declared.label_holder:
                raise ConfigError(
                    f"{site.party} is not the label holder of {declared.name}.",
                    f"{declared.label_holder} alone scores: name its site.",
                )
            if declared.learning == "horizontal":
                raise ConfigError(
                    f"{declared.name} is of horizontal learning: its rows are one party's.",
                    "Use `opboost score`.",
                )
            self._declared = (marks, site, load_policy(policy_file), declared)
        return self._declared[1:]


def allowed(
    declared: Federation,
    version: str,
    files: Mapping[str, bytes],
    agreements: Agreements,
    policy: Policy,
) -> tuple[Federation, frozenset[str]]:
    """The federation as a version's rows are scored, if the label holder may, and who has left it.

    Args:
        declared: The federation file as it is now.
        version: The version.
        files: Its files.
        agreements: What the label holder has agreed to.
        policy: The label holder's.

    Raises:
        PolicyError: The label holder's agreement was withdrawn, or does not cover the version.
        ContractError: The version does not fit the federation file.
    """
    if agreements.newest(declared.name) is None:
        raise PolicyError(
            f"{policy.party} has no agreement with {declared.name}: nothing is scored.",
            "Its own people agree again with `opboost agree`.",
        )
    trained = federation_in(files)
    left = frozenset(trained.parties) - frozenset(declared.parties)
    if left and policy.serve.withdrawn != "refuse":
        return for_model(trained, version, files, lambda _: True), left

    def stands(digest: str) -> bool:
        return scored_under(agreements, declared.name, digest, version) is not None

    planned = for_model(declared, version, files, stands)
    if not stands(digest_of(document(planned))):
        raise PolicyError(
            f"{policy.party} has no agreement under which version {version} is scored.",
            "Agree to the present federation file, or keep the version by `opboost agree "
            "--keep-version`.",
        )
    return planned, left


def answers(served: LoadedVersion, scored: Scored) -> list[Score]:
    """Scored rows as objects, in their order.

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
        of = (row[f"{at}_party"], row[f"{at}_feature"], row[f"{at}_contribution"])
        named.append(Reason(*of))
    return Reasons(tuple(named), row["reasons_base"], row["reasons_rest"], row["raw_score"])


def _mark(path: Path) -> tuple[int, ...] | None:
    """Another one whenever a file was written or replaced; None where there is none."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
