"""JSON that others wrote: within limits, and nothing in it twice."""

import json
import math
from typing import Any

#: Most bytes.
MOST_BYTES = 64 << 20

#: How deep objects and lists may lie in one another.
MOST_DEPTH = 64


def read_json(raw: bytes) -> Any:
    """Read a JSON text.

    Args:
        raw: JSON in UTF-8.

    Raises:
        ValueError: It is none, is too large or goes too deep, has a key twice or a number that is
            not finite.
        RecursionError: It goes far too deep.
    """
    if len(raw) > MOST_BYTES:
        raise ValueError("too large")
    value = json.loads(raw, object_pairs_hook=_once, parse_constant=_no_number, parse_float=_finite)
    level: list[Any] = [value]
    for _ in range(MOST_DEPTH + 1):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return value
    raise ValueError("too deep")


def _inside(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise ValueError("a key stands twice")
    return entries


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is not a number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value
