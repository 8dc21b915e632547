"""The files of an artifact: small ones in memory, parts of a long one read when looked at.

>>> files = Files({"manifest.json": b"{}"}, {"entries-0000.bin": lambda: b"part"})
>>> sorted(files), files["entries-0000.bin"]
(['entries-0000.bin', 'manifest.json'], b'part')
"""

import re
from collections.abc import Callable, Iterator, Mapping

#: The one file of a list of points, tags or bits that is no longer than a part.
ENTRIES = "entries.bin"

_PART = re.compile(r"^(entries-[0-9]{4}\.bin|table-[0-9]{4}\.parquet)(\.enc)?$")

#: Most parts of an artifact.
MOST_PARTS = 1 << 12


class Files(Mapping[str, bytes]):
    """Files by name, of which some are not kept in memory.

    Args:
        ready: Those that are.
        later: What gives each of the others, as often as it is asked.
        sizes: Bytes of those, where they are known.
    """

    def __init__(
        self,
        ready: Mapping[str, bytes],
        later: Mapping[str, Callable[[], bytes]],
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        self._ready = ready
        self._later = later
        self._sizes = sizes or {}

    def __getitem__(self, name: str) -> bytes:
        """A file's content."""
        return self._later[name]() if name in self._later else self._ready[name]

    def __contains__(self, name: object) -> bool:
        """True if there is such a file; none is made to tell."""
        return name in self._later or name in self._ready

    def __iter__(self) -> Iterator[str]:
        """All names."""
        yield from self._ready
        yield from self._later

    def __len__(self) -> int:
        """How many files there are."""
        return len(self._ready) + len(self._later)

    def size(self, name: str) -> int:
        """Bytes of a file; one whose size is known is not made for that.

        Args:
            name: Its name.
        """
        size = self._sizes.get(name)
        return len(self[name]) if size is None else size


def sizes_of(files: Mapping[str, bytes]) -> dict[str, int]:
    """Bytes of each file.

    Args:
        files: By name.
    """
    if isinstance(files, Files):
        return {name: files.size(name) for name in files}
    return {name: len(raw) for name, raw in files.items()}


def part_names(count: int) -> list[str]:
    """Names of the files of a list, in its order.

    Args:
        count: How many parts it has.
    """
    return [ENTRIES] if count == 1 else [f"entries-{i:04}.bin" for i in range(count)]


def is_part(name: str) -> bool:
    """True if a file is one of several parts, encrypted or not.

    Args:
        name: Its name.
    """
    return _PART.match(name) is not None
