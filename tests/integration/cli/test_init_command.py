"""`opboost init`: policies that allow what is declared and no more, and one UUID for a column."""

import csv
import json
import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

from opboost_ops.config.loading import load_federation, load_policy
from opboost_ops.exchange.signing import new_signing_key
from opboost_ops.privacy.consent.agreements import policy_after_agreement
from opboost_ops.privacy.consent.compliance import require_consent
from opboost_ops.privacy.loss import loss_curve
from tests.federation import Workspace
from tests.integration.cli.conftest import Opboost


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """A folder with a table of each party."""
    ids = [f"P{i}" for i in range(40)]
    pl.DataFrame({"id": ids, "income": range(40), "town": ["a", "b"] * 20}).write_parquet(
        tmp_path / "bank.parquet"
    )
    pl.DataFrame({"id": ids, "default": [0, 1] * 20}).write_parquet(tmp_path / "lender.parquet")
    return tmp_path


def arguments(folder: Path, tables: Path, party: str, *more: str) -> list[str]:
    about = ["--party", party, "--table", str(tables / f"{party}.parquet"), "--id", "id"]
    label = ["--label", "default"] if party == "lender" else []
    return ["init", str(folder / party), *about, *label, "--name", "credit", *more]


def init(opboost: Opboost, folder: Path, tables: Path, **more: tuple[str, ...]) -> Any:
    """What both parties' offers make as a federation file, with the blanks filled in."""
    for party in ("lender", "bank"):
        done = opboost(*arguments(folder, tables, party, *more.get(party, ())))
        assert done.code == 0, done
    path = folder / "bank" / "bank-offer.yaml"
    offer = yaml.safe_load(path.read_text())
    for feature in offer["features"].values():
        if "bounds" in feature:
            feature["bounds"] = [0, 40]
        if "categories" in feature:
            feature["categories"] = ["a", "b"]
    path.write_text(yaml.safe_dump(offer))
    offers = [folder / party / f"{party}-offer.yaml" for party in ("lender", "bank")]
    done = opboost("federate", *offers, "--out", folder / "federation.yaml")
    assert done.code == 0, done
    return yaml.safe_load((folder / "federation.yaml").read_text())


def test_what_init_writes_allows_what_is_declared_and_no_more(
    tmp_path: Path, tables: Path, opboost: Opboost
) -> None:
    init(opboost, tmp_path / "new", tables)
    policy = load_policy(tmp_path / "new" / "bank" / "policy.yaml")
    declared = load_federation(tmp_path / "new" / "federation.yaml")
    require_consent(policy_after_agreement(policy, declared), declared, "bank")
    assert policy.require_encryption
    # Of 40 rows; the file says where the caps come from.
    asked = policy.alignment
    assert (asked.max_new_queries, asked.max_queries_total) == (80, 800)
    assert policy.approve == "first", "a person sees the first run before anything is answered"
    assert "# max_new_queries: 2 times" in (tmp_path / "new/bank/policy.yaml").read_text()
    income = declared.parties["bank"].features["income"]
    assert income.mechanism is not None
    domain = income.domain_in(declared.domain.to_domain())
    curve = loss_curve(income.mechanism, domain)  # type: ignore[arg-type]
    rule = policy.features["income"]
    assert rule.budget == pytest.approx(curve.loss[-1], abs=1e-4)
    assert policy.all_features.budget == pytest.approx(
        sum(one.budget or 0 for one in policy.features.values()), abs=1e-3
    )
    assert "edges" not in str(income.scale), "40 people are too few to draw edges from"
    # Caps on both losses leave room for edges.
    assert curve.loss[0] <= 0.7 - 0.05 and curve.loss[-1] <= 4.5 - 0.05


def test_numbers_of_many_people_lie_on_private_edges(tmp_path: Path, opboost: Opboost) -> None:
    """Drawn and charged once bounds are there; caps on both losses cover edges and release."""
    incomes = np.random.default_rng(3).lognormal(8, 1, 20_000)
    ids = [f"P{i}" for i in range(20_000)]
    pl.DataFrame({"id": ids, "income": incomes}).write_parquet(tmp_path / "bank.parquet")
    folder = tmp_path / "bank"
    assert opboost(*arguments(tmp_path, tmp_path, "bank")).code == 0
    table = folder / "bounds.csv"
    assert "private 0.05" in table.read_text()
    table.write_text(table.read_text().replace("lower upper,,,", "lower upper,0,1000000,"))
    done = opboost("bounds", folder)
    assert done.code == 0, done
    features = yaml.safe_load((folder / "bank-offer.yaml").read_text())["features"]
    edges = features["income"]["scale"]["edges"]
    shares = np.searchsorted(np.sort(incomes), edges) / len(incomes)
    assert np.abs(shares - np.arange(1, 10) / 10).max() < 0.1
    assert load_policy(folder / "policy.yaml").features["income"].budget <= 4.5


def test_caps_for_a_partner_with_more_people(
    tmp_path: Path, tables: Path, opboost: Opboost
) -> None:
    """A left join queries all of the label holder's people, however few the bank has."""
    init(opboost, tmp_path / "new", tables, bank=("--queries", "5000"))
    rules = load_policy(tmp_path / "new" / "bank" / "policy.yaml").alignment
    assert (rules.max_new_queries, rules.max_queries_total) == (5_000, 50_000)


def test_a_column_with_few_values_gets_as_many_cells(tmp_path: Path, opboost: Opboost) -> None:
    """Of whole numbers the bounds say how many; of others people do, and the policy follows."""
    rows = 40
    pl.DataFrame(
        {
            "id": [f"P{i}" for i in range(rows)],
            "grade": [1, 2, 3, 2] * 10,
            "half": [0.0, 0.5] * 20,
            "income": range(rows),
            "flag": [True, False] * 20,
        }
    ).write_parquet(tmp_path / "bank.parquet")
    folder = tmp_path / "bank"
    assert opboost(*arguments(tmp_path, tmp_path, "bank")).code == 0
    before = load_policy(folder / "policy.yaml").all_features.budget
    table = folder / "bounds.csv"
    with table.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert {line["feature"]: line["values"] for line in lines} == {
        "grade": "whole numbers", "half": "", "income": "whole numbers",
    }  # fmt: skip
    public = {"grade": ("1", "3", ""), "half": ("0", "0.5", "2"), "income": ("0", "20000", "")}
    for line in lines:
        line["lower"], line["upper"], values = public[line["feature"]]
        line["values"] = values or line["values"]
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, lines[0])
        writer.writeheader()
        writer.writerows(lines)
    done = opboost("bounds", folder)
    assert done.code == 0, done
    features = yaml.safe_load((folder / "bank-offer.yaml").read_text())["features"]
    assert features["grade"]["domain"] == {"lower": 1, "upper": 3}
    assert features["half"]["domain"] == {"lower": 1, "upper": 2}
    assert "domain" not in features["income"]
    few = {"name": "geometric", "epsilon": 0.7}
    assert features["grade"]["mechanism"] == features["flag"]["mechanism"] == few
    policy = load_policy(folder / "policy.yaml")
    budgets = {name: rule.budget for name, rule in policy.features.items()}
    assert budgets == pytest.approx(
        {"grade": 1.4, "half": 0.7, "income": 4.45, "flag": 0.7}, abs=1e-3
    )
    assert policy.features["grade"].mechanisms == ("geometric",)
    assert before is not None and before > (policy.all_features.budget or before)
    assert "# max_new_queries: 2 times" in (folder / "policy.yaml").read_text()
    # Another table of bounds says that there are more: nothing is left half changed.
    written = (folder / "bank-offer.yaml").read_bytes()
    table.write_text(
        table.read_text().replace("grade,,lower upper,1,3", "grade,,lower upper,1,300")
    )
    done = opboost("bounds", folder)
    assert done.code == 1 and "grade" in str(done)
    assert (folder / "bank-offer.yaml").read_bytes() == written


def test_few_values_raise_no_budget_that_a_person_has_lowered(
    tmp_path: Path, opboost: Opboost
) -> None:
    """And a column that was taken out of the policy alone is passed over."""
    frame = pl.DataFrame(
        {"id": [f"P{i}" for i in range(40)], "grade": [1, 2, 3, 2] * 10, "half": [1, 2] * 20}
    )
    frame.write_parquet(tmp_path / "bank.parquet")
    folder = tmp_path / "bank"
    assert opboost(*arguments(tmp_path, tmp_path, "bank")).code == 0
    path = folder / "policy.yaml"
    policy = yaml.safe_load(path.read_text())
    policy["features"]["grade"]["budget"] = 0.9
    policy["all_features"]["budget"] = 0.9
    del policy["features"]["half"]
    path.write_text(yaml.safe_dump(policy))
    table = folder / "bounds.csv"
    table.write_text(table.read_text().replace("lower upper,,,", "lower upper,1,3,"))
    done = opboost("bounds", folder)
    assert done.code == 0, done
    lowered = load_policy(path)
    assert lowered.features["grade"].mechanisms == ("geometric",)
    assert lowered.features["grade"].budget == lowered.all_features.budget == 0.9


def test_a_second_init_keeps_the_names_of_a_policy(
    tmp_path: Path, tables: Path, opboost: Opboost
) -> None:
    init(opboost, tmp_path / "first", tables)
    path = tmp_path / "first" / "bank" / "policy.yaml"
    policy = yaml.safe_load(path.read_text())
    policy["features"]["salary"] = {**policy["features"].pop("income"), "column": "income"}
    path.write_text(yaml.safe_dump(policy))
    second = init(opboost, tmp_path / "second", tables, bank=("--policy", str(path)))
    features = second["parties"]["bank"]["features"]
    # The column that the party calls salary by now, whatever its table says.
    assert "income" not in features
    assert "salary" in features
    rule = load_policy(tmp_path / "second" / "bank" / "policy.yaml").features["salary"]
    assert rule.column == "income"


def test_a_policy_of_another_party_is_refused(
    tmp_path: Path, tables: Path, opboost: Opboost
) -> None:
    init(opboost, tmp_path / "first", tables)
    path = tmp_path / "first" / "bank" / "policy.yaml"
    error = opboost(*arguments(tmp_path / "second", tables, "lender", "--policy", str(path))).error
    assert "is the policy of bank, not of lender" in error
    assert not (tmp_path / "second").exists()


@pytest.mark.parametrize("positive", ["default", "no"])
def test_init_declares_which_class_is_positive(
    opboost: Opboost, tmp_path: Path, tables: Path, positive: str
) -> None:
    path = tmp_path / "lender.parquet"
    classes = ["default", "no"]
    pl.DataFrame({"id": [f"P{i}" for i in range(40)], "default": classes * 20}).write_parquet(path)
    data = init(opboost, tmp_path / "new", tables, lender=("--positive", positive))
    declared = data["parties"]["lender"]["label"]["classes"]
    assert sorted(declared) == classes
    assert declared[-1] == positive
    done = opboost(*arguments(tmp_path / "other", tables, "lender"))
    assert done.code != 0
    assert "The positive class of the label" in f"{done}"


def test_at_a_terminal_init_asks_which_class_is_positive(tmp_path: Path, tables: Path) -> None:
    """Again where the answer is none of them."""
    classes = ["default", "no"]
    pl.DataFrame({"id": [f"P{i}" for i in range(40)], "default": classes * 20}).write_parquet(
        tmp_path / "lender.parquet"
    )
    entry = "import sys; from opboost_ops.cli import main; sys.argv[0] = 'opboost'; main()"
    command = [sys.executable, "-c", entry, *arguments(tmp_path / "new", tables, "lender")]
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        os.write(ours, b"maybe\ndefault\n")
        said = b""
        with suppress(OSError):  # A terminal whose other end is gone.
            while chunk := os.read(ours, 1024):
                said += chunk
        assert process.wait(60) == 0, said
    os.close(ours)
    assert said.count(b"Which: default or no") == 2 and b"it is default or no" in said
    data = yaml.safe_load((tmp_path / "new" / "lender" / "lender-offer.yaml").read_text())
    assert data["label"]["classes"] == ["no", "default"]


@pytest.mark.parametrize(
    ("option", "url"),
    [
        ("--table", "postgresql://bank:hunter2@db.example/bank"),
        ("--table", "postgresql://bank@db.example/bank?password=hunter2"),
        ("--store", "s3://key:hunter2@exchange"),
    ],
)
def test_a_password_on_the_command_line_is_refused_and_nothing_is_written(
    option: str, url: str, tmp_path: Path, tables: Path, opboost: Opboost
) -> None:
    given = {"--table": tables / "bank.parquet", option: url}
    options = [part for pair in given.items() for part in pair]
    done = opboost("init", tmp_path / "new", "--party", "bank", "--id", "id", *options)
    name = f"BANK_{option.removeprefix('--').upper()}"
    assert f"{option} env:{name}" in " ".join(done.error.split())
    assert "hunter2" not in done.out + done.err
    assert not (tmp_path / "new").exists()


def test_a_site_is_readable_by_its_owner_alone(
    tmp_path: Path, tables: Path, opboost: Opboost
) -> None:
    init(opboost, tmp_path / "new", tables)
    for party in ("bank", "lender"):
        site = tmp_path / "new" / party
        assert site.stat().st_mode & 0o077 == 0
        assert [p.name for p in site.rglob("*") if p.stat().st_mode & 0o077] == []


def test_what_a_run_makes_at_a_party_is_readable_by_its_owner_alone(
    trained_once: Workspace,
) -> None:
    for site in trained_once.folder.glob("*/site.yaml"):
        made = [path for path in site.parent.rglob("*") if "tables" not in path.parts]
        assert site.parent / "ledger.sqlite" in made
        assert [str(path) for path in made if path.stat().st_mode & 0o077] == []


def test_a_party_joins_and_leaves_by_the_same_files(
    tmp_path: Path, tables: Path, opboost: Opboost
) -> None:
    """What no offer says stays in the file: training, queues, and keys that were renewed since."""
    new = tmp_path / "new"
    data = init(opboost, new, tables)
    path = new / "federation.yaml"
    bank, renewed = data["parties"]["bank"], new_signing_key()[1]
    bank["queue"] = "vault"
    bank["former_keys"] = [{"use": "signing", "key": bank["signing_key"], "until": "2030-01-01"}]
    bank["signing_key"] = renewed
    data["training"]["trees"] = 5
    path.write_text(yaml.safe_dump(data))
    ids = [f"P{i}" for i in range(40)]
    pl.DataFrame({"id": ids, "old": [True, False] * 20}).write_parquet(tables / "shop.parquet")
    assert opboost(*arguments(new, tables, "shop")).code == 0
    offers = {p: new / p / f"{p}-offer.yaml" for p in ("lender", "bank", "shop")}
    told = opboost("federate", *offers.values(), "--out", path).output
    assert "Joins: shop." in told
    joined = yaml.safe_load(path.read_text())
    assert list(joined["parties"]) == ["lender", "bank", "shop"]
    assert joined["training"]["trees"] == 5
    assert joined["parties"]["bank"]["queue"] == "vault"
    assert joined["parties"]["bank"]["signing_key"] == renewed
    told = opboost("federate", offers["lender"], offers["shop"], "--out", path).output
    assert "Leaves: bank." in told
    assert list(yaml.safe_load(path.read_text())["parties"]) == ["lender", "shop"]


def test_offers_that_make_no_federation_are_refused_with_all_faults(
    tmp_path: Path, tables: Path, opboost: Opboost
) -> None:
    init(opboost, tmp_path, tables)
    path = tmp_path / "bank" / "bank-offer.yaml"
    offer = {**yaml.safe_load(path.read_text()), "federation": "other"}
    offer["id"]["types"] = ["integer"]
    path.write_text(yaml.safe_dump(offer))
    out = tmp_path / "federation.yaml"
    before = out.read_bytes()
    error = " ".join(opboost("federate", path, path, "--out", out).error.split())
    for fault in ("the offers are of bank, bank", "no offer has one", "for other"):
        assert fault in error
    lender = tmp_path / "lender" / "lender-offer.yaml"
    error = opboost("federate", lender, path, "--out", out).error
    assert "credit and other" in error and "integer in one table" in error
    assert out.read_bytes() == before


def test_agreeing_pins_the_label_holders_key_and_shows_fingerprints_of_one_form(
    tmp_path: Path, tables: Path, opboost: Opboost
) -> None:
    init(opboost, tmp_path, tables)
    told = {p: json.loads(opboost("keys", "show", tmp_path / p, "--json").out)
            for p in ("bank", "lender")}  # fmt: skip
    shown = json.loads(opboost("agree", tmp_path / "bank", tmp_path, "--json").out)
    done = opboost("agree", tmp_path / "bank", tmp_path, "--yes", shown["digest"])
    assert done.code == 0, done
    for found in told.values():
        assert re.fullmatch(r"\d{5}( \d{5}){5}", found["fingerprint"])
        assert found["fingerprint"] in done.out
    receivers = load_policy(tmp_path / "bank" / "policy.yaml").receivers
    assert receivers["lender"].signing_key == told["lender"]["signing_key"]
