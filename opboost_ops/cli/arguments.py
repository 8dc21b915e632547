"""Arguments that several commands take."""

from pathlib import Path
from typing import Annotated

import typer

#: A party's folder.
SiteFolder = Annotated[Path, typer.Argument(help="Folder of the party's site.yaml.")]

AsJson = Annotated[bool, typer.Option("--json", help="One JSON line on stdout.")]

#: Passed on unchanged: the library takes a folder or a file.
FederationFile = Annotated[Path, typer.Argument(help="federation.yaml, or its folder.")]
