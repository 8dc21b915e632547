"""Files of a source, in a folder or in S3: each becomes a Parquet file of its own."""

import fnmatch
import glob
import re
from collections.abc import Callable
from pathlib import Path

from opboost_ops.config.source import S3, Source, is_text
from opboost_ops.errors import ContractError
from opboost_ops.exchange.s3 import S3Bucket
from opboost_ops.stages.source_text import text_part

#: About how many bytes a gzipped byte stands for.
_GZIPPED = 6

#: Refuses a number of bytes for which there is no room.
Room = Callable[[int], None]


def local_parts(
    pattern: str, source: Source, party: str, folder: Path, text: frozenset[str], room: Room
) -> list[Path]:
    """The files that a path or a pattern names, in the order of their names.

    Args:
        pattern: Path or pattern.
        source: How they are written.
        party: Whose they are.
        folder: For Parquet files that are made of others.
        text: Raw names of columns that are texts.
        room: Asked before anything is written.

    Raises:
        ContractError: There is none, or one cannot be read.
    """
    exact = Path(pattern)
    found = [exact] if exact.is_file() else [Path(p) for p in sorted(glob.glob(pattern))]
    files = [path for path in found if path.is_file() and not path.name.startswith(".")]
    if not files:
        raise ContractError(
            f"The table of {party} is missing: no file has the path or pattern in site.yaml.",
            "Check tables there, and the job that writes the files.",
        )
    room(sum(_size(path.name, path.stat().st_size) for path in files))
    return [_part(path, i, source, party, folder, text) for i, path in enumerate(files)]


def s3_parts(
    url: str, source: Source, party: str, folder: Path, text: frozenset[str], room: Room
) -> list[Path]:
    """The same of a bucket: ``s3://bucket/path/file.parquet``, or a pattern.

    Raises:
        OpBoostError: There is none, or S3 refuses.
        ConnectionError: S3 cannot be reached.
    """
    bucket, _, pattern = url.removeprefix(S3).partition("/")
    if not bucket or not pattern:
        raise ContractError(
            f"The table of {party} has no URL of the form s3://bucket/path.",
            "Correct tables in site.yaml.",
        )
    store = S3Bucket(bucket, "")
    fixed = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
    names = [item.key for item in store.list(fixed)]
    keys = sorted(n for n in names if n == pattern or fnmatch.fnmatchcase(n, pattern))
    if not keys:
        raise ContractError(
            f"The table of {party} is missing: its bucket holds no object of that name.",
            "Check tables in site.yaml, and the job that writes the objects.",
        )
    room(sum(_size(key, store.size(key)) for key in keys))
    parts = []
    for i, key in enumerate(keys):
        loaded = folder / f"{i}-{key.rsplit('/', 1)[-1]}"
        store.download(key, loaded)
        parts.append(_part(loaded, i, source, party, folder, text))
        if parts[-1] != loaded:
            loaded.unlink()
    return parts


def _size(name: str, size: int) -> int:
    return size * (_GZIPPED if name.endswith(".gz") else 1)


def _part(
    path: Path, number: int, source: Source, party: str, folder: Path, text: frozenset[str]
) -> Path:
    if not is_text(path.name):
        return path
    target = folder / f"part-{number}.parquet"
    if not text_part(path, source, target, text):
        raise ContractError(
            f"The CSV table of {party} cannot be read as site.yaml says.",
            "Check separator, decimal and encoding there: `{at: ..., separator: ';', decimal: "
            "',', encoding: cp1252}`; and whether all lines have as many columns.",
        )
    return target
