"""Public facts about columns, from ``bounds.csv``, a table that people fill in."""

import csv
import io
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from opboost_ops.config.agreement import STANDARD
from opboost_ops.config.documents import read_yaml
from opboost_ops.errors import ConfigError, Fault, require_none
from opboost_ops.extras.datasets.workspace import dump
from opboost_ops.extras.setup.columns import mechanism_of_few
from opboost_ops.reports.display.tables import csv_text, text_of

#: Default domain of protected features in the federation file.
DOMAIN = {"lower": 1, "upper": 10}
_MOST = DOMAIN["upper"] - DOMAIN["lower"] + 1

#: The file that `opboost init` writes.
TEMPLATE = "bounds.csv"

_HEAD = ("feature", "unit", "needs", "lower", "upper", "scale", "categories", "rest", "fill",
         "values", "how")  # fmt: skip

#: Entry of ``values`` for whole numbers: one value for each from lower to upper.
_WHOLE = "whole numbers"

#: Instructions by the first entry that a line needs.
_HOW = {
    "lower": "numbers in the column's own unit",
    "categories": "all of them, between | or commas: a|b|c",
    "fill": "the value that replaces missing ones",
}
#: Numbers as programs and spreadsheets write them.
_NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"

#: Scale of private edges, which are drawn after the bounds are filled in: ``private 0.1``.
_PRIVATE = "private"

#: Entries of a feature that determine its cells, so that no edges are drawn.
_CELLS = {"scale", "domain"}

_HOW_DATES = "dates, such as 2020-01-31"


@dataclass(frozen=True)
class FilledIn:
    """The result of writing a table into an offer.

    Attributes:
        file: The offer.
        filled: Number of lines with entries.
        lines: Number of lines.
        missing: Entries that are still blank, by line: ``line 3, income: lower, upper``.
        private: Epsilons of private edges, by feature with bounds.
    """

    file: Path
    filled: int
    lines: int
    missing: tuple[str, ...] = ()
    private: Mapping[str, float] = field(default_factory=dict)


def is_wanted(table: Path, offer: Path) -> bool:
    """Return True if an offer still needs entries or private edges from a table.

    Args:
        table: The CSV table.
        offer: The ``<party>-offer.yaml``.

    Raises:
        ConfigError: The table is not valid CSV.
    """
    features = _mapping(offer).get("features") or {}
    lines = [(features.get(line.get("feature"), {}), line) for line in _lines(table)]
    return any(
        _blank(feature, line) or (_private(line) is not None and not feature.keys() & _CELLS)
        for feature, line in lines
    )


def fill_in(
    table: Path, offer: Path, before: Callable[[Mapping[str, Any], Sequence[str]], None]
) -> FilledIn:
    """Write bounds, categories and fills of a table into the party's offer.

    Args:
        table: The CSV table.
        offer: The ``<party>-offer.yaml``.
        before: Called before the offer is written, with its new features and the names of those
            whose domain has changed to their number of values.

    Raises:
        ConfigError: Lists all faults of the table; nothing was written.
    """
    data = _mapping(offer)
    lines = _lines(table)
    faults: list[Fault] = []
    filled, missing, few = 0, [], []
    private: dict[str, float] = {}
    first: dict[str, int] = {}
    for number, line in enumerate(lines, start=2):
        if not any(line.values()):
            continue  # Spreadsheets leave empty lines.
        feature = (data.get("features") or {}).get(line.get("feature"))
        place = f"line {number}, {line.get('feature')}"
        if (other := first.setdefault(line.get("feature", ""), number)) != number:
            faults.append(Fault(place, f"line {other} has the same feature", "keep one of them"))
            continue
        if not isinstance(feature, dict):
            faults.append(Fault(place, f"is not a feature of {offer.name}"))
            continue
        change, problems = _change(feature, line)
        faults += [Fault(place, problem, suggestion) for problem, suggestion in problems]
        epsilon = _private(line)
        if epsilon is not None and math.isnan(epsilon):
            faults.append(Fault(place, "scale private has no epsilon", "write, say, private 0.1"))
        if line.get("values") and not problems and _is_of_few(feature) and "domain" not in change:
            few_values = "its domain has fewer values than the line states"
            faults.append(Fault(place, few_values, "correct the line, or clear values to keep it"))
        if change.get("domain", feature.get("domain")) != feature.get("domain"):
            few.append(line["feature"])
        feature |= change
        filled += bool(change)
        if "domain" not in feature and epsilon is not None and feature.get("bounds") is not None:
            private[line["feature"]] = epsilon
        if blank := [] if problems else _blank(feature, line):
            missing.append(f"{place}: {', '.join(blank)}")
    require_none(faults, table.name, "Nothing was written.")
    before(data.get("features") or {}, few)
    dump(offer, data)
    return FilledIn(offer, filled, len(lines), tuple(missing), private)


def write_template(
    path: Path,
    blanks: Mapping[str, Sequence[str]],
    data: Any,
    private: float | None = None,
    whole: Collection[str] = (),
) -> int:
    """Write a table with a line for each feature with blank entries.

    Args:
        path: Path of the table.
        blanks: Blank entries, by feature.
        data: Content of the offer.
        private: Epsilon of private edges of numbers; if None, the scale is left blank.
        whole: Features of whole numbers.

    Returns:
        Number of lines; if 0, no file is written.
    """
    units = {name: data["features"][name].get("unit", "") for name in blanks}
    rows = [
        [
            name,
            units[name],
            " ".join(needs),
            *["", ""],
            f"{_PRIVATE} {private:g}" if private is not None and "lower" in needs else "",
            *[""] * 3,
            _WHOLE if name in whole and "lower" in needs else "",
            _HOW_DATES if units[name] == "days" and needs[0] == "lower" else _HOW[needs[0]],
        ]
        for name, needs in blanks.items()
    ]
    if rows:
        path.write_text(csv_text(_HEAD, rows), encoding="utf-8", newline="")
    return len(rows)


def _mapping(offer: Path) -> dict[str, Any]:
    data = read_yaml(offer)
    if isinstance(data, dict):
        return data
    raise ConfigError(f"{offer.name} is not an offer.", "`opboost init` writes one.")


def _lines(path: Path) -> list[dict[str, str]]:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(
            f"{path.name} is not encoded in UTF-8.",
            "Save it again as CSV UTF-8. Nothing was written.",
        ) from None
    except OSError:
        text = ""
    # Spreadsheets of some countries separate by semicolons.
    separator = ";" if text.partition("\n")[0].count(";") > 1 else ","
    try:
        lines = list(csv.DictReader(io.StringIO(text, newline=""), delimiter=separator))
    except csv.Error:
        lines = []
    if not lines or "feature" not in lines[0]:
        raise ConfigError(
            f"{path.name} is missing, or not a CSV table with the columns {', '.join(_HEAD)}.",
            "`opboost init` writes one.",
        )
    wide = [f"line {at}" for at, line in enumerate(lines, start=2) if None in line]
    if wide:
        raise ConfigError(
            f"{path.name}: {', '.join(wide)} has more cells than the header.",
            "Put | between categories (a|b|c), or quotes around them. Nothing was written.",
        )
    entries = [{k: text_of((v or "").strip()) for k, v in line.items() if k} for line in lines]
    if separator == ";":
        _use_points(entries, path.name)
    return entries


def _use_points(lines: Sequence[dict[str, str]], name: str) -> None:
    """Convert decimal commas to points; spreadsheets that separate by semicolons use commas."""
    faults = []
    for number, line in enumerate(lines, start=2):
        for key in ("lower", "upper", "fill"):
            text = line.get(key, "")
            if re.fullmatch(r"[+-]?\d+,\d+", text):
                line[key] = text.replace(",", ".")
            elif re.fullmatch(r"[+-]?\d{1,3}(\.\d{3})+", text):
                problem = f"{key} {text} has a point before three digits"
                plain = text.replace(".", "")
                whole = text.partition(".")[0]
                faults.append(
                    Fault(f"line {number}", problem, f"write {plain} or {whole},0, as intended")
                )
    require_none(faults, name, "Nothing was written.")


def _change(
    feature: Mapping[str, Any], line: Mapping[str, str]
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return a feature's new entries from its line, and the line's faults."""
    change: dict[str, Any] = {}
    problems: list[tuple[str, str]] = []
    lower, upper, fill = (line.get(key, "") for key in ("lower", "upper", "fill"))
    dated = feature.get("unit") is not None
    if lower or upper:
        bounds = [_number(lower, dated), _number(upper, dated)]
        if None in bounds:
            example = "2020-01-31" if dated else "0 and 100"
            kind = "dates" if dated else "numbers"
            problems.append((f"lower and upper are not {kind}", f"for example {example}"))
        elif type(bounds[0]) is not type(bounds[1]):
            problems.append(("only one of lower and upper is a date", "write both as dates"))
        elif not bounds[0] < bounds[1]:
            problems.append(("lower is not less than upper", "swap them, or correct one"))
        else:
            change["bounds"] = bounds
            if values := line.get("values"):
                change |= _few(feature, values, bounds, problems)
    if line.get("scale") and _private(line) is None:
        change["scale"] = line["scale"]
    if line.get("categories"):
        separator = next((sign for sign in "|;," if sign in line["categories"]), "|")
        names = [name.strip() for name in line["categories"].split(separator)]
        change["categories"] = list(dict.fromkeys(name for name in names if name))
    if rest := line.get("rest"):
        change["rest"] = rest
        if rest not in (names := change.get("categories") or feature.get("categories") or []):
            change["categories"] = [*names, rest]
    if fill:
        value = fill if feature.get("type") in ("nominal", "ordinal") else _number(fill, dated)
        if value is None:
            problems.append(("fill is not a number", "for example 0"))
        else:
            change["missing"] = {"fill": value}
    return change, problems


def _few(
    feature: Mapping[str, Any], text: str, bounds: Sequence[Any], problems: list[tuple[str, str]]
) -> dict[str, Any]:
    """Return a smaller domain for a column with few values, and a mechanism on it."""
    if text == _WHOLE:
        dated = isinstance(bounds[0], date)
        count = 0 if dated or bounds[1] - bounds[0] > _MOST else 1 + int(bounds[1] - bounds[0])
    elif text.isdecimal() and int(text) >= 2:
        count = int(text)
    else:
        problems.append((f"values is neither a number from 2 nor {_WHOLE}", "for example 2"))
        count = 0
    if not 2 <= count < _MOST:
        return {}
    change: dict[str, Any] = {"domain": {"lower": 1, "upper": count}}
    if feature.get("mechanism", {}).get("name") == STANDARD["name"]:
        change["mechanism"] = mechanism_of_few(count)
    return change


def _is_of_few(feature: Mapping[str, Any]) -> bool:
    domain = feature.get("domain")
    return domain is not None and domain["upper"] - domain["lower"] + 1 < _MOST


def _private(line: Mapping[str, str]) -> float | None:
    """Return the epsilon of private edges; NaN if it is missing, None for other scales."""
    kind, _, number = line.get("scale", "").partition(" ")
    if kind != _PRIVATE:
        return None
    try:
        return float(number)
    except ValueError:
        return math.nan


def _blank(feature: Mapping[str, Any], line: Mapping[str, str]) -> list[str]:
    """Return the needed entries of a feature that a line leaves blank."""
    needs = line.get("needs", "").split()
    missing = {
        "lower": feature.get("bounds") is None,
        "upper": feature.get("bounds") is None,
        "categories": not feature.get("categories"),
        "fill": "missing" not in feature,
    }
    return [need for need in needs if missing.get(need)]


def _number(text: str, dated: bool) -> Any:
    """Parse a number, or a date if a unit is declared; return None if it is neither."""
    if dated and (day := _date(text)) is not None:
        return day
    if dated and re.fullmatch(r"(19|20)\d{6}", text):
        return None  # 20200131 could be a number of days.
    return float(text) if re.fullmatch(_NUMBER, text) and math.isfinite(float(text)) else None


def _date(text: str) -> date | None:
    """Parse an ISO date, or one with the day first: 31.01.2020, or 31/01/2020 if unambiguous."""
    parts = re.fullmatch(r"(\d{1,2})([./])(\d{1,2})[./](\d{4})", text)
    try:
        if parts is None:
            return date.fromisoformat(text) if text.count("-") == 2 else None
        first, sign, second, year = parts.groups()
        day, month = int(first), int(second)
        if sign == "/" and day <= 12 and month <= 12 and day != month:
            return None  # Either of them could be the month.
        if sign == "/" and month > 12:
            day, month = month, day
        return date(int(year), month, day)
    except ValueError:
        return None
