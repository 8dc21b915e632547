"""How the common people are found: the ``alignment`` entry of a federation file."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, PrivateAttr

from opboost_ops.config.schema import Record

#: Entries of releases before the sealed release.
_FORMER = ("mode", "epoch", "decoys")


class Members(Record):
    """Whose rows the label holder can open.

    Attributes:
        members: ``all``: those of people whom all parties have. ``each``: at each feature holder
            those of people whom it has; the label holder keeps all its rows, with missing values
            where a feature holder lacks the person.
    """

    members: Literal["all", "each"] = "all"

    _former: str = PrivateAttr(default="")

    @property
    def former(self) -> str:
        """What a file of an earlier release says instead; empty for one of this release."""
        return self._former


def _read_former(value: Any) -> Any:
    """Stored models and agreements of earlier releases are still read."""
    named = value if isinstance(value, str) else ""
    if isinstance(value, Mapping) and set(value) & set(_FORMER):
        named = ", ".join(f"{name}: {value[name]}" for name in _FORMER if value.get(name))
    if not named:
        return value
    found = Members()
    found._former = named
    return found


Alignment = Annotated[Members, BeforeValidator(_read_former)]
