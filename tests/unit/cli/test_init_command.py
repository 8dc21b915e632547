"""`opboost init`: policies that allow what is declared and no more, and one UUID for a column."""

import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from opboost_ops.config.loading import load_policy, parse_federation
from opboost_ops.errors import PolicyError
from opboost_ops.privacy.consent import require_consent
from opboost_ops.privacy.left_open import left_open
from opboost_ops.privacy.loss import loss_curve
from tests.unit.cli.conftest import Opboost


@pytest.fixture
def tables(tmp_path: Path) -> list[str]:
    ids = [f"P{i}" for i in range(40)]
    pl.DataFrame({"id": ids, "income": range(40), "town": ["a", "b"] * 20}).write_parquet(
        tmp_path / "bank.parquet"
    )
    pl.DataFrame({"id": ids, "default": [0, 1] * 20}).write_parquet(tmp_path / "lender.parquet")
    return [f"--table={party}={tmp_path / party}.parquet" for party in ("bank", "lender")]


def init(opboost: Opboost, folder: Path, tables: list[str], *more: str) -> Any:
    """What it wrote as federation file, with the blanks filled in."""
    done = opboost(
        "init",
        folder,
        *tables,
        "--label",
        "lender.default",
        "--id",
        "id",
        "--name",
        "credit",
        *more,
    )
    assert done.code == 0, done
    data = yaml.safe_load((folder / "federation.yaml").read_text())
    for feature in data["parties"]["bank"]["features"].values():
        if "bounds" in feature:
            feature["bounds"] = [0, 40]
        if "categories" in feature:
            feature["categories"] = ["a", "b"]
    return data


def refused(folder: Path, data: Any) -> str:
    with pytest.raises(PolicyError) as caught:
        require_consent(
            load_policy(folder / "bank" / "policy.yaml"),
            parse_federation(data, "federation.yaml"),
            "bank",
        )
    return str(caught.value)


def test_what_init_writes_allows_what_is_declared_and_no_more(
    tmp_path: Path, tables: list[str], opboost: Opboost
) -> None:
    data = init(opboost, tmp_path / "new", tables)
    policy = load_policy(tmp_path / "new" / "bank" / "policy.yaml")
    declared = parse_federation(data, "federation.yaml")
    require_consent(policy, declared, "bank")
    assert policy.require_encryption
    for name, rule in policy.features.items():
        feature = declared.parties["bank"].features[name]
        assert (rule.uuid, rule.max_changes) == (feature.uuid, 2)
    income = declared.parties["bank"].features["income"]
    assert income.mechanism is not None
    curve = loss_curve(income.mechanism, declared.domain.to_domain())  # type: ignore[arg-type]
    rule = policy.features["income"]
    assert rule.max_loss_1 == pytest.approx(curve.loss[0], abs=1e-4)
    assert rule.max_loss_whole == pytest.approx(curve.loss[-1], abs=1e-4)
    assert rule.budget_1 == pytest.approx(2 * curve.loss[0], abs=1e-4)
    assert rule.budget_whole == pytest.approx(2 * curve.loss[-1], abs=1e-4)
    assert left_open(policy) == []
    for name in policy.features:
        data["parties"]["bank"]["features"][name]["mechanism"]["epsilon"] = 1000.0
    told = refused(tmp_path / "new", data)
    for name in policy.features:
        assert f"features.{name}.max_loss_1 is" in told
        assert f"features.{name}.max_loss_whole is" in told


def test_a_larger_domain_does_not_fit(tmp_path: Path, tables: list[str], opboost: Opboost) -> None:
    data = init(opboost, tmp_path / "new", tables)
    data["domain"]["upper"] = 200
    assert "features.income.max_loss_whole is" in refused(tmp_path / "new", data)


def test_a_second_init_keeps_the_uuid_that_a_policy_pins(
    tmp_path: Path, tables: list[str], opboost: Opboost
) -> None:
    first = init(opboost, tmp_path / "first", tables)["parties"]["bank"]["features"]
    path = tmp_path / "first" / "bank" / "policy.yaml"
    policy = yaml.safe_load(path.read_text())
    policy["features"]["salary"] = {**policy["features"].pop("income"), "column": "income"}
    path.write_text(yaml.safe_dump(policy))
    second = init(opboost, tmp_path / "second", tables, f"--policy=bank={path}")
    features = second["parties"]["bank"]["features"]
    assert features["town"]["uuid"] == first["town"]["uuid"]
    # The column that the party calls salary by now, whatever its table says.
    assert "income" not in features
    assert features["salary"]["uuid"] == first["income"]["uuid"]
    rule = load_policy(tmp_path / "second" / "bank" / "policy.yaml").features["salary"]
    assert (str(rule.uuid), rule.column) == (first["income"]["uuid"], "income")


@pytest.mark.parametrize(
    ("given", "told"),
    [("lender={}", "is of bank, not of lender"), ("post={}", ""), ("bank=", "PARTY=PATH")],
)
def test_a_policy_that_is_none_of_the_partys(
    tmp_path: Path, tables: list[str], opboost: Opboost, given: str, told: str
) -> None:
    init(opboost, tmp_path / "first", tables)
    path = tmp_path / "first" / "bank" / "policy.yaml"
    error = opboost(
        "init", tmp_path / "second", *tables, "--label", "lender.default", "--id", "id",
        f"--policy={given.format(path)}",
    ).error  # fmt: skip
    assert told in error
    assert not (tmp_path / "second").exists()


def test_an_epsilon_that_is_none_is_told_by_check(
    tmp_path: Path, tables: list[str], opboost: Opboost
) -> None:
    init(opboost, tmp_path / "new", tables, "--epsilon=-1")
    assert "mechanism" in opboost("check", tmp_path / "new").error


@pytest.mark.parametrize("positive", ["default", "no"])
def test_init_declares_which_class_is_positive(
    opboost: Opboost, tmp_path: Path, tables: list[str], positive: str
) -> None:
    path = tmp_path / "lender.parquet"
    classes = ["default", "no"]
    pl.DataFrame({"id": [f"P{i}" for i in range(40)], "default": classes * 20}).write_parquet(path)
    data = init(opboost, tmp_path / "new", tables, "--positive", positive)
    declared = data["parties"]["lender"]["label"]["classes"]
    assert sorted(declared) == classes
    assert declared[-1] == positive
    done = opboost("init", tmp_path / "other", *tables, "--label", "lender.default", "--id", "id")
    assert done.code != 0
    assert "which one is the positive" in f"{done}"


def test_at_a_terminal_init_asks_which_class_is_positive(tmp_path: Path, tables: list[str]) -> None:
    """Again where the answer is none of them; nobody is asked where no terminal is."""
    classes = ["default", "no"]
    pl.DataFrame({"id": [f"P{i}" for i in range(40)], "default": classes * 20}).write_parquet(
        tmp_path / "lender.parquet"
    )
    entry = "import sys; from opboost_ops.cli import main; sys.argv[0] = 'opboost'; main()"
    command = [sys.executable, "-c", entry, "init", str(tmp_path / "new"), *tables,
               "--label", "lender.default", "--id", "id"]  # fmt: skip
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
    data = yaml.safe_load((tmp_path / "new" / "federation.yaml").read_text())
    assert data["parties"]["lender"]["label"]["classes"] == ["no", "default"]
    silent = subprocess.run(
        [*command[:4], str(tmp_path / "other"), *command[5:]],
        stdin=subprocess.PIPE, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert silent.returncode == 1 and b"--positive no" in silent.stderr


def test_a_password_on_the_command_line_is_refused_and_nothing_is_written(
    tmp_path: Path, tables: list[str], opboost: Opboost
) -> None:
    url = "postgresql://bank:hunter2@db.example/bank"
    given = (f"--table=bank={url}", "--query=bank=SELECT 1", tables[1])
    done = opboost("init", tmp_path / "new", *given, "--label", "lender.default", "--id", "id")
    assert "--table bank=env:BANK_TABLE" in " ".join(done.error.split())
    assert "hunter2" not in done.out + done.err
    assert not (tmp_path / "new").exists()


def test_a_site_is_readable_by_its_owner_alone(
    tmp_path: Path, tables: list[str], opboost: Opboost
) -> None:
    init(opboost, tmp_path / "new", tables)
    for party in ("bank", "lender"):
        site = tmp_path / "new" / party
        assert site.stat().st_mode & 0o077 == 0
        assert [p.name for p in site.rglob("*") if p.stat().st_mode & 0o077] == []
