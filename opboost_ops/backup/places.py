"""Where a backup is unpacked, and the way back as long as it is not all in place."""

import errno
import os
import shutil
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from uuid import uuid4

from opboost_ops.backup.archive import CELLS, DATABASE, MODELS, Progress, Reader
from opboost_ops.config.site import Site
from opboost_ops.errors import ArtifactError
from opboost_ops.scratch.folders import private_folder


class Places(ExitStack):
    """The folders of a restore. Left before `keep`, everything is as it was.

    Args:
        folder: Of ``site.yaml``; made if it is absent.
        site: The party's.
        stamp: What names of things that are set aside end with.
    """

    def __init__(self, folder: Path, site: Site, stamp: str) -> None:
        super().__init__()
        end = f".restore-{uuid4().hex[:8]}"
        self._end = f".before-restore-{stamp}"
        #: What names of tables end with that are set aside.
        self.table_end = f"before_restore_{stamp}".lower()
        self._of = {CELLS: site.cells, MODELS: site.models}
        self._at = {kind: path.with_name(f".{path.name}{end}") for kind, path in self._of.items()}
        #: The rows of each table.
        self.rows = folder / end / "rows"
        #: What was set aside, in words.
        self.aside: list[str] = []
        undo = ExitStack()
        if not folder.exists():
            undo.callback(shutil.rmtree, folder, ignore_errors=True)
        for made in (self.rows.parent, *self._at.values()):
            self.callback(shutil.rmtree, made, ignore_errors=True)
        #: How everything becomes as it was.
        self._undo = self.enter_context(undo)
        self.rows.mkdir(parents=True, mode=0o700)

    def keep(self) -> None:
        """All is in place."""
        self._undo.pop_all()

    def made(self, path: Path) -> None:
        """Note a file that is written where there is none."""
        self._undo.callback(path.unlink, missing_ok=True)

    def staged(self, name: str) -> Path | None:
        """Where an entry is unpacked to; None for what is read from the backup itself.

        Args:
            name: The entry's.

        Raises:
            ArtifactError: It leads out of its folder.
        """
        parts = PurePosixPath(name).parts
        # An absolute path, too: joined to a folder, it would take the folder's place.
        plain = name == "/".join(parts) and name.isprintable()
        if not plain or ".." in parts or "\\" in name:
            raise ArtifactError(
                "An entry of the backup would be written outside of its folder.",
                "Take another one. Nothing was changed.",
            )
        for kind, folder in {DATABASE: self.rows, **self._at}.items():
            if name.startswith(kind):
                return folder / name.removeprefix(kind)
        return None

    def move_aside(self, path: Path) -> None:
        """Give what lies at a place another name, if there is anything."""
        if path.exists():
            target = path.with_name(path.name + self._end)
            self._move(path, target)
            self.aside.append(target.name)

    def free_name(self, path: Path) -> Path:
        """The name under which something is set aside that is copied; it is noted as such."""
        target = path.with_name(path.name + self._end)
        self.made(target)
        self.aside.append(target.name)
        return target

    def swap(self) -> None:
        """Cell states and models change places with what was there."""
        for kind, path in self._of.items():
            self.move_aside(path)
            if self._at[kind].is_dir():
                private_folder(path.parent)
                self._move(self._at[kind], path)

    def _move(self, source: Path, target: Path) -> None:
        source.rename(target)
        self._undo.callback(target.rename, source)


def unpack(reader: Reader, places: Places, progress: Progress) -> None:
    """Verify every entry of a backup, and lay out those that are files.

    Args:
        reader: The backup, whose manifest is verified.
        places: Where to.
        progress: Told how many bytes of how many are verified.

    Raises:
        ArtifactError: An entry is not as it was written.
        OSError: There is no room for all of it; nothing was written.
    """
    files = reader.contents.files
    whole, done = sum(file.size for file in files.values()), 0
    if whole > shutil.disk_usage(places.rows).free:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    for name in sorted(files):
        target = places.staged(name)
        if target is None:
            for block in reader.blocks(name):
                progress(done := done + len(block), whole)
            continue
        private_folder(target.parent)
        with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            for block in reader.blocks(name):
                file.write(block)
                progress(done := done + len(block), whole)
            file.flush()
            os.fsync(file.fileno())
        if name.startswith(MODELS) and name.count("/") > 2:
            target.chmod(0o400)
    for version, made in reader.contents.made.items():
        # Versions are listed in the order in which they were made.
        folder = places.staged(version)
        if folder is not None and folder.is_dir():
            os.utime(folder, ns=(made, made))
