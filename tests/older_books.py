"""The drill of older and partial books: what is put back, and what must come of it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from opboost_ops.config.loading import load_policy, load_site
from opboost_ops.errors import PolicyError
from opboost_ops.privacy.accountant import accounts
from opboost_ops.run.gaps import Gap, check
from opboost_ops.run.recovery import Recovered, recover
from tests.books import books_of
from tests.federation import SECOND_RUN, Workspace

PARTY = "bank"

#: Where each of a party's memories lies, from the federation's folder.
PLACES = {
    "database": f"{PARTY}/ledger.sqlite",
    "cells": f"{PARTY}/cells",
    "home": f"{PARTY}/home",
    "agreement": f"{PARTY}/agreement.json",
    "store": "exchange",
}

#: What is put back as it was after the first run, and which memories are then found to lack much.
OLDER = {
    ("database",): {"ledger", "audit"},
    ("cells",): {"cells"},
    ("home",): {"home"},
    ("store",): {"store"},
    ("agreement",): {"agreement"},
    ("database", "cells"): {"ledger", "audit"},
    ("database", "home"): {"ledger", "audit"},
    ("database", "store"): {"ledger", "audit"},
    ("database", "agreement"): {"ledger", "audit"},
    ("cells", "home"): {"cells", "home"},
    ("cells", "store"): {"cells", "store"},
    ("home", "store"): {"home", "store"},
    ("database", "cells", "home"): {"ledger"},
    ("database", "cells", "agreement"): {"ledger", "audit"},
    ("database", "cells", "home", "agreement"): {"ledger"},
}


def two_nights(folder: Path, first: Workspace, patch: Callable[[Workspace], None]) -> Workspace:
    """The federation after its first run, and its second on another table, in a copy."""
    first.all()
    second = first.copy(folder, SECOND_RUN)
    patch(second)
    second.edit_table(PARTY, lambda t: t.with_columns(t["income"].reverse()))
    second.edit_yaml("federation.yaml", lambda data: data["training"].update(holdout=0.25))
    second.all()
    return second


def put_back(now: Workspace, before: Workspace, *names: str) -> None:
    for name in names:
        old, new = before.folder / PLACES[name], now.folder / PLACES[name]
        if old.is_file():
            shutil.copy(old, new)
        else:
            shutil.rmtree(new)
            shutil.copytree(old, new)


def found(workspace: Workspace) -> list[Gap]:
    return check(load_site(workspace.folder / PARTY / "site.yaml"))


def charged(workspace: Workspace) -> dict[str, tuple[float, float]]:
    with books_of(workspace, PARTY) as books:
        found = accounts(books.ledger.releases()).values()
    return {account.feature: (float(account.step), float(account.whole)) for account in found}


def recovered(workspace: Workspace) -> Recovered:
    folder = workspace.folder / PARTY
    return recover(load_site(folder / "site.yaml"), load_policy(folder / "policy.yaml"))


def refused(workspace: Workspace) -> str:
    """The party's first task of a run is refused, and nothing of it has left; why."""
    workspace.open()
    with pytest.raises(PolicyError, match=f"{PARTY} refused run"):
        workspace.step(PARTY, "check_table")
    assert not [place for place in workspace.published() if place.endswith(f"/{PARTY}")]
    return workspace.reason(PARTY)


def drill(
    put: Callable[[], None], now: Workspace, names: tuple[str, ...], copied: Callable[[], bool]
) -> None:
    """Put something older back: it is found, refused, and charged in full, once.

    Args:
        put: Puts it back.
        now: The federation after its second run, about to begin its third.
        names: What is put back.
        copied: Whether the database was copied before it was recovered.
    """
    before = charged(now)
    put()
    gaps = found(now)
    assert {gap.lacks for gap in gaps} >= OLDER[names]
    # Of the run that was lost, and of no other.
    assert {gap.run for gap in gaps} <= {SECOND_RUN, ""}
    # What the store alone has lost is no gap in the books, and stops no run.
    if names != ("store",):
        assert refused(now)
    done = recovered(now)
    after = charged(now)
    assert all(after[name][i] >= before[name][i] for name in before for i in (0, 1))
    assert all(line.recovered for line in done.lines)
    assert copied()
    # What was agreed to is the party's to say again.
    left = {"agreement"} if names == ("agreement",) else set()
    assert {gap.lacks for gap in found(now)} == left
    again = recovered(now)
    assert (again.lines, again.accepted, again.entries, again.heads) == ((), 0, 0, 0)
    assert charged(now) == after
    later = Workspace(now.folder, "0" * 15 + "4")
    now.agree()
    later.open()
    later.step(PARTY, "check_table")
    assert found(now) == []
