"""Processes of an Airflow, by its home."""

import contextlib
from pathlib import Path


def of_airflow(home: Path, word: str = "") -> dict[int, list[str]]:
    """Command lines of the processes whose AIRFLOW_HOME it is; of those alone that have a word."""
    mark, found = f"AIRFLOW_HOME={home.resolve()}", {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line, variables = (
                (process / name).read_text(errors="replace").split("\0")
                for name in ("cmdline", "environ")
            )
            if mark in variables and (not word or word in " ".join(line).split()):
                found[int(process.name)] = line
    return found
