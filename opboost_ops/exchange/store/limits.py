"""How much a party reads of what others wrote: nothing large before its signature is verified.

A store is written by others, and by anyone who can write there. An artifact is read in this order:
manifest and signature, each up to a small size; then the reader says, by the verified manifest,
which files there may be and how large each is; then exactly these, up to these sizes.
"""

from collections.abc import Callable, Mapping
from functools import partial

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
