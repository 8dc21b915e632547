"""Scoring runs whose tables, model, form or federation file are not what they must be."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from opboost_ops import api
from opboost_ops.errors import ConfigError, ContractError, OpBoostError
from opboost_ops.exchange.encryption import new_encryption_key
from opboost_ops.exchange.signing import new_signing_key
from opboost_ops.pipeline.stage import SKIP
from tests.bad_input.faults import (
    ASKED,
    CANARY_TEXT,
    refused,
)
from tests.bad_input.test_tables import first_rows
from tests.federation import FIRST_RUN, Workspace
from tests.party_state import state_of

PARTIES = ("credit", "shop", "bank")
UNKNOWN = "f" * 16
MODELS = Path("credit") / "models" / "credit_scoring"


@pytest.fixture
def run(workspace: Workspace) -> Workspace:
    """A federation with a champion, about to score people whom nobody has seen."""
    return workspace.scoring()


def left_behind(run: Workspace) -> dict[str, Any]:
    """What no scoring run that ends in an error may change."""
    kept: dict[str, Any] = dict(run.files("credit", "models"))
    kept |= run.files("exchange", "credit_scoring", FIRST_RUN)
    kept["scores"] = [str(p) for p in (run.folder / "credit").glob("scores/**/*")]
    for party in PARTIES:
        with state_of(run, party) as state:
            charged = [r for r in state.ledger.entries() if r.account != "exact"]
        kept[f"charged to {party}"] = charged
        assert all(line.run == FIRST_RUN for line in charged)
    return kept


def scores(run: Workspace) -> pl.DataFrame:
    (path,) = (run.folder / "credit" / "scores").rglob("*.parquet")
    return pl.read_parquet(path)


@pytest.mark.parametrize("parties", [("credit",), ("bank",), PARTIES])
def test_no_new_rows_give_an_empty_file(run: Workspace, parties: tuple[str, ...]) -> None:
    for party in parties:
        run.edit_table(party, lambda table: table.clear())
    assert not api.check(run.file).faults
    assert run.all()["credit.write_scores"]["rows"] == 0
    assert scores(run).height == 0 and {"id", "score", "class"} < set(scores(run).columns)


def test_new_people_columns_and_categories_are_no_fault(run: Workspace) -> None:
    run.plain()
    for party in PARTIES:
        run.edit_table(party, lambda t: t.with_columns(remark=pl.lit(CANARY_TEXT)))
    # The label holder's own categories count as missing when the training has not seen them.
    run.edit_table("credit", first_rows("employment", CANARY_TEXT, rows=5))
    summaries = run.all()
    trained = set(pl.read_parquet(run.folder / "credit" / "tables" / "train.parquet")["id"])
    made = scores(run)
    assert not set(made["id"]) & trained
    assert summaries["credit.write_scores"]["rows"] == made.height > 20
    assert all(math.isfinite(score) for score in made["score"])
    assert "remark" not in made.columns
    for name, raw in run.files("exchange").items():
        assert CANARY_TEXT.encode() not in raw, name


def without_new_rows(run: Workspace, party: str) -> None:
    def change(site: Any) -> None:
        del site["tables"]["credit_scoring"]["score"]

    run.edit_yaml(f"{party}/site.yaml", change)


def test_a_label_holder_without_new_rows_has_nothing_to_do(run: Workspace) -> None:
    without_new_rows(run, "credit")
    before = left_behind(run)
    (skipped,) = run.open().items()
    assert skipped[0] == SKIP
    assert "tables.*.score" in skipped[1]
    assert run.published() == []
    assert left_behind(run) == before


def test_a_feature_holder_without_new_rows(run: Workspace) -> None:
    without_new_rows(run, "bank")
    words = ("bank", "no table of new rows", "tables.credit_scoring.score")
    refused(run, "bank.check_table", ConfigError, *words, published=ASKED, left=left_behind)


def test_a_table_that_is_rewritten_in_the_middle(run: Workspace) -> None:
    run.until("score")
    run.edit_table("credit", lambda t: t.head(30))
    with pytest.raises(ContractError, match="was rewritten while the run"):
        run.step("credit", "score")
    with pytest.raises(ContractError):
        run.step("credit", "check_scores")
    assert not (run.folder / "credit" / "scores").exists()


def leave(data: Any) -> None:
    del data["parties"]["bank"]


def join(data: Any) -> None:
    new = json.loads(json.dumps(data["parties"]["bank"]))
    new["encryption_key"] = new_encryption_key()[1]
    new["signing_key"] = new_signing_key(b"8" * 32)[1]
    for k, feature in enumerate(new["features"].values()):
        feature["uuid"] = f"00000000-0000-4000-8000-{k:012d}"
    data["parties"]["post"] = new


def route(data: Any) -> None:
    data["scoring"] = {"mode": "routed"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (leave, ["bank has left since"]),
        (join, ["post has joined since"]),
        (route, ["never evaluated in mode routed", "scoring.evaluate"]),
    ],
)
def test_a_model_that_does_not_fit_the_federation_file(
    run: Workspace, change: Callable[[Any], None], words: list[str]
) -> None:
    run.edit_yaml("federation.yaml", change)
    refused(run, "open_run", ContractError, FIRST_RUN, *words, left=left_behind)


@pytest.mark.parametrize(
    ("form", "error_class", "words"),
    [
        ({"version": UNKNOWN}, ContractError, f"no model version {UNKNOWN}"),
        ({"version": "../../keys"}, ContractError, "no model version"),
        ({"version": "", "trees": 3}, ConfigError, "unknown fields: trees"),
    ],
)
def test_a_form_that_asks_for_what_there_is_not(
    run: Workspace, form: dict[str, Any], error_class: type[OpBoostError], words: str
) -> None:
    before = left_behind(run)
    with pytest.raises(error_class, match=words) as caught:
        run.open(form)
    assert type(caught.value) is error_class
    assert run.published() == []
    assert left_behind(run) == before


def test_no_champion_yet(run: Workspace) -> None:
    for path in (run.folder / MODELS).glob("*.json*"):
        path.unlink()
    told = run.open()
    assert "no champion to score with" in told[SKIP]
    assert run.published() == []


@pytest.mark.parametrize("file", ["model.txt", "columns.json"])
def test_a_damaged_model(run: Workspace, file: str) -> None:
    path = run.folder / MODELS / FIRST_RUN / file
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-20])
    words = (FIRST_RUN, "is damaged", "backup")
    refused(run, "open_run", ContractError, *words, left=left_behind)
