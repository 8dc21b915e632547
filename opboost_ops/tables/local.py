"""Reads tables that a command names: Parquet, or CSV with a detected dialect."""

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
from opboost_ops.tables.parquet import FAILURES, files_of, scan_common, unreadable

#: Number of bytes from which a file's dialect is detected.
_SAMPLE_BYTES = 1 << 20

#: Entries of a source that --dialect may set, as in ``site.yaml``.
_DIALECT = ("separator", "decimal", "thousands", "encoding", "dates", "missing")


def dialect_of(text: str) -> dict[str, Any]:
    """Parse a dialect from a command line: ``decimal: ',', dates: '%d.%m.%Y'``.

    Args:
        text: YAML entries, separated by commas.

    Raises:
        ConfigError: The text is malformed.
    """
    entries: Any = None
    with suppress(yaml.YAMLError):
        entries = yaml.safe_load(text if text.lstrip().startswith("{") else f"{{{text}}}")
    if not isinstance(entries, dict) or (set(entries) - set(_DIALECT)):
        raise ConfigError(
            "--dialect cannot be parsed.",
            f"Write entries such as \"decimal: ',', dates: '%d.%m.%Y'\"; the keys are "
            f"{', '.join(_DIALECT)}.",
        )
    return entries


def source_of(
    at: str, query: str | None = None, dialect: Mapping[str, Any] | None = None
) -> Source:
    """Return the source at a path or URL; an incomplete dialect is detected from a local file.

    Args:
        at: Path, pattern or URL.
        query: Query of a database.
        dialect: Declared entries.

    Raises:
        ConfigError: The declaration is invalid.
    """
    try:
        return Source(at=at, query=query, **{**_detected_dialect(at), **(dialect or {})})
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
    """Read a Parquet or CSV table, folder or pattern; also return reasons for omitted columns.

    Args:
        path: Path or pattern.
        columns: Declared columns by raw name.
        dialect: Declared entries of a CSV file's dialect.

    Raises:
        ContractError: The table does not exist, or is neither Parquet nor CSV of this dialect.
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
    except FAILURES:
        pass
    raise unreadable(path.name)


def read_rows(path: Path) -> pl.DataFrame:
    """Read the rows as by `read_local`."""
    return read_local(path)[0]


def _detected_dialect(at: str) -> dict[str, Any]:
    """Detect separator and decimal sign of a local CSV file from its first lines."""
    files = [] if "://" in at else local_files(at)
    if not files or not is_text(files[0].name):
        return {}
    opener = gzip.open if files[0].name.lower().endswith(".gz") else open
    try:
        with opener(files[0], "rb") as file:
            raw = file.read(_SAMPLE_BYTES)
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
        # Not 1,500, whose comma may separate thousands.
        number = r"-?(?![1-9]\d{0,2},\d{3}(?!\d))\d+,\d+"
        field = rf"(?:^|{sign})\s*{number}\s*(?={sign}|\r?$)"
        if re.search(field, text, re.MULTILINE):
            declared["decimal"] = ","
    return declared
