"""Tables for demos, tests and benchmarks: generated federations, and public tables."""

from opboost_ops.errors import ConfigError
from opboost_ops.extras.datasets.tables import Dataset

NAMES = (
    "credit", "adult", "pendigits", "powerplant", "casp", "credit_default",
    "give_me_some_credit", "abalone",
)  # fmt: skip


def load(name: str, *, seed: int = 0, rows: int | None = None) -> Dataset:
    """A named dataset.

    Args:
        name: One of `NAMES`.
        seed: Of the generated one.
        rows: Customers of the generated one.

    Raises:
        ConfigError: No such dataset, or its file cannot be had.
    """
    from opboost_ops.extras.datasets import generated, tables

    if name == "credit":
        return generated.load(seed=seed) if rows is None else generated.load(rows, seed)
    if name not in NAMES:
        raise ConfigError(f"There is no dataset {name}.", f"Choose one of {', '.join(NAMES)}.")
    dataset: Dataset = getattr(tables, name)()
    return dataset
