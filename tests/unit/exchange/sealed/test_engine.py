"""The engine of private alignment: blocks, processes, and going on where a killed task was."""

import subprocess
import sys

import numpy as np
import pytest

from opboost_ops.exchange.sealed import oprf
from opboost_ops.exchange.sealed.engine import Engine
from tests.unit.exchange.sealed.session import Holder, Session, people


def evaluated(engine: Engine, seed: bytes, points: np.ndarray) -> np.ndarray:
    """In three pieces, of which one has no point."""
    pieces = [points[:20], points[:0], points[20:]]
    found = list(oprf.evaluate(engine, seed, pieces, len(points)))
    assert [len(piece) for piece in found] == [len(piece) for piece in pieces]
    return np.concatenate(found)


class InMemory:
    def __init__(self) -> None:
        self.blocks: dict[str, bytes] = {}
        self.read = 0

    def get(self, name: str) -> bytes | None:
        found = self.blocks.get(name)
        self.read += found is not None
        return found

    def put(self, name: str, content: bytes) -> None:
        self.blocks[name] = content


@pytest.mark.slow
def test_blocks_processes_and_one_piece_give_the_same_bytes() -> None:
    everyone = people(*range(100))
    sets = everyone, [Holder.of(range(0, 100, 2)), Holder.of(range(0, 100, 3))]
    one = Session(*sets)
    for engine in (Engine(block=7), Engine(processes=2, block=32)):
        again = Session(*sets, engine=engine)
        for made, whole in zip(again.query(), one.query(), strict=True):
            assert (made == whole).all()
        for made, whole in zip(again.own_points, one.own_points, strict=True):
            assert (made == whole).all()
        for made, whole in zip(again.open()[1], one.open()[1], strict=True):
            assert (made == whole).all()


def test_a_killed_task_goes_on_at_the_block_where_it_was() -> None:
    class Killed(RuntimeError):
        """As a signal would."""

    def kill(_: str, done: int, __: int) -> None:
        if done >= 60:
            raise Killed

    keep, points = InMemory(), Session(people(*range(99)), []).query()[0]
    with pytest.raises(Killed):
        evaluated(Engine(cache=keep, block=20, progress=kill), bytes(32), points)
    assert len(keep.blocks) == 3
    done: list[int] = []
    engine = Engine(cache=keep, block=20, progress=lambda _, now, of: done.append(now))
    again = evaluated(engine, bytes(32), points)
    assert keep.read == 3
    assert done == [20, 40, 60, 80, 100]
    assert (again == evaluated(Engine(), bytes(32), points)).all()
    # A damaged block is made again; one of another key is not this one.
    keep.blocks = {name: raw[:-1] for name, raw in keep.blocks.items()}
    assert (evaluated(engine, bytes(32), points) == again).all()
    assert not (evaluated(engine, bytes([1]) * 32, points) == again).all()


@pytest.mark.parametrize("processes", [1, 2])
def test_a_point_of_small_order_is_told_by_every_process(processes: int) -> None:
    points = np.vstack([Session(people(1, 2), []).query()[0], bytes_of_zero()])
    with pytest.raises(ValueError, match=r"small order|shared key"):
        evaluated(Engine(processes, block=2), bytes(32), points)


def bytes_of_zero() -> np.ndarray:
    return np.zeros((1, 32), dtype=np.uint8)


def test_workers_import_little() -> None:
    """They start in a tenth of a second, and see no library that reads tables."""
    code = "import opboost_ops.exchange.sealed.worker, sys; print(sorted(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"'polars'", "'pyarrow'", "'airflow'", "'pandas'"} & set(
        found.stdout.replace("[", "").replace("]", "").split(", ")
    )
