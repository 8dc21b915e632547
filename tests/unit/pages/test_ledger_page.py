"""The ledger's page says what the party's ledger and policy say."""

import json
import re
import sqlite3
from pathlib import Path

import pytest
import yaml

from opboost_ops.config.loading import site_of
from opboost_ops.datasets.workspace import agree_for_all
from opboost_ops.errors import BudgetError
from opboost_ops.privacy.charges import ModelCharge
from opboost_ops.run.disclosures import charge_model
from opboost_ops.run.inbox import Run, note_refused
from opboost_ops.run.publication import Publisher
from tests.federation import FIRST_RUN, SECOND_RUN, Workspace
from tests.unit.pages.conftest import Reader
from tests.unit.pages.reading import plain, row, rows


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
    events = [json.loads(event) for (event,) in database.execute("select event from releases")]
    # Two runs on other tables: the second was stopped before it released anything.
    charged = {e["feature"]: e["loss"]["loss"] for e in events if e["account"] == "local_dp"}
    assert (
        set(charged)
        == set(found) - {"a person, all features"}
        == set(untouched.declared.parties["bank"].features)
    )
    for feature, loss in charged.items():
        assert float(found[feature]["loss(1)"]) == loss[0]
        assert float(found[feature]["loss(R-L)"]) == loss[-1]
    total = sum(loss[0] for loss in charged.values())
    assert float(found["a person, all features"]["loss(1)"]) == pytest.approx(total)
    assert len(rows(reader, "ledger", "bank.lines")) == len(events)
    for run in (FIRST_RUN, SECOND_RUN):
        listed = rows(reader, f"ledger?run={run}", "bank.lines")
        assert len(listed) == sum(event["run"] == run for event in events)
    nothing = plain(reader.page(f"ledger?party=bank&run={'f' * 16}"))
    assert "income" not in nothing.partition("Charged over time")[0].partition("What each")[2]


def test_budgets_and_what_is_left_of_them(reader: Reader, shown: Workspace) -> None:
    allow_income(shown, budget_whole=1000.0)
    line = income(reader)
    spent = float(line["loss(R-L)"])
    assert float(line["left(R-L)"]) == pytest.approx(1000 - spent)
    # Ten values at most: the account ends at ten times what one has cost, which the budget allows.
    assert line["retrainings left"] == "unlimited"
    assert "within all budgets; after" in plain(reader.page("ledger?party=bank"))
    allow_income(shown, budget_whole=3.5 * spent)
    assert int(income(reader)["retrainings left"]) == 2
    page = reader.page("ledger?party=bank")
    assert "2 more runs on changed data within budget_whole of income" in plain(page)
    # Its line in the picture has a name, too.
    assert f"budget of income: {3.5 * spent:g}" in page
    # All features together end sooner.
    together = sum(float(line["loss(R-L)"]) for line in rows(reader, "ledger", "bank.columns")[:-1])
    shown.edit_yaml(
        "bank/policy.yaml", lambda p: p.update(all_features={"budget_whole": 2.5 * together})
    )
    said = plain(reader.page("ledger?party=bank"))
    assert "1 more run on changed data within budget_whole of all_features" in said
    assert "1 more run on changed data within budget_whole of all_features" in plain(
        reader.page("status")
    )


def test_before_any_run_the_ledger_says_what_will_fit(
    reader: Reader, shown: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = income(reader)
    a_run = float(line["loss(R-L)"]) / float(line["draws"])
    workspace = Workspace.write(tmp_path / "new")
    workspace.known_to(monkeypatch)
    for change, left in (({"budget_whole": 2.5 * a_run}, "2"), ({"max_changes": 2}, "unlimited")):
        allow_income(workspace, **change)
        text = plain(reader.page("ledger?party=bank"))
        assert "Nothing was released yet." in text and "What the party agreed to" in text
        line = income(reader, "planned")
        assert float(line["loss(R-L) of a run"]) == pytest.approx(a_run)
        assert line["retrainings left"] == left
        assert f"Retrainings left {left} bank: " in plain(reader.page("status"))
    # Another federation that releases it otherwise draws it once more; one like this does not.
    other = yaml.safe_load(workspace.file.read_text()) | {"name": "loans"}
    file = workspace.folder / "loans.yaml"
    for epsilon, draws in ((0.64, 1), (0.32, 1.5)):
        other["parties"]["bank"]["features"]["income"]["mechanism"]["epsilon"] = epsilon
        file.write_text(yaml.safe_dump(other))
        agree_for_all(file)
        line = income(reader, "planned")
        assert float(line["loss(R-L) of a run"]) == pytest.approx(draws * a_run, rel=0.01)
    assert "1 more run of each federation on changed data" in plain(
        reader.page("ledger?party=bank")
    )
    # A label holder may have no columns of its own.
    workspace.edit_yaml("federation.yaml", lambda file: file["parties"]["credit"].pop("features"))
    agree_for_all(workspace.file)
    assert rows(reader, "ledger", "bank.planned")


def test_what_private_models_have_cost(reader: Reader, shown: Workspace) -> None:
    assert "What models have cost" not in plain(reader.page("ledger?party=credit"))
    shown.edit_yaml(
        "credit/policy.yaml", lambda policy: policy.update(model_budget={"epsilon": 5.0})
    )
    party = Publisher("credit", *site_of("credit"), shown.store)
    for at, (what, epsilon) in enumerate((("model", 3.0), ("metrics", 0.5))):
        charge = ModelCharge(epsilon, f"{at}" * 64, 100 + at, what)  # type: ignore[arg-type]
        charge_model(party, shown.declared, FIRST_RUN, charge)
    text = plain(reader.page("ledger?party=credit"))
    assert "Models: epsilon, a row added or removed 3.500 composed, of 5" in text
    assert "Models: epsilon, a row replaced 7.000 composed" in text
    assert "Epsilon left for models 1.500" in text
    listed = rows(reader, "ledger", "credit.models")
    found = [(line["what"], float(line["epsilon"]), float(line["rows"])) for line in listed]
    assert found == [("metrics", 0.5, 101), ("model", 3.0, 100)]
    assert float(listed[0]["epsilon so far"]) == 3.5
    elsewhere = plain(reader.page(f"ledger?party=credit&run={SECOND_RUN}"))
    assert "Models trained 1" in elsewhere
    assert rows(reader, f"ledger?run={SECOND_RUN}", "credit.models") == []


def test_what_the_policy_leaves_open_is_said_in_red(reader: Reader, shown: Workspace) -> None:
    shown.edit_yaml(
        "bank/policy.yaml", lambda policy: policy["features"]["income"].pop("max_changes", None)
    )
    page = reader.page("ledger?party=bank")
    told = plain(page)
    assert "The policy leaves open what a plan may cost." in told
    assert re.search(r"features\.income(, features\.\w+)* ha(s|ve) no .*max_changes", told)


def test_refused_and_attempted_releases_and_an_overspend_are_red(
    reader: Reader, shown: Workspace
) -> None:
    """None of them was on the page, and what was overspent was black."""
    spent = float(income(reader)["loss(R-L)"])
    allow_income(shown, budget_whole=spent / 4)
    run = Run("credit_scoring", SECOND_RUN, "credit")
    error = BudgetError("This release would pass features.income.budget_whole.", "Ask.")
    note_refused(site_of("bank")[0], run, "desensitize", error)
    database = sqlite3.connect(shown.folder / "bank" / "ledger.sqlite")
    with database:
        (artifact,) = database.execute("select artifact from commits limit 1").fetchone()
        database.execute("delete from commits where artifact = ?", (artifact,))
    page = reader.page("ledger?party=bank")
    assert page.index("Refused releases") < page.index("What each feature has cost")
    (line,) = rows(reader, "ledger?party=bank", "bank.refused")
    assert (line["refused at"], line["run"]) == ("desensitize", SECOND_RUN)
    assert "features.income.budget_whole" in line["why"]
    assert float(income(reader)["left(R-L)"]) == pytest.approx(spent / 4 - spent)
    assert f'<span class="badge bad">{spent / 4 - spent:,.3f}</span>' in page
    listed = rows(reader, "ledger", "bank.lines")
    told = {line["guarantee"] for line in listed if line["artifact"] == artifact}
    assert told == {"attempted, not known to be published"}
    free = [line for line in listed if line["account"] == "exact" and line["artifact"] != artifact]
    assert free
    assert {line["guarantee"] for line in free} <= {"exact, no epsilon", "none: experiment"}
