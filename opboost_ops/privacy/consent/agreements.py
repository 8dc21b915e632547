"""A party's agreements, numbered in its database, and the receiver's key that each one pins."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from pydantic import Field, ValidationError

from opboost_ops.config.columns import canonical
from opboost_ops.config.federation import Federation
from opboost_ops.config.policy import Policy, Receiver
from opboost_ops.config.schema import Name, Record
from opboost_ops.errors import ConfigError
from opboost_ops.privacy.ledger.database import Database
from opboost_ops.privacy.ledger.tables import table


def unpinned_receiver(policy: Policy, federation: Federation) -> str | None:
    """Return the label holder if the party releases to it and its policy pins no key of it."""
    party = federation.parties.get(policy.party)
    if party is None or party.role != "feature_holder":
        return None
    holder = federation.label_holder
    return None if holder in policy.receivers else holder


def policy_after_agreement(policy: Policy, federation: Federation) -> Policy:
    """Return the policy as it will be after the party agrees: with the receiver's key pinned."""
    holder = unpinned_receiver(policy, federation)
    if holder is None:
        return policy
    pinned = Receiver(signing_key=federation.parties[holder].signing_key)
    return policy.model_copy(update={"receivers": {**policy.receivers, holder: pinned}})


_AGREEMENTS = table(
    "agreements",
    {"number": int},
    optional="withdrawn",
    federation=160,
    at=40,
    digest=64,
    content=str,
    withdrawn=40,
)

#: Model versions that may still be scored under an agreement that is no longer in force.
_KEPT = table("kept_versions", {"federation": 160, "version": 40}, agreement=int)


class Agreement(Record):
    """One agreement.

    Attributes:
        number: Serial number at this party, across all its federations.
        federation: Name of the federation.
        at: When the party agreed, UTC, to the second.
        digest: SHA-256 of the content.
        content: What was agreed; see `config.agreement.document`.
        withdrawn: When the party withdrew it; None while it stands.
    """

    number: int = Field(ge=1)
    federation: Name
    at: str
    digest: str
    content: Mapping[str, Any]
    withdrawn: str | None = None


class Agreements(Record):
    """All agreements of a party.

    Attributes:
        party: The party.
        agreements: By ascending number.
        kept: By federation and model version, the number of the former agreement under which the
            version may still be scored.
    """

    party: Name
    agreements: tuple[Agreement, ...] = ()
    kept: Mapping[str, Mapping[str, int]] = Field(default_factory=dict)

    def of(self, federation: str) -> tuple[Agreement, ...]:
        """Return the agreements of a federation, including withdrawn ones, by ascending number."""
        return tuple(a for a in self.agreements if a.federation == federation)

    def newest(self, federation: str) -> Agreement | None:
        """Return the agreement in force: the last one of a federation; None if it was withdrawn."""
        agreements = self.of(federation)
        return agreements[-1] if agreements and agreements[-1].withdrawn is None else None

    def standing(self, federation: str, digest: str) -> Agreement | None:
        """Return the newest agreement with a digest that was not withdrawn."""
        matching = [a for a in self.of(federation) if a.digest == digest and a.withdrawn is None]
        return matching[-1] if matching else None

    def kept_under(self, federation: str, version: str | None) -> Agreement | None:
        """Return the former agreement under which a version may still be scored, or None.

        Args:
            federation: Name of the federation.
            version: The model version.
        """
        number = self.kept.get(federation, {}).get(version or "")
        matching = [a for a in self.of(federation) if a.number == number and a.withdrawn is None]
        return matching[0] if matching else None

    def fingerprint(self) -> str:
        """Return a digest of all agreements in their current state."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


class AgreementRecords:
    """The agreements in a party's database.

    Args:
        database: The party's database.
        party: The party.
    """

    def __init__(self, database: Database, party: str) -> None:
        self._database = database
        self._party = party

    def read(self) -> Agreements:
        """Return all agreements.

        Raises:
            ConfigError: An agreement was changed outside this software.
        """
        return self._database.unless_changed("agreements", self._read)

    def _read(self) -> Agreements:
        rows = self._database.rows(sa.select(_AGREEMENTS).order_by(_AGREEMENTS.c.number))
        by_version: dict[str, dict[str, int]] = {}
        for row in self._database.rows(sa.select(_KEPT).order_by(*_KEPT.primary_key.columns)):
            by_version.setdefault(row.federation, {})[row.version] = row.agreement
        try:
            agreements = tuple(
                Agreement.model_validate({**row._mapping, "content": json.loads(row.content)})
                for row in rows
            )
        except (ValueError, ValidationError):
            agreements = ()
        intact = all(
            hashlib.sha256(canonical(a.content)).hexdigest() == a.digest for a in agreements
        )
        if not intact or len(agreements) != len(rows):
            raise ConfigError(
                f"An agreement of {self._party} was changed outside this software.",
                "Restore the database from a backup; only `opboost agree` may write agreements.",
            )
        return Agreements(party=self._party, agreements=agreements, kept=by_version)

    def add(self, agreement: Agreement) -> None:
        """Add an agreement."""
        row = {**agreement.model_dump(), "content": json.dumps(agreement.content, sort_keys=True)}
        self._database.execute(sa.insert(_AGREEMENTS).values(row))

    def keep(self, federation: str, versions: Mapping[str, int], *, fresh: bool) -> None:
        """Record which model versions may still be scored under a former agreement.

        Args:
            federation: Name of the federation.
            versions: Number of the former agreement by version.
            fresh: Whether to drop the versions recorded before.
        """
        of_federation = _KEPT.c.federation == federation
        outdated = of_federation & _KEPT.c.version.in_(sorted(versions))
        rows = [
            {"federation": federation, "version": version, "agreement": number}
            for version, number in versions.items()
        ]
        with self._database.writing() as connection:
            connection.execute(sa.delete(_KEPT).where(of_federation if fresh else outdated))
            if rows:
                connection.execute(sa.insert(_KEPT), rows)

    def withdraw(self, numbers: frozenset[int], at: str) -> None:
        """Withdraw agreements.

        Args:
            numbers: Numbers of the agreements.
            at: Time of the withdrawal, UTC.
        """
        withdrawn = _AGREEMENTS.c.number.in_(sorted(numbers))
        self._database.execute(sa.update(_AGREEMENTS).where(withdrawn).values(withdrawn=at))
