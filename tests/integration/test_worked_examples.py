"""The three doors that a reader opens first show how they are used, and what they show is so."""

import doctest
from types import ModuleType
from typing import Any

from opboost_ops.exchange import acceptance
from opboost_ops.exchange.acceptance import Keys
from opboost_ops.mechanisms import channel
from opboost_ops.pipeline.runner import runner
from opboost_ops.pipeline.runner.opening import open_run
from tests.federation import FIRST_RUN, Workspace
from tests.federation_simulator import LABEL, TODAY, Simulation, digest


def shown(module: ModuleType, **names: Any) -> None:
    """Run the example in a module's docstring."""
    names = {**vars(module), **names}
    parser = doctest.DocTestParser()
    test = parser.get_doctest(module.__doc__ or "", names, module.__name__, module.__file__, 0)
    assert len(test.examples) > 4
    found = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)
    assert found.failed == 0


def test_a_channel() -> None:
    shown(channel)


def test_the_acceptance_machine() -> None:
    simulation = Simulation().until("split_request", "b0")
    member = simulation.members["b0"]
    shown(
        acceptance,
        run=simulation.run,
        key=simulation.members[LABEL].signer.public,
        store=simulation.store,
        today=TODAY,
        keys=Keys(member.secret, member.private),
        draft=simulation.draft("ranks", "b0"),
        digest=digest(simulation.store["ranks", "b0"]),
    )


def test_the_runner(fresh: Workspace) -> None:
    shown(runner, open_run=open_run, federation_file=fresh.file, run=FIRST_RUN)
