"""Each target accepts its corpus, and refuses its damaged corpus without a foreign exception."""

import random
from contextlib import suppress

import pytest

from opboost_ops.errors import OpBoostError
from tests.fuzz.targets import CORPUS, TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_bytes_are_refused(name: str) -> None:
    draws = random.Random(name)
    for path in sorted((CORPUS / name).iterdir()):
        raw = bytearray(path.read_bytes())
        with suppress(OpBoostError):
            TARGETS[name](bytes(raw))
        for _ in range(20):
            damaged = bytearray(raw)
            for _ in range(draws.randint(1, 4)):
                at = draws.randrange(len(damaged) or 1)
                damaged[at : at + draws.randint(0, 3)] = draws.randbytes(draws.randint(0, 3))
            with suppress(OpBoostError):
                TARGETS[name](bytes(damaged))
