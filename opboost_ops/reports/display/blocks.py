"""Blocks of pages and documents: notes, facts, tables and charts, as plain data."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

from markupsafe import Markup
from rich.filesize import decimal

#: Display state; always expressed in words as well, never by colour alone.
State = Literal["", "good", "bad", "warn", "muted"]

Value = str | int | float | None


@dataclass(frozen=True)
class Cell:
    """A table cell.

    Attributes:
        text: Displayed text.
        value: Value in the table's CSV; the text when None.
        state: Shown as a badge if not empty.
        href: Link target within these pages.
        share: Between 0 and 1, shown as a bar below the text.
        limited: True if a full bar means that a limit is reached.
        title: Tooltip, for abbreviated text.
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
        """True if it is right-aligned as a number."""
        return isinstance(self.value, int | float) and not isinstance(self.value, bool)

    @property
    def plain(self) -> Value:
        """Value in the CSV."""
        return self.text if self.value is None else self.value


#: A row of a table: cells, or plain values as in `cell`.
Row = Sequence[Cell | Value]


@dataclass(frozen=True)
class Pager:
    """Position in a paginated list.

    Attributes:
        page: Current page, from 1.
        pages: Number of pages.
        field: Query field with the page number.
    """

    page: int
    pages: int
    field: str = "page"


@dataclass(frozen=True)
class Table:
    """A table; its name is also that of its CSV file."""

    kind: ClassVar[str] = "table"
    name: str
    title: str
    columns: Sequence[str]
    values: Sequence[Row]
    note: str = ""
    empty: str = "Nothing yet."
    pager: Pager | None = None
    #: Names and values above the head in the CSV.
    preamble: tuple[tuple[str, str], ...] = ()
    #: Name of its federation, if a page has a table with this title for each.
    federation: str = ""
    #: Columns that are shown once above the table if all rows have the same value.
    once: tuple[str, ...] = ()

    def named(self, party: str) -> str:
        """Return a title that is unique outside its page.

        Args:
            party: The party whose section it is in; may be empty.
        """
        return " of ".join(filter(None, (self.title, self.federation, party)))

    @cached_property
    def rows(self) -> tuple[tuple[Cell, ...], ...]:
        """All cells."""
        return tuple(tuple(map(cell, row)) for row in self.values)

    @cached_property
    def shown(self) -> tuple[int, ...]:
        """Indices of the displayed columns, without uninformative ones; the CSV has all."""
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
        """Sentence with the values of columns that are hidden because all rows share them."""
        hidden = [at for at in range(len(self.columns)) if at not in self.shown]
        pairs = [(self.columns[at], self.rows[0][at].text) for at in hidden if self.rows]
        joined = ", ".join(f"{name} {text}" for name, text in pairs if text)
        return f"All of {joined}." if joined else ""

    @property
    def prose(self) -> bool:
        """True if its last column holds sentences, which need a wide column."""
        return any(len(row[self.shown[-1]].text) > 60 for row in self.rows)

    @property
    def words(self) -> bool:
        """True if its last column holds words that may wrap."""
        texts = (row[self.shown[-1]].text for row in self.rows)
        return any(len(text) > 24 and " " in text for text in texts)


@dataclass(frozen=True)
class Note:
    """A highlighted sentence, and its remedy.

    ``links`` are texts and targets, as in `Links`.
    """

    kind: ClassVar[str] = "note"
    state: State
    text: str
    remedy: str = ""
    lines: Sequence[str] = ()
    links: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Fact:
    """A labelled value."""

    label: str
    value: str
    hint: str = ""
    state: State = ""
    href: str = ""


@dataclass(frozen=True)
class Facts:
    """Labelled values side by side."""

    kind: ClassVar[str] = "facts"
    facts: Sequence[Fact]


@dataclass(frozen=True)
class Figure:
    """A figure with its caption."""

    svg: Markup
    caption: str


@dataclass(frozen=True)
class Figures:
    """Figures side by side, as many as fit; wide ones below each other."""

    kind: ClassVar[str] = "figures"
    title: str
    figures: Sequence[Figure]
    note: str = ""
    wide: bool = False


@dataclass(frozen=True)
class Links:
    """Links to files and pages, as texts and targets.

    A target that begins with a slash is a page of Airflow, any other is one of these pages.
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
    """Blocks that can be expanded by clicking their title."""

    kind: ClassVar[str] = "fold"
    title: str
    blocks: "Sequence[Block]"


Block = Note | Facts | Table | Figures | Links | Heading | Fold


def tables(blocks: "Iterable[Block]") -> "Iterator[Table]":
    """Yield all tables, including folded ones."""
    for block in blocks:
        if isinstance(block, Table):
            yield block
        elif isinstance(block, Fold):
            yield from tables(block.blocks)


@dataclass(frozen=True)
class Section:
    """A party's section of a page."""

    party: str
    blocks: tuple[Block, ...] = field(default=())


def cell(value: Cell | Value) -> Cell:
    """Convert a value to a cell: integers as counts, other numbers with three digits."""
    if isinstance(value, str):
        return Cell(value)
    if isinstance(value, Cell):
        return value
    return number(value) if isinstance(value, float) else count(value)


def number(value: float | None, digits: int = 3) -> Cell:
    """Format a number with some decimals; empty for None, a symbol for infinity."""
    if value is None:
        return Cell("", "")
    if value == float("inf"):
        return Cell("∞", finite(value))
    return Cell(f"{value:,.{digits}f}", float(value))


def finite(value: Any) -> Any:
    """Return a value for JSON and CSV, in which infinity is text."""
    return "inf" if value == float("inf") else value


def count(value: int | None) -> Cell:
    """Format an integer; empty for None."""
    return Cell("", "") if value is None else Cell(f"{value:,}", value)


def moment(at: str) -> Cell:
    """Format a UTC time without seconds; the CSV has the full time."""
    return Cell(at[:16].replace("T", " "), at)


def second(at: str) -> str:
    """Format a UTC time to the second."""
    return at[:19].replace("T", " ")


def size(value: int) -> Cell:
    """Format a number of bytes."""
    return Cell(decimal(value), value)
