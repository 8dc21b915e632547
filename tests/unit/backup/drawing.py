"""One of several processes that draw and publish again and again, as runs do.

Arguments: site folder, number, how many. Prints a line for each draw once it is charged.
"""

import sys
import uuid
from pathlib import Path

import numpy as np

from opboost_ops.config.loading import load_site
from opboost_ops.domain import Domain
from opboost_ops.exchange.party_state import open_state
from opboost_ops.mechanisms import GlobalMap
from opboost_ops.privacy.draws import DrawRequest
from opboost_ops.privacy.events import Release
from opboost_ops.privacy.loss import loss_curve

CONTEXT, DOMAIN = bytes(32), Domain(0, 255)
COLUMNS = (uuid.UUID(int=1), uuid.UUID(int=2))
CURVE = loss_curve(GlobalMap(epsilon=0.5), Domain(0, 9))
FACTS = {"federation": "credit", "run": "0" * 16, "party": "bank", "receiver": "lender"}


def main() -> None:
    site, number, count = load_site(Path(sys.argv[1]) / "site.yaml"), *map(int, sys.argv[2:])
    people = np.arange(1, 20_001, dtype=np.uint64)
    sys.stdin.readline()
    for turn in range(count):
        value = number * count + turn
        asked = [
            DrawRequest(c, "age", CONTEXT, people, np.full(len(people), value), DOMAIN, None, CURVE)
            for c in COLUMNS
        ]
        artifact = f"{value:064x}"
        exact = Release(**FACTS, kind="digests", account="exact", artifact=artifact, rows=1)
        with open_state(site) as state:
            state.draws.take(asked, FACTS, None, lambda _: None)
            state.ledger.reserve([exact])
            with state.together():
                state.audit.add("sent", f"credit/{'0' * 16}/digests/bank", "lender", artifact)
                state.ledger.commit(artifact)
        sys.stdout.write(f"{value}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
