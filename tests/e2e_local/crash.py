"""Runs one stage of one party and is killed at a point of its draw or of its publication.

Arguments: party, stage, run, point. Points are ``before`` or ``after`` and a function's name. The
label holder is LABEL_HOLDER, or credit.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from opboost_ops.exchange.audit import Audit
from opboost_ops.exchange.store.folder import LocalStore
from opboost_ops.learning.registry import registry
from opboost_ops.pipeline.party.inbox import Run
from opboost_ops.pipeline.runner.runner import run_stage
from opboost_ops.privacy.ledger.entries import Ledger
from opboost_ops.privacy.pins import Pins
from opboost_ops.privacy.releases import Releases

POINTS: dict[str, tuple[Any, str]] = {
    "reserve": (Ledger, "reserve"),
    "open": (Releases, "open"),
    "pin": (Pins, "write"),
    "take": (Releases, "take"),
    "put": (LocalStore, "put_once"),
    "audit": (Audit, "add"),
    "commit": (Ledger, "commit"),
    "write": (registry, "write_groups"),
}


def killed(work: Callable[..., Any], when: str) -> Callable[..., Any]:
    def wrapper(*arguments: Any, **named: Any) -> Any:
        if when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = work(*arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)
        return result

    return wrapper


def main() -> None:
    party, stage, run, point = sys.argv[1:]
    when, name = point.split(" ")
    owner, attribute = POINTS[name]
    setattr(owner, attribute, killed(getattr(owner, attribute), when))
    run_stage(party, stage, Run("credit_scoring", run, os.environ.get("LABEL_HOLDER", "credit")))


main()
