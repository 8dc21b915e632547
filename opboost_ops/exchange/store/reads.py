"""Reads of untrusted files: regular files only, within limits, and signatures first.

Anyone with access to a store can write to it. An artifact is read in this order: manifest and
signature, each up to a small size; then exactly the files that the verified manifest lists, with
exactly the sizes that it lists.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path

from opboost_ops.errors import ArtifactError, is_network_error
from opboost_ops.exchange.files import MOST_PARTS, Files, is_part
from opboost_ops.exchange.manifest import MANIFEST, SIGNATURE
from opboost_ops.exchange.rejection import Rejected

#: Verifies manifest and signature, and returns the sizes of all other files; raises `Rejected`.
Admit = Callable[[Mapping[str, bytes]], Mapping[str, int]]

#: Maximum bytes of the files that are read before verification.
HEADS: Mapping[str, int] = {MANIFEST: 16 << 20, SIGNATURE: 1 << 20}

#: Maximum number of an artifact's files without parts, and in all.
_MOST_OTHERS = 16
MOST_FILES = MOST_PARTS + _MOST_OTHERS

#: Maximum bytes of an artifact that is shown to people without verification.
MOST_UNVERIFIED = 512 << 20


class _Heads(Exception):  # noqa: N818
    """Ends reading an artifact after manifest and signature."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        super().__init__()
        self.files = files


def heads_alone(
    read: Callable[[Admit], Mapping[str, bytes] | None],
) -> Mapping[str, bytes] | None:
    """Read only manifest and signature of an artifact.

    Args:
        read: Reads the artifact, as `Store.get` or `Store.wait` do.

    Returns:
        Both files, not verified; None if nothing is published.

    Raises:
        Rejected: The place is not a valid artifact.
    """

    def stop(files: Mapping[str, bytes]) -> Mapping[str, int]:
        raise _Heads(files)

    try:
        return read(stop)
    except _Heads as heads:
        return heads.files


def read_within(
    names: list[str],
    read: Callable[[str, int], bytes | None],
    admit: Admit | None,
    what: str,
    again: Callable[[str, int], bytes | None] | None = None,
) -> Mapping[str, bytes] | None:
    """Read all files of an artifact, within limits; its parts are read at each access.

    Args:
        names: Names of the files at its place.
        read: Reads a file up to a number of bytes; returns None if it does not exist.
        admit: Verifies manifest and signature, and returns the sizes of all other files; if None,
            all files are read up to a limit, without verification.
        what: Name of the place, for the error.
        again: The same as ``read`` for later accesses; ``read`` itself if None.

    Returns:
        The files by name; None if one does not exist.

    Raises:
        Rejected: The files are not those that ``admit`` returns.
    """
    if len(names) > MOST_FILES or sum(not is_part(name) for name in names) > _MOST_OTHERS:
        raise Rejected("malformed", f"{what}: it has too many files.")
    files: dict[str, bytes] = {}
    for name in sorted(set(names) & set(HEADS)):
        raw = read(name, HEADS[name])
        if raw is None:
            return None
        files[name] = raw
    others = sorted(set(names) - set(HEADS))
    sizes: Mapping[str, int] = {}
    if admit is not None:
        sizes = admit(files)
        if set(sizes) != set(others):
            raise Rejected("malformed", f"{what}: its files are not those it lists.")
    later: dict[str, Callable[[], bytes]] = {}
    left = MOST_UNVERIFIED
    for name in others:
        if admit is not None and is_part(name):
            later[name] = partial(_part, again or read, name, sizes[name], what)
            continue
        most = sizes[name] if admit is not None else left
        raw = read(name, most)
        if raw is None:
            return None
        if admit is not None and len(raw) != most:
            raise Rejected("bad_digest", f"{what}: {name} was changed.")
        files[name] = raw
        left -= len(raw)
    return Files(files, later, {name: sizes[name] for name in later}) if later else files


def _part(read: Callable[[str, int], bytes | None], name: str, size: int, what: str) -> bytes:
    raw = read(name, size)
    if raw is None or len(raw) != size:
        raise Rejected("bad_digest", f"{what}: {name} was changed.")
    return raw


def too_large(what: str, name: str) -> Rejected:
    """Return the rejection of a file that exceeds its size limit."""
    return Rejected("bad_digest", f"{what}: {name} exceeds its size limit.")


@contextmanager
def faults(what: str) -> Iterator[None]:
    """Convert the system's errors into this software's errors, which show no paths.

    Args:
        what: Name of what is read or written.

    Raises:
        ConnectionError: The network of a mounted folder failed.
        ArtifactError: Another error of the system.
    """
    failure: Exception
    try:
        yield
        return
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, type(error).__name__)
        if is_network_error(error):
            failure = ConnectionError(f"{what}: the store's network failed ({name}).")
        else:
            failure = ArtifactError(
                f"{what}: the store's folder failed ({name}).",
                "Check that it exists, that this user may write there, and that it is not full.",
            )
    # Without the original exception, whose text contains paths.
    raise failure from None


def read_artifact(place: Path, what: str, admit: Admit | None) -> Mapping[str, bytes] | None:
    """Read the files of an artifact in a folder; return None if it does not exist.

    Args:
        place: Its folder.
        what: Its place in the store, for errors.
        admit: Limits the files to read; see `read_within`.

    Raises:
        Rejected: The folder is not a valid artifact.
        OSError: A file cannot be read.
    """
    try:
        folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        # A link, too, is not a directory here.
        return None
    try:
        with os.scandir(folder) as entries:
            visible = (entry.name for entry in entries if not entry.name.startswith("."))
            names = list(islice(visible, MOST_FILES + 1))
        # Renames publish and remove the folder, so while it exists here, it is complete.
        crowded = len(names) > MOST_FILES
        if not (crowded or MANIFEST in names) or not os.path.samestat(
            os.fstat(folder), place.stat()
        ):
            return None
        read = partial(read_file, folder, what)
        return read_within(names, read, admit, what, partial(_again, place, what))
    except FileNotFoundError:
        return None  # Its run was removed meanwhile.
    finally:
        os.close(folder)


def _again(place: Path, what: str, name: str, most: int) -> bytes | None:
    """Read a file of an artifact that was read before."""
    with faults(what):
        try:
            folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            return read_file(folder, what, name, most)
        except FileNotFoundError:
            return None
        finally:
            os.close(folder)


def read_file(folder: int, what: str, name: str, most: int) -> bytes:
    """Read a regular file; links, devices and pipes are rejected.

    Args:
        folder: File descriptor of its folder.
        what: Name of the artifact, for errors.
        name: Name of the file.
        most: Maximum bytes of the file.

    Raises:
        Rejected: It is not a regular file, or it is larger.
        OSError: It cannot be read.
    """
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        handle = os.open(name, flags, dir_fd=folder)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):
            raise
        handle = None
    if handle is None:
        raise Rejected("malformed", f"{what}: {name} is not a regular file.")
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise Rejected("malformed", f"{what}: {name} is not a regular file.")
        if status.st_size > most:
            raise too_large(what, name)
        # Allocate the current size only, because ``most`` may be far larger.
        raw = os.read(handle, status.st_size + 1)
        if len(raw) == status.st_size:
            return raw
        with open(handle, "rb", closefd=False) as file:
            raw += file.read(most + 1 - len(raw))
    finally:
        os.close(handle)
    if len(raw) > most:
        raise too_large(what, name)
    return raw
