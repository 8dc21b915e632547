"""Order-preserving mechanisms: each module defines parameters and builds their exact channel."""

from typing import Annotated

from pydantic import Field

from opboost_ops.mechanisms.designed import Designed
from opboost_ops.mechanisms.geometric import Geometric
from opboost_ops.mechanisms.maps import AdjMap, GlobalMap, LocalMap
from opboost_ops.mechanisms.piecewise import Piecewise
from opboost_ops.mechanisms.randomised_response import (
    BucketResponse,
    GeneralisedResponse,
    MissingBit,
    UnaryEncoding,
)

#: Every mechanism that a federation file may declare for a feature: UnaryEncoding for nominal
#: features, the others for numeric and ordinal features.
Mechanism = Annotated[
    GlobalMap
    | Geometric
    | Designed
    | AdjMap
    | LocalMap
    | BucketResponse
    | GeneralisedResponse
    | Piecewise
    | UnaryEncoding,
    Field(discriminator="name"),
]

__all__ = [
    "AdjMap",
    "BucketResponse",
    "Designed",
    "GeneralisedResponse",
    "Geometric",
    "GlobalMap",
    "LocalMap",
    "Mechanism",
    "MissingBit",
    "Piecewise",
    "UnaryEncoding",
]
