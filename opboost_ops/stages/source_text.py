"""A CSV file of a source as a Parquet file, without the whole of it in memory.

The file is laid down as UTF-8, becomes Parquet of nothing but texts, and then what a column holds
is decided by all of its cells, one column at a time.
"""

import codecs
import errno
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from opboost_ops.config.source import Source

_UTF = ("utf-8", "utf8")
_CHUNK = 1 << 20
#: First cells of a column, by which ways to write it are ruled out without a look at the rest.
_FEW = 100

_DATES = ("%Y-%m-%d", "%Y/%m/%d", "%d-%m-%Y", "%d/%m/%Y", "%d.%m.%Y")
_TIMES = ("%H:%M:%S%.f", "%H:%M")


def text_part(path: Path, source: Source, target: Path, text: frozenset[str] = frozenset()) -> bool:
    """Write a CSV file as Parquet, with dates, numbers and truth values as such.

    Args:
        path: The file, which may be gzipped.
        source: How it is written.
        target: The Parquet file; others beside it are there for a while.
        text: Raw names of columns that are texts.

    Returns:
        False if it is no such file: then nothing is left but rubbish beside the target.

    Raises:
        OSError, PolarsError: The disk is full; see `no_room`.
    """
    plain, texts = target.with_suffix(".plain"), target.with_suffix(".texts")
    separator = "\t" if ".tsv" in path.name and source.separator == "," else source.separator
    try:
        _lay_down(path, source, plain)
        # A blank line at the end of a CSV is no person.
        raw = pl.scan_csv(
            plain, separator=separator, null_values=list(source.missing), infer_schema=False
        )
        raw = raw.filter(~pl.all_horizontal(pl.all().is_null()))
        names = raw.collect_schema().names()
        if len({name.strip() for name in names}) == len(names):
            raw = raw.rename({name: name.strip() for name in names})
        raw.sink_parquet(texts, compression="lz4")
    except (
        pl.exceptions.PolarsError,
        ValueError,
        LookupError,
        OSError,
        EOFError,
        zlib.error,
    ) as error:
        if no_room(error):
            raise
        return False
    plain.unlink()
    scan = pl.scan_parquet(texts)
    ways = [
        _stripped(name) if name.strip() in text else _way(texts, name, source)
        for name in scan.collect_schema().names()
    ]
    scan.select(ways).sink_parquet(target)
    texts.unlink()
    return True


def no_room(error: Exception) -> bool:
    """Whether a disk is full, or has no room for a file so large.

    Args:
        error: Of the operating system, or of polars, which tells its number in the text.
    """
    numbers = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
    said = str(error)
    known = getattr(error, "errno", None)
    return known in numbers or any(f"(os error {number})" in said for number in numbers)


def _lay_down(path: Path, source: Source, plain: Path) -> None:
    # Also where it is UTF-8: a byte order mark would be part of the first name.
    encoding = "utf-8-sig" if source.encoding.lower() in _UTF else source.encoding
    decoder = codecs.getincrementaldecoder(encoding)()
    opener = gzip.open if path.name.endswith(".gz") else open
    with opener(path, "rb") as file, open(plain, "wb") as written:
        while chunk := file.read(_CHUNK):
            written.write(decoder.decode(chunk).encode())
        written.write(decoder.decode(b"", final=True).encode())


def _stripped(name: str) -> pl.Expr:
    return pl.col(name).str.strip_chars()


def _way(texts: Path, name: str, source: Source) -> pl.Expr:
    """How a column is read: as what all of its cells can be."""
    cells = pl.scan_parquet(texts).select(_present(name, source)).collect(engine="streaming")
    present = cells.get_column(name).drop_nulls()
    if not len(present):
        return _present(name, source)
    for way in _ways(name, source):
        if all(
            not part.to_frame().select(way).to_series().null_count()
            for part in (present[:_FEW], present)
        ):
            return way
    # Blanks inside quotes may be meant; those of a separator with a blank are in every value.
    return pl.col(name)


def _present(name: str, source: Source) -> pl.Expr:
    stripped = _stripped(name)
    return pl.when(~stripped.is_in(list(source.missing))).then(stripped)


def _ways(name: str, source: Source) -> Iterator[pl.Expr]:
    """All ways but plain text; each gives a missing value for what it cannot read."""
    cell = _present(name, source)
    lower = cell.str.to_lowercase()
    yield pl.when(lower.is_in(["true", "false"])).then(lower == "true")
    digits = cell.str.replace(",", ".", literal=True) if source.decimal == "," else cell
    for kind in (pl.Int64, pl.Float64):
        yield digits.cast(kind, strict=False)
    for date in _DATES:
        yield cell.str.to_date(date, strict=False)
    for date in _DATES:
        for moment in (f"{date}{between}{time}" for between in " T" for time in _TIMES):
            yield cell.str.to_datetime(moment, time_unit="us", strict=False)
    for zone in ("%Y-%m-%dT%H:%M:%S%.f%#z", "%Y-%m-%d %H:%M:%S%.f%#z"):
        yield cell.str.to_datetime(zone, time_unit="us", strict=False)
    for time in _TIMES:
        yield cell.str.to_time(time, strict=False)
