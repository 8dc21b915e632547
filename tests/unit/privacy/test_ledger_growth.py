"""A rule is given the lines that count, and decides as it would by all of them."""

import uuid
from pathlib import Path

import numpy as np
import pytest

from opboost_ops.privacy.database import Database
from opboost_ops.privacy.events import Draw, Release
from opboost_ops.privacy.ledger import Ledger
from tests.unit.privacy.test_accountant import totals
from tests.unit.privacy.test_draws import COLUMN, CURVE
from tests.unit.privacy.test_draws import FACTS as OF_A_RUN

FACTS = {**OF_A_RUN, "rows": 10}
OTHER = uuid.UUID(int=9)


def history(seed: int) -> list[Release]:
    """Draws that add something or nothing, artifacts with edges or none, and exact lines."""
    rng = np.random.default_rng(seed)
    found, worst = [], dict.fromkeys((COLUMN, OTHER), 0)
    for night in range(1, 30):
        for column in worst:
            added = int(rng.random() < 0.3)
            worst[column] += added
            draw = Draw(number=night, added=added, worst=worst[column], inputs=40)
            of = {**FACTS, "feature": f"f{column.int}", "column": column, "cells": "0" * 16}
            of |= {"account": "local_dp", "loss": CURVE, "draws": f"{column}{night}"[-64:]}
            found.append(Release(**of, kind="draw", artifact=of["draws"], draw=draw))
            edges = (1.0, float(rng.integers(2, 9))) if rng.random() < 0.2 else ()
            name = {"artifact": f"a{column.int}.{night}", "kind": "ranks", "edges": edges}
            found.append(Release(**of, **name, span=(0.0, 10.0) if edges else None))
        exact = {"account": "exact", "kind": "psi_answer", "artifact": f"e{night}"}
        found.append(Release(**FACTS, **exact))
        if rng.random() < 0.2:
            more = {"account": "structural", "kind": "split_values", "artifact": f"s{night}"}
            found.append(Release(**FACTS, **more, feature="f7=missing", column=COLUMN, edges=()))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_what_a_rule_is_given_adds_up_to_the_same(tmp_path: Path, seed: int) -> None:
    ledger = Ledger(Database(f"sqlite:///{tmp_path / 'ledger.sqlite'}"))
    lines = history(seed)
    ledger.reserve(lines)
    told: list[object] = []
    new = [line.model_copy(update={"artifact": "f" * 64}) for line in (lines[0], lines[4])]
    ledger.reserve(new, lambda *given: told.append(given))
    assert told == [(totals(lines), new)]
