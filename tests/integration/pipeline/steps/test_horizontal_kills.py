"""Parties killed by the system in mid-session: it ends right, or charged and closed, and soon."""

import json
import multiprocessing
import os
import signal

import pytest

from opboost_ops.errors import OpBoostError
from opboost_ops.exchange.manifest import ROUND_KINDS
from opboost_ops.exchange.rounds.protocol import Round
from opboost_ops.exchange.store.store import LocalStore
from opboost_ops.extras.datasets.generated import NAME
from opboost_ops.learning.federboost.private_federboost import TREES_PER_ROUND
from opboost_ops.pipeline.party.inbox import Run
from opboost_ops.pipeline.phases import ROUNDS
from opboost_ops.pipeline.runner.runner import run_stage
from tests.integration.pipeline.steps.test_horizontal_private import models
from tests.integration.pipeline.steps.test_horizontal_runs import Lenders

PRIVATE = {"epsilon": 60.0, "delta": 1e-4}
TRAINING = {"trees": 40, "depth": 2, "learning_rate": 0.2, "private": PRIVATE}

FACTS, LOOKUP = "facts-00000-00", "lookup-00000-00"
FIRST, SECOND, THIRD, LAST = (Round("trees", batch * TREES_PER_ROUND).name for batch in range(4))

#: By party its message, by kind and round, at which it is killed, and whether that
#: is out by then; who starts again; how it ends.
KILLS = [
    ({1: ("round_key", "keys", True)}, (), "waits"),
    ({1: ("round_key", "keys", False)}, (1,), "right"),
    ({1: ("masked", FACTS, False)}, (), "waits"),
    ({2: ("masked", FACTS, True)}, (2,), "right"),
    ({2: ("masked", LOOKUP, False)}, (2,), "right"),
    ({0: ("decision", FACTS, True)}, (0,), "right"),
    ({0: ("decision", SECOND, False)}, (0,), "right"),
    ({0: ("decision", SECOND, True)}, (), "waits"),
    ({1: ("masked", THIRD, False), 2: ("masked", THIRD, True)}, (1, 2), "right"),
    ({0: ("decision", LAST, True)}, (0,), "right"),
]


@pytest.fixture(scope="module")
def lenders(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("kills") / "all"
        yield Lenders(folder, patch, hours=0.2, parties=3, training=TRAINING)


def _boost(name, asked, folder, killed=None):
    """In a process of its own: the stage with rounds; its error is written down."""
    os.environ[f"OPBOOST_SITE_{name.upper()}"] = str(folder / name / "site.yaml")
    put = LocalStore.put_once
    if killed is not None:
        kind, round_name, after = killed

        def dies(self, reference, files, **options):
            here = reference.endswith(f"/{kind}/{name}/{round_name}")
            if here and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            new = put(self, reference, files, **options)
            if here:
                os.kill(os.getpid(), signal.SIGKILL)
            return new

        LocalStore.put_once = dies
    try:
        run_stage(name, ROUNDS, asked)
    except OpBoostError as error:
        (folder / f"{name}.{asked.run}").write_text(str(error))
        raise SystemExit(1) from None


def test_kills_are_of_every_party_and_kind():
    assert {at for deaths, *_ in KILLS for at in deaths} == {0, 1, 2}
    kinds = {kind for deaths, *_ in KILLS for kind, *_ in deaths.values()}
    assert kinds == set(ROUND_KINDS)


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, marks=pytest.mark.deployment if number % 3 else pytest.mark.slow)
        for number in range(len(KILLS))
    ],
)
def test_who_is_killed_leaves_a_session_that_ends(lenders, number):
    deaths, back, ends = KILLS[number]
    run = f"{number + 16:016x}"
    lenders.run(run, until=ROUNDS)
    asked = Run(NAME, run, lenders.names[0])
    # Forked from a process that has only imported: thread pools do not survive a fork.
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(
        ["opboost_ops.pipeline.runner.runner", "opboost_ops.pipeline.runner.mailboxes"]
    )

    def started(at, killed=None):
        args = (lenders.names[at], asked, lenders.folder, killed)
        process = server.Process(target=_boost, args=args)
        process.start()
        return process

    processes = [started(at, deaths.get(at)) for at in range(3)]
    for at in deaths:
        processes[at].join(60)
        assert processes[at].exitcode == -signal.SIGKILL
        if at in back:
            processes[at] = started(at)
    left = [at for at in range(3) if at not in deaths or at in back]
    for at in left:
        processes[at].join(60)
        assert processes[at].exitcode is not None, f"{lenders.names[at]} hangs"
    texts = set()
    for at in left:
        name = lenders.names[at]
        if ends == "right":
            assert processes[at].exitcode == 0, (lenders.folder / f"{name}.{run}").read_text()
            site = lenders.site(name)
            texts.add((site.home / NAME / run / "model.txt").read_text())
        else:
            told = (lenders.folder / f"{name}.{run}").read_text()
            assert "waits for" in told
    assert len(texts) == (ends == "right")
    if ends != "waits":
        # A party that has heard the end has destroyed its key, also where no model came of it.
        for at in left:
            kept = json.loads((lenders.home(lenders.names[at], run) / "session.json").read_text())
            assert kept["key"] is None
    for name in lenders.names:
        lines = [line for line in models(lenders, name) if line.run == run]
        # Charged once, in full, from before the first message on.
        assert len(lines) == 1 and lines[0].epsilon > 55
