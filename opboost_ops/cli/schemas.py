"""`opboost schemas`: JSON Schemas of the declared files, for editors, and of manifests."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    folder: Annotated[Path, typer.Argument(help="Where to write them.")] = Path("schemas"),
) -> None:
    """Write the JSON Schemas of federation.yaml, site.yaml, policy.yaml and manifest.json."""
    from opboost_ops.config.schemas import write_schemas
    from opboost_ops.exchange.manifest import Manifest

    for path in write_schemas(folder, {"manifest": Manifest}):
        print(path)
