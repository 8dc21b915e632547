"""Tables that a command names: Parquet or CSV, whose dialect is looked up in the file."""

import gzip
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import yaml
from pydantic import ValidationError

from opboost_ops.config.source import Source, is_source, is_text
from opboost_ops.errors import ConfigError
from opboost_ops.tables.columns import Expected
from opboost_ops.tables.copies import copy
from opboost_ops.tables.files import local_files
from opboost_ops.tables.parquet import files_of, scan_common, unreadable

#: Bytes of a file that show its dialect.
_LOOK = 1 << 20

#: Entries of a source that a command may be given, as ``site.yaml`` has them.
_DIALECT = ("separator", "decimal", "thousands", "encoding", "dates", "missing")


def dialect_of(text: str) -> dict[str, Any]:
    """Entries of a dialect as a command is given them: ``decimal: ',', dates: '%d.%m.%Y'``.

    Args:
        text: Entries of YAML with commas between them.

    Raises:
        ConfigError: It is no such text.
    """
    entries: Any = None
    with suppress(yaml.YAMLError):
        entries = yaml.safe_load(text if text.lstrip().startswith("{") else f"{{{text}}}")
    if not isinstance(entries, dict) or (set(entries) - set(_DIALECT)):
        raise ConfigError(
            "--dialect is not understood.",
            f"Write entries such as \"decimal: ',', dates: '%d.%m.%Y'\"; there are "
            f"{', '.join(_DIALECT)}.",
        )
    return entries


def source_of(
    at: str, query: str | None = None, dialect: Mapping[str, Any] | None = None
) -> Source:
    """The source at a path or URL; what its dialect does not say is looked up in a local file.

    Args:
        at: Path, pattern or URL.
        query: Of a database.
        dialect: Entries that are declared.

    Raises:
        ConfigError: It is not as a source is declared.
    """
    try:
        return Source(at=at, query=query, **{**_written(at), **(dialect or {})})
    except ValidationError as error:
        first = error.errors()[0]
        place = ": ".join(map(str, [*first["loc"][:1], ""]))
        problem = place + first["msg"].removeprefix("Value error, ")
    raise ConfigError(f"The table cannot be read: {problem}.")


def read_local(
    path: Path,
    columns: Mapping[str, Expected] | None = None,
    dialect: Mapping[str, Any] | None = None,
) -> tuple[pl.DataFrame, dict[str, str]]:
    """A table in Parquet or CSV, a folder or pattern of them, and why columns are left out.

    Args:
        path: Where it is.
        columns: Declared columns by raw name.
        dialect: Entries of a CSV file's dialect that are declared.

    Raises:
        ContractError: It is not there, or is neither Parquet nor CSV of this dialect.
    """
    if is_source(str(path)) and local_files(str(path)):
        with TemporaryDirectory(prefix="opboost-table-") as folder:
            target = Path(folder) / "table.parquet"
            source = source_of(str(path), dialect=dialect)
            copied = copy(source, path.name, target, columns or {}, "")
            return pl.read_parquet(target, glob=False), dict(copied.left_out)
    try:
        if files := files_of(path):
            table, left_out = scan_common(files, path.name, columns or {})
            return table.collect(), left_out
    except (pl.exceptions.PolarsError, OSError):
        pass
    raise unreadable(path.name)


def read_rows(path: Path) -> pl.DataFrame:
    """The rows of `read_local`."""
    return read_local(path)[0]


def _written(at: str) -> dict[str, Any]:
    """Separator and decimal sign of a local CSV file, by its first lines."""
    files = [] if "://" in at else local_files(at)
    if not files or not is_text(files[0].name):
        return {}
    opener = gzip.open if files[0].name.lower().endswith(".gz") else open
    try:
        with opener(files[0], "rb") as file:
            raw = file.read(_LOOK)
    except (OSError, EOFError):
        return {}
    utf_16 = raw.startswith((b"\xff\xfe", b"\xfe\xff"))
    text = raw.decode("utf-16" if utf_16 else "utf-8-sig", errors="replace")
    declared: dict[str, Any] = {}
    head = re.sub(r'"[^"]*"', "", text.partition("\n")[0])
    separator = max(",;\t|", key=head.count)
    if separator != "," and head.count(separator):
        declared["separator"] = separator
        sign = re.escape(separator)
        # Not 1,500, whose comma may stand between thousands.
        number = r"-?(?![1-9]\d{0,2},\d{3}(?!\d))\d+,\d+"
        field = rf"(?:^|{sign})\s*{number}\s*(?={sign}|\r?$)"
        if re.search(field, text, re.MULTILINE):
            declared["decimal"] = ","
    return declared
