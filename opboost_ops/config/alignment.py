"""How people are found, and which are kept: the ``alignment`` entry of a federation file."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, PrivateAttr

from opboost_ops.config.schema import Record

#: Entries of releases before the sealed release.
_FORMER = ("mode", "epoch", "decoys")

#: What ``overlap`` was called in 0.3.0, and its values there.
_MEMBERS: Mapping[Any, Literal["common", "left"]] = {"all": "common", "each": "left"}


class Overlap(Record):
    """Which rows of the label holder are trained on and scored.

    Attributes:
        overlap: ``common``: those of people that all feature holders have. ``left``: all (a left
        join), with missing values where a feature holder lacks the person.
    """

    overlap: Literal["common", "left"] = "common"

    _former: str = PrivateAttr(default="")
    _renamed: str = PrivateAttr(default="")

    @property
    def former(self) -> str:
        """The way of alignment that a file of 0.2.0 or before names; empty for later ones."""
        return self._former

    @property
    def renamed(self) -> str:
        """How a file of 0.3.0 writes ``overlap``; empty for other ones."""
        return self._renamed


def _read_former(value: Any) -> Any:
    """Stored models and agreements of earlier releases are still read."""
    if isinstance(value, Mapping) and set(value) == {"members"} and value["members"] in _MEMBERS:
        found = Overlap(overlap=_MEMBERS[value["members"]])
        found._renamed = f"members: {value['members']}"
        return found
    named = value if isinstance(value, str) else ""
    if isinstance(value, Mapping) and set(value) & set(_FORMER):
        named = ", ".join(f"{name}: {value[name]}" for name in _FORMER if value.get(name))
    if not named:
        return value
    found = Overlap()
    found._former = named
    return found


Alignment = Annotated[Overlap, BeforeValidator(_read_former)]
