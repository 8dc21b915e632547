"""What the experiments' commands have in common."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

Seeds = Annotated[int, typer.Option(min=1, help="How many splits and draws of noise.")]
Quick = Annotated[bool, typer.Option("--quick", help="A small share of it, in seconds.")]
Work = Annotated[Path, typer.Option(help="Folder where measurements are kept, one by one.")]
Summary = Annotated[Path | None, typer.Option(help="Write the result there, too, as JSON.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON line on stdout.")]

#: Measurements are many and cheap to have again: they are not part of the project.
WORK = Path("runs/evaluation")


def keep(found: Mapping[str, Any], path: Path | None) -> None:
    """Write a result where it was asked for.

    Args:
        found: The result.
        path: The file, or None.
    """
    import json

    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A line for each row: readable, and a change of one row is a change of one line.
        lines = []
        for name, value in found.items():
            rows = [json.dumps(row) for row in value] if isinstance(value, list) else []
            text = "[\n  " + ",\n  ".join(rows) + "\n ]" if rows else json.dumps(value)
            lines.append(f" {json.dumps(name)}: {text}")
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def printed(found: Mapping[str, Any], path: Path | None, as_json: bool) -> bool:
    """Keep a result where it was asked for, and print it for programs.

    Args:
        found: The result.
        path: The file, or None.
        as_json: Whether one JSON line is all that is to be printed.

    Returns:
        Whether it was: then there is nothing to show to people.
    """
    import json

    keep(found, path)
    if as_json:
        print(json.dumps(found))
    return as_json
