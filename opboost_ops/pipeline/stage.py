"""Inputs and results of a stage. A stage itself neither publishes nor writes to the ledger.

Releases are the exception: a stage takes them through the interface that `runner` gives it; they
are charged, and people pinned, before anything is derived from them.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from opboost_ops.config.columns import Column, columns_of
from opboost_ops.config.federation import Federation, IdColumn, Party, Purpose
from opboost_ops.config.policy import Policy
from opboost_ops.config.site import Site
from opboost_ops.config.source import Source
from opboost_ops.errors import ConfigError, ContractError
from opboost_ops.exchange.acceptance import Acceptance
from opboost_ops.exchange.artifact import Artifact, Draft
from opboost_ops.exchange.manifest import Kind, Manifest, reference
from opboost_ops.exchange.rounds.mailbox import Mailbox
from opboost_ops.exchange.store.reads import heads_alone
from opboost_ops.exchange.store.store import Store
from opboost_ops.learning.boosters.backend import Progress
from opboost_ops.learning.registry.registry import Registry
from opboost_ops.mechanisms import noise
from opboost_ops.pipeline.home import Home as Home
from opboost_ops.privacy.declarations import Declaration, declarations
from opboost_ops.privacy.ledger.budgets import ModelCharge
from opboost_ops.privacy.releases import FeatureResponses


class ReleaseAccess(Protocol):
    """Interface of a stage to the party's releases in a run."""

    def unpinned(self, people: np.ndarray) -> np.ndarray:
        """Return the people whose values the run must read, bool, shape (n,).

        Args:
            people: Keyed hashes of everyone in the table, uint8, shape (n, 16).
        """
        ...

    def take(
        self, people: np.ndarray, rows: np.ndarray, values: Mapping[str, np.ndarray]
    ) -> Mapping[str, FeatureResponses]:
        """Charge, pin and record the run's releases; see `Releases.take`.

        Args:
            people: Keyed hashes of everyone in the table, uint8, shape (n, 16).
            rows: Row numbers of the values that were read, ascending, shape (m,).
            values: Domain integers of these rows by preprocessed column, shape (m,) each.
        """
        ...


@dataclass(frozen=True)
class PartyContext:
    """A party and its table in a federation, within a run or outside.

    Attributes:
        federation: The federation as declared; in a run the plan's, with the form's values.
        run: The run's ID; empty outside of runs.
        party: Name of the party.
        site: Its site.
        policy: Its policy.
        home: Its private folder for the run.
        purpose: The run's purpose.
        stages: All stages of the party in the run, in order.
    """

    federation: Federation
    run: str
    party: str
    site: Site
    policy: Policy
    home: Home
    purpose: Purpose = "train"
    stages: tuple[str, ...] = ()

    def alignment_key(self) -> bytes:
        """Return the label holder's key of the digests that give the common order.

        It comes from its key file or, without one, from its noise secret.
        """
        return alignment_key(self.site, self.federation.name)

    @property
    def declared(self) -> Party:
        """Return the party as the federation declares it."""
        return self.federation.parties[self.party]

    @property
    def registry(self) -> Registry:
        """Return the registry of the federation's models at the party."""
        return Registry(self.site.models, self.federation.name)

    def columns(self, party: str = "") -> tuple[Column, ...]:
        """Return the columns that a feature holder releases, in order.

        Args:
            party: Name of the feature holder; this party if empty.
        """
        return columns_of(self.federation, party or self.party)

    def declarations(self) -> dict[str, Declaration]:
        """Return the declarations of the features that this party releases, by feature."""
        return declarations(self.federation, self.party, self.policy, self.site)

    @property
    def person_key(self) -> bytes:
        """Return the key of this party's hashes of people's IDs."""
        return noise.keyed_by(self.site.read_secret(), "people")

    @property
    def lasting(self) -> Home:
        """Return the party's private folder for the federation, which outlives its runs."""
        return Home(self.site.home / self.federation.name)

    @property
    def table_path(self) -> Path:
        """Return the path of the party's training table, or of its new rows: a file or a folder.

        For a source, and for a table whose IDs or rows per person are made, it is the run's copy.

        Raises:
            ConfigError: ``site.yaml`` names no table for this federation.
        """
        table = table_of(self.site, self.federation.name, self.federation.id, self.purpose)
        return self.home.folder / COPY if isinstance(table, Source) else table


@dataclass(frozen=True, kw_only=True)
class Context(PartyContext):
    """The inputs and capabilities of a stage.

    Attributes:
        store: The exchange, for reading only.
        plan: Digest of the plan.
        timeout: Seconds to wait for another party's artifact.
        acceptance: The party's accepted artifacts of the run, starting with the plan.
        open_mailbox: Opens the party's mailbox for the rounds.
        releases: The party's releases.
        confirm: Requests approval of releases for the given reasons, and raises until it is given.
        tell: Reports the stage's progress, within the party only.
        waited: Seconds spent waiting.
        polled: CPU seconds spent waiting.
    """

    store: Store
    plan: str
    timeout: float
    acceptance: Acceptance
    open_mailbox: Callable[[], Mailbox]
    releases: ReleaseAccess
    confirm: Callable[[Sequence[str]], None]
    tell: Progress
    waited: list[float] = field(default_factory=list)
    polled: list[float] = field(default_factory=list)

    @property
    def model(self) -> str | None:
        """Return the version that a scoring run uses; in training, the champion before the run."""
        return self.acceptance.plan.model

    @property
    def scored_version(self) -> str:
        """Return the version that a scoring run uses."""
        assert self.model is not None
        return self.model

    @property
    def reference(self) -> str | None:
        """Return the version that a training run compares its model with."""
        return self.acceptance.plan.reference or self.model

    def forget_verdicts(self, stage: str) -> None:
        """Remove the verdicts of earlier attempts on what a stage is about to change.

        Args:
            stage: Name of the stage; its own check and those of later stages have to run again.
        """
        for name in self.stages[self.stages.index(stage) :]:
            if name.startswith("check_"):
                verdict = self.home.folder / f"checked_{name.removeprefix('check_')}.json"
                verdict.unlink(missing_ok=True)

    def require_passed(self, name: str) -> None:
        """Require that a check of this run has passed at this party.

        A task that someone marked as successful in Airflow has checked nothing.

        Args:
            name: Name of the document with the check's verdicts.

        Raises:
            ContractError: The check has not run, or it failed.
        """
        if not (self.home.has(name) and all(self.home.json(name).values())):
            raise ContractError(
                f"The data-quality check of the {name.removeprefix('checked_')} has not passed at "
                f"{self.party} in run {self.run}.",
                "Fix what failed, then clear the task of the check; a mark in Airflow is no check.",
            )

    def receive(
        self,
        kind: Kind,
        about: str,
        *,
        rows: int | None = None,
    ) -> Artifact:
        """Return an artifact of this run, after acceptance; the party's own ones included.

        Args:
            kind: Its kind.
            about: The party that it is about.
            rows: Required number of rows.

        Raises:
            ArtifactError: It is missing.
            Rejected: It is invalid.
        """
        begin, polled = time.perf_counter(), time.process_time()
        files = self.store.wait(
            reference(self.federation.name, self.run, kind, about),
            self.timeout,
            self.acceptance.admit(kind, about),
        )
        self.waited.append(time.perf_counter() - begin)
        self.polled.append(time.process_time() - polled)
        return self.acceptance.accept(kind, about, files, datetime.now(UTC).date(), rows)

    def manifest(self, kind: Kind, about: str) -> Manifest:
        """Return the manifest of an artifact that an earlier stage has received, without its files.

        Args:
            kind: Its kind.
            about: The party that it is about.

        Raises:
            ArtifactError: It is missing.
            Rejected: It is not the one that was accepted.
        """
        place = reference(self.federation.name, self.run, kind, about)
        heads = heads_alone(lambda admit: self.store.wait(place, 0.0, admit))
        return self.acceptance.manifest(kind, about, heads or {})


def alignment_key(site: Site, federation: str) -> bytes:
    """Return the key of the digests that determine the common order.

    Args:
        site: The label holder's site.
        federation: Name of the federation.
    """
    file = site.alignment_key
    secret = noise.read_secret(file) if file.is_file() else site.read_secret()
    return noise.keyed_by(secret, f"alignment:{federation}")


#: File in the run's folder with the copy of a table that is not a local Parquet file.
COPY = "table.parquet"


def table_of(site: Site, federation: str, identity: IdColumn, purpose: Purpose) -> Path | Source:
    """Return a party's table for a federation.

    Args:
        site: The party's site.
        federation: Name of the federation.
        identity: The federation's ID column.
        purpose: Selects the training table or that of new rows.

    Returns:
        The path of a table that is used unchanged, or the source of one that a run copies first:
        external sources, and tables whose IDs are made or that have several rows per person.

    Raises:
        ConfigError: ``site.yaml`` names no such table.
    """
    tables = site.tables.get(federation)
    path: Path | Source | None = None
    if tables is not None:
        path = tables.train if purpose == "train" else tables.score
    if path is None:
        rows = "" if purpose == "train" else " of new rows"
        raise ConfigError(
            f"site.yaml of {site.party} names no table{rows} for {federation}.",
            f"Add tables.{federation}.{purpose}.",
        )
    assert tables is not None
    if isinstance(path, Path) and (identity.is_made or tables.aggregate):
        return Source(at=str(path))
    return path


@dataclass(frozen=True)
class Outcome:
    """The result of a stage.

    Attributes:
        tables: Tables to store at home, or their blocks as they are made.
        documents: JSON values to store at home.
        lasting: JSON values to store at home beyond the run.
        files: Other files to store at home.
        drafts: Artifacts to publish.
        model: Charge of a differentially private model, made before anything of it is stored.
        summary: Facts for the party's own people, without durations. Everyone sees public facts,
            and others only if the step declares their disclosure.
        notices: Names of notices to the party's own people only.
        spent: Seconds by activity, besides the times measured for every stage, which exclude
            ``quality_seconds`` of data-quality checks; they stay at home.
        failure: Raised after everything was stored, so that a failed check leaves its report.
    """

    tables: Mapping[str, pa.Table | Iterator[pa.Table]] = field(default_factory=dict)
    documents: Mapping[str, Any] = field(default_factory=dict)
    lasting: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    drafts: tuple[Draft, ...] = ()
    model: ModelCharge | None = None
    summary: Mapping[str, Any] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    spent: Mapping[str, float] = field(default_factory=dict)
    failure: ContractError | None = None


#: Summary key with the reason why there was nothing to do; later tasks are skipped.
SKIP = "skip"

#: A step of the protocol.
Stage = Callable[[Context], Outcome]
