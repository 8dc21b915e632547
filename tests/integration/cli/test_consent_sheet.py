"""The consent sheet of `opboost agree`: all that leaves, and what it means, of own files alone."""

import io
import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from opboost_ops import api
from opboost_ops.config.loading import load_federation, load_site, site_of
from opboost_ops.exchange.party_state import open_state
from opboost_ops.mechanisms.randomised_response import BIT
from opboost_ops.orchestration.pages import ledger
from opboost_ops.orchestration.pages.access import Query
from opboost_ops.privacy.consent.exposure import share_words
from opboost_ops.reports import consent_words
from tests.federation import FIRST_RUN, Workspace, small_credit
from tests.integration.cli.conftest import Opboost


@pytest.fixture
def bank(tmp_path: Path) -> tuple[Path, Path]:
    """The folder of one party and the federation file; nobody else's files are anywhere."""
    made = Workspace.write(tmp_path / "w", small_credit(rows=60), seed=None, capped=True)
    alone = tmp_path / "alone"
    shutil.copytree(made.folder / "bank", alone / "bank")
    shutil.copy(made.file, alone)
    shutil.rmtree(made.folder)
    return alone / "bank", alone / "federation.yaml"


def sheet(opboost: Opboost, bank: tuple[Path, Path]) -> Any:
    return json.loads(opboost("agree", *bank, "--json").output)["sheet"]


def edit(file: Path, change: Callable[[Any], object]) -> None:
    data = yaml.safe_load(file.read_text())
    change(data)
    file.write_text(yaml.safe_dump(data, sort_keys=False))


def features(data: Any) -> Any:
    return data["parties"]["bank"]["features"]


def test_it_shows_all_that_leaves_and_cuts_nothing(
    opboost: Opboost, bank: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "900")
    # Nobody answers, and what is new is agreed to by nobody.
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    edit(bank[1], lambda d: features(d)["income"].update(missing={"fill": 100}))
    done = opboost("agree", *bank)
    assert "has not agreed" in done.error
    words = " ".join(done.out.split())
    said = sheet(opboost, bank)
    assert {line["column"] for line in said["columns"]} == {
        "income", "balance", "overdrafts", "debt_ratio", "savings_rate",
    }  # fmt: skip
    for line in said["columns"]:
        assert line["receiver"] == "credit"
        for cell in (line["column"], line["bounds"], line["mechanism"]):
            assert cell in words
        assert f"{line['loss_whole']:,.4f}" in words
        assert f"{np.exp(line['loss_whole_ever']):,.0f} to 1" in words
        assert line["loss_whole_ever"] == line["releases"] * line["loss_whole"]
    for line in said["exact"]:
        assert line["discloses"] in words
    totals = said["totals"]
    whole = sum(line["loss_whole"] for line in said["columns"])
    assert totals["loss_whole"] == pytest.approx(whole)
    assert "…" not in done.out and "opboost check" not in done.out


def test_a_value_and_its_missing_bit_are_guessed_together(
    opboost: Opboost, bank: tuple[Path, Path]
) -> None:
    def add_bit(data: Any) -> None:
        features(data)["income"]["missing"] = {"fill": 2500, "bit": 0.64}

    edit(bank[1], add_bit)
    said = sheet(opboost, bank)
    value, bit = (line for line in said["columns"] if line["column"].startswith("income"))
    assert value["guess"] == bit["guess"]
    both = value["loss_whole"] + bit["loss_whole"]
    assert value["guess"]["odds"] == pytest.approx(np.exp(both))
    assert (value["guess"]["values"], value["guess"]["missing"]) == (11, True)
    # The best guess of both, by Bayes' rule over all responses; a missing value counts as the fill.
    declared = load_federation(bank[1])
    income, domain = declared.parties["bank"].features["income"], declared.domain.to_domain()
    assert income.mechanism is not None and income.missing_bit is not None
    response = income.mechanism.channel(domain).probabilities()
    missing = income.missing_bit.channel(BIT).probabilities()
    fill = int(income.domain_map(domain).encode(np.array([2500.0]))[0]) - domain.lower
    assert fill > 0
    states = [(x, 0) for x in range(10)] + [(fill, 1)]
    joint = np.array([np.outer(response[x], missing[b]).ravel() for x, b in states])
    assert value["guess"]["after"] == pytest.approx(joint.max(axis=0).sum() / len(states))
    record = said["whole_record"]
    assert 0 < record["first_error"] < 0.02
    assert record["first_exposed"] > record["first"]


def test_the_same_words_on_card_and_ledger(
    trained_once: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained_once.known_to(monkeypatch)
    declared = trained_once.declared
    site = trained_once.folder / "bank"
    sheet = api.agree(site, trained_once.file).sheet
    (words,) = [line for line in consent_words.meaning(sheet) if line.startswith("Most exposed")]
    assert "guesses which of 10 ranges" in words
    assert sheet.most_exposed is not None and sheet.most_exposed.guess is not None
    assert share_words(sheet.most_exposed.guess.of_two) in words
    card = json.loads(
        (
            trained_once.folder / "credit/models" / declared.name / FIRST_RUN / "card.json"
        ).read_text()
    )
    assert f"bank: {words}" in card["disclosed"]
    for days in ({}, {"since": "2026-01-01"}):
        query = Query(lambda _: True, **days)
        assert words in str(ledger.build(*site_of("bank"), query))


def test_where_the_number_protects_little_it_says_so(
    opboost: Opboost, bank: tuple[Path, Path]
) -> None:
    assert "protects little" not in opboost("agree", *bank, "--json", "--html", bank[0] / "a").out
    page = (bank[0] / "a").read_text()
    assert "This protects little" not in page

    def raise_epsilons(data: Any) -> None:
        for feature in features(data).values():
            feature["mechanism"]["epsilon"] = 6.0

    edit(bank[1], raise_epsilons)
    opboost("agree", *bank, "--json", "--html", bank[0] / "b")
    said, page = sheet(opboost, bank), (bank[0] / "b").read_text()
    worst = next(one for one in said["columns"] if one["column"] == said["most_exposed"])
    assert worst["guess"]["after"] > 0.8
    share = f"{worst['column']} ({100 * worst['guess']['after']:.1f} %)"
    assert "This protects little: credit guesses the value right for most people in" in page
    assert share in page


def test_the_page_loads_nothing(opboost: Opboost, bank: tuple[Path, Path]) -> None:
    assert opboost("agree", *bank, "--json", "--html", bank[0] / "sheet.html").code == 0
    page = (bank[0] / "sheet.html").read_text()
    assert not re.search(r"(?:src|href)=|url\(|@import", page)
    assert "@media print" in page


def test_one_page_to_sign(opboost: Opboost, bank: tuple[Path, Path]) -> None:
    """Terms, one table by feature with odds over all releases, and what follows a leaked key."""
    edit(bank[1], lambda d: features(d)["income"].update(refresh="yearly"))
    loss = next(one for one in sheet(opboost, bank)["columns"] if one["column"] == "income")
    budget = 2.5 * loss["loss_whole"]
    edit(bank[0] / "policy.yaml", lambda d: d["features"]["income"].update(budget=budget))
    assert opboost("agree", *bank, "--json", "--html", bank[0] / "sheet.html").code == 0
    page = (bank[0] / "sheet.html").read_text()
    for words in ("Purpose", "Retention", "If a key leaks", "Fingerprints", "Signature",
                  "once per year: income", "opboost stop SITE"):  # fmt: skip
        assert words in page
    assert "e-0" not in re.sub(r"<style>.*?</style>", "", page, flags=re.S)
    odds = np.exp(2 * loss["loss_whole"])
    row = next(row for row in page.split("<tr>") if row.startswith("<td>income</td>"))
    assert f"{odds:,.0f} to 1" in row and f"{budget:,g}" in row
    assert page.count(">income</td>") == 2  # By feature, and its charge in the fold.


def test_each_party_reads_what_follows_if_one_of_its_own_keys_leaks(
    opboost: Opboost, tmp_path: Path
) -> None:
    made = Workspace.write(tmp_path / "w", small_credit(rows=60), seed=None, capped=True)
    for party in ("bank", "credit"):
        page = tmp_path / f"{party}.html"
        done = opboost("agree", made.folder / party, made.file, "--json", "--html", page)
        assert done.code == 0, done
        for key in ("signing key", "encryption key", "secret"):
            assert f"{key} of {party}" in page.read_text()


def test_most_exposed_is_judged_by_odds_over_the_prior(
    opboost: Opboost, bank: tuple[Path, Path]
) -> None:
    """A coin is guessed right more often, and gains less."""

    def declare(data: Any) -> None:
        features(data)["balance"] = {
            "uuid": features(data)["balance"]["uuid"],
            "type": "nominal",
            "categories": ["a", "b"],
            "mechanism": {"name": "unary", "epsilon": 1.2},
        }

    edit(bank[1], declare)
    said = sheet(opboost, bank)
    guesses = {line["column"]: line["guess"] for line in said["columns"]}
    assert guesses["balance"]["after"] > guesses["income"]["after"]
    assert said["most_exposed"] != "balance"


def test_who_has_set_a_cap(opboost: Opboost, bank: tuple[Path, Path]) -> None:
    caps = {cap["name"]: cap for cap in sheet(opboost, bank)["caps"]}
    assert caps["features.income.budget"]["set_by"] == "init"
    assert caps["all_features.budget"] == {
        "name": "all_features.budget", "value": None, "set_by": "nobody",
    }  # fmt: skip
    budget = 3.5 * sheet(opboost, bank)["columns"][0]["loss_whole"]
    edit(bank[0] / "policy.yaml", lambda d: d["features"]["income"].update(budget=budget))
    said = sheet(opboost, bank)
    caps = {cap["name"]: cap for cap in said["caps"]}
    assert caps["features.income.budget"]["set_by"] == "a person"
    assert said["columns"][0]["releases"] == 3


def test_name_and_reason_stand_in_the_audit_log(opboost: Opboost, bank: tuple[Path, Path]) -> None:
    edit(bank[1], lambda d: features(d)["income"].update(missing={"fill": 100}))
    digest = sheet(opboost, bank)["digest"]
    why = ["--by", "Ada Example", "--because", "the board has decided on 2 May"]
    assert opboost("agree", *bank, "--yes", digest, *why).code == 0
    with open_state(load_site(bank[0] / "site.yaml")) as state:
        entries = [entry for _, entry, _ in state.audit.entries() if entry.action == "agreed"]
    detail = entries[-1].detail
    assert "by Ada Example, because the board has decided on 2 May" in detail
