"""Folders that only the party's own user can read."""

from pathlib import Path


def private_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing, each for its owner alone.

    ``mkdir(parents=True, mode=...)`` gives the mode to the last one only.
    """
    if folder.is_dir():
        return
    for one in reversed((folder, *folder.parents)):
        if not one.is_dir():
            one.mkdir(exist_ok=True, mode=0o700)
