"""Where a party's table is read from, and where its scores go, if that is no local Parquet file."""

import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from opboost_ops.config.schema import Record
from opboost_ops.errors import ConfigError

#: How a value names an environment variable that holds it.
ENVIRONMENT = "env:"

S3 = "s3://"

#: Endings of files that are text, one row per line.
_TEXT = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")

#: What stands for no value in such files, as statistics programs write it.
MISSING = ("", "NA", "N/A", "NaN", "nan", "NULL", "null", "?")


def is_text(name: str) -> bool:
    """True if a file is read as CSV, by its name.

    Args:
        name: Of a file.
    """
    return name.lower().endswith(_TEXT)


def is_source(at: str) -> bool:
    """True if a site's entry is read once per run, and not used where it lies.

    Args:
        at: A path or a URL.
    """
    elsewhere = "://" in at or at.startswith(ENVIRONMENT)
    return elsewhere or is_text(at) or any(mark in at for mark in "*?[")


def resolved(what: str, value: str) -> str:
    """A value, or what the environment variable holds that it names by ``env:``.

    Args:
        what: The entry, for the error.
        value: Of an entry.

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
    """A path or URL, its relative path begun at a folder.

    Args:
        folder: Where it begins.
        at: As an entry has it.
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
        at: Which. A password belongs into an environment variable.
    """

    at: str = Field(min_length=1)

    def url(self) -> str:
        """The path or URL itself.

        Raises:
            ConfigError: The environment variable that should hold it is not set.
        """
        return resolved("tables", self.at)

    @property
    def is_database(self) -> bool:
        """True if it is a database's URL, as far as is known here."""
        return "://" in self.at and not self.at.startswith(S3)

    def below(self, folder: Path) -> Self:
        """The same, with a relative path begun at a folder.

        Args:
            folder: Where it begins.
        """
        return self.model_copy(update={"at": below(folder, self.at)})


class Source(Place):
    """A table that each run reads once, into a copy in the party's home.

    Attributes:
        at: A CSV file (also gzipped), a pattern such as ``days/*.parquet``, an ``s3://`` URL of a
            file or pattern, or a database's URL.
        query: The database query.
        separator: Of a CSV file's columns.
        decimal: The sign before a CSV file's decimals.
        thousands: The sign between a CSV file's thousands; none when absent.
        dates: How a CSV file writes dates, as Python's `strptime` names it, such as ``%d.%m.%Y``;
            ISO dates are always understood.
        encoding: Of a CSV file's text.
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
            raise ValueError("separator is a quote or the end of a line: for example ';'")
        if self.dates and not _is_date_form(self.dates):
            raise ValueError("dates names no day, month and year: for example '%d.%m.%Y'")
        if not _is_encoding(self.encoding):
            raise ValueError(f"the encoding {self.encoding} is not known: for example cp1252")
        if self.thousands == self.decimal:
            raise ValueError("thousands and decimal are the same sign: for example thousands: '.'")
        if "**" in self.at and not self.is_database:
            raise ValueError("** names no folders: name those of one depth by *")
        if not self.at.startswith(ENVIRONMENT):
            if self.is_database and not self.query:
                raise ValueError("query is required: the SELECT that reads the table")
            if self.query and not self.is_database:
                raise ValueError("query is only for a database's URL")
        return self


class Sink(Place):
    """Where scores go besides the label holder's folder of scores.

    Attributes:
        at: A folder, an ``s3://`` URL of one, or a database's URL.
        format: Of files.
        table: Of a database; created if absent.
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
    """A site's entry of a table: a source where it is no local Parquet file, else a path.

    Args:
        value: As read from YAML.
    """
    if isinstance(value, str) and is_source(value):
        return {"at": value}
    if isinstance(value, Mapping) and set(value) == {"at"} and not is_source(str(value["at"])):
        return value["at"]
    return value
