"""A release takes the same operations whatever it releases, counted and not timed.

Counted are the interpreter's instructions, the array operations with the sizes of all they take
and give, the table look-ups, and the bytes that are encrypted. What a processor does inside one
array operation is beyond this: see the known limitations.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pytest

import opboost_ops
from opboost_ops.domain import Domain
from opboost_ops.mechanisms import (
    AdjMap,
    BucketResponse,
    GeneralisedResponse,
    Geometric,
    GlobalMap,
    LocalMap,
    Mechanism,
    MissingBit,
    Piecewise,
    UnaryEncoding,
    noise,
)
from opboost_ops.mechanisms.noise import Words
from opboost_ops.mechanisms.release import randomise, randomise_bit

PACKAGE = str(Path(opboost_ops.__file__).parent)
SECRET = bytes(range(32))
ROWS = 600
TEN, BIT = Domain(1, 10), Domain(0, 1)

MECHANISMS: list[Mechanism] = [
    GlobalMap(epsilon=0.64),
    Geometric(epsilon=0.64),
    AdjMap(epsilon=0.64, theta=4),
    LocalMap(epsilon=0.64, theta=4),
    BucketResponse(epsilon=0.64, buckets=3),
    GeneralisedResponse(epsilon=0.64),
    Piecewise(epsilon=0.64),
]

Release = Callable[[np.ndarray], np.ndarray]

#: What is being counted now.
COUNTS: Counter[tuple[Any, ...]] = Counter()


def sizes(things: Any) -> tuple[int, ...]:
    """The sizes of all arrays among some arguments or results, tuples and lists searched."""
    if isinstance(things, np.ndarray):
        return (things.size,)
    if isinstance(things, tuple | list):
        return tuple(size for thing in things for size in sizes(thing))
    return ()


def bare(thing: Any) -> Any:
    if isinstance(thing, np.ndarray):
        return thing.view(np.ndarray)
    return type(thing)(map(bare, thing)) if isinstance(thing, tuple | list) else thing


def counting(thing: Any) -> Any:
    return thing.view(Counting) if isinstance(thing, np.ndarray) else thing


class Counting(np.ndarray):
    """An array that counts what is done with it; whatever comes of it counts as well."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        kwargs = {name: bare(value) for name, value in kwargs.items()}
        result = getattr(ufunc, method)(*bare(inputs), **kwargs)
        COUNTS[ufunc.__name__, method, sizes(inputs), sizes(result)] += 1
        return counting(result)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        result = func(*bare(args), **{name: bare(value) for name, value in kwargs.items()})
        COUNTS[func.__name__, sizes(args), sizes(result)] += 1
        return counting(result)

    def __getitem__(self, key: Any) -> Any:
        result = bare(self)[bare(key)]
        COUNTS["look-up", self.size, sizes(key), sizes(result)] += 1
        return counting(result)

    def __setitem__(self, key: Any, value: Any) -> None:
        bare(self)[bare(key)] = bare(value)
        COUNTS["assignment", self.size, sizes(key), sizes(value)] += 1


class CountingCipher:
    """A cipher that counts the bytes it encrypts."""

    def __init__(self, *args: Any) -> None:
        self.encrypt = REAL_CIPHER(*args).encryptor()

    def encryptor(self) -> "CountingCipher":
        return self

    def update(self, data: bytes) -> bytes:
        COUNTS["encrypted bytes", len(data)] += 1
        return self.encrypt.update(data)


REAL_CIPHER, REAL_TAKE = noise.Cipher, Words.take


@contextmanager
def instructions() -> Iterator[None]:
    """Counts the interpreter's instructions in the package and in this file, by function."""
    with traced() if sys.version_info < (3, 12) else monitored():
        yield


def watched(code: CodeType) -> bool:
    return code.co_filename.startswith(PACKAGE) or code in SAMPLERS


@contextmanager
def traced() -> Iterator[None]:
    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if event == "call":
            frame.f_trace_lines, frame.f_trace_opcodes = False, watched(frame.f_code)
            return trace if watched(frame.f_code) else None
        if event == "opcode":
            COUNTS["instructions", frame.f_code.co_name] += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


@contextmanager
def monitored() -> Iterator[None]:
    """From Python 3.12 on, where a trace function misses instructions, of a first call or all."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined]

    def count(code: CodeType, _: int) -> Any:
        if not watched(code):
            return monitoring.DISABLE
        COUNTS["instructions", code.co_name] += 1
        return None

    tool, event = monitoring.PROFILER_ID, monitoring.events.INSTRUCTION
    monitoring.use_tool_id(tool, "operations")
    monitoring.register_callback(tool, event, count)
    monitoring.set_events(tool, event)
    try:
        yield
    finally:
        monitoring.set_events(tool, monitoring.events.NO_EVENTS)
        monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)


def cost(release: Release, values: np.ndarray, patch: pytest.MonkeyPatch) -> dict[Any, int]:
    """All that one release of these values takes."""
    release(values)  # Channels and tables are built once, from declared parameters alone.
    COUNTS.clear()
    with patch.context() as patched, instructions():
        patched.setattr(noise, "Cipher", CountingCipher)
        patched.setattr(Words, "take", lambda self, count: counting(REAL_TAKE(self, count)))
        release(counting(values))
    return dict(COUNTS)


def inputs(domain: Domain) -> list[np.ndarray]:
    """All at L, all at R, all in the middle, and a mixture."""
    middle = (domain.lower + domain.upper) // 2
    same = [np.full(ROWS, value, dtype=np.int64) for value in (domain.lower, domain.upper, middle)]
    return [*same, domain.lower + np.arange(ROWS, dtype=np.int64) ** 2 % domain.size]


def count_tables(mechanism: Any, domain: Domain, patch: pytest.MonkeyPatch) -> None:
    """Have the look-ups in a channel's tables counted."""
    channel = mechanism.channel(domain)
    table = channel.alias
    counted = replace(table, threshold=counting(table.threshold), alias=counting(table.alias))
    patch.setitem(channel.__dict__, "alias", counted)
    patch.setitem(channel.__dict__, "outputs", counting(channel.outputs))


def assert_same_operations(release: Release, domain: Domain, patch: pytest.MonkeyPatch) -> None:
    first, *others = (cost(release, values, patch) for values in inputs(domain))
    assert all(other == first for other in others)
    kinds = Counter(key[0] for key in first)
    assert {"instructions", "look-up", "where", "less", "encrypted bytes"} <= kinds.keys()
    assert first["encrypted bytes", 8 * ROWS] == 1


@pytest.mark.parametrize("mechanism", [*MECHANISMS, MissingBit(epsilon=0.64)], ids=lambda m: m.name)
def test_the_same_operations_whatever_the_value(
    mechanism: Mechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    domain = BIT if isinstance(mechanism, MissingBit) else TEN
    count_tables(mechanism, domain, monkeypatch)

    def release(values: np.ndarray) -> np.ndarray:
        return randomise(values, mechanism, domain, Words(SECRET))

    assert_same_operations(release, domain, monkeypatch)


@pytest.mark.parametrize("bit", [0, 4, 9])
def test_the_same_operations_whatever_the_category(
    bit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mechanism = UnaryEncoding(epsilon=0.64)
    count_tables(mechanism, BIT, monkeypatch)

    def release(codes: np.ndarray) -> np.ndarray:
        return randomise_bit(codes, 10, bit, mechanism, Words(SECRET))

    assert_same_operations(release, Domain(0, 9), monkeypatch)


def draw_again(values: np.ndarray) -> np.ndarray:
    """Bounded discrete Laplace by rejection: at the ends, more draws fall outside."""
    released, pending, attempt = values.copy(), np.arange(len(values)), 0
    while len(pending):
        words = Words(bytes([attempt]) * 32).take(len(pending))
        uniform = (words.astype(np.float64) + 0.5) / 2**64
        steps = np.sign(uniform - 0.5) * np.floor(-np.log(1 - 2 * np.abs(uniform - 0.5)) / 0.32)
        drawn = values[pending] + steps.astype(np.int64)
        inside = (drawn >= TEN.lower) & (drawn <= TEN.upper)
        released[pending[inside]] = drawn[inside]
        pending, attempt = pending[~inside], attempt + 1
    return released


def one_by_one(values: np.ndarray) -> np.ndarray:
    """Inversion from the least value on: the larger the output, the more additions."""
    table = GlobalMap(epsilon=0.64).channel(TEN).counts
    words = Words(SECRET).take(len(values)).tolist()
    released = []
    for value, word in zip(values.tolist(), words, strict=True):
        output, below = 0, table[value - TEN.lower][0]
        while word >= below:
            output += 1
            below += table[value - TEN.lower][output]
        released.append(TEN.lower + output)
    return np.array(released)


SAMPLERS = {draw_again.__code__, one_by_one.__code__}


@pytest.mark.parametrize("sampler", [draw_again, one_by_one])
def test_samplers_that_tell_their_value_are_found(
    sampler: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs = [cost(sampler, values, monkeypatch) for values in inputs(TEN)]
    low, _, middle, mixed = costs
    assert low != middle != mixed != low
    assert low == cost(sampler, inputs(TEN)[0], monkeypatch)
    with pytest.raises(AssertionError):
        assert_same_operations(sampler, TEN, monkeypatch)
