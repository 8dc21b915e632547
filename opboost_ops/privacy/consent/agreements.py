"""A party's agreements, numbered in its database, and the receiver's key that each pins."""

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
    """The label holder, where the party releases to it and its policy pins no key of it."""
    party = federation.parties.get(policy.party)
    if party is None or party.role != "feature_holder":
        return None
    holder = federation.label_holder
    return None if holder in policy.receivers else holder


def once_agreed(policy: Policy, federation: Federation) -> Policy:
    """The policy as it will be once its party has agreed."""
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

#: Versions that may still be scored under an agreement that is no longer in force.
_KEPT = table("kept_versions", {"federation": 160, "version": 40}, agreement=int)


class Agreement(Record):
    """One agreement.

    Attributes:
        number: Counted at this party, over all its federations.
        federation: The federation's name.
        at: When the party agreed, UTC, to the second.
        digest: Of the content.
        content: What was agreed; see `config.agreement.document`.
        withdrawn: When the party withdrew it; None as long as it stands.
    """

    number: int = Field(ge=1)
    federation: Name
    at: str
    digest: str
    content: Mapping[str, Any]
    withdrawn: str | None = None


class Agreements(Record):
    """All that a party has agreed to.

    Attributes:
        party: Whose.
        agreements: By rising number.
        kept: By federation and version, the number of the former agreement under which the version
            may still be scored.
    """

    party: Name
    agreements: tuple[Agreement, ...] = ()
    kept: Mapping[str, Mapping[str, int]] = Field(default_factory=dict)

    def of(self, federation: str) -> tuple[Agreement, ...]:
        """The agreements of one federation, withdrawn ones too, by rising number."""
        return tuple(a for a in self.agreements if a.federation == federation)

    def newest(self, federation: str) -> Agreement | None:
        """The agreement in force of a federation: the last one; None if it was withdrawn."""
        agreements = self.of(federation)
        return agreements[-1] if agreements and agreements[-1].withdrawn is None else None

    def standing(self, federation: str, digest: str) -> Agreement | None:
        """The newest agreement of a digest that was not withdrawn."""
        matching = [a for a in self.of(federation) if a.digest == digest and a.withdrawn is None]
        return matching[-1] if matching else None

    def kept_under(self, federation: str, version: str | None) -> Agreement | None:
        """The former agreement under which a version may still be scored; None if under none.

        Args:
            federation: The federation's name.
            version: The version.
        """
        number = self.kept.get(federation, {}).get(version or "")
        matching = [a for a in self.of(federation) if a.number == number and a.withdrawn is None]
        return matching[0] if matching else None

    def fingerprint(self) -> str:
        """A name of all of it, as it is now."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


class AgreementRecords:
    """The agreements in a party's database.

    Args:
        database: The party's.
        party: Its name.
    """

    def __init__(self, database: Database, party: str) -> None:
        self._database = database
        self._party = party

    def read(self) -> Agreements:
        """All agreements.

        Raises:
            ConfigError: One was changed outside this software.
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
        whole = all(
            hashlib.sha256(canonical(a.content)).hexdigest() == a.digest for a in agreements
        )
        if not whole or len(agreements) != len(rows):
            raise ConfigError(
                f"An agreement of {self._party} was changed outside this software: it is refused.",
                "Restore the database from a backup; `opboost agree` alone writes agreements.",
            )
        return Agreements(party=self._party, agreements=agreements, kept=by_version)

    def add(self, agreement: Agreement) -> None:
        """Add an agreement.

        Args:
            agreement: The agreement.
        """
        row = {**agreement.model_dump(), "content": json.dumps(agreement.content, sort_keys=True)}
        self._database.execute(sa.insert(_AGREEMENTS).values(row))

    def keep(self, federation: str, versions: Mapping[str, int], *, fresh: bool) -> None:
        """Note which versions may still be scored under a former agreement.

        Args:
            federation: The federation's name.
            versions: By version, the number of that agreement.
            fresh: Whether to drop the versions that were kept before.
        """
        here = _KEPT.c.federation == federation
        gone = here if fresh else here & _KEPT.c.version.in_(sorted(versions))
        rows = [
            {"federation": federation, "version": version, "agreement": number}
            for version, number in versions.items()
        ]
        with self._database.writing() as connection:
            connection.execute(sa.delete(_KEPT).where(gone))
            if rows:
                connection.execute(sa.insert(_KEPT), rows)

    def withdraw(self, numbers: frozenset[int], at: str) -> None:
        """Withdraw agreements.

        Args:
            numbers: Theirs.
            at: When, UTC.
        """
        here = _AGREEMENTS.c.number.in_(sorted(numbers))
        self._database.execute(sa.update(_AGREEMENTS).where(here).values(withdrawn=at))
