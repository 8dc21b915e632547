"""Dependencies that nobody wants, planted one by one: a suite that misses one is none."""

import itertools
import logging
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from opboost_ops.errors import ConfigError, ContractError, OpBoostError
from opboost_ops.exchange.party_state import forgotten_of, open_state
from opboost_ops.exchange.sealed import oprf, sealing
from opboost_ops.exchange.sealed.sealing import ROW_TAG, keystream
from opboost_ops.mechanisms import noise
from opboost_ops.pipeline import catalogue, redaction
from opboost_ops.pipeline.inputs import own_copy, raw_table
from opboost_ops.pipeline.inputs.raw_blocks import whole_table
from opboost_ops.pipeline.protocol import STEPS
from opboost_ops.pipeline.stage import Context, Outcome, Stage
from opboost_ops.pipeline.step_types import Disclosure
from opboost_ops.pipeline.steps import open_rows
from tests.noninterference.rewriting import STRANGERS
from tests.noninterference.runs import PARTY

Plant = Callable[[pytest.MonkeyPatch], None]
Leak = Callable[[Context, Outcome], Outcome]


@dataclass(frozen=True)
class Planted:
    """A planted dependency.

    Attributes:
        plant: Puts it in place.
        rewriting: The rewriting that shows it; empty if two runs on the same input do.
        kind: The kind of run that shows it.
        until: The stage before which the run may end; the whole run when empty.
    """

    plant: Plant
    rewriting: str
    until: str = ""
    kind: str = "training"


def _at(stage: str, leak: Leak, party: str = PARTY) -> Plant:
    """A stage of one party that tells more than it should."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        real: Stage = catalogue.STAGES[stage]  # type: ignore[assignment]

        def leaking(context: Context) -> Outcome:
            outcome = real(context)
            return leak(context, outcome) if context.party == party else outcome

        patch.setitem(catalogue.STAGES, stage, leaking)  # type: ignore[arg-type]

    return plant


def _summary(stage: str, fact: Callable[[Context], Any], party: str = PARTY) -> Plant:
    """In the stage's summary, and so in XCom, as a fact that the stage says it tells."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        step = STEPS[stage]
        # What a stage does not say that it tells stays at home.
        if not any(each.by == "summary" for each in step.discloses):
            says = (*step.discloses, Disclosure("planted"))
            patch.setitem(STEPS, stage, replace(step, discloses=says))
        _at(stage, tell, party)(patch)

    def tell(context: Context, outcome: Outcome) -> Outcome:
        return replace(outcome, summary={**outcome.summary, "told": fact(context)})

    return plant


def _log(fact: Callable[[Context], Any]) -> Leak:
    def leak(context: Context, outcome: Outcome) -> Outcome:
        logging.getLogger("opboost_ops.anything").warning("told: %s", fact(context))
        return outcome

    return leak


def _printed(fact: Callable[[Context], Any]) -> Leak:
    def leak(context: Context, outcome: Outcome) -> Outcome:
        print(f"told: {fact(context)}")  # noqa: T201
        return outcome

    return leak


def _notice(fact: Callable[[Context], Any]) -> Leak:
    return lambda context, outcome: replace(outcome, notices=(*outcome.notices, str(fact(context))))


def _error(fact: Callable[[Context], Any], kind: type[OpBoostError] = ContractError) -> Leak:
    def leak(context: Context, outcome: Outcome) -> Outcome:
        raise kind(f"This cannot go on: {fact(context)}.", "Look at the table.")

    return leak


def _files(context: Context) -> list[pq.ParquetFile]:
    return [pq.ParquetFile(path) for path in raw_table.files(context)]


def _all_columns(context: Context) -> pl.DataFrame:
    return pl.concat([pl.read_parquet(path) for path in raw_table.files(context)])


def _dictionary(context: Context) -> str:
    column = _files(context)[0].read().column("size").combine_chunks()
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    return str(encoded.dictionary.to_pylist())


def _weighted_sum(context: Context) -> float:
    table = whole_table(context).sort(context.federation.id.column)
    values = table.get_column("x").fill_null(0.0).to_numpy()
    return float(values @ np.arange(len(values)))


def _ledger_lines(context: Context) -> int:
    with open_state(context.site) as state:
        return len(state.ledger.entries())


def _other_ranks(change: Callable[[Context, np.ndarray], np.ndarray]) -> Leak:
    """Into the artifact: other ranks of a feature, as they are kept to be checked and sealed."""

    def leak(context: Context, outcome: Outcome) -> Outcome:
        ranks = outcome.tables["ranks"]
        kind = ranks.schema.field("w").type
        changed = change(context, ranks.column("w").to_numpy().copy())
        made = ranks.set_column(ranks.column_names.index("w"), "w", pa.array(changed, kind))
        return replace(outcome, tables={**outcome.tables, "ranks": made})

    return leak


def _by_row_order(_: Context, ranks: np.ndarray) -> np.ndarray:
    """The first person of the most frequent rank keeps it, and the others have the next."""
    most = int(np.bincount(ranks).argmax())
    people = np.flatnonzero(ranks == most)
    ranks[people[1:]] = most + 1
    return ranks


def _one_value_more(context: Context, ranks: np.ndarray) -> np.ndarray:
    """How many row groups the private files have, as the first person's rank."""
    groups = sum(file.num_row_groups for file in _files(context))
    first = whole_table(context).get_column(context.federation.id.column).arg_min()
    ranks[first] = min(groups, 3)
    return ranks


def _unsorted(patch: pytest.MonkeyPatch) -> None:
    """Sealed rows as they come, and not by their tags."""

    def sealed(
        scratch: Any, people: Any, count: int, key: bytes, kind: Any, width: int
    ) -> Iterator[np.ndarray]:
        every = []
        for some, rows in people:
            made = keystream(key, kind, some, ROW_TAG + width).copy()
            made[:, ROW_TAG:] ^= rows
            every.append(made)
        yield np.concatenate(every)

    patch.setattr(sealing, "seal_rows", sealed)


def _unblinded(patch: pytest.MonkeyPatch) -> None:
    """Points of a query in the order of the rows."""
    real = oprf.blind

    def unsorted(*given: Any) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        for part, points, rows in real(*given):
            back = np.argsort(rows)
            yield part, points[back], rows[back]

    patch.setattr(oprf, "blind", unsorted)


def _noise_by_row(patch: pytest.MonkeyPatch) -> None:
    def by_row(secret: bytes, ids: pa.Array, kind: Any) -> np.ndarray:
        keys = noise.person_keys(secret, ids, kind).copy()
        keys[:, :8] = np.arange(len(keys), dtype="<u8").view(np.uint8).reshape(-1, 8)
        return keys

    patch.setattr(own_copy, "noise", SimpleNamespace(person_keys=by_row))


def _holdout_by_row(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(open_rows, "_held_out", lambda context, rows: rows % 5 == 0)


def _whole_types(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(raw_table, "type_name", str)
    # As it would be without one message for all reasons.
    patch.setattr(redaction, "redact_failure", lambda context, stage, error: error)


_COUNTER = itertools.count()

#: A run that ends after `PARTY` has looked at its table.
NEXT = f"{PARTY}.check_drift"

PLANTED: dict[str, Planted] = {
    "sealed rows in the order of the table": Planted(_unsorted, "rows permuted", "open_rows"),
    "points in the order of the table": Planted(_unblinded, "rows permuted", "psi_answer"),
    "the first person of the table": Planted(
        _summary("digest_ids", lambda c: str(whole_table(c)[0, 0])),
        "rows permuted", "preprocess",
    ),
    "noise by row and not by person": Planted(_noise_by_row, "rows permuted", "open_rows"),
    "held-out rows by place in the table": Planted(
        _holdout_by_row, "rows permuted", "answer_splits"
    ),
    "ranks with ties by place in the table": Planted(
        _at("rank", _other_ranks(_by_row_order)), "rows permuted", "open_rows"
    ),
    "a table sorted by a private column": Planted(
        _at("digest_ids", _log(lambda c: whole_table(c).get_column("size").is_sorted())),
        "rows sorted by a private column", "preprocess",
    ),
    "a count of values that nobody declares": Planted(
        _summary("check_table", lambda c: _all_columns(c).get_column("remark").n_unique()),
        "undeclared columns changed", NEXT,
    ),
    "a sum over all rows": Planted(
        _at("assemble", _log(_weighted_sum), party="a"), STRANGERS, "check_frame"
    ),
    "the reason of a failure": Planted(
        _whole_types, "another dictionary", kind="failed, a wrong type"
    ),
    "the order of a dictionary": Planted(
        _at("check_table", _notice(_dictionary)), "another dictionary", NEXT
    ),
    "the width of numbers": Planted(
        _at(
            "check_table",
            _log(lambda c: _files(c)[0].schema_arrow.field("x").type),
            party="a",
        ),
        "other widths of numbers", NEXT,
    ),
    "a file's name": Planted(
        _at("check_table", _log(lambda c: raw_table.files(c)[0].name)),
        "several files", NEXT,
    ),
    "a file's place": Planted(
        _at("check_table", _log(lambda c: c.table_path.name)),
        "another place and time", NEXT,
    ),
    "the number of files, in an error": Planted(
        _at("check_table", _error(lambda c: len(raw_table.files(c))), party="a"),
        "several files",
    ),
    "when a file was written": Planted(
        _summary("check_table", lambda c: int(raw_table.files(c)[0].stat().st_mtime)),
        "another place and time", NEXT,
    ),
    "a file's size": Planted(
        _summary("check_table", lambda c: raw_table.files(c)[0].stat().st_size),
        "other compression", NEXT,
    ),
    "the number of row groups": Planted(
        _summary("check_table", lambda c: _files(c)[0].num_row_groups),
        "other row groups", NEXT,
    ),
    "the number of row groups, in an artifact": Planted(
        _at("rank", _other_ranks(_one_value_more)), "other row groups", "open_rows"
    ),
    "who wrote a file": Planted(
        _at("check_table", _log(lambda c: _files(c)[0].metadata.created_by)),
        "another writer", NEXT,
    ),
    "the number of columns": Planted(
        _at("check_table", _printed(lambda c: _files(c)[0].metadata.num_columns)),
        "undeclared columns added", NEXT,
    ),
    "which column comes first": Planted(
        _summary("check_table", lambda c: _files(c)[0].schema_arrow.names[0]),
        "columns in another order", NEXT,
    ),
    "lines of the whole ledger": Planted(
        _summary("check_table", _ledger_lines), "other federations", NEXT
    ),
    "how many are forgotten": Planted(
        _summary("check_table", lambda c: len(forgotten_of(c.site))),
        "others forgotten", NEXT,
    ),
    "seconds": Planted(
        _summary("check_table", lambda _: time.perf_counter()), "", NEXT
    ),
    "a random name": Planted(_at("check_table", _log(lambda _: uuid.uuid1())), "", NEXT),
    "how often something was tried": Planted(
        _summary("check_table", lambda _: next(_COUNTER)), "", NEXT
    ),
    "a cell in an error": Planted(
        _at("rank", _error(lambda c: whole_table(c)[0], ConfigError)), "rows permuted"
    ),
    "a table's bytes, told with the scores": Planted(
        _summary("write_scores", lambda c: c.home.json("table")["sha256"][:16], party="a"),
        "rows permuted", kind="scoring, local",
    ),
    "a new row that others score": Planted(
        _summary("digest_ids", lambda c: str(whole_table(c)[-1, 0])),
        "rows permuted", "preprocess", "scoring, routed",
    ),
    "the first row of a lender": Planted(
        _summary("encode_rows", lambda c: str(whole_table(c)[0, 0]), party="lender_02"),
        "rows permuted", "boost", "horizontal learning",
    ),
}  # fmt: skip
