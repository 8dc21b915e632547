"""Inputs and results of a stage. Stages neither publish nor keep accounts.

Only releases are taken within a stage, by what `runner` gives it for that: they are charged, and
people pinned, before anything is made of them.
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
from opboost_ops.learning.boosters.backend import Tell
from opboost_ops.learning.registry.registry import Registry
from opboost_ops.mechanisms import noise
from opboost_ops.pipeline.home import Home as Home
from opboost_ops.privacy.declarations import Declaration, declarations
from opboost_ops.privacy.ledger.budgets import ModelCharge
from opboost_ops.privacy.releases import FeatureResponses


class ReleaseDoor(Protocol):
    """The party's releases, as a run uses them."""

    def unpinned(self, people: np.ndarray) -> np.ndarray:
        """Whose values the run must read, bool, shape (n,).

        Args:
            people: Keyed hashes of everybody in the table, uint8, shape (n, 16).
        """
        ...

    def take(
        self, people: np.ndarray, rows: np.ndarray, values: Mapping[str, np.ndarray]
    ) -> Mapping[str, FeatureResponses]:
        """Charge, pin and record the run's releases; see `Releases.take`.

        Args:
            people: Keyed hashes of everybody in the table, uint8, shape (n, 16).
            rows: The rows whose values were read, rising, shape (m,).
            values: Domain integers of these rows by preprocessed column, shape (m,) each.
        """
        ...


@dataclass(frozen=True)
class PartyContext:
    """A party and its table in a federation, also outside of runs.

    Attributes:
        federation: As declared; in a run the plan's, with the form's values in it.
        run: The run's id; empty outside of runs.
        party: The party.
        site: Its site.
        policy: Its policy.
        home: Its private folder for this run.
        purpose: What the run is for.
        stages: All stages of the party in this run, in order.
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
        """The label holder's key of the digests from which common order and held-out rows follow.

        It follows from its key file or, without one, from its noise secret.
        """
        return alignment_key(self.site, self.federation.name)

    @property
    def declared(self) -> Party:
        """The party as the federation declares it."""
        return self.federation.parties[self.party]

    @property
    def registry(self) -> Registry:
        """The versions of the federation's model at the party."""
        return Registry(self.site.models, self.federation.name)

    def columns(self, party: str = "") -> tuple[Column, ...]:
        """The columns that a feature holder releases, in order.

        Args:
            party: Which one; this party when absent.
        """
        return columns_of(self.federation, party or self.party)

    def declarations(self) -> dict[str, Declaration]:
        """The declarations of the features that this party releases, by feature."""
        return declarations(self.federation, self.party, self.policy, self.site)

    @property
    def person_key(self) -> bytes:
        """Under which this party hashes the IDs of people."""
        return noise.keyed_by(self.site.noise_secret(), "people")

    @property
    def lasting(self) -> Home:
        """The party's private folder for the federation, which outlives its runs."""
        return Home(self.site.home / self.federation.name)

    @property
    def table_path(self) -> Path:
        """The party's table, a file or a folder: the training table, or that of new rows.

        Of a source, and where IDs or persons' rows are made, it is the copy of the run.

        Raises:
            ConfigError: ``site.yaml`` names none for this federation.
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
        acceptance: What the party accepts of the run, the plan first.
        open_mailbox: Opens the party's side of the rounds.
        releases: The party's releases.
        confirm: Asks the party's people about releases for the reasons given, and refuses until
            they have approved.
        tell: Told how far the stage is; it stays with the party.
        waited: Seconds spent waiting.
        polled: Processor seconds spent waiting.
    """

    store: Store
    plan: str
    timeout: float
    acceptance: Acceptance
    open_mailbox: Callable[[], Mailbox]
    releases: ReleaseDoor
    confirm: Callable[[Sequence[str]], None]
    tell: Tell
    waited: list[float] = field(default_factory=list)
    polled: list[float] = field(default_factory=list)

    @property
    def model(self) -> str | None:
        """The version that a scoring run uses; in a training run, the champion before it."""
        return self.acceptance.plan.model

    @property
    def scored_version(self) -> str:
        """The version that a scoring run uses."""
        assert self.model is not None
        return self.model

    @property
    def reference(self) -> str | None:
        """The version to which a training run compares its model."""
        return self.acceptance.plan.reference or self.model

    def require_passed(self, name: str) -> None:
        """Make sure that a check of this run has passed at this party.

        A task that somebody marks as successful in Airflow has checked nothing.

        Args:
            name: Of the document with the check's verdicts.

        Raises:
            ContractError: It was not made, or it failed.
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
        """An artifact of this run that this party accepts; its own ones, too.

        Args:
            kind: Its kind.
            about: The party that it is about.
            rows: The row count it must have.

        Raises:
            ArtifactError: It is missing.
            Rejected: It is not what it must be.
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
        """The manifest of an artifact that an earlier stage has received; no file is read again.

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
    """The key of the digests from which common order and held-out rows follow.

    Args:
        site: The label holder's.
        federation: Name of the federation.
    """
    file = site.alignment_key
    secret = noise.read_secret(file) if file.is_file() else site.noise_secret()
    return noise.keyed_by(secret, f"alignment:{federation}")


#: A run's copy of a table that is no local Parquet file, in the run's folder.
COPY = "table.parquet"


def table_of(site: Site, federation: str, identity: IdColumn, purpose: Purpose) -> Path | Source:
    """A party's table for a federation.

    Args:
        site: The party's.
        federation: Name of the federation.
        identity: How the federation makes its IDs.
        purpose: The training table, or that of new rows.

    Returns:
        A table that is used as it is, or what a run copies before it uses it: a source, and every
        table whose IDs are made, or that may have several rows of a person.

    Raises:
        ConfigError: ``site.yaml`` names none.
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
        tables: Tables to keep at home, or blocks of them as they are made.
        documents: JSON values to keep at home.
        lasting: JSON values to keep at home beyond the run.
        files: Other files to keep at home.
        drafts: Artifacts to publish.
        model: What a differentially private model costs, charged before anything is kept of it.
        summary: Facts for the party's own people: no duration. Everybody sees those that are
            public, and the others only where the step's declaration says what they tell.
        notices: What the party's own people should look at, by name; it goes no further.
        spent: Seconds by what they were spent on, beside those that are taken of every stage, in
            which ``quality_seconds`` of data-quality checks do not count; they stay at home.
        failure: Raised after everything was kept: a failed check keeps its report.
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


#: In a summary: why there was nothing to do; tasks that come after it are skipped.
SKIP = "skip"

#: A step of the protocol.
Stage = Callable[[Context], Outcome]
