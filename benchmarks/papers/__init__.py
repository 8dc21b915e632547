"""The papers' workloads: `python -m benchmarks.papers NAME`.

An experiment is one file that knows how to run, to print and to draw; `EXPERIMENTS` names them all,
in the order of the report (docs/evaluation*.md).
"""

from collections.abc import Iterator
from importlib import import_module

from benchmarks.papers.experiment import Experiment

#: Modules, each with its experiments as `EXPERIMENTS`.
MODULES = (
    "federation",
    "price",
    "accuracy",
    "denoise",
    "defaults",
    "tuning",
    "gate_year",
    "refresh",
    "arena",
    "order",
    "table5",
    "range_query",
    "privacy",
    "horizontal",
    "horizontal_private",
    "horizontal_audit",
    "private_audit",
    "dpboost",
    "federboost",
)


def experiments() -> Iterator[Experiment]:
    """All experiments, in the order of the report."""
    for module in MODULES:
        yield from import_module(f"benchmarks.papers.{module}").EXPERIMENTS
