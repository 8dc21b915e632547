"""How the common people are found: the ``alignment`` entry of a federation file."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, SerializerFunctionWrapHandler, Tag, model_serializer

from opboost_ops.config.schema import Record

AlignmentMode = Literal["private", "keyed"]


class PrivateAlignment(Record):
    """``alignment: private`` with more than its mode.

    Attributes:
        mode: Its only one.
        epoch: For how long exponents stay: one calendar month, in UTC. Feature holders then count
            only people who were not asked about before in the month, and runs of one month can be
            linked. Without it every run has exponents of its own.
        decoys: The only feature holder releases randomised values of ``all`` its people, and is not
            told who of them is common, nor how many. Without it, it releases common people alone.
    """

    mode: Literal["private"]
    epoch: Literal["month"] | None = None
    decoys: Literal["all"] | None = None

    @model_serializer(mode="wrap")
    def _as_declared(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without what is absent: a plan is to be as it was before there was a key for that."""
        return {name: value for name, value in handler(self).items() if value is not None}


def _form_of_alignment(value: Any) -> str:
    return "terms" if isinstance(value, Mapping | PrivateAlignment) else "mode"


#: Told apart before either is tried, so that a fault is told once.
Alignment = Annotated[
    Annotated[AlignmentMode, Tag("mode")] | Annotated[PrivateAlignment, Tag("terms")],
    Discriminator(_form_of_alignment),
]
