"""Blocks become HTML without scripts of their own, and tables become CSV."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from opboost_ops.pages.blocks import Block, Section, Table, Value
from opboost_ops.pages.deployment import parties

_HERE = Path(__file__).resolve().parent

#: The pages of the navigation: path, title, and what they are for.
PAGES = (
    ("status", "Status", "Is each federation on, since when, and what stands in its way."),
    ("ledger", "Privacy ledger", "What each party released, what it cost, and what is left."),
    ("models", "Models", "Which version is in use, how it came to be, and on what it stands."),
    ("exchange", "Exchange", "Who sent what to whom, and whether it is what it claims to be."),
    ("quality", "Data quality", "Which checks passed, run by run."),
    ("monthly", "Month", "Is it on, what is it worth, what has it cost, and what went wrong."),
    ("statement", "Statement", "What left in a period, what it cost, and who decided what."),
)

#: How spreadsheets recognise a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class Filter:
    """A field by which a page can be narrowed.

    Attributes:
        name: Of the field, as in the address.
        label: For people.
        kind: A run's id, a day, or one of some words.
        choices: Those words.
    """

    name: str
    label: str
    kind: Literal["run", "date", "choice"]
    choices: Sequence[str] = ()


def page_html(
    *,
    base: str,
    path: str,
    title: str,
    lead: str,
    query: Mapping[str, str],
    parts: Sequence[Section],
    filters: Sequence[Filter] = (),
    back: tuple[str, str] | None = None,
    top: Sequence[Block] = (),
) -> str:
    """A whole page.

    Args:
        base: Where these pages are mounted.
        path: The page's own path below that.
        title: Its title.
        lead: One sentence below the title.
        query: What was asked for; links on the page keep it.
        parts: By party.
        filters: Fields by which the page can be narrowed.
        back: Text and path of the page above.
        top: What stands above the parties' parts.
    """

    def link(**changes: str | int | None) -> str:
        """This page with another question."""
        asked = {**query, **changes}
        given = {k: v for k, v in asked.items() if v not in (None, "")}
        return f"{base}/{path}{'?' + urlencode(given) if given else ''}"

    return (
        _environment()
        .get_template("page.html")
        .render(
            base=base,
            root=base.removesuffix("/opboost"),
            top=top,
            path=path,
            title=title,
            lead=lead,
            query=query,
            parts=parts,
            filters=filters,
            back=back,
            pages=PAGES,
            deployed=bool(parties()),
            link=link,
        )
    )


def message_html(title: str, text: str) -> str:
    """A page that says one thing and loads nothing."""
    return _environment().get_template("message.html").render(title=title, text=text)


def table_csv(table: Table) -> bytes:
    """A table for a spreadsheet; no cell of it is taken for a formula.

    Args:
        table: The table.
    """
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerows([_cell(name), _cell(value)] for name, value in table.preamble)
    writer.writerow(table.columns)
    writer.writerows([_cell(cell.plain) for cell in row] for row in table.rows)
    return text.getvalue().encode()


def static(name: str) -> bytes:
    """A file that the pages load.

    Args:
        name: Its name.
    """
    return (_HERE / "static" / name).read_bytes()


def _cell(value: Value) -> Value:
    if isinstance(value, str) and value.startswith(_FORMULA):
        return "'" + value
    return value


def _code(text: str) -> Markup:
    """Text with what stands between two backticks as a command; all of it escaped."""
    parts = [str(escape(part)) for part in text.split("`")]
    if len(parts) % 2 == 0:
        return escape(text)
    told = [f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts)]
    return Markup("".join(told))  # noqa: S704  Every part is escaped above.


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        auto_reload=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    helpers: dict[str, Any] = {
        "words": lambda text: text.replace("_", " "),
        "code": _code,
    }
    made.filters.update(helpers)
    return made
