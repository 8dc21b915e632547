"""`opboost schemas`: JSON Schemas of the three files, for editors."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    folder: Annotated[Path, typer.Argument(help="Where to write them.")] = Path("schemas"),
) -> None:
    """Write the JSON Schemas of federation.yaml, site.yaml and policy.yaml."""
    from opboost_ops.config.schemas import write_schemas

    for path in write_schemas(folder):
        print(path)
