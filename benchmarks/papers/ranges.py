"""Range queries: the tables that are asked, the questions, and the true answers."""

from dataclasses import dataclass

import numpy as np

from opboost_ops.domain import Domain, DomainMap
from opboost_ops.extras.datasets.tables import Source, read

_SALARIES = Source(
    "salaries_total_pay.csv.gz",
    "",
    ("TotalPay",),
    "10a401acdcfc32c9bc68d8fa9e3ace8f9584cf24c26f457221de9cdd3140255d",
    "Kaggle's SF Salaries (CC0): keep the column TotalPay alone. ",
)

#: Round numbers that anybody could declare for yearly pay; what lies outside is clipped.
SALARY_BOUNDS = (0.0, 500_000.0)

#: The made-up table: a normal law over the middle of the domain, drawn from a public seed.
SYNTHETIC_ROWS = 100_000
_MIDDLE, _SPREAD = 0.5, 0.15


@dataclass(frozen=True, eq=False)
class Queries:
    """Random ranges first..last of a domain, both ends included.

    Attributes:
        first: Positions in the domain from 0, int64, shape (queries,).
        last: The same, none below its ``first``.
    """

    first: np.ndarray
    last: np.ndarray

    @classmethod
    def random(cls, size: int, count: int, seed: int = 0) -> "Queries":
        """Ranges between two evenly drawn values each.

        Args:
            size: |D|.
            count: How many.
            seed: Public.
        """
        ends = np.random.default_rng(seed).integers(0, size, (count, 2))
        return cls(ends.min(axis=1), ends.max(axis=1))

    def answers(self, counts: np.ndarray) -> np.ndarray:
        """How many rows lie in each range.

        Args:
            counts: Rows by value, true or estimated, shape (|D|, tables).

        Returns:
            Shape (queries, tables).
        """
        upto = np.vstack([np.zeros((1, counts.shape[1])), np.cumsum(counts, axis=0)])
        return np.asarray(upto[self.last + 1] - upto[self.first])


def salaries() -> np.ndarray:
    """San Francisco salaries 2011 to 2014, total pay alone; OpBoost's range queries are on it."""
    return read(_SALARIES).get_column("TotalPay").to_numpy()


def table(name: str, domain: Domain) -> np.ndarray:
    """A table's one column, laid on a domain.

    Args:
        name: ``salaries``, or ``normal`` for the made-up one.
        domain: Where it is laid.

    Returns:
        Domain integers, int64, shape (rows,).
    """
    if name == "salaries":
        return DomainMap(domain, SALARY_BOUNDS).encode(salaries())
    share = np.random.default_rng(0).normal(_MIDDLE, _SPREAD, SYNTHETIC_ROWS)
    return DomainMap(domain, (0.0, 1.0)).encode(share)
