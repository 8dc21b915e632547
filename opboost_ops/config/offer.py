"""``<party>-offer.yaml``: what a party offers to a federation, written at home; it is public."""

from collections.abc import Collection, Mapping
from typing import Any, Literal

from pydantic import Field

from opboost_ops.config.feature import Feature
from opboost_ops.config.federation import RULES, IdType, Label
from opboost_ops.config.schema import FeatureName, Name, PublicKey, Record


class OfferedId(Record):
    """The columns that name a person in the party's own table.

    Attributes:
        column: A column; the federation file takes the label holder's name.
        columns: Or several together, whose names it takes likewise.
        types: The types that its values may be declared as.
    """

    column: str = "id"
    columns: tuple[str, ...] = ()
    types: tuple[IdType, ...] = Field(min_length=1)

    def entry(self, common: Collection[IdType]) -> dict[str, Any]:
        """The federation file's entry: of several columns with all rules.

        Args:
            common: The types that all parties' values may be declared as.
        """
        if self.columns:
            return {"columns": list(self.columns), "normalise": list(RULES), "type": "string"}
        return {"column": self.column, "type": min(common)}


class Offer(Record):
    """The whole of an offer: keys, columns, types, bounds and mechanisms, and no data.

    Attributes:
        version: Of this format.
        federation: Name of the federation that it is for.
        party: Who offers.
        id: The ID of a person.
        signing_key: The party's Ed25519 public key.
        encryption_key: The party's X25519 public key.
        label: The target, in the label holder's offer.
        features: The columns, as the federation file repeats them.
    """

    version: Literal[1]
    federation: Name
    party: Name
    id: OfferedId
    signing_key: PublicKey
    encryption_key: PublicKey
    label: Label | None = None
    features: Mapping[FeatureName, Feature] = Field(default_factory=dict)
