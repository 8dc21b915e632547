"""Committed archives of former sites."""

import tarfile
from pathlib import Path
from typing import Literal


def unpack(archive: Path, folder: Path, rule: Literal["tar", "data"]) -> None:
    """What an archive has, in a folder.

    Args:
        archive: A file of ours.
        folder: Where to.
        rule: Of Python's filters; before 3.11.4 there are none.
    """
    with tarfile.open(archive) as opened:
        if hasattr(tarfile, "data_filter"):
            opened.extractall(folder, filter=rule)
        else:
            opened.extractall(folder)
