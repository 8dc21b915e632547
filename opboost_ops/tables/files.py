"""Provides the files of a source, local or in S3, as Parquet."""

import fnmatch
import glob
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from opboost_ops.config.source import S3, Source, is_text
from opboost_ops.errors import ContractError
from opboost_ops.tables.columns import Expected
from opboost_ops.tables.parquet import files_of
from opboost_ops.tables.s3 import S3Bucket
from opboost_ops.tables.text import text_table

#: Raises if there is no room for a number of bytes.
Room = Callable[[int], None]

#: Assumed compression ratio of gzipped files.
_GZIP_RATIO = 6


def local_files(pattern: str) -> list[Path]:
    """Return the files that a path or a pattern names, sorted by name.

    An existing path is never a pattern, whatever its characters; a folder stands for its Parquet
    files.
    """
    exact = Path(pattern)
    if exact.exists():
        return list(files_of(exact))
    folder, *rest = [exact.anchor or ".", *exact.parts[1 if exact.anchor else 0 :]]
    while rest and (Path(folder) / rest[0]).is_dir():
        folder = str(Path(folder) / rest.pop(0))
    names = sorted(glob.glob("/".join(rest), root_dir=folder)) if rest else []
    files = [Path(folder) / name for name in names]
    return [path for path in files if path.is_file() and not path.name.startswith(".")]


def local_parts(
    pattern: str,
    source: Source,
    party: str,
    folder: Path,
    columns: Mapping[str, Expected],
    room: Room,
) -> tuple[list[Path], dict[str, str]]:
    """Return the files that a path or a pattern names as Parquet, and reasons for omitted columns.

    Args:
        pattern: Path or pattern.
        source: The files' format.
        party: Name of the party.
        folder: Folder for Parquet files that are converted from others.
        columns: Declared columns by raw name.
        room: Called with a size before anything is written.

    Raises:
        ContractError: There is no such file, or one cannot be read.
    """
    files = local_files(pattern)
    if not files:
        raise ContractError(
            f"The table of {party} is missing: no file matches the path or pattern in site.yaml.",
            "Check tables there, and the job that writes the files.",
        )
    room(sum(_size(path.name, path.stat().st_size) for path in files))
    return _parquet(files, source, party, folder, columns)


def s3_parts(
    url: str,
    source: Source,
    party: str,
    folder: Path,
    columns: Mapping[str, Expected],
    room: Room,
) -> tuple[list[Path], dict[str, str]]:
    """Do the same for S3: ``s3://bucket/path/file.parquet``, or a pattern.

    Raises:
        OpBoostError: There is no such object, or S3 refuses.
        ConnectionError: S3 cannot be reached.
    """
    bucket, _, pattern = url.removeprefix(S3).partition("/")
    if not bucket or not pattern:
        raise ContractError(
            f"The URL of {party}'s table does not have the form s3://bucket/path.",
            "Correct tables in site.yaml.",
        )
    store = S3Bucket(bucket, "")
    fixed = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
    names = [item.key for item in store.list(fixed)]
    keys = [pattern] if pattern in names else sorted(n for n in names if _matches(n, pattern))
    if not keys:
        raise ContractError(
            f"The table of {party} is missing: its bucket has no object of that name.",
            "Check tables in site.yaml, and the job that writes the objects.",
        )
    room(sum(_size(key, store.size(key)) for key in keys))
    loaded = []
    for number, key in enumerate(keys):
        loaded.append(folder / f"{number}-{key.rsplit('/', 1)[-1]}")
        store.download(key, loaded[-1])
    return _parquet(loaded, source, party, folder, columns)


def _matches(key: str, pattern: str) -> bool:
    """True if a pattern matches an object as it would match a file: ``*`` stops at a slash."""
    parts, wanted = key.split("/"), pattern.split("/")
    same = len(parts) == len(wanted) and not parts[-1].startswith(".")
    return same and all(map(fnmatch.fnmatchcase, parts, wanted))


def _size(name: str, size: int) -> int:
    return size * (_GZIP_RATIO if name.lower().endswith(".gz") else 1)


def _parquet(
    files: Sequence[Path],
    source: Source,
    party: str,
    folder: Path,
    columns: Mapping[str, Expected],
) -> tuple[list[Path], dict[str, str]]:
    texts = [path for path in files if is_text(path.name)]
    parts = [path for path in files if not is_text(path.name)]
    if not texts:
        return parts, {}
    target = folder / "text.parquet"
    notes = text_table(texts, source, party, target, columns)
    return [*parts, target], notes
