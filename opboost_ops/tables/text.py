"""Converts the CSV files of a source to one Parquet file, with bounded memory.

Each file is transcoded to UTF-8 and converted to Parquet with text columns only. Then each column's
type is determined by its declaration, or else from all its cells, one column at a time.
"""

import codecs
import csv
import errno
import gzip
import re
import string
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from opboost_ops.config.source import Source
from opboost_ops.errors import ContractError
from opboost_ops.tables.columns import Expected, column_form, require_unique
from opboost_ops.tables.dialect import ambiguity, parser_of, present_cells
from opboost_ops.tables.parquet import scan_common

_UTF = ("utf-8", "utf8", "utf-8-sig")
_CHUNK = 1 << 20
#: Bytes of a file that are parsed at once; the maximum length of a row.
_BLOCK = 1 << 24
#: Byte order marks of UTF-16.
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_MARK = "\ufeff"
#: Control characters that no text contains; cp1252 text that is decoded as latin-1 has them.
_C1_CONTROLS = re.compile("[\x80-\x9f]")

#: Reason for leaving out columns of a CSV file without a name.
UNNAMED = "it has no name, like row numbers of spreadsheets and data frames"


def text_table(
    paths: Sequence[Path],
    source: Source,
    party: str,
    target: Path,
    columns: Mapping[str, Expected],
) -> dict[str, str]:
    """Write CSV files as one Parquet file, with parsed dates, numbers and booleans.

    Args:
        paths: The files, which may be gzipped.
        source: Their format.
        party: Name of the party.
        target: The Parquet file; temporary files are created next to it.
        columns: Declared columns by raw name; types of other columns are inferred from their cells.

    Returns:
        By column, why it is left out, or is text despite its look.

    Raises:
        ContractError: A file does not have the declared format.
        OSError, PolarsError: The disk is full; see `out_of_space`.
    """
    notes: dict[str, str] = {}
    columns = {column_form(raw): expected for raw, expected in columns.items()}
    texts = []
    for number, path in enumerate(paths):
        texts.append(target.with_suffix(f".texts-{number}"))
        notes |= _texts(path, source, party, texts[-1])
    rows, partial = scan_common(texts, party, columns)
    notes |= partial
    names = rows.collect_schema().names()
    table = rows.select(
        present_cells(name, _missing(source, columns.get(name), party)).alias(name)
        for name in names
    )
    parsers = []
    for name in names:
        expected = columns.get(name)
        parser, why = _parser(table, name, source, expected)
        if why and expected is not None:
            problem, _, remedy = why.partition(": ")
            raise ContractError(
                f"{party}.{expected.name}: {problem}.", f"{remedy[:1].upper()}{remedy[1:]}."
            )
        if why:
            notes[name] = why
        parsers.append(parser.alias(name))
    table.select(parsers).sink_parquet(target)
    for path in texts:
        path.unlink()
    return notes


def out_of_space(error: Exception) -> bool:
    """True if a disk is full, or has no room for so large a file.

    Args:
        error: An error of the operating system, or of polars or Arrow, whose text has its errno.
    """
    numbers = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
    text = str(error)
    code = getattr(error, "errno", None)
    marks = [mark for number in numbers for mark in (f"(os error {number})", f"[errno {number}]")]
    return code in numbers or any(mark in text for mark in marks)


def _missing(source: Source, expected: Expected | None, party: str) -> list[str]:
    """Return the texts that mean a missing value in a column, without its declared values."""
    if expected is None:
        return list(source.missing)
    both = expected.values & set(source.missing) - {""}
    if both and "missing" in source.model_fields_set:
        raise ContractError(
            f"`missing` in site.yaml of {party} names {', '.join(sorted(both))}, which is a "
            f"declared value of {expected.name}.",
            "Remove it from `missing`, or from the declaration.",
        )
    return [text for text in source.missing if text not in both]


def _parser(
    table: pl.LazyFrame, name: str, source: Source, expected: Expected | None
) -> tuple[pl.Expr, str]:
    """Return the expression that parses a column, and why its declaration is insufficient."""
    kind = None if expected is None else expected.kind
    if kind == "text":
        return pl.col(name), ""
    cells = table.select(name).collect(engine="streaming").to_series().drop_nulls()
    if not len(cells):
        # A small table of new rows may lack all values of a column.
        return (pl.col(name) if kind is None else pl.col(name).cast(pl.Float64)), ""
    parser = parser_of(cells, source, kind)
    return (pl.col(name), ambiguity(cells, source, kind)) if parser is None else (parser, "")


def _texts(path: Path, source: Source, party: str, target: Path) -> dict[str, str]:
    """Write a file as Parquet of texts, and return why columns are left out, by name."""
    plain = target.with_suffix(".plain")
    tabs = ".tsv" in path.name.lower() and source.separator == ","
    separator = "\t" if tabs else source.separator
    problem, remedy = "", ""
    try:
        quotes = _transcode(path, source, plain, separator)
        head = _head(plain, separator)
        _require_head(head, party)
        last, repeats_head = _parse(plain, separator, head, target)
        if repeats_head:
            raise ContractError(
                f"The CSV table of {party} repeats its header among its rows.",
                "Two files were joined into one: name both by a pattern, or remove that line.",
            )
        if quotes % 2 and any("\n" in cell or "\r" in cell for cell in last):
            raise ValueError("an unclosed quote")
    except (UnicodeDecodeError, LookupError):
        problem = f"is not encoded in {source.encoding}"
        remedy = "Declare its encoding, such as `encoding: cp1252`, in site.yaml or by --dialect."
    except (pa.ArrowException, ValueError, EOFError, csv.Error, zlib.error) as error:
        if out_of_space(error):
            raise
        problem = "cannot be parsed as site.yaml says"
        remedy = (
            "Check separator and decimal there: `{at: ..., separator: ';', decimal: ','}`; that "
            "all lines have as many columns as the header; and that quotes inside a cell are "
            "doubled."
        )
    except OSError as error:
        if out_of_space(error):
            raise
        problem, remedy = "cannot be read", "Check the file, and the job that writes it."
    if problem:
        raise ContractError(f"The CSV table of {party} {problem}.", remedy)
    plain.unlink()
    return {"": UNNAMED} if not all(head) else {}


def _transcode(path: Path, source: Source, plain: Path, separator: str) -> int:
    """Write a file as UTF-8, and return the number of its quotes."""
    quotes, escaped = 0, re.compile(rf'\\"[^"\r\n{re.escape(separator)}]')
    opener = gzip.open if path.name.lower().endswith(".gz") else open
    with opener(path, "rb") as file, open(plain, "wb") as written:
        chunk = file.read(_CHUNK)
        # Also for UTF-8: a byte order mark would become part of the first name.
        encoding = "utf-8-sig" if source.encoding.lower() in _UTF else source.encoding
        if encoding == "utf-8-sig" and chunk.startswith(_UTF_16):
            encoding = "utf-16"
        decoder = codecs.getincrementaldecoder(encoding)()
        one_byte = not encoding.lower().startswith("utf")
        begins = chunk.startswith(codecs.BOM_UTF8)
        while chunk:
            text = decoder.decode(chunk)
            if "\0" in text or (one_byte and (begins or _C1_CONTROLS.search(text))):
                raise UnicodeDecodeError(encoding, b"", 0, 0, "characters of another encoding")
            if escaped.search(text):
                raise ValueError("a backslash before a quote")
            if not written.tell():
                text = text.removeprefix(_MARK)
            quotes += text.count('"')
            written.write(text.encode())
            chunk = file.read(_CHUNK)
        written.write(decoder.decode(b"", final=True).encode())
    return quotes


def _head(plain: Path, separator: str) -> list[str]:
    with open(plain, newline="", encoding="utf-8") as file:
        return list(map(column_form, next(csv.reader(file, delimiter=separator), [])))


def _require_head(head: Sequence[str], party: str) -> None:
    if not any(head):
        raise ContractError(
            f"The CSV table of {party} has no header.", "The first line must name the columns."
        )
    require_unique(head, f"CSV table of {party}")


def _parse(
    plain: Path, separator: str, head: Sequence[str], target: Path
) -> tuple[tuple[str, ...], bool]:
    """Write a file's rows as Parquet of texts; return the last row, and if one repeats the head."""
    last: tuple[str, ...] = ()
    repeats_head = False
    names = [str(number) for number in range(len(head))]
    named = [(number, name) for number, name in zip(names, head, strict=True) if name]
    reader = pyarrow.csv.open_csv(
        plain,
        pyarrow.csv.ReadOptions(
            use_threads=False, block_size=_BLOCK, column_names=names, skip_rows_after_names=1
        ),
        pyarrow.csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            include_columns=[number for number, _ in named],
            strings_can_be_null=False,
        ),
    )
    schema = pa.schema([(name, pa.large_string()) for _, name in named])
    with reader, pq.ParquetWriter(target, schema, compression="lz4") as writer:
        for batch in reader:
            rows = pl.DataFrame(batch)
            # Ignore blank lines, for example at the end.
            rows = rows.filter(~pl.all_horizontal(pl.all().str.strip_chars() == ""))
            rows = rows.rename(dict(named))
            same = pl.all_horizontal(
                pl.col(name).str.strip_chars(_MARK + string.whitespace) == name for _, name in named
            )
            repeats_head = repeats_head or not rows.filter(same).is_empty()
            last = rows.row(-1) if rows.height else last
            writer.write_table(rows.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(schema))
    return last, repeats_head
