"""Running expectations on a table that is read block by block, with what the whole would give.

What is asked of each row is asked of each block's, and the counts are added up before ``mostly``
is judged. A minimum, a type or a number of different values is asked of a few rows that are
gathered from all blocks and give the same answer. What can be had in neither way (a median, say,
which only a party's own ``expectations.yaml`` asks for) is asked of the whole of its columns, and
of no others.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

import polars as pl
import pyarrow as pa

from opboost_ops.quality.cells import Cells
from opboost_ops.quality.gathering import Blocks, Expectation, gathering, is_mostly, is_text
from opboost_ops.quality.indicators import INDICATORS, Facts, in_order, needs_facts
from opboost_ops.quality.judging import verdict
from opboost_ops.quality.report import Result
from opboost_ops.quality.verdicts import Verdict
from opboost_ops.scratch.arrays import Scratch, let_go

#: Asks expectations of a table: results in the order in which they are reported, each with its
#: place among the expectations.
Ask = Callable[[Sequence[Expectation], pa.Table, Facts], list[tuple[int, Result]]]

#: Cells of a block, and the least and the most rows that it has for that. To check a block takes
#: some tenths of a second whatever its size, so blocks are as large as memory easily allows.
CELLS, FEWEST, MOST = 2**23, 2**16, 2**19

#: Asked of each row: of any column, of numbers and texts, of texts.
_OF_ANY = {"expect_column_values_to_not_be_null", "expect_column_values_to_be_null"}
_OF_VALUES = {
    "expect_column_values_to_be_between",
    "expect_column_values_to_be_in_set",
    "expect_column_values_to_not_be_in_set",
}
_OF_TEXT = {
    "expect_column_value_lengths_to_be_between",
    "expect_column_value_lengths_to_equal",
    "expect_column_values_to_match_regex",
    "expect_column_values_to_match_regex_list",
    "expect_column_values_to_not_match_regex",
    "expect_column_values_to_not_match_regex_list",
    "expect_column_values_to_match_strftime_format",
    "expect_column_values_to_be_dateutil_parseable",
    "expect_column_values_to_be_json_parseable",
}
_OF_TYPE = {"expect_column_values_to_be_in_type_list", "expect_column_values_to_be_of_type"}

#: Asked of names alone.
_OF_SCHEMA = {"expect_column_to_exist"}


def rows_of_block(columns: int) -> int:
    """How many rows a block has at most.

    Args:
        columns: How many columns it has.
    """
    return min(MOST, max(FEWEST, CELLS // max(columns, 1)))


def blocks_of(table: pa.Table) -> Blocks:
    """The blocks of a table that is there already, or mapped from its file.

    Args:
        table: The table.
    """

    def read(columns: Sequence[str]) -> Iterator[pa.Table]:
        chosen = table.select(list(columns)) if columns else table
        rows = rows_of_block(table.num_columns)
        for begin in range(0, max(chosen.num_rows, 1), rows):
            yield chosen.slice(begin, rows)
            let_go()

    return read


def ask_blocks(
    expectations: Sequence[Expectation],
    read: Blocks,
    ask: Ask,
    judged: Sequence[int] = (),
    scratch: Scratch | None = None,
) -> list[Result]:
    """Ask expectations of a table.

    Args:
        expectations: Great Expectations' configurations; see `Suite`.
        read: The table.
        ask: How to ask expectations of a table that is in memory.
        judged: Places of those that need not be asked where `verdicts` can judge them.
        scratch: Where that waits which is more than it holds; all is in memory when absent.

    Returns:
        The results in the order in which Great Expectations reports them.
    """
    stream = read(())
    begun = [next(stream)]
    schema = begun[0].schema
    verdicts = {at: v for at in judged if (v := verdict(expectations[at], schema, read, scratch))}
    asked = [at for at in range(len(expectations)) if at not in verdicts]
    begun += islice(stream, 1)
    whole = len(begun) == 1
    results: dict[int, Result] = {}
    if whole:
        _look(verdicts, expectations, begun[0])
        told = ask([expectations[at] for at in asked], begun[0], {}) if asked else []
        results = {asked[at]: result for at, result in told}
    else:
        blocks = _seen(_in_turn(begun, stream), partial(_look, verdicts, expectations))
        results = _asked_of_blocks(expectations, asked, blocks, schema, read, ask, scratch)
    results |= {at: v.result() for at, v in verdicts.items()}
    order = in_order(expectations, schema)
    if whole:
        order.sort(key=lambda at: results[at].evaluated)  # What could not be looked at is first.
    return [results[at] for at in order]


def _look(
    verdicts: Mapping[int, Verdict], expectations: Sequence[Expectation], block: pa.Table
) -> None:
    """Let verdicts look at a block, a column after the other: what one has seen serves the next."""
    by_column: dict[str, list[Verdict]] = {}
    for at, each in verdicts.items():
        column = expectations[at]["kwargs"].get("column") or block.column_names[0]
        by_column.setdefault(column, []).append(each)
    for column, several in by_column.items():
        cells = Cells(block.column(column))
        for each in several:
            each.add(cells)


def _in_turn(begun: list[pa.Table], stream: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """What was read already, none of which is kept, and then the others."""
    while begun:
        yield begun.pop(0)
    yield from stream


def _seen(blocks: Iterator[pa.Table], look: Callable[[pa.Table], None]) -> Iterator[pa.Table]:
    for block in blocks:
        look(block)
        yield block
        del block  # Before the next one is made.


def _asked_of_blocks(
    expectations: Sequence[Expectation],
    places: Sequence[int],
    blocks: Iterator[pa.Table],
    schema: pa.Schema,
    read: Blocks,
    ask: Ask,
    scratch: Scratch | None,
) -> dict[int, Result]:
    """Results by place, of those expectations that are asked."""
    by_row = [at for at in places if _is_by_row(expectations[at], schema)]
    others = [at for at in places if at not in by_row]
    gathered = {at: gathering(expectations[at], schema, read, scratch) for at in others}
    few = {at: found for at, found in gathered.items() if found}
    facts = _facts([expectations[at] for at in by_row], read, schema)
    parts: dict[int, list[Result]] = {at: [] for at in by_row}
    asked = [expectations[at] for at in by_row]
    for block in blocks:
        for found in few.values():
            found.add(block)
        for at, result in ask(asked, block, facts) if asked else ():
            parts[by_row[at]].append(result)
        del block
    results = {at: _together(found, expectations[at]) for at, found in parts.items()}
    for at, found in few.items():
        ((_, result),) = ask([expectations[at]], found.table(), {})
        results[at] = found.told(result)
    rest = [at for at in others if at not in few]
    for columns in dict.fromkeys(_columns(expectations[at], schema) for at in rest):
        same = [at for at in rest if _columns(expectations[at], schema) == columns]
        whole = pa.concat_tables(read(columns)) if columns else schema.empty_table()
        for at, result in ask([expectations[at] for at in same], whole, {}):
            results[same[at]] = result
    return results


def _is_by_row(expectation: Expectation, schema: pa.Schema) -> bool:
    kind, kwargs = expectation["type"], expectation["kwargs"]
    if "row_condition" in kwargs or not set(_named(expectation)) <= set(schema.names):
        return False
    if kind in _OF_ANY or expectation.get("indicator") is not None:
        return True
    # What pandas makes of integers and booleans hangs on whether one is missing anywhere.
    types = [schema.field(name).type for name in _named(expectation)]
    floats_or_texts = all(pa.types.is_floating(t) or is_text(t) for t in types)
    if kind in _OF_VALUES:
        return floats_or_texts or all(pa.types.is_integer(t) for t in types)
    if kind in _OF_TYPE:
        return all(is_text(t) for t in types)
    return kind in _OF_TEXT and floats_or_texts


def _named(expectation: Expectation) -> tuple[str, ...]:
    kwargs = expectation["kwargs"]
    single = [kwargs[key] for key in ("column", "column_A", "column_B") if key in kwargs]
    return tuple(dict.fromkeys([*single, *(kwargs.get("column_list") or ())]))


def _columns(expectation: Expectation, schema: pa.Schema) -> tuple[str, ...]:
    """The columns that must be there as a whole; none where only their names are looked at."""
    named = _named(expectation)
    known = expectation["type"] not in _OF_SCHEMA and set(named) <= set(schema.names)
    return named if known else ()


def _facts(expectations: Sequence[Expectation], read: Blocks, schema: pa.Schema) -> Facts:
    """What indicators must know of a whole column before they look at a block of it."""
    facts = {}
    for expectation in expectations:
        name, column = expectation.get("indicator"), expectation["kwargs"].get("column")
        if name is not None and needs_facts(name, schema.field(column).type):
            series = (pl.Series("", block.column(0)) for block in read((column,)))
            facts[column, name] = INDICATORS[name].gather(series)
    return facts


def _together(parts: Sequence[Result], expectation: Expectation) -> Result:
    """One result of all blocks: counts add up, and ``mostly`` is judged by their sums."""
    if not all(part.evaluated for part in parts):
        return next(part for part in parts if not part.evaluated)
    rows, unexpected, missing = (
        _sum([getattr(part, name) for part in parts]) for name in ("rows", "unexpected", "missing")
    )
    success = all(part.success for part in parts)
    if rows is not None and unexpected is not None:
        mostly = expectation["kwargs"].get("mostly", 1)
        success = is_mostly(rows, unexpected, missing or 0, mostly)
    return replace(parts[0], success=success, rows=rows, unexpected=unexpected, missing=missing)


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
