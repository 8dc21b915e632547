"""What can still be read of a broken federation file: whose it is, and when it was to run."""

import re
from pathlib import Path
from typing import NamedTuple

#: More of a file is not looked at.
_MOST_BYTES = 1_000_000

_NAME = re.compile(
    r"^[\"']?name[\"']?:[ \t]*[\"']?([a-z][a-z0-9_]*)[\"']?[ \t]*(?:#.*)?$", re.MULTILINE
)
_SECTION = re.compile(r"^(schedule|scoring):(.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
_TIMES = re.compile(r"\b(cron|on_tables):[ \t]*[\"']?([0-9a-zA-Z*/,\- ]+)")


class Remnants(NamedTuple):
    """What a broken file still says.

    Attributes:
        name: The federation's name.
        train: When its training was to begin, a cron expression that Airflow accepts. Where it
            begins when tables change, the times are those at which parties look at them.
        score: The same of its scoring.
    """

    name: str | None = None
    train: str | None = None
    score: str | None = None


def remnants(path: Path) -> Remnants:
    """What a broken federation file still says; None for what cannot be read.

    Lines are looked at, not YAML, because that may be what is broken.

    Args:
        path: ``federation.yaml``.
    """
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return Remnants()
    name = _NAME.search(text)
    times = {section: dict(_TIMES.findall(inside)) for section, inside in _SECTION.findall(text)}
    train = times.get("schedule", {})
    return Remnants(
        name.group(1) if name else None,
        _valid(train.get("cron")) or _valid(train.get("on_tables")),
        _valid(times.get("scoring", {}).get("cron")),
    )


def _valid(cron: str | None) -> str | None:
    from opboost_ops.orchestration.times import at

    found = (cron or "").strip()
    try:
        at(found).validate()
    except Exception:
        return None
    return found or None
