"""Designed channels: a table that was made once for a loss curve bounded near and far, and kept.

The curve is l(t) = min(epsilon t, most). Where the tables come from is `privacy/design.py`; nothing
here trusts them: the code that builds the channel holds every count against the curve, in integers.
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

#: Most values of a domain for which a table is made: the linear programme grows by their square.
MOST_DESIGNED = 64

Count = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,20}$")]


class Table(Parameters):
    """The counts of a channel, as they are kept in a file.

    Attributes:
        lower, upper: The domain for which it was made.
        outputs: Released values, rising, one per column.
        counts: Decimal digits of the counts, a row an input; JSON's readers round larger numbers.
    """

    lower: int
    upper: int
    outputs: tuple[int, ...] = Field(min_length=2, max_length=MOST_DESIGNED)
    counts: tuple[tuple[Count, ...], ...] = Field(min_length=2, max_length=MOST_DESIGNED)


class Designed(Parameters):
    """The channel of least expected cost, for a declared prior, under a declared loss curve.

    Attributes:
        epsilon: Loss per unit of distance, near.
        most: Loss between any two values, far.
        table: Its counts; in a federation file, the name of their file beside it.
    """

    name: Literal["designed"] = "designed"
    epsilon: FineEpsilon
    most: FineEpsilon
    table: Annotated[
        Table | Annotated[str, Field(min_length=1, max_length=200)],
        # What people write; `config/agreement.py` puts the counts in its place.
        WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 200}),
    ]

    def require(self, domain: Domain) -> None:
        """Refuse a table of another domain, and one that does not keep the curve."""
        if isinstance(self.table, Table):
            self.channel(domain)

    def build(self, domain: Domain) -> Channel:
        """Build the channel on a domain."""
        table = self.table
        if isinstance(table, str):
            raise ConfigError(
                "The table of a designed channel was not read: only a federation file names one.",
                "Give the file's name in federation.yaml, and the file beside it.",
            )
        if (table.lower, table.upper) != (domain.lower, domain.upper):
            raise ConfigError(
                f"A designed channel's table is of [{table.lower}, {table.upper}], and the domain "
                f"is [{domain.lower}, {domain.upper}].",
                "Make one for this domain: opboost channel designed --lower --upper.",
            )
        counts = tuple(tuple(map(int, row)) for row in table.counts)
        outputs = table.outputs
        whole = len(counts) == domain.size and all(
            len(row) == len(outputs) and sum(row) == TOTAL and min(row) >= FLOOR for row in counts
        )
        rising = all(a < b for a, b in pairwise(outputs))
        if not (whole and rising and domain.lower <= outputs[0] and outputs[-1] <= domain.upper):
            raise ConfigError(
                "A designed channel's table is not a channel: a row of counts for each value, each "
                "row summing to 2^64, and rising outputs of the domain.",
                "Take the file as `opboost channel designed` wrote it.",
            )
        if not (keeps_steps(counts, self.epsilon) and keeps_everywhere(counts, self.most)):
            raise ConfigError(
                f"A designed channel's table does not keep min({self.epsilon:g} t, {self.most:g}).",
                "Declare the epsilon and most for which it was made.",
            )
        return Channel(
            domain.values(), np.array(outputs, dtype=np.int64), counts, _spans(outputs, domain)
        )

    def label(self) -> str:
        """Name and parameters, for people to read."""
        return f"Designed, epsilon {self.epsilon:g}, at most {self.most:g}"


def _spans(outputs: tuple[int, ...], domain: Domain) -> np.ndarray:
    """The values that lie nearest to each output; it stands for them where trees split."""
    ends = [(a + b) // 2 for a, b in pairwise(outputs)]
    first = [domain.lower, *(end + 1 for end in ends)]
    return np.array(list(zip(first, [*ends, domain.upper], strict=True)), dtype=np.int64)
