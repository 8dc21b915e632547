"""Whole runs of the sealed release: who is asked about, what is refused, what is left over."""

import os
from collections.abc import Callable

import polars as pl
import pytest

from opboost_ops.config.loading import site_of
from opboost_ops.errors import ContractError, OpBoostError, PolicyError
from opboost_ops.exchange.sealed import month_keys
from opboost_ops.exchange.sealed.curve import POINT
from opboost_ops.orchestration.pages import ledger
from opboost_ops.orchestration.pages.access import Query
from opboost_ops.reports.display.blocks import Note
from opboost_ops.verifier import verify
from tests.commands import opboost
from tests.federation import Workspace

BANK, SHOP, LABEL = "bank", "shop", "credit"
THIRD_RUN = "0" * 15 + "3"


def asked(workspace: Workspace, party: str) -> int:
    return workspace.artifact("psi_query", party).manifest.rows


def test_nobody_is_asked_about_twice_in_a_month(workspace: Workspace) -> None:
    first = Workspace(workspace.folder)
    people = pl.read_parquet(workspace.table_path(LABEL)).height
    assert asked(first, BANK) == asked(first, SHOP) == people
    before = workspace.home_json(LABEL, "alignment") if workspace.home(LABEL).exists() else None
    assert before is None

    workspace.until("assemble")

    assert asked(workspace, BANK) == asked(workspace, SHOP) == 0
    assert workspace.home_json(LABEL, "alignment") == first.home_json(LABEL, "alignment")
    # Yet nothing of the two nights is the same, and only the canary was answered.
    for kind in ("ranks", "shares"):
        nights = [night.artifact(kind, BANK) for night in (first, workspace)]  # type: ignore[arg-type]
        assert nights[0].document["nonce"] != nights[1].document["nonce"]
    assert len(workspace.artifact("psi_answer", BANK).part(0, POINT)) == 1


@pytest.mark.parametrize(("rule", "value"), [("max_new_queries", 300), ("max_queries_total", 300)])
def test_more_questions_than_a_policy_allows_are_not_answered(
    fresh: Workspace, rule: str, value: int
) -> None:
    fresh.edit_yaml(f"{BANK}/policy.yaml", lambda d: d["alignment"].update({rule: value}))
    step, error = fresh.first_failure()
    assert step == f"{BANK}.psi_answer"
    assert isinstance(error, PolicyError)
    assert f"psi_answer/{BANK}" not in fresh.published()


@pytest.mark.parametrize(
    "change",
    [
        lambda rules: rules.pop("seal_everybody"),
        lambda rules: rules.update(seal_everybody=False),
        lambda rules: rules.pop("max_new_queries"),
    ],
)
def test_a_policy_that_does_not_say_so_seals_nobody(
    fresh: Workspace, change: Callable[[dict[str, object]], object]
) -> None:
    fresh.edit_yaml(f"{BANK}/policy.yaml", lambda d: change(d["alignment"]))
    step, error = fresh.first_failure()
    assert isinstance(error, OpBoostError)
    assert not {f"{kind}/{BANK}" for kind in ("ranks", "shares", "psi_answer")} & set(
        fresh.published()
    ), step


def test_another_key_of_the_month_is_noticed_and_the_next_run_asks_again(
    workspace: Workspace,
) -> None:
    month = month_keys.epoch_at(month_keys.now())
    (workspace.folder / BANK / "keys" / "psi" / f"{month}.key").write_bytes(os.urandom(32))
    for points in (workspace.folder / BANK / "home").rglob("*.points"):
        points.unlink()
    step, error = workspace.first_failure()
    assert step == f"{LABEL}.open_rows"
    assert isinstance(error, ContractError)
    later = Workspace(workspace.folder, THIRD_RUN)
    later.until("assemble")
    assert asked(later, BANK) == pl.read_parquet(workspace.table_path(LABEL)).height
    assert asked(later, SHOP) == 0


def test_another_label_holder_opens_rows_in_the_same_month(workspace: Workspace) -> None:
    common = Workspace(workspace.folder).home_json(LABEL, "alignment")
    workspace.replace_label_holder("lender")
    workspace.until("assemble")
    assert workspace.home_json("lender", "alignment") == common
    promises = [each for outcome in verify([workspace.folder / BANK]) for each in outcome.promises]
    assert {each.name for each in promises if each.status == "held"} >= {"responses", "answers"}
    assert not any(each.broken for each in promises)


def test_a_table_with_too_few_rows_releases_nothing(
    fresh: Workspace,
) -> None:
    rules = {"least_rows": {"train": 100_000}}
    fresh.declare(f"{BANK}/policy.yaml", alignment=rules)
    step, _ = fresh.first_failure()
    assert step == f"{BANK}.digest_ids"
    assert f"shares/{BANK}" not in fresh.published()


def test_no_points_are_left_in_the_folder_of_a_run(trained_once: Workspace) -> None:
    for party in (LABEL, BANK, SHOP):
        assert not (trained_once.home(party) / "psi").exists()


def test_how_many_guesses_have_been_possible_is_shown_wherever_one_looks(
    workspace: Workspace,
) -> None:
    people = pl.read_parquet(workspace.table_path(LABEL)).height
    month = month_keys.epoch_at(month_keys.now())
    told = f"{people:,} different people in {month} (at most"
    text = "People queried by label holders: each query can test a guess of who is in this table."
    for days in ({}, {"since": "2026-01-01"}):
        query = Query(lambda _: True, **days)
        blocks = ledger.build(*site_of(BANK), query)
        (note,) = [block for block in blocks if isinstance(block, Note) and block.text == text]
        assert told in note.lines[0]
        assert f"{people:,} in all months (at most" in note.lines[0]
        # The label holder is asked nothing.
        assert text not in str(ledger.build(*site_of(LABEL), query))
    # Of what it has agreed to, and of what it is asked to agree to.
    for change in (lambda d: None, lambda d: d["parties"][BANK]["features"].popitem()):
        workspace.edit_yaml("federation.yaml", change, agree=False)
        _, shown, _ = opboost("agree", workspace.folder / BANK, workspace.file, stdin="n\n")
        shown = " ".join(shown.split())
        assert text in shown
        assert told in shown
