"""One of several processes that race for the last of a budget.

Arguments: database URL, number, budget. Prints whether the release was reserved.
"""

import sys
import uuid

from opboost_ops.config.policy import Policy
from opboost_ops.domain import Domain
from opboost_ops.errors import BudgetError
from opboost_ops.mechanisms import GlobalMap
from opboost_ops.privacy.accountant import Budget
from opboost_ops.privacy.database import Database
from opboost_ops.privacy.events import Release
from opboost_ops.privacy.ledger import Ledger
from opboost_ops.privacy.loss import loss_curve

COLUMN = uuid.UUID(int=1)
CURVE = loss_curve(GlobalMap(epsilon=0.5), Domain(1, 10))


def main() -> None:
    url, number, budget = sys.argv[1], sys.argv[2], float(sys.argv[3])
    rule = {"mechanisms": ["global_map"], "budget_whole": budget}
    policy = Policy.model_validate({"version": 1, "party": "bank", "features": {"age": rule}})
    check = Budget(policy, {COLUMN: "age"})
    release = Release(
        federation="credit",
        run="0" * 16,
        party="bank",
        receiver="lender",
        kind="ranks",
        artifact=number.ljust(64, "-"),
        account="local_dp",
        feature="age",
        column=COLUMN,
        draws=number,
        loss=CURVE,
        rows=1,
    )
    sys.stdin.readline()
    try:
        Ledger(Database(url)).reserve([release], check)
        sys.stdout.write("reserved")
    except BudgetError:
        sys.stdout.write("refused")


main()
