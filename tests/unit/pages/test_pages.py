"""What the pages say is what the parties' own files say."""

import csv
import io
import json
import re
import sqlite3
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from opboost_ops.config.loading import site_of
from opboost_ops.datasets.workspace import agree_for_all
from opboost_ops.display.blocks import Cell, Table
from opboost_ops.display.spreadsheets import table_csv
from opboost_ops.errors import BudgetError
from opboost_ops.exchange.run_id import run_id
from opboost_ops.models.alignment_words import alignment_words
from opboost_ops.models.versions import mode_words
from opboost_ops.privacy.charges import ModelCharge
from opboost_ops.run.disclosures import charge_model
from opboost_ops.run.inbox import Run, note_refused
from opboost_ops.run.publication import Publisher
from tests.federation import FIRST_RUN, SECOND_RUN, Workspace
from tests.unit.pages.conftest import Reader

PAGES = ("ledger", "models", "exchange", "quality")


def plain(html: str) -> str:
    """The words of a page."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def rows(reader: Reader, page: str, table: str) -> list[dict[str, str]]:
    """A table as it is downloaded."""
    reply = reader.get(f"/opboost/{page}{'&' if '?' in page else '?'}csv={table}")
    assert reply.headers["content-disposition"].startswith("attachment")
    assert reply.headers["content-type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(io.StringIO(reply.text)))


def test_every_table_can_be_downloaded(reader: Reader, untouched: Workspace) -> None:
    version = f"models/credit/credit_scoring/{FIRST_RUN}"
    report = f"quality/bank/credit_scoring/{SECOND_RUN}/raw_table"
    names = set()
    for page in (*PAGES, f"run?id={FIRST_RUN}", version, report):
        for link in re.findall(r'href="/opboost/([^"]+csv=[^"]+)"', reader.page(page)):
            link = link.replace("&amp;", "&")
            names.add(link.partition("csv=")[2].partition(".")[2])
            head, *lines = csv.reader(io.StringIO(reader.page(link)))
            assert lines
            assert len(set(head)) == len(head)
    assert names >= {"columns", "exact", "lines", "artifacts", "log", "checks", "expectations"}
    assert names >= {"metrics", "features", "versions_credit_scoring", "history_credit_scoring"}


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
    def limit(policy: dict) -> None:  # type: ignore[type-arg]
        policy["features"]["income"]["budget_whole"] = 1000.0

    shown.edit_yaml("bank/policy.yaml", limit)
    line = next(
        line for line in rows(reader, "ledger", "bank.columns") if line["feature"] == "income"
    )
    spent = float(line["loss(R-L)"])
    assert float(line["left(R-L)"]) == pytest.approx(1000 - spent)
    # Ten values at most: the account ends at ten times what one has cost, which the budget allows.
    assert line["retrainings left"] == "unlimited"
    assert "within all budgets; after" in plain(reader.page("ledger?party=bank"))
    shown.edit_yaml(
        "bank/policy.yaml", lambda p: p["features"]["income"].update(budget_whole=3.5 * spent)
    )
    line = next(
        line for line in rows(reader, "ledger", "bank.columns") if line["feature"] == "income"
    )
    assert int(line["retrainings left"]) == 2
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
    (line,) = [x for x in rows(reader, "ledger", "bank.columns") if x["feature"] == "income"]
    a_run = float(line["loss(R-L)"]) / float(line["draws"])
    workspace = Workspace.write(tmp_path / "new")
    workspace.known_to(monkeypatch)
    for change, left in (({"budget_whole": 2.5 * a_run}, "2"), ({"max_changes": 2}, "unlimited")):
        workspace.edit_yaml(
            "bank/policy.yaml",
            lambda policy, change=change: policy["features"]["income"].update(change),
        )
        text = plain(reader.page("ledger?party=bank"))
        assert "Nothing was released yet." in text and "What the party agreed to" in text
        (line,) = [x for x in rows(reader, "ledger", "bank.planned") if x["feature"] == "income"]
        assert float(line["loss(R-L) of a run"]) == pytest.approx(a_run)
        assert line["retrainings left"] == left
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


def test_models_with_metrics_named_by_their_mode(reader: Reader, untouched: Workspace) -> None:
    (version,) = rows(reader, "models", "credit.versions_credit_scoring")
    assert (version["version"], version["in use"]) == (FIRST_RUN, "champion")
    assert (version["epsilon"], version["trained with"]) == ("0.64", "4 trees, depth 3, rate 0.1")
    (line,) = rows(reader, "models", "credit.metrics_credit_scoring")
    folder = untouched.folder / "credit" / "models" / "credit_scoring" / FIRST_RUN
    evaluation = json.loads((folder / "evaluation.json").read_text())["metrics"]
    for mode, metrics in evaluation.items():
        for name, value in metrics.items():
            assert float(line[f"{name}, {mode_words(mode)}"]) == value
    page = f"models/credit/credit_scoring/{FIRST_RUN}"
    assert reader.page(f"{page}/model.txt") == (folder / "model.txt").read_text()
    assert reader.page(f"{page}/card.html") == (folder / "card.html").read_text()
    shares = [float(line["importance"]) for line in rows(reader, page, "credit.features")]
    assert sum(shares) == pytest.approx(1)
    assert shares == sorted(shares, reverse=True)


def test_curves_and_intervals_stand_beside_the_label_holder_alone(
    reader: Reader, untouched: Workspace
) -> None:
    folder = untouched.folder / "credit" / "models" / "credit_scoring" / FIRST_RUN
    evaluation = json.loads((folder / "evaluation.json").read_text())
    page = f"models/credit/credit_scoring/{FIRST_RUN}"
    text = reader.page(page)
    for title in ("ROC: ", "Precision: ", "Gains: ", "Calibration: "):
        assert f'aria-label="{title}' in text
    listed = {line["metric"]: line for line in rows(reader, page, "credit.intervals")}
    new = evaluation["intervals"]["federated_desensitised"]
    assert set(listed) == {name.replace("_", " ") for name in new}
    assert float(listed["auc"]["this version"]) == new["auc"]["value"]
    gain = evaluation["gains"]["label_holder_alone"]["auc"]["value"]
    assert float(listed["auc"]["gain over label holder alone"]) == gain


def test_importance_and_training_of_the_card_where_it_has_them(
    reader: Reader, shown: Workspace
) -> None:
    path = shown.folder / "credit" / "models" / "credit_scoring" / FIRST_RUN / "card.json"
    card = json.loads(path.read_text())
    card["training_words"] = ["Training rows counted by the column w.", "That is a proxy: <so>"]
    card["importance"] = [{"party": "bank", "feature": "income", "value": 2.5, "share": 1.0}]
    path.chmod(0o644)
    path.write_text(json.dumps(card))
    page = f"models/credit/credit_scoring/{FIRST_RUN}"
    first = rows(reader, page, "credit.features")[0]
    assert (first["party"], first["feature"], first["importance"]) == ("bank", "income", "1.0")
    text = reader.page(page)
    assert "mean absolute contribution" in plain(text)
    assert "Training rows counted by the column w." in text and "proxy: &lt;so&gt;" in text


def test_the_exchange_is_what_was_sent(reader: Reader, untouched: Workspace) -> None:
    found = rows(reader, f"exchange?run={FIRST_RUN}", "bank.artifacts")
    kinds = [line["what"] for line in found]
    assert kinds == [
        "plan",
        "blinded IDs",
        "answer to blinded IDs",
        "shares",
        "ranks",
        "split request",
        "split values",
    ]
    assert all(line["verified now"].startswith("signature") for line in found)
    assert all(line["in the log"] == "same digest" for line in found[1:])
    ranks = next(line for line in found if line["what"] == "ranks")
    manifest = untouched.folder / "exchange" / "credit_scoring" / FIRST_RUN / "ranks" / "bank"
    assert int(ranks["size"]) == sum(path.stat().st_size for path in manifest.iterdir())
    assert int(ranks["rows"]) == json.loads((manifest / "manifest.json").read_text())["rows"]
    assert (ranks["from"], ranks["to"], ranks["encrypted"]) == ("bank", "credit", "yes")
    text = plain(reader.page("exchange?party=bank"))
    assert (
        f"To find common people: {alignment_words(untouched.declared, 'each feature holder')}"
        in text
    )
    assert "unbroken" in text
    assert "Runs 1 Sent" in text, "the agreement is no run"


def test_the_keys_are_those_that_were_agreed_to_with_their_dates(
    reader: Reader, shown: Workspace
) -> None:
    last = date.today() + timedelta(days=3)

    def change(data: Any) -> None:
        data["parties"]["bank"].update(signing_key_expires=last)

    shown.edit_yaml("federation.yaml", change)
    found = rows(reader, "exchange", "credit.keys")
    keys = {(line["party"], line["for"]): line for line in found}
    assert len(keys) == 2 * len(shown.declared.parties)
    bank = keys["bank", "signing"]
    assert (bank["until"], bank["state"]) == (str(last), "expires soon")
    assert bank["key"] == shown.declared.parties["bank"].signing_key
    assert keys["shop", "signing"]["state"] == "good"
    # A feature holder deals with those that its policy pins.
    assert {line["party"] for line in rows(reader, "exchange", "shop.keys")} == {"credit", "shop"}


def test_what_was_changed_on_its_way_is_said(reader: Reader, shown: Workspace) -> None:
    shown.run = FIRST_RUN
    shown.forge("ranks", "bank", "shop")
    store = shown.folder / "exchange" / "credit_scoring" / FIRST_RUN
    sealed = next((store / "shares" / "bank").glob("entries.bin*"))
    sealed.write_bytes(sealed.read_bytes() + b"x")
    found = {
        line["what"]: line
        for line in rows(reader, f"exchange?run={FIRST_RUN}", "credit.artifacts")
        if "bank" in (line["from"], line["to"])
    }
    assert "shop may not publish this ranks" in found["ranks"]["verified now"]
    assert found["ranks"]["in the log"] == "another digest"
    assert "does not have the right size" in found["shares"]["verified now"]
    assert found["answer to blinded IDs"]["verified now"].startswith("signature")


def test_a_run_on_its_own_page(reader: Reader, shown: Workspace) -> None:
    name, at = "credit_scoring_train", "manual__2026-01-01T00:00:00+00:00"
    mine = run_id(name, at)
    for party in ("bank", "credit", "shop"):
        home = shown.folder / party / "home" / "credit_scoring"
        (home / FIRST_RUN).rename(home / mine)
    text = plain(reader.page(f"run?dag={name}&run={at.replace('+', '%2B')}"))
    assert f"Run {mine}" in text
    assert "passed" in text
    text = plain(reader.page(f"run?id={SECOND_RUN}"))
    assert "failed" in text
    assert "bank" in text
    assert "bank, credit and shop have nothing of this run" in plain(
        reader.page(f"run?id={'f' * 16}")
    )


def test_checks_and_the_report_of_a_failed_one(reader: Reader, shown: Workspace) -> None:
    found = {line["run"]: line for line in rows(reader, "quality", "bank.checks")}
    assert found[FIRST_RUN]["raw table"] == "passed"
    assert found[SECOND_RUN]["raw table"] == "failed"
    assert found[SECOND_RUN]["release"] == ""
    page = f"quality/bank/credit_scoring/{SECOND_RUN}/raw_table"
    broken = [line for line in rows(reader, page, "bank.expectations") if line["result"] == "fail"]
    assert {line["column"] for line in broken} == {"income"}
    home = shown.home("bank") / "quality"
    assert reader.page(f"{page}.html") == (home / "raw_table.html").read_text()
    # A boundary that these pages have not heard of is shown too.
    (home / "drift.json").write_text((home / "raw_table.json").read_text())
    assert rows(reader, "quality", "bank.checks")[0]["drift"] == "drifted"


FAULTS = {
    "site.yaml": ("credit/site.yaml", "site.yaml", PAGES),
    "policy.yaml": ("credit/policy.yaml", "policy.yaml", PAGES),
    "champion.json": ("credit/models/credit_scoring/champion.json", "champion.json", ("models",)),
    "database": ("credit/ledger.sqlite", "cannot be", ("ledger", "exchange")),
    "report": (
        f"credit/home/credit_scoring/{FIRST_RUN}/quality/model.json",
        "damaged",
        ("quality",),
    ),
    "plan": (f"exchange/credit_scoring/{FIRST_RUN}/plan/credit/manifest.json", "", ("exchange",)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_one_partys_fault_is_told_and_spares_the_others(
    reader: Reader, shown: Workspace, fault: str
) -> None:
    path, told, pages = FAULTS[fault]
    before = {page: plain(reader.page(page)) for page in pages}
    spoilt = shown.folder / path
    spoilt.chmod(0o644)
    spoilt.write_text("{]")
    for page in PAGES:
        text = reader.page(page)
        if page in pages:
            assert plain(text) != before[page]
            assert told in plain(text)
            others = [p for p in ("bank", "shop") if f'<section id="{p}">' in text]
            assert others or page == "models"
        assert str(shown.folder) not in text
        assert "Traceback" not in text
    reader.page(f"run?id={FIRST_RUN}")


def test_a_broken_chain_is_said(reader: Reader, shown: Workspace) -> None:
    database = sqlite3.connect(shown.folder / "bank" / "ledger.sqlite")
    with database:
        database.execute("update audit set entry = replace(entry, 'sent', 'answered')")
    text = plain(reader.page("exchange?party=bank"))
    assert "The audit log is broken at entry" in text
    assert "unbroken" not in text


def test_no_cell_is_taken_for_a_formula() -> None:
    texts = ["=1+1", "+1", "-1", "@x", "\t=1", "plain"]
    table = Table("t", "t", ("a",), tuple((Cell(text),) for text in texts))
    found = [row[0] for row in csv.reader(io.StringIO(table_csv(table)))][1:]
    assert found == ["'=1+1", "'+1", "'-1", "'@x", "'\t=1", "plain"]
    negative = Table("t", "t", ("a",), ((Cell("-1.00", -1.0),),))
    assert table_csv(negative).splitlines()[1] == "-1.0"


def test_what_strangers_write_stays_text(reader: Reader, shown: Workspace) -> None:
    database = sqlite3.connect(shown.folder / "bank" / "ledger.sqlite")
    with database:
        database.execute(
            "update releases set event = json_set(event, '$.discloses', ?)"
            " where json_extract(event, '$.account') = 'exact'",
            ("<script>alert(1)</script>",),
        )
    text = reader.page("ledger?party=bank")
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text


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
    """Finding 3: none of them was on the page, and what was overspent was black."""
    spent = float(
        next(
            line["loss(R-L)"]
            for line in rows(reader, "ledger", "bank.columns")
            if line["feature"] == "income"
        )
    )
    shown.edit_yaml(
        "bank/policy.yaml", lambda p: p["features"]["income"].update(budget_whole=spent / 4)
    )
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
    column = next(
        line for line in rows(reader, "ledger", "bank.columns") if line["feature"] == "income"
    )
    assert float(column["left(R-L)"]) == pytest.approx(spent / 4 - spent)
    assert f'<span class="badge bad">{spent / 4 - spent:,.3f}</span>' in page
    listed = rows(reader, "ledger", "bank.lines")
    told = {line["guarantee"] for line in listed if line["artifact"] == artifact}
    assert told == {"attempted, not known to be published"}
    free = [line for line in listed if line["account"] == "exact" and line["artifact"] != artifact]
    assert free
    assert {line["guarantee"] for line in free} <= {"exact, no epsilon", "none: experiment"}
