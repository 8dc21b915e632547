"""Read folders that others may write: regular files alone, no more of them than is allowed."""

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path

from opboost_ops.errors import ArtifactError, of_the_network
from opboost_ops.exchange.manifest import MANIFEST
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.store.limits import MOST_FILES, Admit, read_within, too_large


@contextmanager
def faults(what: str) -> Iterator[None]:
    """Turn the system's errors into this software's, which name no path.

    Args:
        what: What is read or written.

    Raises:
        ConnectionError: The network of a mounted folder failed.
        ArtifactError: Anything else failed.
    """
    failure: Exception
    try:
        yield
        return
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, type(error).__name__)
        if of_the_network(error):
            failure = ConnectionError(f"{what}: the store's network failed ({name}).")
        else:
            failure = ArtifactError(
                f"{what}: the store's folder failed ({name}).",
                "See that it exists, that this user may write there, and that it is not full.",
            )
    # Without the foreign exception, whose text names paths.
    raise failure from None


def read_artifact(place: Path, what: str, admit: Admit | None) -> Mapping[str, bytes] | None:
    """The files of an artifact; None where there is none.

    Args:
        place: Its folder.
        what: Its place in the store, for errors.
        admit: Which of its files are read; see `limits.read_within`.

    Raises:
        Rejected: There is what no artifact has.
        OSError: It cannot be read.
    """
    try:
        folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        # A link is no folder here, either.
        return None
    try:
        with os.scandir(folder) as entries:
            shown = (entry.name for entry in entries if not entry.name.startswith("."))
            names = list(islice(shown, MOST_FILES + 1))
        # The folder came here by one rename, and leaves by one: while it is here, all names are.
        crowded = len(names) > MOST_FILES
        if not (crowded or MANIFEST in names) or not os.path.samestat(
            os.fstat(folder), place.stat()
        ):
            return None
        read = partial(read_file, folder, what)
        return read_within(names, read, admit, what, partial(_again, place, what))
    except FileNotFoundError:
        return None  # Its run was removed just now.
    finally:
        os.close(folder)


def _again(place: Path, what: str, name: str, most: int) -> bytes | None:
    """A file of an artifact that was found here before."""
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
    """A regular file: no link, device or pipe, at which a reader would wait or never end.

    Args:
        folder: An open folder.
        what: Of which artifact, for errors.
        name: The file's.
        most: How many bytes it may have.

    Raises:
        Rejected: It is none, or larger.
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
        # No more room than it takes: the most that it may have is a thousand times as much.
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
