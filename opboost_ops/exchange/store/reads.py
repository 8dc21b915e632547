"""Reads of what others wrote: regular files alone, within limits, signatures before anything large.

A store is written by others, and by anyone who can write there. An artifact is read in this order:
manifest and signature, each up to a small size; then the reader says, by the verified manifest,
which files there may be and how large each is; then exactly these, up to these sizes.
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

#: Given manifest and signature, the names and sizes of all other files; raises `Rejected`.
Admit = Callable[[Mapping[str, bytes]], Mapping[str, int]]

#: Most bytes of what is read before anything is verified.
HEADS: Mapping[str, int] = {MANIFEST: 16 << 20, SIGNATURE: 1 << 20}

#: Most files of an artifact that are no parts, and most of all.
_MOST_OTHERS = 16
MOST_FILES = MOST_PARTS + _MOST_OTHERS

#: Most bytes of an artifact that is read without its signature being verified first, for people.
MOST_UNVERIFIED = 512 << 20


class _Heads(Exception):  # noqa: N818
    """Ends reading an artifact after manifest and signature."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        super().__init__()
        self.files = files


def heads_alone(
    read: Callable[[Admit], Mapping[str, bytes] | None],
) -> Mapping[str, bytes] | None:
    """Manifest and signature of an artifact, whose other files are not read.

    Args:
        read: Reads the artifact, as `Store.get` or `Store.wait` do.

    Returns:
        Both, not verified; None where ``read`` finds nothing.

    Raises:
        Rejected: There is what no artifact has.
    """

    def stop(files: Mapping[str, bytes]) -> Mapping[str, int]:
        raise _Heads(files)

    try:
        return read(stop)
    except _Heads as found:
        return found.files


def read_within(
    names: list[str],
    read: Callable[[str, int], bytes | None],
    admit: Admit | None,
    what: str,
    again: Callable[[str, int], bytes | None] | None = None,
) -> Mapping[str, bytes] | None:
    """All files of an artifact, within limits; its parts are read each time they are looked at.

    Args:
        names: What lies at its place.
        read: Reads a file of at most so many bytes; None if it is gone.
        admit: Verifies manifest and signature, and says what else there may be; without it, all
            files are read up to a limit, and nothing is believed of them.
        what: Name of the place, for the error.
        again: The same as ``read``, at any later time; ``read`` itself when absent.

    Returns:
        By name; None if one is gone.

    Raises:
        Rejected: There is anything but what ``admit`` allows.
    """
    if len(names) > MOST_FILES or sum(not is_part(name) for name in names) > _MOST_OTHERS:
        raise Rejected("malformed", f"{what}: there are more files than any artifact has.")
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
    """A file has more bytes than it may."""
    return Rejected("bad_digest", f"{what}: {name} is larger than it may be.")


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
        if is_network_error(error):
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
        admit: Which of its files are read; see `reads.read_within`.

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
