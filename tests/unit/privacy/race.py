"""One of several processes that race with draws of one column.

Arguments: database URL, folder of cell states, number, budget, cap on changes (0 for none). Of
person 1 the process's number is to go. Prints what went, or that the draw was refused.
"""

import sys
import uuid
from pathlib import Path

import numpy as np

from opboost_ops.config.policy import Policy
from opboost_ops.domain import Domain
from opboost_ops.errors import BudgetError
from opboost_ops.mechanisms import GlobalMap
from opboost_ops.privacy.accountant import Budget
from opboost_ops.privacy.cells import Cells
from opboost_ops.privacy.database import Database
from opboost_ops.privacy.draws import Asked, Draws
from opboost_ops.privacy.loss import loss_curve

COLUMN, CONTEXT, DOMAIN = uuid.UUID(int=1), bytes(32), Domain(0, 31)
CURVE = loss_curve(GlobalMap(epsilon=0.5), DOMAIN)
FACTS = {"federation": "credit", "run": "0" * 16, "party": "bank", "receiver": "lender"}


def main() -> None:
    url, cells, number, budget, most = sys.argv[1:]
    rule = {"mechanisms": ["global_map"], "budget_whole": float(budget)}
    policy = Policy.model_validate({"version": 1, "party": "bank", "features": {"age": rule}})
    asked = Asked(
        column=COLUMN,
        charge="age",
        context=CONTEXT,
        people=np.array([1, 2], dtype=np.uint64),
        values=np.array([int(number), 0]),
        domain=DOMAIN,
        most=int(most) or None,
        loss=CURVE,
    )
    folder = Path(cells)
    database = Database(url)
    draws = Draws(database, Cells(folder, database))
    sys.stdin.readline()
    try:
        (held,) = draws.take([asked], FACTS, Budget(policy, {COLUMN: "age"}), lambda _: None)
        sys.stdout.write(str(held[0]))
    except BudgetError:
        sys.stdout.write("refused")


main()
