"""One party's own commands: setup, faults, consent, and the cost of its releases."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from opboost_ops.config.agreement import digest_of, document
from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import POLICY, load_federation, load_party, load_policy, load_site
from opboost_ops.config.policy import Policy
from opboost_ops.errors import ConfigError, Fault
from opboost_ops.exchange.party_state import agreements_of
from opboost_ops.extras.setup import bounds as bounds_table
from opboost_ops.extras.setup.federation_file import (
    EdgesWritten,
    Federated,
    fill_in_bounds,
    write_private_edges,
)
from opboost_ops.extras.setup.federation_file import federate as join_offers
from opboost_ops.extras.setup.keys import pin
from opboost_ops.extras.setup.offers import init as init
from opboost_ops.learning.federboost.declared import sum_guarantee
from opboost_ops.pipeline.party import agreement
from opboost_ops.pipeline.party.party_sites import federation_file, party_site_file, site_files
from opboost_ops.pipeline.party.site_faults import MadePeople, site_faults
from opboost_ops.pipeline.runner.exact_disclosures import exact_disclosures_of_run
from opboost_ops.privacy.consent.agreements import policy_after_agreement
from opboost_ops.privacy.consent.changes import Change, changes, leaving
from opboost_ops.privacy.ledger.budgets import ModelAccount
from opboost_ops.reports.consent_sheet import ConsentSheet, consent_sheet
from opboost_ops.reports.display.blocks import finite
from opboost_ops.reports.ledger import ledger_of


@dataclass(frozen=True, repr=False)
class Checked:
    """The result of `check`.

    Attributes:
        federation: The declaration.
        faults: All faults of the parties' sites and tables.
        leaves: Randomised releases, a row per column and agreed epsilon: ``party``, ``column``,
            ``mechanism``, ``epsilon``, ``loss_1`` and ``loss_whole``.
        exact: Releases of a run without an epsilon: ``sender``, ``receiver``, ``discloses``.
        lacking: By party, the terms that it has not agreed to; empty if all have agreed.
        people: By party and table, counts of IDs that the ID rules change, of rows that share an
            ID, and of people after aggregation.
        elsewhere: Parties that were not checked, because no ``site.yaml`` of theirs is known here.
    """

    federation: Federation
    faults: tuple[Fault, ...]
    leaves: pl.DataFrame
    exact: pl.DataFrame
    lacking: Mapping[str, str]
    people: MadePeople
    elsewhere: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """Return the result as JSON; infinite losses are ``"inf"``."""
        leaves = [
            {name: finite(value) for name, value in line.items()} for line in self.leaves.to_dicts()
        ]
        return {
            "federation": self.federation.name,
            "faults": [vars(fault) for fault in self.faults],
            "lacking": dict(self.lacking),
            "leaves": leaves,
            "exact": self.exact.to_dicts(),
            "people": self.people,
            "elsewhere": list(self.elsewhere),
        }

    def __repr__(self) -> str:
        count = f"{len(self.faults)} faults" if self.faults else "no faults"
        return f"Checked({self.federation.name}: {count}, {self.leaves.height} releases)"


@dataclass(frozen=True, repr=False)
class Consent:
    """The terms of a party's agreement, and whether it has agreed.

    Attributes:
        party: The party's name.
        federation: The declaration.
        digest: Digest of the terms, for `agree`.
        changes: Changes since the party's last agreement.
        number: Number of the party's agreement to exactly these terms; None if it has not agreed.
        sheet: All releases, and what they mean.
        policy: The party's policy once it has agreed.
    """

    party: str
    federation: Federation
    digest: str
    changes: tuple[Change, ...]
    number: int | None
    sheet: ConsentSheet
    policy: Policy

    def __repr__(self) -> str:
        state = f"agreed, number {self.number}" if self.number else f"{len(self.changes)} changes"
        return f"Consent({self.party} to {self.federation.name}: {state})"


def check(federation: str | Path) -> Checked:
    """Report all faults that would stop a run, and everything that a run releases.

    Args:
        federation: ``federation.yaml``, or its folder.

    Raises:
        ConfigError: The federation file itself is invalid, and all its faults are listed; or no
            party's site is known here.
    """
    path = federation_file(Path(federation))
    declared = load_federation(path)
    faults, _, people = site_faults(path, declared)
    lines = [
        {
            "party": party,
            "column": line.charge,
            "mechanism": line.curve.mechanism,
            "epsilon": line.epsilon,
            "loss_1": float(line.curve.loss[0]),
            "loss_whole": float(line.curve.loss[-1]),
        }
        for party in declared.feature_holders
        for line in leaving(declared, party)
    ]
    exact = [
        {"sender": sender, "receiver": receiver, "discloses": discloses}
        for sender, receiver, discloses in exact_disclosures_of_run(declared)
    ]
    return Checked(
        declared,
        tuple(faults),
        pl.DataFrame(lines, infer_schema_length=None),
        pl.DataFrame(exact, infer_schema_length=None),
        _missing_agreements(path, declared),
        people,
        tuple(name for name in declared.parties if party_site_file(path, name) is None),
    )


def _missing_agreements(path: Path, federation: Federation) -> dict[str, str]:
    problems: dict[str, str] = {}
    for party, file in site_files(path, federation, every=False).items():
        try:
            missing = agreement.lacking(load_site(file), federation)
        except ConfigError as error:
            missing = error.problem
        if missing:
            problems[party] = missing
    return problems


def agree(
    site: str | Path,
    federation: str | Path,
    digest: str | None = None,
    *,
    by: str = "",
    because: str = "",
) -> Consent:
    """Show the terms that a party would agree to; with their digest, agree to them.

    Args:
        site: Folder of the party's ``site.yaml``.
        federation: ``federation.yaml``, or its folder.
        digest: Digest of the `Consent` that was read; without it nothing is agreed to.
        by: The person who agrees for the party.
        because: The reason.

    Raises:
        ConfigError: The party is not in the federation, or the file has changed since it was read.
    """
    path = federation_file(Path(federation))
    mine, declared = load_site(Path(site) / "site.yaml"), load_federation(path)
    agreement.require_member(mine, declared)
    current = digest_of(document(declared))
    if digest is not None and digest != current:
        raise ConfigError(
            f"{digest} is not the digest of {path.name}, which is now {current}.",
            "Nothing was agreed to. Read the changes, and pass the new digest.",
        )
    if digest is not None:
        pin(Path(site), declared)
        agreement.agree(mine, declared, by=by, because=because)
    agreements = agreements_of(mine)
    newest = agreements.newest(declared.name)
    number = newest.number if newest is not None and newest.digest == current else None
    policy = load_policy(Path(site) / POLICY)
    policy = policy_after_agreement(policy, declared)
    exact, models = exact_disclosures_of_run(declared), sum_guarantee(declared)
    sheet = consent_sheet(declared, mine.party, policy, current, exact, models)
    new = tuple(changes(agreements, declared))
    return Consent(mine.party, declared, current, new, number, sheet, policy)


@dataclass(frozen=True, repr=False)
class Statement:
    """A party's releases and their privacy cost.

    Attributes:
        party: The party's name.
        columns: A row per released feature and receiver: ``feature``, raw ``column``,
            ``receiver``, dates of its ``releases``, ``loss`` of one, ``spent`` and ``budget`` of
            the raw column, and the date ``since`` which its values are unchanged.
        exact: A row per kind of release without an epsilon: ``receiver``, ``kind``, ``times`` and
            ``discloses``.
        models: The total cost of all differentially private models.
    """

    party: str
    columns: pl.DataFrame
    exact: pl.DataFrame
    models: ModelAccount

    def __repr__(self) -> str:
        return f"Statement({self.party}: {self.columns.height} columns charged)"


def ledger(site: str | Path) -> Statement:
    """Read a party's releases from its ledger.

    Args:
        site: Folder of the party's ``site.yaml``.

    Raises:
        ConfigError: The site or its database cannot be read.
    """
    declared, policy = load_party(Path(site) / "site.yaml")
    view = ledger_of(declared, policy)
    content = view.document()
    columns, exact = (
        pl.DataFrame(content[name], infer_schema_length=None) for name in ("columns", "exact")
    )
    return Statement(declared.party, columns, exact, view.models)


def bounds(site: str | Path) -> bounds_table.FilledIn:
    """Write a party's completed ``bounds.csv`` into its offer, and draw its private edges.

    Args:
        site: Folder of the party's ``site.yaml``.

    Raises:
        ConfigError: Lists all faults of the table; nothing was written.
    """
    return fill_in_bounds(Path(site))


def private_edges(
    site: str | Path,
    epsilon: float,
    columns: Mapping[str, int] | None = None,
    federation: str | Path | None = None,
    number: int = 1,
) -> EdgesWritten:
    """Draw private edges from a party's own table, charge them, and write them into its file.

    Args:
        site: Folder of the party's ``site.yaml``.
        epsilon: Epsilon per column, for adding, removing or replacing one person.
        columns: Number of cells by feature; by default the domain's size for each numeric column
            that is not declared boolean.
        federation: The ``federation.yaml`` to write; the party's offer by default.
        number: Number of the draw, from 1. A new number draws, and costs, again.

    Raises:
        OpBoostError: A column takes no edges, the policy or a budget does not allow them, or the
            table cannot be read; nothing was drawn or written.
    """
    file = None if federation is None else Path(federation)
    return write_private_edges(Path(site), epsilon, columns, file, number)


def federate(offers: Sequence[str | Path], file: str | Path = "federation.yaml") -> Federated:
    """Write a federation file from the parties' offers.

    Args:
        offers: The parties' offers, or the folders of parties on this machine. Entries that an
            offer leaves blank are taken from the party's ``bounds.csv``.
        file: The ``federation.yaml``; an existing one keeps the entries that no offer has.

    Raises:
        ConfigError: Lists all faults; nothing was written.
    """
    return join_offers([Path(offer) for offer in offers], Path(file))
