"""When something comes into a folder store, as the system tells it (inotify).

A place is published by one rename, so what is renamed into its folder is what is waited for. The
system tells of what is done on this machine alone: a mount that others write to stays silent.
"""

import weakref
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

with suppress(ImportError):  # It is there on Linux alone.
    from inotify_simple import INotify, flags


class FolderNews:
    """What comes into the folders of a store.

    Args:
        root: The store's.

    Raises:
        OSError: The system tells nothing, or not to more processes.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._inotify = INotify()
        self._folders: dict[int, str] = {}
        weakref.finalize(self, self._inotify.close)

    def watch(self, references: Iterable[str]) -> bool:
        """Be told of places from now on; True if nothing was missed since an earlier call.

        Args:
            references: The places; a folder in which one will be may be missing yet.
        """
        before = True
        watched = set(self._folders.values())
        for folder in {reference.rpartition("/")[0] for reference in references} - watched:
            before = False
            try:
                handle = self._inotify.add_watch(self._root / folder, flags.MOVED_TO)
            except OSError:
                continue
            self._folders[handle] = folder
        return before

    def wait(self, seconds: float) -> set[str]:
        """Places where something came since the last call, or the first within a time.

        Args:
            seconds: That time.
        """
        came = set()
        for event in self._inotify.read(timeout=int(seconds * 1000)):
            if event.mask & (flags.IGNORED | flags.Q_OVERFLOW):
                # Its folder is gone, or something was missed: start over.
                self._folders.pop(event.wd, None)
            elif event.wd in self._folders:
                came.add(f"{self._folders[event.wd]}/{event.name}")
        return came
