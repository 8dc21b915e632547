"""Odd Parquet tables, after public facts about what old and new writers leave."""

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq

from tests.zoo.odd import TOLD, Columns, Odd

_ARRAY = Callable[[list[Any]], pa.Array]
_UNREADABLE = "truncated or not a Parquet file|is missing"


def _table(columns: Columns, make: _ARRAY = pa.array) -> pa.Table:
    return pa.table({name: (make if name == "x" else pa.array)(list(cells))
                     for name, cells in columns.items()})  # fmt: skip


def _typed(name: str, kind: Any, cells: list[Any], meaning: Any = None, **how: Any) -> Odd:
    """A column of an Arrow type, or made by a function."""
    make = kind if callable(kind) else partial(pa.array, type=kind)

    def lay(columns: Columns, folder: Path) -> Path:
        pq.write_table(_table(columns, make), folder / "table.parquet", **how)
        return folder / "table.parquet"

    return Odd(name, cells, cells if meaning is None else meaning, lay)


def _laid(
    name: str,
    write: Callable[[pa.Table, Path], Path | None],
    meaning: Any = (1, 2),
    cells: tuple[Any, ...] = (1, 2),
    **more: Any,
) -> Odd:
    """A table in one file or several, as a function writes them."""

    def lay(columns: Columns, folder: Path) -> Path:
        return write(_table(columns), folder) or folder / "table.parquet"

    return Odd(name, cells, meaning, lay, **more)


def types() -> Iterator[Odd]:
    """Every type of Arrow that Parquet holds."""
    for bits in (8, 16, 32, 64):
        yield _typed(f"int{bits}", getattr(pa, f"int{bits}")(), [1, -2, None])
        yield _typed(f"uint{bits}", getattr(pa, f"uint{bits}")(), [1, 2, None])
    yield _typed("uint64 beyond int64", pa.uint64(), [2**63, 1])
    for kind in (pa.float16(), pa.float32(), pa.float64()):
        yield _typed(str(kind), kind, [1.5, -2.0, None])
    yield _typed("NaN", pa.float64(), [1.5, float("nan"), 2.0], [1.5, None, 2.0])
    yield _typed("negative zero", pa.float64(), [-0.0, 1.0])
    yield _typed("bool", pa.bool_(), [True, False, None])
    yield _typed("null", pa.null(), [None, None])
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        yield _typed(str(kind), kind, ["a", "b", None])
    for kind in (pa.binary(), pa.large_binary(), pa.binary(2), pa.binary_view()):
        yield _typed(str(kind), kind, [b"ab", b"cd"], TOLD)
    for kind in (pa.decimal32(5, 2), pa.decimal64(12, 2), pa.decimal128(20, 2)):
        yield _typed(str(kind), kind, [Decimal("1.50"), Decimal("-2.25"), None])
    yield _typed("decimal256", pa.decimal256(30, 2), [Decimal("1.50"), Decimal("2.25"), None])
    wide = pa.decimal256(60, 2)
    yield _typed("decimal256 of 60 digits", wide, [Decimal("1.50"), None], "types that cannot be")
    days = [dt.date(2024, 3, 1), dt.date(1969, 12, 31), None]
    yield _typed("date32", pa.date32(), days)
    yield _typed("date64", pa.date64(), days)
    moments = [dt.datetime(2024, 3, 1, 12), dt.datetime(1969, 12, 31, 23, 59, 59), None]
    for unit in ("s", "ms", "us", "ns"):
        yield _typed(f"timestamp in {unit}", pa.timestamp(unit), moments)
        lengths = [dt.timedelta(hours=1), dt.timedelta(days=-2), None]
        yield _typed(f"duration in {unit}", pa.duration(unit), lengths)
    old = {"use_deprecated_int96_timestamps": True}
    yield _typed("INT96", pa.timestamp("ns"), moments, **old)
    for zone in ("UTC", "Europe/Berlin", "+02:00"):
        instants = [None if m is None else m.replace(tzinfo=dt.UTC) for m in moments]
        yield _typed(f"timestamp of {zone}", pa.timestamp("us", zone), moments, instants)
    for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")):
        yield _typed(str(kind), kind, [dt.time(12, 0, 1), dt.time(0, 30), None])
    words = ["a", "b", None]
    yield _typed("dictionary", lambda cells: pa.array(cells).dictionary_encode(), words)
    large = pa.dictionary(pa.int32(), pa.large_string())
    yield _typed("large dictionary", large, words)
    numbers = pa.dictionary(pa.int8(), pa.int64())
    yield _typed("dictionary of numbers", numbers, [1, 2, None])
    unused = pa.array(["unused", "b", "a"])

    def ordered(cells: list[Any]) -> pa.Array:
        places = [None if cell is None else unused.to_pylist().index(cell) for cell in cells]
        return pa.DictionaryArray.from_arrays(pa.array(places, pa.int8()), unused, ordered=True)

    yield _typed("ordered dictionary", ordered, words)
    yield _typed("list", pa.list_(pa.int64()), [[1], [2, 3]], TOLD)
    yield _typed("large list", pa.large_list(pa.int64()), [[1], [2, 3]], TOLD)
    views = pa.list_view(pa.int64())
    yield _typed("list view", views, [[1], [2, 3]], "types that cannot be read")
    yield _typed("fixed list", pa.list_(pa.int64(), 2), [[1, 2], [2, 3]], TOLD)
    yield _typed("struct", pa.struct({"a": pa.int64()}), [{"a": 1}, {"a": 2}], TOLD)
    yield _typed("map", pa.map_(pa.string(), pa.int64()), [[("a", 1)], [("b", 2)]], TOLD)
    yield _typed("UUID", pa.uuid(), [b"0123456789abcdef", b"0123456789abcdeg"], TOLD)
    yield _typed("JSON", pa.json_(), ['{"a":1}', "[]"])
    yield _typed("8-bit truth", pa.bool8(), [1, 0])
    yield _typed("Parquet, numbers as text", pa.string(), ["1", "2.0"])


def writers() -> Iterator[Odd]:
    """Ways of writing the same table."""
    for how in ("none", "snappy", "gzip", "brotli", "zstd", "lz4"):
        yield _typed(f"compressed by {how}", pa.int64(), [1, 2, None], compression=how)
    for version in ("1.0", "2.4", "2.6"):
        yield _typed(f"version {version}", pa.int64(), [1, 2, None], version=version)
    yield _typed("pages of version 2", pa.int64(), [1, 2, None], data_page_version="2.0")
    yield _typed("no dictionaries", pa.string(), ["a", "b", None], use_dictionary=False)
    yield _typed("row groups of a row", pa.int64(), [1, 2, None], row_group_size=1)
    yield _typed("checksums", pa.int64(), [1, 2, None], write_page_checksum=True)
    yield _typed("no Arrow schema", pa.string(), ["a", "b", None], store_schema=False)
    yield _typed("no statistics", pa.int64(), [1, 2, None], write_statistics=False)
    encodings = {
        "PLAIN": pa.int64(),
        "DELTA_BINARY_PACKED": pa.int64(),
        "BYTE_STREAM_SPLIT": pa.float64(),
    }
    for name, kind in encodings.items():
        cells = [1, 2, None] if kind == pa.int64() else [1.5, 2.5, None]
        more: Any = {"use_dictionary": False, "column_encoding": {"x": name}}
        yield _typed(f"encoded {name}", kind, cells, **more)
    for name in ("DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"):
        more = {"use_dictionary": False, "column_encoding": {"x": name}}
        yield _typed(f"encoded {name}", pa.string(), ["a", "b", None], **more)

    def by_pandas(table: pa.Table, folder: Path) -> None:
        table.to_pandas().sample(frac=1, random_state=1).to_parquet(folder / "table.parquet")

    yield _laid("pandas' row numbers", by_pandas)

    def by_polars(table: pa.Table, folder: Path) -> None:
        frame = pl.DataFrame(table).with_columns(pl.col("x").cast(pl.Int128))
        frame.write_parquet(folder / "table.parquet")

    yield _laid("128-bit integers", by_polars, TOLD)
    yield _laid("128-bit integers, declared", by_polars, "128-bit integers", kind="number")

    def as_text(table: pa.Table, folder: Path) -> None:
        texts = table.set_column(1, "x", table["x"].cast(pa.string()))
        pq.write_table(texts, folder / "table.parquet")

    of_text = "is of type String"
    yield _laid("texts, declared as numbers", as_text, of_text, kind="number", by="check")


def files() -> Iterator[Odd]:
    """Tables of several files, and files that are none."""

    def part(table: pa.Table, path: Path, **columns: Any) -> None:
        for name, cells in columns.items():
            table = table.append_column(name, pa.array([cells] * table.num_rows))
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path)

    def halves(change: Callable[[pa.Table], pa.Table], pattern: str = "") -> Any:
        def write(table: pa.Table, folder: Path) -> Path:
            half = table.num_rows // 2
            part(table[:half], folder / "days [1]/a.parquet")
            part(change(table[half:]), folder / "days [1]/b.parquet")
            return folder / "days [1]" / pattern

        return write

    def narrow(table: pa.Table) -> pa.Table:
        return table.set_column(1, "x", table["x"].cast(pa.float64()))

    def words(table: pa.Table) -> pa.Table:
        return table.set_column(1, "x", table["x"].cast(pa.string()))

    differ = "disagree on the type"
    for name, pattern in (("folder", ""), ("pattern", "*.parquet")):
        yield _laid(f"{name} of parts", halves(lambda table: table, pattern))
        reordered = halves(lambda t: t.select(t.column_names[::-1]), pattern)
        yield _laid(f"{name}, reordered", reordered)
        extra = halves(lambda t: t.append_column("extra", t["x"]), pattern)
        yield _laid(f"{name}, an extra column", extra)
        lacking = halves(lambda t: t.drop_columns(["x"]), pattern)
        yield _laid(f"{name}, a missing column", lacking, "no column x", kind="number")
        yield _laid(f"{name}, a missing column, undeclared", lacking, TOLD)
        renamed = halves(lambda t: t.rename_columns([f" {n} " for n in t.column_names]), pattern)
        yield _laid(f"{name}, blanks around names", renamed)
        yield _laid(f"{name}, an empty part", halves(lambda t: t[:0], pattern), half=True)
        yield _laid(f"{name}, wider numbers", halves(narrow, pattern))
        yield _laid(f"{name}, texts in a part", halves(words, pattern), TOLD)
        declared = f"{name}, texts in a part, declared"
        yield _laid(declared, halves(words, pattern), differ, kind="number")

    def upper(table: pa.Table, folder: Path) -> Path:
        half = table.num_rows // 2
        part(table[:half], folder / "days/a.parquet")
        part(table[half:], folder / "days/B.PARQUET")
        return folder / "days"

    yield _laid("folder, an ending in capitals", upper)

    def beside(name: str) -> Any:
        def write(table: pa.Table, folder: Path) -> Path:
            part(table, folder / "days/a.parquet")
            part(table, folder / "days" / name)
            return folder / "days"

        return write

    yield _laid("folder, a CSV file in it", beside("b.csv"), "holds CSV files or folders")
    yield _laid("folder, a folder in it", beside("day=2/b.parquet"), "holds CSV files or folders")
    yield _laid("a Delta table", beside("_delta_log/1.parquet"), "is a Delta table")

    def hidden(table: pa.Table, folder: Path) -> Path:
        part(table, folder / "days/a.parquet")
        (folder / "days/.b.parquet").write_bytes(b"half a file")
        return folder / "days"

    yield _laid("a hidden file beside it", hidden)

    def written(content: Callable[[bytes], bytes]) -> Any:
        def write(table: pa.Table, folder: Path) -> None:
            part(table, folder / "table.parquet")
            path = folder / "table.parquet"
            path.write_bytes(content(path.read_bytes()))

        return write

    yield _laid("truncated", written(lambda raw: raw[:-20]), _UNREADABLE)
    yield _laid("no bytes", written(lambda _: b""), _UNREADABLE)
    yield _laid("text under another name", written(lambda _: b"id,x\np0,1\n"), _UNREADABLE)

    def feather(table: pa.Table, folder: Path) -> None:
        pyarrow.feather.write_feather(table, folder / "table.parquet")

    yield _laid("Feather under another name", feather, _UNREADABLE)

    def empty(_: pa.Table, folder: Path) -> Path:
        (folder / "days").mkdir()
        return folder / "days"

    yield _laid("an empty folder", empty, _UNREADABLE)

    def nothing(_: pa.Table, folder: Path) -> Path:
        return folder / "table.parquet"

    yield _laid("no file", nothing, _UNREADABLE)
    for name, column in (
        ("pandas' name", "__index_level_0__"), ("pandas' second name", "level_0"),
        ("a spreadsheet's name", "Unnamed: 0"), ("Spark's name", "_c0"),
        ("a mangled second name", "x.1"), ("polars' second name", "x_duplicated_0"),
    ):  # fmt: skip

        def numbered(table: pa.Table, folder: Path, column: str = column) -> None:
            rows = pa.array(range(table.num_rows))
            pq.write_table(table.append_column(column, rows), folder / "table.parquet")

        yield _laid(name, numbered)

    def twice(name: str) -> Any:
        def write(table: pa.Table, folder: Path) -> None:
            pq.write_table(table.append_column(name, table["x"]), folder / "table.parquet")

        return write

    yield _laid("Parquet, a name twice", twice("x"), "share names")
    yield _laid("Parquet, a name twice but for blanks", twice(" x "), "share names")
    decomposed = twice("e\u0301")

    def composed(table: pa.Table, folder: Path) -> None:
        decomposed(table.append_column("\u00e9", table["x"]), folder)

    yield _laid("Parquet, a name twice but for composition", composed, "share names")
    yield _laid("names by case", twice("X"))
    yield _laid("names by composition", twice("e\u0301"))


def people() -> Iterator[Odd]:
    """IDs of every class of signs, and of every type."""

    def plain(table: pa.Table, folder: Path) -> None:
        pq.write_table(table, folder / "table.parquet")

    for name, sign in (
        ("accents", "é"), ("kana", "かな"), ("right to left", "אב"),
        ("emoji", "👩\u200d🔬"), ("zero width", "a\u200bb"), ("quotes", '"\''), ("bars", "a|b"),
        ("ends of lines", "a\nb"), ("commas", "a,b;c"), ("slashes", "../a\\b"), ("blanks", "a b"),
        ("digits", "٣"), ("zeros first", "000"), ("NA", "NA"), ("control signs", "a\x01b"),
    ):  # fmt: skip
        yield _laid(f"IDs with {name}", plain, ids=(sign + "{:04d}").format)
    apart = "e\u0301{:04d}".format
    yield _laid("IDs with combining", plain, "not in Unicode's form NFC", by="check", ids=apart)
    yield _laid("IDs of whole numbers", plain, ids=int)
    yield _laid("negative IDs", plain, ids=lambda number: -number)
    yield _laid(
        "IDs of fractions", plain, "is of type float64", by="check", ids=lambda number: number + 0.5
    )
    yield _laid("IDs of days", plain, "is of type date", by="check",
                ids=lambda number: dt.date(1990, 1, 1) + dt.timedelta(number))  # fmt: skip
    yield _laid(
        "IDs of bytes", plain, "is of type binary", by="check", ids=lambda n: f"{n}".encode()
    )
    yield _laid(
        "IDs twice",
        plain,
        "have an ID that another row has",
        by="check",
        ids=lambda n: f"p{n // 2}",
    )
    yield _laid(
        "IDs missing", plain, "have no ID", by="check", ids=lambda n: f"p{n}" if n % 5 else None
    )


ALL = [*types(), *writers(), *files(), *people()]
