"""Designed channels: a precomputed table of counts under the loss curve min(epsilon t, most).

`privacy/design.py` computes the tables. They are not trusted: building the channel checks every
count against the curve, in exact integers.
"""

from itertools import pairwise
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, StringConstraints, WithJsonSchema

from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError
from opboost_ops.mechanisms.channel import FLOOR, TOTAL, Channel, keeps_everywhere, keeps_steps
from opboost_ops.mechanisms.geometric import FineEpsilon
from opboost_ops.mechanisms.parameters import Parameters

#: Maximum domain size of a designed channel: the linear programme grows quadratically with it.
MOST_DESIGNED = 64

Count = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,20}$")]


class Table(Parameters):
    """The counts of a channel, as stored in a file.

    Attributes:
        lower, upper: Bounds of the domain.
        outputs: Released values in ascending order, one per column.
        counts: One row per input. Counts are decimal strings because many JSON parsers round
            integers above 2^53.
    """

    lower: int
    upper: int
    outputs: tuple[int, ...] = Field(min_length=2, max_length=MOST_DESIGNED)
    counts: tuple[tuple[Count, ...], ...] = Field(min_length=2, max_length=MOST_DESIGNED)


class Designed(Parameters):
    """The channel of least expected cost for a declared prior, under a declared loss curve.

    Attributes:
        epsilon: Loss per unit of distance.
        most: Maximum loss between any two values.
        table: Its counts; in a federation file, the name of the table's file in the same folder.
    """

    name: Literal["designed"] = "designed"
    epsilon: FineEpsilon
    most: FineEpsilon
    table: Annotated[
        Table | Annotated[str, Field(min_length=1, max_length=200)],
        # Users write a file name; `config/agreement.py` replaces it with the counts.
        WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 200}),
    ]

    def require(self, domain: Domain) -> None:
        """Reject a table for another domain or one that exceeds the loss curve."""
        if isinstance(self.table, Table):
            self.channel(domain)

    def build(self, domain: Domain) -> Channel:
        """Build the channel on a domain."""
        table = self.table
        if isinstance(table, str):
            raise ConfigError(
                "The table of a designed channel was not loaded: only a federation file may name "
                "its file.",
                "Name the file in federation.yaml and put it in the same folder.",
            )
        if (table.lower, table.upper) != (domain.lower, domain.upper):
            raise ConfigError(
                f"The table of a designed channel is for [{table.lower}, {table.upper}], but the "
                f"domain is [{domain.lower}, {domain.upper}].",
                "Compute one for this domain: opboost channel designed --lower --upper.",
            )
        counts = tuple(tuple(map(int, row)) for row in table.counts)
        outputs = table.outputs
        complete = len(counts) == domain.size and all(
            len(row) == len(outputs) and sum(row) == TOTAL and min(row) >= FLOOR for row in counts
        )
        rising = all(a < b for a, b in pairwise(outputs))
        if not (complete and rising and domain.lower <= outputs[0] and outputs[-1] <= domain.upper):
            raise ConfigError(
                "The table of a designed channel is invalid: it needs one row of counts per value, "
                "every row summing to 2^64, and ascending outputs inside the domain.",
                "Use the file as `opboost channel designed` wrote it.",
            )
        if not (keeps_steps(counts, self.epsilon) and keeps_everywhere(counts, self.most)):
            raise ConfigError(
                "The table of a designed channel exceeds the declared loss "
                f"min({self.epsilon:g} t, {self.most:g}).",
                "Declare the epsilon and most for which the table was computed.",
            )
        return Channel(
            domain.values(), np.array(outputs, dtype=np.int64), counts, _spans(outputs, domain)
        )

    def label(self) -> str:
        """Return the name and parameters for display."""
        return f"Designed, epsilon {self.epsilon:g}, at most {self.most:g}"


def _spans(outputs: tuple[int, ...], domain: Domain) -> np.ndarray:
    """Return the range of values nearest to each output, which it represents in tree splits."""
    ends = [(a + b) // 2 for a, b in pairwise(outputs)]
    first = [domain.lower, *(end + 1 for end in ends)]
    return np.array(list(zip(first, [*ends, domain.upper], strict=True)), dtype=np.int64)
