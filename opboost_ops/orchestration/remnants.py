"""What can still be read of a broken federation file: whose it is, and when it was to run."""

import re
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

#: More of a file is not looked at.
_MOST_BYTES = 1_000_000

_NAME = re.compile(
    r"^[\"']?name[\"']?:[ \t]*[\"']?([a-z][a-z0-9_]*)[\"']?[ \t]*(?:#.*)?$", re.MULTILINE
)
_SECTION = re.compile(r"^(schedule|scoring|parties):(.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
_PARTY = re.compile(r"^([ \t]+)[\"']?([a-z][a-z0-9_]*)[\"']?:", re.MULTILINE)
_HOLDS = re.compile(r"\brole:[ \t]*[\"']?label_holder\b")
_TIMES = re.compile(r"\b(cron|on_tables):[ \t]*[\"']?([0-9a-zA-Z*/,\- ]+)")


class Remnants(NamedTuple):
    """What a broken file still says.

    Attributes:
        name: The federation's name.
        train: When its training was to begin, a cron expression that Airflow accepts. Where it
            begins when tables change, the times are those at which parties look at them.
        score: The same of its scoring.
        tables: When parties look at their tables.
        parties: Whose names it has.
        label_holder: Which of them has the labels.
    """

    name: str | None = None
    train: str | None = None
    score: str | None = None
    tables: str | None = None
    parties: tuple[str, ...] = ()
    label_holder: str | None = None


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
    sections = dict(_SECTION.findall(text))
    times = {section: dict(_TIMES.findall(inside)) for section, inside in sections.items()}
    train = times.get("schedule", {})
    tables = _valid(train.get("on_tables"))
    parties = _parties(sections.get("parties", ""))
    return Remnants(
        name.group(1) if name else None,
        _valid(train.get("cron")) or tables,
        _valid(times.get("scoring", {}).get("cron")),
        tables,
        tuple(parties),
        next((party for party, inside in parties.items() if _HOLDS.search(inside)), None),
    )


def _parties(section: str) -> dict[str, str]:
    """What each party's lines say: a party is a key that is indented like the first of them."""
    keys = list(_PARTY.finditer(section))
    mine = [key for key in keys if key.group(1) == keys[0].group(1)]
    starts = [*(key.start() for key in mine), len(section)]
    inside = [section[start:end] for start, end in pairwise(starts)]
    return {key.group(2): said for key, said in zip(mine, inside, strict=True)}


def _valid(cron: str | None) -> str | None:
    from opboost_ops.orchestration.times import at

    found = (cron or "").strip()
    try:
        at(found).validate()
    except Exception:
        return None
    return found or None
