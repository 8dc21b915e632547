"""The same private inputs, written in another way: nothing that leaves may depend on it."""

import json
import os
import shutil
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from opboost_ops.exchange.party_state import open_state
from opboost_ops.mechanisms import noise
from opboost_ops.privacy.ledger.checkpoints import Checkpoint
from opboost_ops.privacy.ledger.entries import LedgerEntry
from tests.federation import Workspace
from tests.party_state import forget

#: A column of every table that no file declares.
UNDECLARED = "remark"

#: The rewriting of rows of the label holder's that no feature holder's row is opened for. A feature
#: holder releases its whole table, whichever party else has its people.
STRANGERS = "rows of people nobody shares"

Rewriting = Callable[[Workspace, str], None]
Change = Callable[[pl.DataFrame], pl.DataFrame]


def undeclared(table: pl.DataFrame, seed: int = 0) -> pl.DataFrame:
    """The table with a column that nobody declares."""
    drawn = np.random.default_rng(seed).integers(0, 1000, table.height)
    return table.with_columns(pl.Series(UNDECLARED, [f"remark {i}" for i in drawn]))


def tables(workspace: Workspace, party: str) -> list[Path]:
    """The training table and that of new rows, wherever they are: files or folders."""
    found = workspace.site(party).tables
    (one,) = found.values()
    return [path for path in (one.train, one.score) if path is not None and path.exists()]


def files_of(path: Path) -> list[Path]:
    """The files of a table, in their order."""
    return sorted(path.glob("*.parquet")) if path.is_dir() else [path]


def read(path: Path) -> pl.DataFrame:
    """A table, of however many files."""
    return pl.concat([pl.read_parquet(file) for file in files_of(path)])


def write(path: Path, table: pl.DataFrame, **options: object) -> None:
    """Write a table where it was: into one file, or into as many as there were."""
    files = files_of(path)
    ends = np.linspace(0, table.height, len(files) + 1).astype(int)
    for file, begin, end in zip(files, ends[:-1], ends[1:], strict=True):
        table[begin:end].write_parquet(file, **options)  # type: ignore[arg-type]


def _each(change: Change, **options: object) -> Rewriting:
    def rewrite(workspace: Workspace, party: str) -> None:
        for path in tables(workspace, party):
            write(path, change(read(path)), **options)

    return rewrite


def _more_columns(table: pl.DataFrame) -> pl.DataFrame:
    names = [f"name of {i}" for i in range(table.height)]
    return table.with_columns(
        pl.Series("an_enum", names, dtype=pl.Enum(names)),
        pl.Series("a_list", [[name] for name in names]),
        pl.Series("a_struct", [{"of": name} for name in names]),
        pl.Series("a_decimal", [Decimal(i) / 8 for i in range(table.height)]),
        pl.Series("bytes", [name.encode() for name in names]),
        pl.lit(date(2026, 1, 1)).alias("a_date"),
        pl.lit(None).alias("nothing"),
    )


def _other_remarks(table: pl.DataFrame) -> pl.DataFrame:
    return table.with_columns(pl.int_range(table.height).alias(UNDECLARED))


def _other_dictionary(workspace: Workspace, party: str) -> None:
    """Texts as codes of a dictionary, which has them in another order, and some that are unused."""

    def coded(values: pl.Series) -> pa.Array:
        names = ["unused", *sorted(values.drop_nulls().unique(), reverse=True)]
        code = {name: i for i, name in enumerate(names)}
        codes = pa.array([None if v is None else code[v] for v in values.to_list()], pa.int32())
        return pa.DictionaryArray.from_arrays(codes, pa.array(names))

    def written(file: Path) -> None:
        table = pl.read_parquet(file)
        for name, kind in table.schema.items():
            if isinstance(kind, pl.Enum):
                texts = table.get_column(name).cast(pl.String)
                found = ["unused", *reversed(kind.categories.to_list())]
                table = table.with_columns(texts.cast(pl.Enum(found)))
        arrow = table.to_arrow()
        for at, name in enumerate(table.columns):
            if table.schema[name] == pl.String:
                arrow = arrow.set_column(at, name, coded(table.get_column(name)))
        pq.write_table(arrow, file)

    for path in tables(workspace, party):
        for file in files_of(path):
            written(file)


def _other_widths(table: pl.DataFrame) -> pl.DataFrame:
    """Whole numbers as the smallest integers, single ones as numbers with a point."""
    whole = [name for name, kind in table.schema.items() if kind.is_integer()]
    columns = [table.get_column(name) for name in whole]
    return table.with_columns(
        column.cast(pl.Float64) if i % 2 else column.shrink_dtype()
        for i, column in enumerate(columns)
    )


def _by_another_writer(workspace: Workspace, party: str) -> None:
    def written(path: Path) -> None:
        table = pl.read_parquet(path).to_arrow()
        table = table.replace_schema_metadata({"pandas": json.dumps({"index_columns": ["id"]})})
        texts = [f.name for f in table.schema if pa.types.is_large_string(f.type)]
        for name in texts:
            at = table.column_names.index(name)
            table = table.set_column(at, name, table.column(name).cast(pa.string()))
        pq.write_table(
            table, path, compression="gzip", use_dictionary=False, data_page_version="2.0",
            write_statistics=False, row_group_size=53,
        )  # fmt: skip

    for path in tables(workspace, party):
        for file in files_of(path):
            written(file)


def _several_files(workspace: Workspace, party: str) -> None:
    for path in tables(workspace, party):
        if path.is_dir():
            for number, file in enumerate(sorted(path.glob("*.parquet"), reverse=True)):
                file.rename(path / f"{number} renamed {file.name}")
            continue
        whole = read(path)
        path.unlink()
        path.mkdir()
        for name, part in (("z", whole[:1]), ("of income 5000", whole[1:90]), ("a", whole[90:])):
            part.write_parquet(path / f"{name}.parquet")


def _elsewhere(workspace: Workspace, party: str) -> None:
    """At another place, at another time, with other rights."""

    def change(site: dict[str, dict[str, dict[str, str]]]) -> None:
        (name,) = site["tables"]
        for purpose, at in list(site["tables"][name].items()):
            old = workspace.folder / party / at
            new = old.with_name(f"kept for {purpose}{old.suffix}")
            if old.exists():
                shutil.move(old, new)
                for file in [new, *new.glob("*")]:
                    os.utime(file, (1, 1))
            site["tables"][name][purpose] = str(new.relative_to(workspace.folder / party))

    workspace.edit_yaml(f"{party}/site.yaml", change)


def _people_nobody_shares(workspace: Workspace, party: str) -> None:
    """Of the label holder's people whom not all parties have: values permuted among them."""
    federation = workspace.declared
    if party != federation.label_holder:
        return
    for number, path in enumerate(tables(workspace, party)):
        others = [read(tables(workspace, p)[number]) for p in federation.parties if p != party]
        own = read(path)
        key = federation.id.column
        shared = set(own.get_column(key)).intersection(*(set(t.get_column(key)) for t in others))
        alone = own.filter(~pl.col(key).is_in(list(shared)))
        if alone.height < 2:
            continue
        moved = alone.select(
            pl.col(name) if name == key else pl.col(name).gather(_turned(alone.height))
            for name in alone.columns
        )
        write(path, own.update(moved, on=key, how="left", include_nulls=True))


def _turned(rows: int) -> pl.Series:
    return pl.Series(np.roll(np.arange(rows), 1))


def _other_federations(workspace: Workspace, party: str) -> None:
    """The party has a ledger, homes and models of another federation, and has looked at tables."""
    site = workspace.site(party)
    line = LedgerEntry(
        federation="elsewhere", run="f" * 16, party=party, receiver="other", kind="ranks",
        artifact="ab" * 32, account="exact", rows=12345, discloses="something of another matter",
    )  # fmt: skip
    with open_state(site) as state:
        state.ledger.reserve([line])
        state.ledger.commit(line.artifact)
        state.audit.add("sent", "elsewhere/run/ranks/x", "other", "ab" * 32)
        key = noise.checkpoint_key(site.read_secret(), "elsewhere", "a")
        for number in range(7):
            # Towards the same receiver, too: numbers and heads are of one federation alone.
            run = f"{number:016x}"
            state.checkpoints.take(key, "elsewhere", "a", run, ("ranks",), {})
            other = Checkpoint(number=number + 1, head="0" * 64)
            state.checkpoints.receive("elsewhere", "a", party, other)
    folder = site.home / "elsewhere" / ("f" * 16)
    folder.mkdir(parents=True)
    (folder / "table.json").write_text(json.dumps({"sha256": "00", "rows": 12345}))
    kept = site.home / workspace.declared.name
    kept.mkdir(parents=True, exist_ok=True)
    (kept / "table_version.json").write_text(json.dumps({"fingerprint": "00", "look": "before"}))


def _others_forgotten(workspace: Workspace, party: str) -> None:
    site = workspace.site(party)
    forget(site, "nobody whom a table has")


REWRITINGS: dict[str, Rewriting] = {
    "rows permuted": _each(lambda table: table.sample(fraction=1, shuffle=True, seed=11)),
    "rows sorted by a private column": _each(lambda table: table.sort(table.columns[2])),
    "undeclared columns added": _each(_more_columns),
    "undeclared columns changed": _each(_other_remarks),
    "columns in another order": _each(lambda table: table.select(reversed(table.columns))),
    "other row groups": _each(lambda table: table, row_group_size=7),
    "other compression": _each(lambda table: table, compression="uncompressed"),
    "another writer": _by_another_writer,
    "another dictionary": _other_dictionary,
    "other widths of numbers": _each(_other_widths),
    "several files": _several_files,
    "another place and time": _elsewhere,
    STRANGERS: _people_nobody_shares,
    "other federations": _other_federations,
    "others forgotten": _others_forgotten,
}

#: In an order in which each still does what it says.
TOGETHER = (
    "other federations", "others forgotten", STRANGERS, "rows permuted",
    "undeclared columns changed", "undeclared columns added", "columns in another order",
    "other widths of numbers", "several files", "another dictionary", "another place and time",
)  # fmt: skip
