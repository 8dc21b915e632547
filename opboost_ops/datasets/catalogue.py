"""What the named tables are: known without reading one of them."""

from collections.abc import Mapping
from dataclasses import dataclass

from opboost_ops.datasets.dataset import Task

_CC_BY = "CC BY 4.0"


@dataclass(frozen=True)
class Entry:
    """A table, and how the papers use it.

    Attributes:
        title: What it is.
        task: What is learnt.
        rows: How many, of the label holder.
        columns: How many feature columns the label holder has, and all others together.
        split: Which rows are held out.
        used_by: The paper whose workload it is; empty for none.
        licence: Under which it may be used.
    """

    title: str
    task: Task
    rows: int
    columns: tuple[int, int]
    split: str
    used_by: str
    licence: str


CATALOGUE: Mapping[str, Entry] = {
    "credit": Entry(
        "generated customers of a credit institution, a shop and a bank",
        "binary",
        45_991,
        (6, 11),
        "20 % at random",
        "",
        "none: nobody's data",
    ),
    "adult": Entry(
        "UCI Adult, the train file: income above 50K",
        "binary",
        32_561,
        (9, 5),
        "20 % at random",
        "OpBoost",
        _CC_BY,
    ),
    "pendigits": Entry(
        "UCI Pen-based digits",
        "multiclass",
        10_992,
        (0, 16),
        "the official test file",
        "OpBoost",
        _CC_BY,
    ),
    "powerplant": Entry(
        "UCI Combined Cycle Power Plant: electrical output",
        "regression",
        9_568,
        (0, 4),
        "20 % at random",
        "OpBoost",
        _CC_BY,
    ),
    "casp": Entry(
        "UCI protein structure, CASP 5 to 9: size of the residue",
        "regression",
        45_730,
        (0, 9),
        "20 % at random",
        "OpBoost",
        _CC_BY,
    ),
    "credit_default": Entry(
        "UCI default of credit card clients",
        "binary",
        30_000,
        (4, 19),
        "a third at random",
        "FederBoost (Credit 2)",
        _CC_BY,
    ),
    "give_me_some_credit": Entry(
        "Kaggle Give Me Some Credit, the training file: distress within two years",
        "binary",
        150_000,
        (2, 8),
        "a third at random",
        "FederBoost (Credit 1)",
        "the competition's rules",
    ),
    "abalone": Entry(
        "UCI Abalone: rings",
        "regression",
        4_177,
        (1, 7),
        "20 % at random",
        "DPBoost",
        _CC_BY,
    ),
}
