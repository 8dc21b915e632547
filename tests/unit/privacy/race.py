"""Processes that race with draws of one column, forked from one that has imported everything.

Arguments: database URL, folder of cell states, how many, budget, cap on changes (0 for none). Of
person 1 each process's own number is to go. Prints what went, or that the draw was refused, a line
for each.
"""

import multiprocessing
import sys
import uuid
from pathlib import Path
from typing import Any

import numpy as np

from opboost_ops.config.policy import Policy
from opboost_ops.domain import Domain
from opboost_ops.errors import BudgetError
from opboost_ops.mechanisms import GlobalMap
from opboost_ops.privacy.budgets import Budget
from opboost_ops.privacy.cells import Cells
from opboost_ops.privacy.database import Database
from opboost_ops.privacy.draws import DrawRequest, Draws
from opboost_ops.privacy.loss import loss_curve

COLUMN, CONTEXT, DOMAIN = uuid.UUID(int=1), bytes(32), Domain(0, 31)
CURVE = loss_curve(GlobalMap(epsilon=0.5), DOMAIN)
FACTS = {"federation": "credit", "run": "0" * 16, "party": "bank", "receiver": "lender"}


def one(url: str, cells: str, number: int, budget: float, most: int, start: Any) -> str:
    rule = {"mechanisms": ["global_map"], "budget_whole": budget}
    policy = Policy.model_validate({"version": 1, "party": "bank", "features": {"age": rule}})
    asked = DrawRequest(
        column=COLUMN,
        charge="age",
        context=CONTEXT,
        people=np.array([1, 2], dtype=np.uint64),
        values=np.array([number, 0]),
        domain=DOMAIN,
        most=most or None,
        loss=CURVE,
    )
    database = Database(url)
    draws = Draws(database, Cells(Path(cells), database))
    start.wait()
    try:
        (held,) = draws.take([asked], FACTS, Budget(policy, {COLUMN: "age"}), lambda _: None)
    except BudgetError:
        return "refused"
    return str(held.values[0])


def main() -> None:
    url, cells, processes, budget, most = sys.argv[1:]
    forks = multiprocessing.get_context("fork")
    start, told = forks.Barrier(int(processes)), forks.SimpleQueue()

    def race(number: int) -> None:
        told.put(one(url, cells, number, float(budget), int(most), start))

    running = [forks.Process(target=race, args=(number,)) for number in range(int(processes))]
    for process in running:
        process.start()
    for _ in running:
        sys.stdout.write(f"{told.get()}\n")
    for process in running:
        process.join()


main()
