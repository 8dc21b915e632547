"""`opboost evaluate report`."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    docs: Annotated[Path, typer.Option(help="Folder of the documents.")] = Path("docs"),
    readme: Annotated[Path, typer.Option(help="What quotes the report.")] = Path("README.md"),
) -> None:
    """Write docs/evaluation.md, its pictures and the README's quotations from the summaries."""
    from opboost_ops.lab.report import write

    for path in write(docs, readme):
        print(path)
