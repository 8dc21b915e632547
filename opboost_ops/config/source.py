"""Sources of a party's tables, and destinations of its scores, other than local Parquet files."""

import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from opboost_ops.config.schema import Record
from opboost_ops.errors import ConfigError

#: Prefix of a value that names an environment variable.
ENVIRONMENT = "env:"

S3 = "s3://"

#: Suffixes of text files with one row per line.
_TEXT = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")

#: Texts that mean a missing value, as statistics programs write them.
MISSING = ("", "NA", "N/A", "NaN", "nan", "NULL", "null", "?")


def is_text(name: str) -> bool:
    """True if a file is read as CSV, according to its name."""
    return name.lower().endswith(_TEXT)


def is_source(at: str) -> bool:
    """True if a table's path or URL is read once per run, and not used in place."""
    remote = "://" in at or at.startswith(ENVIRONMENT)
    return remote or is_text(at) or any(mark in at for mark in "*?[")


def resolved(what: str, value: str) -> str:
    """Return a value, or the content of the environment variable that ``env:NAME`` names.

    Args:
        what: Name of the entry, for errors.
        value: The entry's value.

    Raises:
        ConfigError: The environment variable is not set.
    """
    if not value.startswith(ENVIRONMENT):
        return value
    name = value.removeprefix(ENVIRONMENT)
    if not os.environ.get(name):
        raise ConfigError(
            f"{what}: the environment variable {name} is not set.",
            "Set it on this party's workers only.",
        )
    return os.environ[name]


def below(folder: Path, at: str) -> str:
    """Resolve a relative path against a folder; URLs are unchanged.

    Args:
        folder: The folder.
        at: A path or URL.
    """
    prefix = "sqlite:///"
    if at.startswith(prefix) and not at.startswith(prefix + "/"):
        return f"{prefix}{folder / at.removeprefix(prefix)}"
    return at if "://" in at or at.startswith(ENVIRONMENT) else str(folder / at)


def _is_date_form(form: str) -> bool:
    day = datetime(2001, 2, 3)
    with suppress(ValueError):
        return datetime.strptime(day.strftime(form), form) == day
    return False


def _is_encoding(name: str) -> bool:
    try:
        return bool("a".encode(name))
    except (LookupError, ValueError):
        return False


class Place(Record):
    """A path, a URL, or ``env:NAME`` for an environment variable that holds one.

    Attributes:
        at: The path or URL. A password belongs in an environment variable.
    """

    at: str = Field(min_length=1)

    def url(self) -> str:
        """Return the path or URL itself.

        Raises:
            ConfigError: The environment variable that should hold it is not set.
        """
        return resolved("tables", self.at)

    @property
    def is_database(self) -> bool:
        """True if it is known to be a database's URL."""
        return "://" in self.at and not self.at.startswith(S3)

    def below(self, folder: Path) -> Self:
        """Return a copy whose relative path is resolved against a folder."""
        return self.model_copy(update={"at": below(folder, self.at)})


class Source(Place):
    """A table that each run reads once, into a copy in the party's home folder.

    Attributes:
        at: A CSV file (also gzipped), a pattern such as ``days/*.parquet``, an ``s3://`` URL of a
            file or pattern, or a database's URL.
        query: The database query.
        separator: Column separator of a CSV file.
        decimal: Decimal sign of a CSV file.
        thousands: Thousands separator of a CSV file; default: none.
        dates: Date format of a CSV file, as for Python's `strptime`, such as ``%d.%m.%Y``; ISO
            dates are always understood.
        encoding: Text encoding of a CSV file.
        missing: Texts of a CSV file that mean a missing value.
    """

    query: str | None = None
    separator: str = Field(default=",", min_length=1, max_length=1)
    decimal: Literal[".", ","] = "."
    thousands: Literal["", ".", ",", "'", " "] = ""
    dates: str = ""
    encoding: str = "utf-8"
    missing: tuple[str, ...] = MISSING

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.separator in '"\r\n':
            raise ValueError("separator must not be a quote or the end of a line: for example ';'")
        if self.dates and not _is_date_form(self.dates):
            raise ValueError("dates must name day, month and year: for example '%d.%m.%Y'")
        if not _is_encoding(self.encoding):
            raise ValueError(f"the encoding {self.encoding} is not known: for example cp1252")
        if self.thousands == self.decimal:
            raise ValueError("thousands and decimal are the same sign: for example thousands: '.'")
        if "**" in self.at and not self.is_database:
            raise ValueError("** is not supported: write * for each level of folders")
        if not self.at.startswith(ENVIRONMENT):
            if self.is_database and not self.query:
                raise ValueError("query is required: the SELECT that reads the table")
            if self.query and not self.is_database:
                raise ValueError("query is only for a database's URL")
        return self


class Sink(Place):
    """An additional destination of scores, besides the label holder's folder of scores.

    Attributes:
        at: A folder, an ``s3://`` URL of one, or a database's URL.
        format: File format.
        table: Table of a database; created if it does not exist.
    """

    format: Literal["parquet", "csv"] = "parquet"
    table: str | None = Field(
        default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$"
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if not self.at.startswith(ENVIRONMENT):
            if self.is_database and not self.table:
                raise ValueError("table is required: the database table to write")
            if self.table and not self.is_database:
                raise ValueError("table is only for a database's URL")
        return self


def source_or_path(value: Any) -> Any:
    """Convert a table's entry in ``site.yaml`` to a source, unless it is a local Parquet path."""
    if isinstance(value, str) and is_source(value):
        return {"at": value}
    if isinstance(value, Mapping) and set(value) == {"at"} and not is_source(str(value["at"])):
        return value["at"]
    return value
