"""Second names of a party's files: they go on showing what there was when they were taken."""

import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from uuid import uuid4

from opboost_ops.backup.archive import CELLS, MODELS
from opboost_ops.config.site import Site
from opboost_ops.scratch.files import second_name
from opboost_ops.scratch.folders import private_folder

#: What names of cell states, and of the people in them, end with.
_REPLACED = (".parquet", ".people")

#: Seconds after which second names are those of a backup that was killed.
_LEFT = 86_400.0


class SecondNames(ExitStack):
    """Cell states and models of a party, as they are at one moment.

    Cell states and model versions are added, never changed, and get second names; the few small
    files that are written in place are copied. As a context manager it removes them all.

    Args:
        site: The party's.
    """

    def __init__(self, site: Site) -> None:
        super().__init__()
        end = f".backup-{uuid4().hex[:8]}"
        self._of = {CELLS: site.cells, MODELS: site.models}
        self._at = {kind: path.with_name(f".{path.name}{end}") for kind, path in self._of.items()}
        #: When each version of a model was made, by its folder's entry: their order.
        self.made: dict[str, int] = {}
        for kind, path in self._of.items():
            self.callback(shutil.rmtree, self._at[kind], ignore_errors=True)
            for left in path.parent.glob(f".{path.name}.backup-*"):
                with suppress(OSError):
                    if time.time() - left.stat().st_mtime > _LEFT:
                        shutil.rmtree(left)

    def take(self) -> None:
        """Take them, quickly: writers of the party's state wait.

        Raises:
            OSError: There is no room.
        """
        for kind, folder in self._of.items():
            for path in sorted(folder.rglob("*")):
                parts = path.relative_to(folder).parts
                if any(part.startswith(".") for part in parts):
                    continue  # What a writer has not finished.
                if path.is_dir():
                    if kind == MODELS and len(parts) == 2:
                        self.made[kind + "/".join(parts)] = path.stat().st_mtime_ns
                elif path.is_file():
                    whole = path.suffix in _REPLACED if kind == CELLS else len(parts) > 2
                    target = self._at[kind].joinpath(*parts)
                    private_folder(target.parent)
                    (second_name if whole else shutil.copy2)(path, target)

    def entries(self) -> Iterator[tuple[str, Path]]:
        """The entries of a backup, and where each lies."""
        for kind, folder in self._at.items():
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    yield kind + path.relative_to(folder).as_posix(), path
