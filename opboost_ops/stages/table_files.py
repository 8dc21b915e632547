"""A table at rest: a Parquet file, or a folder of them in the order of their names."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

import polars as pl


def files_of(path: Path) -> tuple[Path, ...]:
    """The files that make up a table.

    Args:
        path: A file, or a folder whose ``*.parquet`` files are meant; hidden ones are not.

    Returns:
        The files in their order; none for an empty folder.

    Raises:
        OSError: There is nothing, or it may not be read.
    """
    if not path.is_dir():
        path.stat()
        return (path,)
    found = (entry for entry in path.iterdir() if entry.suffix == ".parquet" and entry.is_file())
    return tuple(sorted(entry for entry in found if not entry.name.startswith(".")))


def digest_of(files: Iterable[Path]) -> bytes:
    """Sha256 of a table: of its one file, or of the digests of all, whatever their names.

    Args:
        files: At least one.

    Raises:
        OSError: One cannot be read.
    """
    digests = []
    for path in files:
        with open(path, "rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").digest())
    return digests[0] if len(digests) == 1 else hashlib.sha256(b"".join(digests)).digest()


def read_all(path: Path) -> pl.DataFrame:
    """A whole table as it lies there, with all columns; for experiments and at home.

    Args:
        path: A file, or a folder of them.

    Raises:
        PolarsError: Its files are no Parquet, or disagree.
        OSError: One cannot be read.
    """
    frames = [pl.read_parquet(file) for file in files_of(path)]
    return pl.concat(frames, how="diagonal") if frames else pl.DataFrame()
