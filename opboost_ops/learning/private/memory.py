"""The draws of a private training, committed before anything is made from them."""

import hashlib
import json
from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np

from opboost_ops.errors import ContractError


class Memory(Protocol):
    """Where a training stores what it has drawn: lines, each stored whole or not at all."""

    def lines(self) -> list[bytes]:
        """All lines so far."""
        ...

    def append(self, line: bytes) -> None:
        """Store one more; when this returns, it outlives a crash."""
        ...


def digest_of(words: Iterable[bytes], codes: np.ndarray, target: np.ndarray) -> str:
    """Names a training: what was declared, and its rows.

    Args:
        words: Declarations.
        codes: Shape (n, features).
        target: Scaled labels, shape (n,).
    """
    digest = hashlib.sha256()
    for word in words:
        digest.update(word)
    digest.update(target.tobytes())
    digest.update(codes.tobytes())
    return digest.hexdigest()


def resume(memory: Memory | None, training: str) -> list[dict[str, Any]]:
    """The lines of an earlier try; none for a training that has not begun.

    Raises:
        ContractError: The memory is of another training.
    """
    lines = [] if memory is None else [json.loads(line) for line in memory.lines()]
    if lines and lines[0]["training"] != training:
        raise ContractError(
            "This run began to train on another frame, and its draws are final.",
            "Trigger a new run.",
        )
    return lines


def commit(memory: Memory | None, **facts: object) -> None:
    """Store one line."""
    if memory is not None:
        memory.append(json.dumps(facts, sort_keys=True).encode())
