"""Failures and looks at tables are no oracle of private rows: one message, one entry per run."""

from collections.abc import Callable
from datetime import date
from pathlib import Path

import polars as pl
import pytest

from opboost_ops.errors import ApprovalError, ContractError, OpBoostError
from opboost_ops.pipeline.party import approval, own_table
from opboost_ops.pipeline.party.inbox import Run
from opboost_ops.pipeline.redaction import REASON
from opboost_ops.pipeline.runner.runner import run_stage
from tests.federation import FIRST_RUN, SECOND_RUN, Workspace
from tests.integration.pipeline.scoring_data import NAME, dataset
from tests.party_state import entries_of

LABEL, HOLDER = "a", "b1"

Change = Callable[[pl.DataFrame], pl.DataFrame]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace.write(tmp_path_factory.mktemp("failures") / "w", dataset("binary"))


def public_failure(workspace: Workspace) -> tuple[str, str, OpBoostError]:
    """Run until a stage fails; whose, which one, and the error as everybody sees it."""
    workspace.open()
    with workspace.known():
        for step in workspace.steps():
            try:
                run_stage(step.party, step.stage, Run(NAME, workspace.run, LABEL))
            except OpBoostError as error:
                return step.party, step.stage, error
    raise AssertionError("the whole run succeeded")


def entries(workspace: Workspace, party: str, step: str) -> int:
    """How many exact ledger entries a party's run has of what a step tells."""
    return [e.kind for e in entries_of(workspace, party) if e.account == "exact"].count(step)


BROKEN_VALUES: dict[str, Change] = {
    "a missing value": lambda t: t.with_columns(
        pl.when(pl.int_range(pl.len()) == 7).then(None).otherwise(pl.col("v")).alias("v")
    ),
    "all values missing": lambda t: t.with_columns(pl.lit(None, pl.Float64).alias("v")),
    "text for a number": lambda t: t.with_columns(pl.lit("zq7canary").alias("v")),
    "another category": lambda t: t.with_columns(pl.lit("zq7canary").alias("colour")),
    "no column": lambda t: t.drop("v"),
    "an ID twice": lambda t: pl.concat([t, t.head(1)]),
    "no rows": lambda t: t.head(0),
}


def test_a_feature_holders_table_has_one_message_whatever_is_wrong_in_it(
    written: Workspace, tmp_path: Path
) -> None:
    messages = set()
    for number, (name, change) in enumerate(BROKEN_VALUES.items()):
        workspace = written.copy(tmp_path / str(number), FIRST_RUN)
        workspace.edit_table(HOLDER, change)
        party, stage, error = public_failure(workspace)
        assert party == HOLDER, name
        assert isinstance(error, ContractError) and error.__context__ is None
        messages.add(str(error))
        reason = (workspace.home(HOLDER) / REASON).read_text()
        assert reason.startswith(f"{stage}: ")
        assert entries(workspace, HOLDER, "check_table") == 1
    assert len(messages) == 1
    message = messages.pop()
    assert not any(word in message for word in ("v ", "colour", "zq7", "check_", "missing"))


#: By what is wrong in the label holder's table: the task, and the column in so many rows.
COUNTED: dict[str, tuple[str, str, Callable[[int], pl.Expr]]] = {
    "huge labels": (
        "regression", "y",
        lambda rows: pl.when(pl.int_range(pl.len()) < rows).then(1e200).otherwise(pl.col("y")),
    ),
    "many classes": (
        "multiclass", "y", lambda rows: pl.format("t{}", pl.int_range(pl.len()) % (100 + rows)),
    ),
    "blanks in IDs": (
        "binary", "id",
        lambda rows: pl.when(pl.int_range(pl.len()) < rows)
        .then(pl.format("{} ", "id")).otherwise(pl.col("id")),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTED)
def test_no_count_of_the_label_holders_rows_leaves(tmp_path: Path, name: str) -> None:
    task, column, spoiled = COUNTED[name]
    written = Workspace.write(tmp_path / "w", dataset(task))
    if task == "multiclass":
        written.declare("federation.yaml", parties={LABEL: {"label": {"classes": None}}})
    messages = set()
    for rows in (1, 3):
        workspace = written.copy(tmp_path / str(rows), FIRST_RUN)
        workspace.edit_table(LABEL, lambda t, r=rows: t.with_columns(spoiled(r).alias(column)))
        party, _, error = public_failure(workspace)
        assert party == LABEL
        messages.add(str(error))
    assert len(messages) == 1


@pytest.mark.slow
def test_the_label_holders_common_rows_have_one_message_whatever_is_wrong_with_them(
    written: Workspace, tmp_path: Path
) -> None:
    def nobody(workspace: Workspace) -> None:
        others = pl.format("x{}", pl.col("id")).alias("id")
        workspace.edit_table(HOLDER, lambda t: t.with_columns(others))

    def one_real_person(workspace: Workspace) -> None:
        others = pl.when(pl.int_range(pl.len()) == 0).then("id").otherwise(pl.format("x{}", "id"))
        workspace.edit_table(HOLDER, lambda t: t.with_columns(others.alias("id")))

    def few(workspace: Workspace) -> None:
        workspace.declare(f"{LABEL}/policy.yaml", alignment={"least_common": 400})

    def one_class(workspace: Workspace) -> None:
        # Of common people; the table itself has two.
        mine = pl.read_parquet(workspace.table_path(HOLDER)).get_column("id").implode()
        common = pl.when(pl.col("id").is_in(mine)).then(pl.lit("yes")).otherwise(pl.lit("no"))
        workspace.edit_table(LABEL, lambda t: t.with_columns(common.alias("y")))

    messages = set()
    for number, change in enumerate((nobody, one_real_person, few, one_class)):
        workspace = written.copy(tmp_path / str(number), FIRST_RUN)
        change(workspace)
        party, _, error = public_failure(workspace)
        assert party == LABEL
        messages.add(str(error))
        assert entries(workspace, LABEL, "open_rows") == 1
    assert len(messages) == 1
    assert "class" not in messages.pop()


def test_the_entry_is_there_whether_or_not_the_run_succeeds(
    written: Workspace, tmp_path: Path
) -> None:
    workspace = written.copy(tmp_path / "w", FIRST_RUN)
    workspace.all()
    assert entries(workspace, LABEL, "open_rows") == 1
    assert entries(workspace, HOLDER, "check_table") == 1


def test_a_look_at_a_feature_holders_table_compares_people_and_never_values(
    written: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = written.copy(tmp_path / "w", FIRST_RUN, monkeypatch)

    def changed(look: str) -> bool:
        return own_table.changed(HOLDER, NAME, look)

    assert changed("1")
    workspace.edit_table(HOLDER, lambda t: t.with_columns(pl.lit(1.0).alias("v")).reverse())
    assert not changed("2")
    workspace.edit_table(HOLDER, lambda t: t.drop("colour"))
    assert not changed("3")
    workspace.edit_table(HOLDER, lambda t: t.head(-1))
    assert changed("4")
    monkeypatch.setattr(own_table.clock, "today", lambda: date(2099, 1, 1))
    assert changed("5") and not changed("6")


def test_a_release_of_under_half_as_many_rows_waits_for_the_label_holders_people(
    written: Workspace, tmp_path: Path
) -> None:
    first = written.copy(tmp_path / "w", FIRST_RUN)
    first.all()
    second = Workspace(first.folder, SECOND_RUN)
    second.edit_table(HOLDER, lambda t: t.head(t.height // 2 - 1))
    party, stage, error = public_failure(second)
    assert (party, stage) == (LABEL, "open_rows")
    assert isinstance(error, ApprovalError)
    assert "rows, and" in error.problem
    site = second.site(LABEL)
    ((asked, _),) = approval.waiting(site, SECOND_RUN)
    approval.answer(site, SECOND_RUN, asked.artifact, True, "ada", "a smaller region")
    second.step(LABEL, "open_rows")
    # What was accepted is what the next release is compared with.
    third = Workspace(first.folder, f"{3:016x}")
    third.until("assemble")


def test_a_scoring_run_of_nobody_in_common_writes_an_empty_file(
    written: Workspace, tmp_path: Path
) -> None:
    workspace = written.copy(tmp_path / "w", FIRST_RUN)
    workspace.all()
    scoring = workspace.scoring()
    others = pl.format("x{}", pl.col("id")).alias("id")
    scoring.edit_table(HOLDER, lambda t: t.with_columns(others))
    assert scoring.all()[f"{LABEL}.write_scores"]["rows"] == 0
    (scores,) = scoring.site(LABEL).scores.rglob("*.parquet")
    assert pl.read_parquet(scores).height == 0
