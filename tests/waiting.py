"""Waiting for what another process does: with a patience of its own, and words for what."""

import contextlib
import time
from collections.abc import Callable
from typing import TypeVar

import httpx

T = TypeVar("T")


def until(found: Callable[[], T], what: str, patience: float = 300) -> T:
    """What is found at last.

    Args:
        found: Looks; a server that does not answer yet is asked again.
        what: What is waited for, for anyone who reads that it did not come.
        patience: Seconds.
    """
    deadline = time.monotonic() + patience
    while True:
        with contextlib.suppress(httpx.TransportError):
            if value := found():
                return value
        assert time.monotonic() < deadline, f"waited {patience:.0f} s for {what}"
        time.sleep(0.3)
