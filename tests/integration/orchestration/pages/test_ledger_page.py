"""The ledger's page says what the party's ledger and policy say."""

import json
import math
import sqlite3
from pathlib import Path

import pytest

from opboost_ops.config.loading import site_of
from opboost_ops.errors import BudgetError
from opboost_ops.extras.datasets.workspace import agree_for_all
from opboost_ops.pipeline.party.inbox import Run, note_refused
from opboost_ops.pipeline.party.local_party import LocalParty
from opboost_ops.pipeline.runner.disclosures import charge_model
from opboost_ops.privacy.ledger.budgets import ModelCharge
from tests.federation import FIRST_RUN, SECOND_RUN, Workspace
from tests.integration.orchestration.pages.conftest import Reader
from tests.integration.orchestration.pages.reading import plain, row, rows


def income(reader: Reader, table: str = "columns") -> dict[str, str]:
    """What the bank's ledger says of a column."""
    return row(reader, "ledger", f"bank.{table}", feature="income")


def allow_income(workspace: Workspace, **rule: float) -> None:
    """Change what the bank's policy allows of it."""
    change = lambda policy: policy["features"]["income"].update(rule)  # noqa: E731
    workspace.edit_yaml("bank/policy.yaml", change)


def test_the_ledger_is_the_ledger(reader: Reader, untouched: Workspace) -> None:
    text = plain(reader.page("ledger?party=bank"))
    assert "without any guarantee" in text
    assert "Disclosed exactly, with no epsilon" in text
    found = {line["feature"]: line for line in rows(reader, "ledger", "bank.columns")}
    database = sqlite3.connect(untouched.folder / "bank" / "ledger.sqlite")
    events = [json.loads(event) for (event,) in database.execute("select event from entries")]
    # Two runs on other tables: one release of each column.
    charged = {e["feature"]: e["loss"]["loss"] for e in events if e["kind"] == "release"}
    assert set(charged) == set(found) == set(untouched.declared.parties["bank"].features)
    for feature, loss in charged.items():
        assert float(found[feature]["spent"]) == loss[-1]
        assert float(found[feature]["odds, any two values"]) == pytest.approx(math.exp(loss[-1]))
    assert len(rows(reader, "ledger", "bank.lines")) == len(events)
    for run in (FIRST_RUN, SECOND_RUN):
        listed = rows(reader, f"ledger?run={run}", "bank.lines")
        assert len(listed) == sum(event["run"] == run for event in events)


def test_budgets_and_what_is_left_of_them(reader: Reader, shown: Workspace) -> None:
    spent = float(income(reader)["spent"])
    for budget, more in ((2.5 * spent, "fits"), (1.5 * spent, "does not fit")):
        allow_income(shown, budget=budget)
        line = income(reader)
        assert float(line["budget"]) == pytest.approx(budget)
        page = reader.page("ledger?party=bank")
        assert f"{spent:.3f}; {more}" in page
        assert line["next release"] == ("1" if more == "fits" else "0")
    assert f"budget of income: {1.5 * spent:g}" in page
    assert "income: " in plain(reader.page("status"))


def test_before_any_run_the_ledger_says_what_a_release_costs(
    reader: Reader, shown: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odds = float(income(reader)["odds, any two values"])
    once = math.log(odds)
    workspace = Workspace.write(tmp_path / "new")
    workspace.known_to(monkeypatch)
    allow_income(workspace, budget=2.5 * once)
    text = plain(reader.page("ledger?party=bank"))
    assert "Nothing was released yet." in text and "What the party agreed to" in text
    line = income(reader)
    assert float(line["odds, any two values"]) == pytest.approx(odds)
    assert (line["releases"], line["next release"]) == ("none", "2")
    # A label holder may have no columns of its own.
    workspace.edit_yaml("federation.yaml", lambda file: file["parties"]["credit"].pop("features"))
    agree_for_all(workspace.file)
    assert rows(reader, "ledger", "bank.columns")


def test_what_private_models_have_cost(reader: Reader, shown: Workspace) -> None:
    assert "What models have cost" not in plain(reader.page("ledger?party=credit"))
    shown.edit_yaml(
        "credit/policy.yaml", lambda policy: policy.update(model_budget={"epsilon": 10.0})
    )
    party = LocalParty("credit", *site_of("credit"), shown.store)
    for at, (what, epsilon) in enumerate((("model", 3.0), ("metrics", 0.5))):
        charge = ModelCharge(epsilon, f"{at}" * 64, 100 + at, what)  # type: ignore[arg-type]
        charge_model(party, shown.declared, FIRST_RUN, charge)
    text = plain(reader.page("ledger?party=credit"))
    assert "Models: epsilon, a row replaced 7.000 composed, of 10" in text
    assert "Models: epsilon, a row added or removed 3.500 composed" in text
    assert "Epsilon left for models 3.000" in text
    listed = rows(reader, "ledger", "credit.models")
    found = [(line["what"], float(line["epsilon"]), float(line["rows"])) for line in listed]
    assert found == [("metrics", 0.5, 101), ("model", 3.0, 100)]
    assert float(listed[0]["epsilon so far"]) == 7
    elsewhere = plain(reader.page(f"ledger?party=credit&run={SECOND_RUN}"))
    assert "Models trained 1" in elsewhere
    assert rows(reader, f"ledger?run={SECOND_RUN}", "credit.models") == []


def test_what_the_policy_leaves_open_is_said_in_red(reader: Reader, shown: Workspace) -> None:
    shown.edit_yaml("bank/policy.yaml", lambda p: p["features"]["income"].pop("budget", None))
    assert "The policy sets no budget for some columns." in plain(reader.page("ledger?party=bank"))


def test_refused_and_attempted_releases_and_an_overspend_are_red(
    reader: Reader, shown: Workspace
) -> None:
    """None of them was on the page, and what was overspent was black."""
    allow_income(shown, budget=float(income(reader)["spent"]) / 4)
    run = Run("credit_scoring", SECOND_RUN, "credit")
    error = BudgetError("This release would pass features.income.budget.", "Ask.")
    note_refused(site_of("bank")[0], run, "desensitize", error)
    database = sqlite3.connect(shown.folder / "bank" / "ledger.sqlite")
    with database:
        (artifact,) = database.execute("select artifact from commits limit 1").fetchone()
        database.execute("delete from commits where artifact = ?", (artifact,))
    page = reader.page("ledger?party=bank")
    assert page.index("Refused releases") < page.index("What each column has cost")
    (line,) = rows(reader, "ledger?party=bank", "bank.refused")
    assert (line["refused at"], line["run"]) == ("desensitize", SECOND_RUN)
    assert "features.income.budget" in line["why"]
    assert income(reader)["next release"] == "0" and "does not fit" in page
    listed = rows(reader, "ledger", "bank.lines")
    told = {line["guarantee"] for line in listed if line["artifact"] == artifact}
    assert told == {"attempted, not known to be published"}
    free = [line for line in listed if line["account"] == "exact" and line["artifact"] != artifact]
    assert free
    assert {line["guarantee"] for line in free} <= {"exact, no epsilon", "none: experiment"}
