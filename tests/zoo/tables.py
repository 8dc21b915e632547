"""Small odd tables after public facts about formats, each with its one meaning or one refusal."""

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

#: Columns of every table of numbers here: an ID and a value.
HEAD = "id,x\n"


@dataclass(frozen=True)
class Odd:
    """A CSV file and its meaning.

    Attributes:
        name: Of the case.
        content: The file.
        meaning: Values of column ``x`` by ID order; a text is what the refusal says; None where the
            column is left out.
        kind: How ``x`` is declared, if it is.
        dialect: As declared.
        ending: Of the file's name.
    """

    name: str
    content: bytes
    meaning: Any
    kind: str | None = None
    dialect: dict[str, Any] = field(default_factory=dict)
    ending: str = "csv"


def _column(name: str, cells: list[str], meaning: Any, kind: str | None = None, **d: Any) -> Odd:
    sign = d.get("separator", ";")
    lines = [f"id{sign}x", *(f"p{i}{sign}{cell}" for i, cell in enumerate(cells))]
    return Odd(name, "\n".join(lines).encode(), meaning, kind, {"separator": sign, **d})


def numbers() -> Iterator[Odd]:
    """Numbers as countries and programs write them."""
    several = "numbers could be read in several ways"
    for kind in (None, "number"):
        told = f"{several}" if kind else "left as text"
        yield _column(f"whole {kind}", ["1", "-2", "+3"], [1, -2, 3], kind)
        yield _column(f"decimal point {kind}", ["1.5", ".5", "2."], [1.5, 0.5, 2.0], kind)
        yield _column(f"power {kind}", ["1e3", "2E-1"], [1000.0, 0.2], kind)
        yield _column(f"blanks {kind}", [" 1 ", "2\u00a0"], [1, 2], kind)
        yield _column(f"decimal comma {kind}", ["1,5", "2,25"], [1.5, 2.25], kind, decimal=",")
        yield _column(f"comma undeclared {kind}", ["1,5", "2,25"], told, kind, decimal=".")
        yield _column(f"point beside commas {kind}", ["31.848", "1.250"], told, kind, decimal=",")
        yield _column(f"comma thousands {kind}", ["1,500", "2,250"], told, kind, decimal=".")
        yield _column(f"blank thousands {kind}", ["1 500", "2 250"], told, kind)
        yield _column(f"apostrophe thousands {kind}", ["1'500", "2'250"], told, kind)
        for sign in (".", "'", " "):
            cells = [f"1{sign}500", f"2{sign}250{sign}000", "7"]
            meaning = [1500, 2250000, 7]
            dialect = {"decimal": ",", "thousands": sign}
            yield _column(f"thousands {sign} {kind}", cells, meaning, kind, **dialect)
        narrow = ["1\u202f500", "2\u00a0250"]
        yield _column(f"narrow blanks {kind}", narrow, [1500, 2250], kind, thousands=" ")
        crooked = ["1.50", "2.250"]
        dialect = {"decimal": ",", "thousands": "."}
        yield _column(f"crooked thousands {kind}", crooked, told, kind, **dialect)
        yield _column(f"truth {kind}", ["TRUE", "False"], [True, False], kind)
    yield _column("codes", ["01067", "10115"], ["01067", "10115"])
    yield _column("codes as numbers", ["01067", "10115"], [1067, 10115], "number")
    yield _column("numbers as text", ["1", "2.0"], ["1", "2.0"], "text")
    yield _column("no value", ["", ""], [None, None], "number")
    yield _column("words for no value", ["NA", "null", "3"], [None, None, 3], "number")
    yield _column("a word among numbers", ["1", "unknown"], ["1", "unknown"])


def dates() -> Iterator[Odd]:
    """Dates as countries and programs write them."""
    days = [dt.date(2024, 3, 1), dt.date(2024, 11, 2)]
    late = [dt.date(2024, 3, 21), dt.date(2024, 11, 2)]
    for kind in (None, "date"):
        several = "dates could be read in several ways" if kind else "left as text"
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
        us, short = {"dates": "%m/%d/%Y"}, {"dates": "%d.%m.%y"}
        yield _column(f"declared us {kind}", ["03/01/2024", "11/02/2024"], days, kind, **us)
        yield _column(f"declared short {kind}", ["01.03.24", "2.11.24"], days, kind, **short)
        yield _column(f"declared, but short {kind}", ["03/01/24", "11/02/24"], several, kind, **us)
        yield _column(f"iso beside declared {kind}", ["2024-03-01", "2024-11-02"], days, kind, **us)
    moments = [dt.datetime(2024, 3, 1, 12), dt.datetime(2024, 11, 2, 0, 30)]
    yield _column("moments", ["2024-03-01 12:00", "2024-11-02 00:30"], moments)
    yield _column("moments with T", ["2024-03-01T12:00:00", "2024-11-02T00:30:00.0"], moments)
    yield _column("times", ["12:00", "00:30"], [dt.time(12), dt.time(0, 30)])
    yield _column("no such day", ["31.02.2024", "1.3.2024"], "left as text")


def files() -> Iterator[Odd]:
    """Files as spreadsheets and programs write them."""
    plain = "id,x\np0,1\np1,2\n"
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        yield Odd(f"in {encoding}", plain.encode(encoding), [1, 2])
    for encoding in ("cp1252", "cp1250", "cp1251", "latin-1", "shift_jis", "utf-16-le"):
        word = {"cp1251": "Жук", "shift_jis": "猫"}.get(encoding, "für")
        text = f"id,x\np0,{word}\n".encode(encoding)
        yield Odd(f"declared {encoding}", text, [word], dialect={"encoding": encoding})
        yield Odd(f"undeclared {encoding}", text, "is not encoded in utf-8")
    for name, end in (("unix", "\n"), ("windows", "\r\n"), ("old mac", "\r")):
        yield Odd(f"lines of {name}", plain.replace("\n", end).encode(), [1, 2])
    yield Odd("no last end of line", plain.rstrip().encode(), [1, 2])
    yield Odd("blank lines", f"{plain}\n,\n\n".encode(), [1, 2])
    yield Odd("tabs", plain.replace(",", "\t").encode(), [1, 2], ending="tsv")
    yield Odd("quotes", b'id,x\n"p0","1"\n"p1","2"\n', [1, 2])
    yield Odd("a quoted end of line", b'id,x\np0,"a\nb"\np1,"c ""d"""\n', ["a\nb", 'c "d"'])
    yield Odd("an open quote", b'id,x\np0,"1\np1,2\n', "cannot be read as site.yaml says")
    yield Odd("a short line", b"id,x,y\np0,1\np1,2,3\n", "cannot be read as site.yaml says")
    yield Odd("a long line", b"id,x\np0,1,2\n", "cannot be read as site.yaml says")
    yield Odd("a name twice", b"id,x,x\np0,1,2\n", "share names")
    yield Odd("a name twice but for blanks", b"id,x, x \np0,1,2\n", "share names")
    yield Odd("names by case", b"id,x,X\np0,1,2\n", [1])
    yield Odd("unnamed columns", b",id,x,\n0,p0,1,\n1,p1,2,\n", [1, 2])
    yield Odd("blanks around names", b" id , x \np0,1\np1,2\n", [1, 2])
    yield Odd("other columns first", b"y,x,id\n9,1,p0\n8,2,p1\n", [1, 2])
    yield Odd("empty", b"", "has no head")
    yield Odd("a head alone", b"id,x\n", [])
    yield Odd("one row", b"id,x\np0,1\n", [1])
    yield Odd("no text", b"PAR1\x00\x01\x02\xff", "is not encoded in utf-8")
    yield Odd("zero bytes", b"id,x\np0,1\x00\n", "is not encoded in utf-8")
    for name, word in (
        ("accents", "é"), ("kana", "かな"), ("right to left", "אב"), ("emoji", "🦜"),
        ("joined emoji", "👩\u200d🔬"), ("zero width", "a\u200bb"), ("combining", "e\u0301"),
        ("ligature", "ﬁ"), ("full width", "\uff21"), ("private use", "\ue000"), ("digits", "٣"),
    ):  # fmt: skip
        yield Odd(f"{name} in a cell", f"id,x\np0,{word}\n".encode(), [word])


ALL = [*numbers(), *dates(), *files()]
