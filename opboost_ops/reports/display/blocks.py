"""Blocks of pages and documents: notes, facts, tables and charts, as plain data."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

from markupsafe import Markup
from rich.filesize import decimal

#: How something stands; it is said in words too, never by colour alone.
State = Literal["", "good", "bad", "warn", "muted"]

Value = str | int | float | None


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Attributes:
        text: For people.
        value: For programs, in the table's CSV; the text when None.
        state: Shown as a badge if not empty.
        href: Where a click leads, inside these pages.
        share: Between 0 and 1, shown as a bar below the text.
        limited: Whether a full bar is a limit that is reached.
        title: What it says when pointed at; for what the text abbreviates.
    """

    text: str
    value: Value = None
    state: State = ""
    href: str = ""
    share: float | None = None
    limited: bool = False
    title: str = ""

    @property
    def number(self) -> bool:
        """True if it is set to the right, as numbers are."""
        return isinstance(self.value, int | float) and not isinstance(self.value, bool)

    @property
    def plain(self) -> Value:
        """Its value in the CSV."""
        return self.text if self.value is None else self.value


#: A row of a table: cells, or plain values, see `cell`.
Row = Sequence[Cell | Value]


@dataclass(frozen=True)
class Pager:
    """Where in a longer list a page stands.

    Attributes:
        page: Counted from 1.
        pages: How many there are.
        field: Which field of the address turns this list's pages.
    """

    page: int
    pages: int
    field: str = "page"


@dataclass(frozen=True)
class Table:
    """A table; its name is that of its CSV file."""

    kind: ClassVar[str] = "table"
    name: str
    title: str
    columns: Sequence[str]
    values: Sequence[Row]
    note: str = ""
    empty: str = "Nothing yet."
    pager: Pager | None = None
    #: Names and values that stand above the head in its CSV.
    preamble: tuple[tuple[str, str], ...] = ()
    #: Of which federation it is, where a page has one of its title for each.
    federation: str = ""

    def named(self, party: str) -> str:
        """Its name apart from its page, where titles alone would be the same.

        Args:
            party: Whose part of the page it is in; empty for none.
        """
        return " of ".join(filter(None, (self.title, self.federation, party)))

    #: Columns that are said once above the table where all its rows say the same.
    once: tuple[str, ...] = ()

    @cached_property
    def rows(self) -> tuple[tuple[Cell, ...], ...]:
        """Its cells."""
        return tuple(tuple(map(cell, row)) for row in self.values)

    @cached_property
    def shown(self) -> tuple[int, ...]:
        """The columns that have something to tell row by row; its CSV has all."""
        if not self.rows:
            return tuple(range(len(self.columns)))
        informative = []
        for at, name in enumerate(self.columns):
            texts = {row[at].text for row in self.rows}
            if len(texts) > 1 or (name not in self.once and texts != {""}):
                informative.append(at)
        return tuple(informative) or tuple(range(len(self.columns)))

    @property
    def said_once(self) -> str:
        """Values that all rows share in the columns that are left out for it."""
        hidden = [at for at in range(len(self.columns)) if at not in self.shown]
        pairs = [(self.columns[at], self.rows[0][at].text) for at in hidden if self.rows]
        joined = ", ".join(f"{name} {text}" for name, text in pairs if text)
        return f"All of {joined}." if joined else ""

    @property
    def prose(self) -> bool:
        """True if its last column holds sentences, which need room to be read."""
        return any(len(row[self.shown[-1]].text) > 60 for row in self.rows)

    @property
    def words(self) -> bool:
        """True if its last column holds words that may go on in the next line."""
        texts = (row[self.shown[-1]].text for row in self.rows)
        return any(len(text) > 24 and " " in text for text in texts)


@dataclass(frozen=True)
class Note:
    """A sentence that must not be overlooked, and what to do about it.

    Links are texts and where they lead, as in `Links`.
    """

    kind: ClassVar[str] = "note"
    state: State
    text: str
    remedy: str = ""
    lines: Sequence[str] = ()
    links: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Fact:
    """One figure with its name."""

    label: str
    value: str
    hint: str = ""
    state: State = ""
    href: str = ""


@dataclass(frozen=True)
class Facts:
    """Figures side by side."""

    kind: ClassVar[str] = "facts"
    facts: Sequence[Fact]


@dataclass(frozen=True)
class Figure:
    """A picture with its caption."""

    svg: Markup
    caption: str


@dataclass(frozen=True)
class Figures:
    """Pictures side by side, as many as the width allows; wide ones below each other."""

    kind: ClassVar[str] = "figures"
    title: str
    figures: Sequence[Figure]
    note: str = ""
    wide: bool = False


@dataclass(frozen=True)
class Links:
    """Links to files and pages; each a text and where it leads.

    What begins with a slash is Airflow's own page, everything else is one of these pages.
    """

    kind: ClassVar[str] = "links"
    links: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Heading:
    """A heading inside a section."""

    kind: ClassVar[str] = "heading"
    text: str


@dataclass(frozen=True)
class Fold:
    """Blocks that are shown when their title is clicked."""

    kind: ClassVar[str] = "fold"
    title: str
    blocks: "Sequence[Block]"


Block = Note | Facts | Table | Figures | Links | Heading | Fold


def tables(blocks: "Iterable[Block]") -> "Iterator[Table]":
    """All tables, those that are folded away too.

    Args:
        blocks: Of a page.
    """
    for block in blocks:
        if isinstance(block, Table):
            yield block
        elif isinstance(block, Fold):
            yield from tables(block.blocks)


@dataclass(frozen=True)
class Section:
    """A party's part of a page."""

    party: str
    blocks: tuple[Block, ...] = field(default=())


def cell(value: Cell | Value) -> Cell:
    """A value as a cell: an integer is a count, another number has three digits, None is empty."""
    if isinstance(value, str):
        return Cell(value)
    if isinstance(value, Cell):
        return value
    return number(value) if isinstance(value, float) else count(value)


def number(value: float | None, digits: int = 3) -> Cell:
    """A number to some digits after the point; an empty cell for None, a sign for infinity."""
    if value is None:
        return Cell("", "")
    if value == float("inf"):
        return Cell("∞", finite(value))
    return Cell(f"{value:,.{digits}f}", float(value))


def finite(value: Any) -> Any:
    """A value as JSON and CSV have it: infinity is a text."""
    return "inf" if value == float("inf") else value


def count(value: int | None) -> Cell:
    """A whole number; an empty cell for None."""
    return Cell("", "") if value is None else Cell(f"{value:,}", value)


def moment(at: str) -> Cell:
    """A time of day in UTC, without what nobody reads; whole in the CSV."""
    return Cell(at[:16].replace("T", " "), at)


def second(at: str) -> str:
    """A moment in UTC to the second, in words."""
    return at[:19].replace("T", " ")


def size(value: int) -> Cell:
    """Bytes for people."""
    return Cell(decimal(value), value)
