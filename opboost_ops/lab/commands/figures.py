"""`opboost evaluate figures`."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    out: Annotated[Path, typer.Option(help="Folder for the pictures.")] = Path("docs/figures"),
) -> None:
    """Draw the pictures of the documents: output laws, loss, order preservation, averaging."""
    from opboost_ops.lab.figures import draw

    for path in draw(out):
        print(path)
