"""Arguments that several commands take."""

from pathlib import Path
from typing import Annotated

import typer

#: A party's own folder.
SiteFolder = Annotated[Path, typer.Argument(help="Folder of the party's site.yaml.")]

AsJson = Annotated[bool, typer.Option("--json", help="One JSON line on stdout.")]

#: Commands hand it on as it is given: the library takes a folder or a file.
FederationFile = Annotated[Path, typer.Argument(help="federation.yaml, or its folder.")]
