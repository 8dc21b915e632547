"""Planted errors outside the account: a scripted history of whole runs finds each of them."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

from opboost_ops.errors import OpBoostError
from opboost_ops.pipeline.party import own_table, private_edges, recovery
from opboost_ops.pipeline.party.private_edges import PrivateEdges
from tests.oracle.test_mutants import mutated
from tests.oracle.whole_runs import PARTY, History
from tests.party_state import context_of, state_of

_Changes = dict[str, str]


def _restored(folder: Path, code: ModuleType) -> History:
    """A party's whole state goes back to before a release and before people joined."""
    history = History(folder / "0", 0)
    history.night("train")
    past = history.copy_state()
    history.declare_again({"income": {"mechanism": {"epsilon": 1.0}}})
    history.change_people(20)
    history.night("train")
    history.restore(past)
    history.recover(code)
    history.workspace.agree()
    with suppress(OpBoostError):
        history.night("train")
    return history


_RECOVERY: dict[str, _Changes] = {
    "a recovery charges nothing": {
        "            releases = _charge_named(state, site, policy)\n": "            releases = 0\n"
    },
    "only known releases end": {
        "state.releases.end(release.id for release in state.releases.all())\n": "0\n",
    },
}


def test_a_restored_state_is_charged_by_a_recovery(tmp_path: Path) -> None:
    history = _restored(tmp_path, recovery)
    assert not history.verdict().faults
    assert len({sent.run for sent in history.sent}) == 3
    with state_of(history.workspace, PARTY) as state:
        opened = {release.column: 0 for release in state.releases.all()}
        for release in state.releases.all():
            opened[release.column] += 1
    # Of income one before, one that was lost, and one after; of overdrafts the lost one was known.
    assert opened == {"income": 3, "overdrafts": 2}


@pytest.mark.slow
@pytest.mark.parametrize("name", _RECOVERY)
def test_a_planted_error_of_a_recovery_is_found(name: str, tmp_path: Path) -> None:
    assert _restored(tmp_path, mutated(recovery, _RECOVERY[name])).verdict().faults


def _draws_of_edges(folder: Path, code: ModuleType) -> tuple[int, int]:
    """Different edges, and charges, of two draws of one number on two tables."""
    workspace = History(folder / "0", 0).workspace
    drawn: set[PrivateEdges] = set()
    for factor in (1.0, 1.5):
        workspace.edit_table(PARTY, lambda t, f=factor: t.with_columns(pl.col("income") * f))
        edges = code.draw_edges(context_of(workspace, PARTY), {"income": 3}, 2.0)["income"]
        drawn.add(edges.edges)
    with state_of(workspace, PARTY) as state:
        return len(drawn), sum(one.kind == "edges" for one in state.releases.all())


_EDGES: dict[str, tuple[_Changes, Callable[[int, int], bool]]] = {
    "edges are drawn again and not charged": (
        {
            "        drawn = _earlier_edges(state, releases)\n    new =": (
                "        drawn = {}\n    new ="
            ),
            "            drawn = _earlier_edges(state, releases)\n            new =": (
                "            drawn = {}\n            new ="
            ),
            "        state.releases.open(connection, release, party=context.party, "
            "experiment=seeded)\n": "        pass\n",
        },
        lambda edges, charges: edges > charges,
    ),
    "edges are keyed by the table": (
        {
            "        drawn = _earlier_edges(state, releases)\n    new =": (
                "        drawn = {}\n    new ="
            ),
            "            drawn = _earlier_edges(state, releases)\n            new =": (
                "            drawn = {}\n            new ="
            ),
        },
        lambda edges, charges: edges > 1,
    ),
}


def test_edges_are_drawn_and_charged_once_whatever_the_table_has(tmp_path: Path) -> None:
    assert _draws_of_edges(tmp_path, private_edges) == (1, 1)


@pytest.mark.parametrize("name", _EDGES)
def test_a_planted_error_of_edges_is_found(name: str, tmp_path: Path) -> None:
    changes, is_fault = _EDGES[name]
    assert is_fault(*_draws_of_edges(tmp_path, mutated(private_edges, changes)))


def _follows_values(folder: Path, code: ModuleType) -> bool:
    """Test whether a look at a feature holder's table tells that a value has changed."""
    workspace = History(folder / "0", 0).workspace
    with workspace.known():
        code.changed(PARTY, "credit_scoring", "1")
        workspace.edit_table(PARTY, lambda t: t.with_columns(pl.col("income") + 1))
        return bool(code.changed(PARTY, "credit_scoring", "2"))


_LOOKS: dict[str, _Changes] = {
    "a table look follows values": {
        "        return identity, [identity.column]\n": "        pass\n"
    },
    "a table look follows the file": {
        "    name = _SEEN[purpose]\n": (
            '    fingerprint = f"{fingerprint} {path.stat().st_mtime_ns}"\n'
            "    name = _SEEN[purpose]\n"
        )
    },
}


def test_a_table_look_follows_no_value(tmp_path: Path) -> None:
    assert not _follows_values(tmp_path, own_table)


@pytest.mark.parametrize("name", _LOOKS)
def test_a_planted_error_of_a_table_look_is_found(name: str, tmp_path: Path) -> None:
    assert _follows_values(tmp_path, mutated(own_table, _LOOKS[name]))
