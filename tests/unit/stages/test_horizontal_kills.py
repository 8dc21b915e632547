"""Parties killed by the system in mid-session: it ends right, or charged and closed, and soon."""

import multiprocessing
import signal
import time

import pytest

from opboost_ops.config.loading import load_site
from opboost_ops.datasets.lenders import NAME
from opboost_ops.errors import OpBoostError
from opboost_ops.exchange.store import LocalStore
from opboost_ops.run.inbox import Run
from opboost_ops.run.phases import ROUNDS
from opboost_ops.run.runner import run_stage
from tests.unit.stages.test_horizontal_private import models
from tests.unit.stages.test_horizontal_runs import Lenders

PRIVATE = {"epsilon": 8.0, "delta": 1e-4, "remain": 3, "patience_minutes": 0.03}
TRAINING = {
    "trees": 2, "depth": 2, "learning_rate": 0.3, "wait_minutes": 0.13, "private": PRIVATE,
}  # fmt: skip

#: Who is killed as a message of whose, of which kind and round, comes into the store; who of them
#: starts again at once.
KILLS = [
    ((1,), 1, "round_key", "keys", ()),
    ((1,), 1, "round_key", "keys", (1,)),
    ((2,), 2, "round_shares", "shares", ()),
    ((0,), 0, "round_shares", "shares", (0,)),
    ((1,), 1, "masked", "facts-00000-00", ()),
    ((2,), 1, "masked", "facts-00000-00", ()),
    ((3,), 3, "masked", "lookup-00000-00", (3,)),
    ((0,), 1, "masked", "lookup-00000-00", (0,)),
    ((0,), 0, "attendance", "lookup-00000-00", ()),
    ((0,), 0, "attendance", "trees-00000-00", (0,)),
    ((1,), 1, "attested", "trees-00000-00", ()),
    ((2,), 1, "attested", "trees-00000-01", (2,)),
    ((3,), 3, "opened", "trees-00000-01", ()),
    ((0,), 2, "opened", "trees-00000-01", (0,)),
    ((0,), 0, "decision", "trees-00000-01", ()),
    ((1, 2), 1, "masked", "trees-00000-01", ()),
    ((1, 2), 2, "attested", "trees-00001-00", ()),
    ((1, 3), 3, "masked", "trees-00001-00", (1, 3)),
    ((3,), 0, "attendance", "trees-00001-01", ()),
    ((2,), 0, "decision", "trees-00001-01", ()),
]  # fmt: skip


@pytest.fixture(scope="module")
def lenders(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        yield Lenders(tmp_path_factory.mktemp("kills") / "all", patch, parties=4, training=TRAINING)


def _boost(name, asked, folder):
    """In a process of its own: the stage with rounds, and how it ended."""
    import os

    os.environ[f"OPBOOST_SITE_{name.upper()}"] = str(folder / name / "site.yaml")
    try:
        run_stage(name, ROUNDS, asked)
    except OpBoostError as error:
        (folder / f"{name}.{asked.run}").write_text(str(error))
        raise SystemExit(1) from None


def test_kills_are_of_every_party_and_kind():
    assert len(KILLS) == 20
    assert {victim for victims, *_ in KILLS for victim in victims} == {0, 1, 2, 3}


@pytest.mark.slow
@pytest.mark.parametrize("number", range(20))
def test_who_is_killed_leaves_a_session_that_ends(lenders, number):
    victims, sender, kind, round_name, back = KILLS[number]
    run = f"{number + 16:016x}"
    lenders.run(run, until=ROUNDS)
    asked = Run(NAME, run, lenders.names[0])
    # Forked from a process that has only imported: thread pools do not survive a fork.
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["opboost_ops.run.runner", "opboost_ops.run.mailboxes",
                                   "tests.unit.stages.test_horizontal_kills"])  # fmt: skip

    def started(name):
        process = server.Process(target=_boost, args=(name, asked, lenders.folder))
        process.start()
        return process

    processes = {name: started(name) for name in lenders.names}
    place = f"{NAME}/{run}/{kind}/{lenders.names[sender]}/{round_name}"
    LocalStore(lenders.folder / "exchange").wait(place, 60)
    begin = time.monotonic()
    for at in victims:
        name = lenders.names[at]
        processes[name].kill()
        processes[name].join()
        # It may have ended by then, where its last message is awaited.
        assert processes[name].exitcode in (-signal.SIGKILL, 0)
        if at in back:
            processes[name] = started(name)
    ended = {}
    for name, process in processes.items():
        process.join(60)
        ended[name] = process.exitcode
    assert None not in ended.values(), "a party hangs"
    assert time.monotonic() - begin < 60
    texts = {
        (load_site(lenders.folder / name / "site.yaml").home / NAME / run / "model.txt").read_text()
        for name, code in ended.items()
        if code == 0
    }
    left = [at for at in range(4) if at not in victims or at in back]
    early = kind in ("round_key", "round_shares")
    last = (kind, round_name) == ("decision", "trees-00001-01")
    # A kill as the shares are dealt may come just before the others have them, or just after.
    dealt = not (early and not back) or ended[lenders.names[0]] == 0
    right = not (0 in victims and 0 not in back) and len(left) >= 3 and dealt
    if right or last:
        assert all(ended[lenders.names[at]] == 0 for at in left)
        assert len(texts) == 1
    else:
        assert not texts, "a model came of a session that was broken off"
        for at in left:
            told = (lenders.folder / f"{lenders.names[at]}.{run}").read_text()
            closed = len(left) < 3 and not early
            assert ("closed the session" if closed else "waits for") in told
    for name in lenders.names:
        lines = [line for line in models(lenders, name) if line.run == run]
        # Charged once, in full, from before the first message on.
        assert len(lines) == 1 and lines[0].epsilon > 7.9
