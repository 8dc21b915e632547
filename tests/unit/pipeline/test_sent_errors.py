"""An error of a party's process reaches the starter of the run with its kind and remedy."""

import json
import subprocess
import sys

import pytest

from opboost_ops.errors import ClosedSessionError, ConfigError, Fault, OpBoostError, PolicyError
from opboost_ops.exchange.party_state import LostDatabase
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.pipeline.runner.worker import received_error, sent_error


def received(error: OpBoostError | ConnectionError) -> Exception:
    """The error after its way through the line that a process writes."""
    return received_error(json.loads(json.dumps({"stage": "rank", **sent_error(error)})))


@pytest.mark.parametrize(
    "error",
    [
        Rejected("bad_signature", "ranks of bank"),
        LostDatabase("The database is gone.", "Restore it."),
        ClosedSessionError("The session has ended.", "Start another run."),
        PolicyError("The policy refuses this.", "Change it.", notice="policy_refused"),
        ConfigError("1 fault", "Fix it.", file="site.yaml", faults=[Fault("store", "is empty")]),
        OpBoostError("Something else."),
    ],
)
def test_kind_problem_and_remedy_arrive(error: OpBoostError) -> None:
    arrived = received(error)
    assert type(arrived) is type(error)
    assert arrived.problem == f"rank: {error.problem}"
    assert arrived.remedy == error.remedy
    assert str(arrived) == f"rank: {error}"
    for name in ("reason", "notice", "file", "faults"):
        assert getattr(arrived, name, None) == getattr(error, name, None)


def test_a_network_fault_may_be_tried_again() -> None:
    arrived = received(ConnectionRefusedError("The store does not answer."))
    assert isinstance(arrived, ConnectionError)
    assert str(arrived) == "rank: The store does not answer."


#: What a driver does that has loaded none of the stages' libraries.
DRIVER = """
import json, sys
from opboost_ops.pipeline.runner import local, worker
loaded = {"lightgbm", "polars", "pyarrow", "sqlalchemy"} & {*sys.modules}
error = worker.received_error(json.loads(sys.argv[1]))
print(json.dumps([type(error).__name__, str(error), sorted(loaded)]))
"""


def test_a_light_driver_knows_an_error_that_only_the_stages_raise() -> None:
    error = LostDatabase("The database is gone.", "Restore it.")
    sent = json.dumps(sent_error(error))
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, sent], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == ["LostDatabase", str(error), []]
