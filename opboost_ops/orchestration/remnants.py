"""What can still be read of a broken federation file: whose it is, and when it was to run."""

import re
from pathlib import Path

#: More of a file is not looked at.
_MOST_BYTES = 1_000_000

_NAME = re.compile(
    r"^[\"']?name[\"']?:[ \t]*[\"']?([a-z][a-z0-9_]*)[\"']?[ \t]*(?:#.*)?$", re.MULTILINE
)
_SCHEDULE = re.compile(r"^schedule:(.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
_TIMES = re.compile(r"\b(cron|on_tables):[ \t]*[\"']?([0-9a-zA-Z*/,\- ]+)")


def remnants(path: Path) -> tuple[str | None, str | None]:
    """The name of a broken federation file, and the times at which its training was to begin.

    Lines are looked at, not YAML, because that may be what is broken. Where training begins when
    tables change, the times are those at which parties look at them.

    Args:
        path: ``federation.yaml``.

    Returns:
        The name, and a cron expression that Airflow accepts; None for what cannot be read.
    """
    from opboost_ops.orchestration.times import at

    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return None, None
    name = _NAME.search(text)
    schedule = _SCHEDULE.search(text)
    times = dict(_TIMES.findall(schedule.group(1))) if schedule else {}
    cron = (times.get("cron") or times.get("on_tables") or "").strip()
    try:
        at(cron).validate()
    except Exception:
        cron = ""
    return (name.group(1) if name else None), cron or None
