"""Public tables: from the folder ``OPBOOST_DATASETS``, else downloaded from their home.

The folder holds gzipped CSV files with a header row. Every table is known by a digest of its
parsed content, so it does not matter where its file comes from.
"""

import io
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from opboost_ops.errors import ConfigError
from opboost_ops.extras.datasets.dataset import table_digest

FOLDER = "OPBOOST_DATASETS"
_TIMEOUT = 60

#: How the tables write that a value is missing.
_MISSING = ["?", "NA"]


@dataclass(frozen=True)
class Source:
    """Where a public table is found, and how it is recognised.

    Attributes:
        file: Name of its file in the folder.
        url: Its public home; empty where it cannot be read without further tools.
        columns: Its columns, for homes whose file has no header.
        digest: Of the parsed table.
        advice: What to do by hand where there is no URL.
    """

    file: str
    url: str
    columns: tuple[str, ...]
    digest: str
    advice: str = ""


def read(source: Source) -> pl.DataFrame:
    """The table, from the folder or its home.

    Raises:
        ConfigError: It cannot be had, or is not the table that this software knows.
    """
    folder = os.environ.get(FOLDER)
    if folder:
        path = Path(folder) / source.file
        table = _from_file(path)
    else:
        table = _downloaded(source)
    table = table.select(source.columns)
    if table_digest(table) != source.digest:
        raise ConfigError(
            f"{source.file} is not the table that this software knows (its digest differs).",
            "Fetch it again from its public home.",
        )
    return table


def _downloaded(source: Source) -> pl.DataFrame:
    # Untested: written from the homes' descriptions of their files, where no network was at hand.
    # Whatever comes back must have the known digest, so a wrong guess is an error and not a table.
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "opboost"
    path = cache / source.file
    if path.is_file():
        return _from_file(path)
    advice = f"Put it as {source.file} into a folder, and name that folder in {FOLDER}."
    if not source.url:
        raise ConfigError(f"{source.file} cannot be downloaded by itself.", source.advice + advice)
    raw = b""
    try:
        with urllib.request.urlopen(source.url, timeout=_TIMEOUT) as answer:  # noqa: S310 (fixed URLs)
            raw = answer.read()
    except (urllib.error.URLError, OSError):
        pass
    if not raw:
        raise ConfigError(f"{source.url} did not answer.", advice)
    # The homes write commas with spaces, and no header; what was not tried says so in the docs.
    text = "\n".join(
        ",".join(cell.strip() for cell in line.split(","))
        for line in raw.decode("latin-1").splitlines()
        if line.strip() and not line.startswith("|")
    )
    has_header = text.partition("\n")[0].split(",")[0] in source.columns
    table = _parsed(
        lambda: pl.read_csv(
            io.StringIO(text),
            has_header=has_header,
            new_columns=None if has_header else list(source.columns),
            null_values=_MISSING,
            infer_schema_length=None,
        ),
        path,
    )
    cache.mkdir(parents=True, exist_ok=True)
    table.write_csv(path.with_suffix(""))
    import gzip

    path.write_bytes(gzip.compress(path.with_suffix("").read_bytes(), mtime=0))
    path.with_suffix("").unlink()
    return table


def _from_file(path: Path) -> pl.DataFrame:
    return _parsed(lambda: pl.read_csv(path, null_values=_MISSING, infer_schema_length=None), path)


def _parsed(parse: Callable[[], pl.DataFrame], path: Path) -> pl.DataFrame:
    try:
        return parse()
    except (pl.exceptions.PolarsError, OSError):
        pass
    raise ConfigError(
        f"{path.name} is missing, or not a CSV table.", f"Check the folder that {FOLDER} names."
    )
