"""Odd CSV files, after public facts about what spreadsheets and programs write."""

import datetime as dt
import gzip
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.zoo.odd import TOLD, Columns, Odd

_UNREADABLE = "cannot be parsed as site.yaml says"


def _text(columns: Columns, separator: str = ",") -> str:
    rows = zip(*columns.values(), strict=True)
    return "".join(f"{separator.join(map(str, row))}\n" for row in (columns, *rows))


def _column(name: str, cells: list[str], meaning: Any, kind: str | None = None, **d: Any) -> Odd:
    """A column of some cells, with semicolons between columns."""
    sign = d.setdefault("separator", ";")

    def lay(columns: Columns, folder: Path) -> Path:
        path = folder / "table [1].csv"
        path.write_text(_text(columns, sign), encoding="utf-8", newline="")
        return path

    return Odd(name, cells, meaning, lay, kind, d)


def _file(
    name: str,
    change: Callable[[str], str | bytes],
    meaning: Any = (1, 2),
    cells: tuple[str, ...] = ("1", "2"),
    ending: str = "csv",
    **dialect: Any,
) -> Odd:
    """A file whose text, or bytes, are changed after it is written."""

    def lay(columns: Columns, folder: Path) -> Path:
        made = change(_text(columns))
        path = folder / f"table.{ending}"
        path.write_bytes(made if isinstance(made, bytes) else made.encode())
        return path

    return Odd(name, cells, meaning, lay, None, dialect)


def numbers() -> Iterator[Odd]:
    """Numbers as countries and programs write them."""
    for kind in (None, "number"):
        told = "numbers are ambiguous" if kind else TOLD
        yield _column(f"whole {kind}", ["1", "-2", "+3"], [1, -2, 3], kind)
        yield _column(f"decimal point {kind}", ["1.5", ".5", "2."], [1.5, 0.5, 2.0], kind)
        yield _column(f"power {kind}", ["1e3", "2E-1"], [1000.0, 0.2], kind)
        yield _column(f"blanks {kind}", [" 1 ", "2\u00a0"], [1, 2], kind)
        yield _column(f"minus sign {kind}", ["\u22125", "3"], [-5, 3], kind)
        yield _column(f"decimal comma {kind}", ["1,5", "2,25"], [1.5, 2.25], kind, decimal=",")
        quoted, signs = ['"1,5"', '"2,25"'], {"separator": ",", "decimal": ","}
        yield _column(f"decimal comma in quotes {kind}", quoted, [1.5, 2.25], kind, **signs)
        yield _column(f"thousands undeclared {kind}", ["1,500", "2,250"], told, kind)
        yield _column(f"comma undeclared {kind}", ["1,5", "2,25"], told, kind, decimal=".")
        yield _column(f"point beside commas {kind}", ["31.848", "1.250"], told, kind, decimal=",")
        yield _column(f"comma thousands {kind}", ["1,500", "2,250"], told, kind, decimal=".")
        yield _column(f"blank thousands {kind}", ["1 500", "2 250"], told, kind)
        yield _column(f"apostrophe thousands {kind}", ["1'500", "2'250"], told, kind)
        for sign in (".", "'", " "):
            cells = [f"1{sign}500", f"2{sign}250{sign}000", "7"]
            dialect = {"decimal": ",", "thousands": sign}
            yield _column(f"thousands {sign} {kind}", cells, [1500, 2250000, 7], kind, **dialect)
        narrow = ["1\u202f500", "2\u00a0250"]
        yield _column(f"narrow blanks {kind}", narrow, [1500, 2250], kind, thousands=" ")
        dialect = {"decimal": ",", "thousands": "."}
        yield _column(f"crooked thousands {kind}", ["1.50", "2.250"], told, kind, **dialect)
        yield _column(f"truth {kind}", ["TRUE", "False"], [True, False], kind)
    yield _column("codes", ["01067", "10115"], ["01067", "10115"])
    yield _column("codes as numbers", ["01067", "10115"], [1067, 10115], "number")
    yield _column("numbers as text", ["1", "2.0"], ["1", "2.0"], "text")
    yield _column("no value", ["", ""], [None, None], "number")
    yield _column("words for no value", ["NA", "null", "3", "4"], [None, None, 3, 4], "number")
    yield _column("a word among numbers", ["1", "unknown"], ["1", "unknown"])
    many = [*map(str, range(30)), "unknown"]
    yield _column("a word among many numbers", many, TOLD)
    word = _column("a word, declared a number", ["1", "#N/A"], "is declared numeric", "number")
    yield replace(word, by="check")
    yield _column("percent", ["10%", "20%"], ["10%", "20%"])
    yield _column("currency", ["10 €", "20 €"], ["10 €", "20 €"])
    yield _column("beyond 64 bits", ["9" * 20, "1"], [1e20, 1.0])


def dates() -> Iterator[Odd]:
    """Dates as countries and programs write them."""
    days = [dt.date(2024, 3, 1), dt.date(2024, 11, 2)]
    late = [dt.date(2024, 3, 21), dt.date(2024, 11, 2)]
    for kind in (None, "date"):
        several = "dates are ambiguous" if kind else TOLD
        yield _column(f"iso {kind}", ["2024-03-01", "2024-11-02"], days, kind)
        yield _column(f"slashes {kind}", ["2024/03/01", "2024/11/02"], days, kind)
        yield _column(f"points {kind}", ["1.3.2024", "02.11.2024"], days, kind)
        yield _column(f"two orders {kind}", ["03/01/2024", "11/02/2024"], several, kind)
        yield _column(f"two orders, dashes {kind}", ["03-01-2024", "11-02-2024"], several, kind)
        yield _column(f"month first {kind}", ["03/21/2024", "11/02/2024"], late, kind)
        yield _column(f"day first {kind}", ["21/03/2024", "02/11/2024"], late, kind)
        yield _column(f"no order {kind}", ["21/03/2024", "11/22/2024"], several, kind)
        yield _column(f"short year {kind}", ["24.11.98", "1.2.99"], several, kind)
        yield _column(f"short year, slashes {kind}", ["24/11/98", "1/2/99"], several, kind)
        compact = ["20240301", "20241102"]
        yield _column(f"compact {kind}", compact, several, kind)
        yield _column(f"declared compact {kind}", compact, days, kind, dates="%Y%m%d")
        us, short = {"dates": "%m/%d/%Y"}, {"dates": "%d.%m.%y"}
        yield _column(f"declared us {kind}", ["03/01/2024", "11/02/2024"], days, kind, **us)
        yield _column(f"declared short {kind}", ["01.03.24", "2.11.24"], days, kind, **short)
        other = "its dates do not have the format of" if kind else TOLD
        yield _column(f"declared, but short {kind}", ["03/01/24", "11/02/24"], other, kind, **us)
        yield _column(f"iso beside declared {kind}", ["2024-03-01", "2024-11-02"], days, kind, **us)
    moments = [dt.datetime(2024, 3, 1, 12), dt.datetime(2024, 11, 2, 0, 30)]
    yield _column("moments", ["2024-03-01 12:00", "2024-11-02 00:30"], moments)
    yield _column("moments with T", ["2024-03-01T12:00:00", "2024-11-02T00:30:00.0"], moments)
    mixed = [dt.datetime(2024, 3, 1), dt.datetime(2024, 11, 2, 0, 30)]
    yield _column("days and moments", ["2024-03-01", "2024-11-02 00:30"], mixed)
    yield _column("times", ["12:00", "00:30"], [dt.time(12), dt.time(0, 30)])
    yield _column("no such day", ["31.02.2024", "1.3.2024"], TOLD)


def files() -> Iterator[Odd]:
    """Files as spreadsheets and programs write them."""
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        yield _file(f"in {encoding}", lambda text, e=encoding: text.encode(e))
    for encoding in ("cp1252", "cp1250", "cp1251", "latin-1", "shift_jis", "utf-16-le"):
        word = {"cp1251": "Жук", "shift_jis": "猫"}.get(encoding, "für")
        words, coded = (word, "b"), lambda text, e=encoding: text.encode(e)
        yield _file(f"declared {encoding}", coded, words, words, encoding=encoding)
        yield _file(f"undeclared {encoding}", coded, "is not encoded in utf-8", words)
    wide, single = {"encoding": "utf-16-le"}, {"encoding": "cp1252"}
    mark = "\ufeff"
    yield _file("a mark of utf-16-le", lambda text: (mark + text).encode("utf-16-le"), **wide)
    other = "is not encoded in cp1252"
    yield _file("a mark of utf-8, as cp1252", lambda text: (mark + text).encode(), other, **single)
    other, euro = "is not encoded in latin-1", ("€", "b")
    latin = {"encoding": "latin-1"}
    yield _file("cp1252 as latin-1", lambda text: text.encode("cp1252"), other, euro, **latin)
    yield _file("the head again, marked", lambda text: text + mark + text, "repeats its header")
    for name, end in (("windows", "\r\n"), ("old mac", "\r")):
        yield _file(f"lines of {name}", lambda text, e=end: text.replace("\n", e))
    yield _file("no last end of line", lambda text: text.rstrip())
    yield _file(
        "blank lines", lambda text: f"{text}\n{',' * text.partition(chr(10))[0].count(',')}\n\n"
    )
    yield _file("tabs", lambda text: text.replace(",", "\t"), ending="tsv")
    yield _file("TABS", lambda text: text.replace(",", "\t"), ending="TSV")
    yield _file("GZIPPED", lambda text: gzip.compress(text.encode()), ending="CSV.GZ")
    yield _file("gzipped", lambda text: gzip.compress(text.encode()), ending="csv.gz")
    yield _file("no gzip", lambda text: text, "cannot be read", ending="csv.gz")
    yield _file("quotes", lambda text: '"' + text.replace(",", '","').replace("\n", '"\n"')[:-1])
    quoted = ('"a\nb"', '"c ""d"""')
    yield _file("a quoted end of line", lambda text: text, ("a\nb", 'c "d"'), quoted)
    escaped = ('"a \\"b\\" c"', "d")
    yield _file("quotes by backslashes", lambda text: text, _UNREADABLE, escaped)
    yield _file("an open quote", lambda text: text.replace(",1\n", ',"1\n', 1), _UNREADABLE)
    yield _file("a short line", lambda text: f"{text}p9999\n", _UNREADABLE)
    yield _file("a long line", lambda text: f"{text}p9999,1,2,3\n", _UNREADABLE)
    yield _file("a name twice", lambda text: text.replace("id,x", "x,x", 1), "share names")
    blanks = "a name twice but for blanks"
    yield _file(blanks, lambda text: text.replace("id,x", " x ,x", 1), "share names")
    yield _file("a head alone", lambda text: text.partition("\n")[0] + "\n", ())
    yield _file("empty", lambda _: "", "has no header")
    yield _file("the head again", lambda text: text * 2, "repeats its header")
    yield _file("blanks around names", lambda text: text.replace("id,x", " id , x ", 1))
    yield _file("no text", lambda _: b"PAR1\x00\x01\x02\xff", "is not encoded in utf-8")
    yield _file("zero bytes", lambda text: f"{text}p9999,1\x00\n", "is not encoded in utf-8")

    def renamed(text: str) -> str:
        head, _, rest = text.partition("\n")
        return "\n".join(
            [f",{head},", *(f"{at},{line}," for at, line in enumerate(rest.splitlines()))]
        )

    yield _file("unnamed columns", renamed)
    for name, word in (
        ("accents", "é"), ("kana", "かな"), ("right to left", "אב"), ("emoji", "🦜"),
        ("joined emoji", "👩\u200d🔬"), ("zero width", "a\u200bb"), ("combining", "e\u0301"),
        ("ligature", "ﬁ"), ("full width", "\uff21"), ("private use", "\ue000"), ("digits", "٣"),
    ):  # fmt: skip
        yield _file(f"{name} in a cell", lambda text: text, (word, "b"), (word, "b"))


ALL = [*numbers(), *dates(), *files()]
