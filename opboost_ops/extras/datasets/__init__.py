"""Tables for demos, tests and benchmarks: generated federations and public datasets."""

from opboost_ops.errors import ConfigError
from opboost_ops.extras.datasets.tables import Dataset

NAMES = (
    "credit", "adult", "pendigits", "powerplant", "casp", "credit_default",
    "give_me_some_credit", "abalone",
)  # fmt: skip


def load(name: str, *, seed: int = 0, rows: int | None = None) -> Dataset:
    """Load a dataset by name.

    Args:
        name: One of `NAMES`.
        seed: Seed of the generated dataset.
        rows: Number of customers of the generated dataset.

    Raises:
        ConfigError: There is no such dataset, or its file is not available.
    """
    from opboost_ops.extras.datasets import generated, tables

    if name == "credit":
        return generated.load(seed=seed) if rows is None else generated.load(rows, seed)
    if name not in NAMES:
        raise ConfigError(f"There is no dataset {name}.", f"Choose one of {', '.join(NAMES)}.")
    dataset: Dataset = getattr(tables, name)()
    return dataset
