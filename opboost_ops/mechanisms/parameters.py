"""The base of the parameters of every mechanism."""

from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler

from opboost_ops.domain import Domain
from opboost_ops.mechanisms.channel import Channel, precise

#: Nominal privacy loss; of distance-based mechanisms a loss per unit of distance.
Epsilon = Annotated[float, Field(gt=0, le=1000)]


def _make_exact(schema: Any) -> None:
    if isinstance(schema, dict):
        if schema.get("type") in ("int", "float", "bool"):
            schema["strict"] = True
        for inner in schema.values():
            _make_exact(inner)
    elif isinstance(schema, list | tuple):
        for inner in schema:
            _make_exact(inner)


class Exact(BaseModel):
    """A model whose numbers are numbers: neither true nor the text '3' is taken for one.

    Pydantic's own strict mode would refuse lists for tuples and texts for paths, too.
    """

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> Any:
        """Pydantic's schema of the model, with numbers and truth values taken strictly."""
        schema = handler(source)
        _make_exact(schema)
        return schema


class Parameters(Exact):
    """Frozen parameters that refuse keys they do not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def require(self, domain: Domain) -> None:
        """Refuse a domain on which the parameters make no sense; builds nothing.

        Raises:
            ConfigError: Saying why.
        """

    def channel(self, domain: Domain) -> Channel:
        """The exact channel on a domain; built once.

        Raises:
            ConfigError: The parameters make none on this domain.
        """
        return built(self, domain)

    def build(self, domain: Domain) -> Channel:
        """Build the channel that `channel` caches; each mechanism has its own."""
        raise NotImplementedError


@lru_cache(maxsize=128)
def built(mechanism: Parameters, domain: Domain) -> Channel:
    """The channels of this process: one over 1,024 values holds 60 MB."""
    return mechanism.build(domain)


def decay(epsilon: Decimal, longest: int) -> list[Decimal]:
    """exp(-distance epsilon / 2) for the distances 0..longest."""
    with precise():
        return [(-epsilon / 2 * distance).exp() for distance in range(longest + 1)]
