"""`opboost audit`."""

import json
import sqlite3
from pathlib import Path

import pytest

from opboost_ops.config.loading import load_site
from opboost_ops.exchange.audit import GENESIS
from opboost_ops.exchange.party_state import open_state
from tests.integration.cli.conftest import Opboost

PLACE = "toy/0000000000000001/ranks/bank"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "site.yaml").write_text("version: 1\nparty: bank\nstore: exchange\n")
    return tmp_path


def add(site: Path, *details: str) -> str:
    with open_state(load_site(site / "site.yaml")) as state:
        return [state.audit.add("sent", PLACE, "shop", "a" * 64, text) for text in details][-1]


def tamper(site: Path, statement: str) -> None:
    connection = sqlite3.connect(site / "ledger.sqlite")
    with connection:
        connection.execute(statement)
    connection.close()


def test_an_empty_log(site: Path, opboost: Opboost) -> None:
    output = opboost("audit", "show", site).output
    assert "0 entries, unbroken." in output
    assert GENESIS in output


def test_show_and_verify(site: Path, opboost: Opboost) -> None:
    head = add(site, "first", "second")
    output = opboost("audit", "show", site).output
    assert all(text in output for text in (PLACE, "first", "second", "a" * 16, "2 entries", head))
    found = json.loads(opboost("audit", "show", site, "--json").output)
    assert (found["party"], found["count"], found["head"]) == ("bank", 2, head)
    assert [entry["detail"] for entry in found["entries"]] == ["first", "second"]
    assert found["entries"][-1]["hash"] == head
    assert f"2 entries, unbroken.\nHead: {head}" in opboost("audit", "show", site).output


def test_a_noted_head(site: Path, opboost: Opboost) -> None:
    noted = add(site, "first")
    last = add(site, "second")
    assert "noted hash is in it" in opboost("audit", "show", site, "--head", noted).output
    tamper(site, "DELETE FROM audit WHERE number = 2")
    assert "1 entry, unbroken." in opboost("audit", "show", site).output
    done = opboost("audit", "show", site, "--head", last)
    assert "cut off or replaced" in done.error
    assert done.out == ""


@pytest.mark.parametrize("command", [("show",), ("show", "--json")])
def test_a_broken_chain_is_one_error(
    site: Path, opboost: Opboost, command: tuple[str, ...]
) -> None:
    add(site, "first", "second", "third")
    tamper(site, "UPDATE audit SET entry = replace(entry, 'second', 'other') WHERE number = 2")
    done = opboost("audit", command[0], site, *command[1:])
    assert "broken at entry 2." in done.error
    assert done.out == ""


def test_an_entry_cannot_steer_the_terminal(site: Path, opboost: Opboost) -> None:
    add(site, "\x1b[2J[bold red]gone[/]")
    output = opboost("audit", "show", site).output
    assert "\x1b" not in output
    assert "[bold red]gone[/]" in output


def test_a_folder_without_a_site_is_one_error(tmp_path: Path, opboost: Opboost) -> None:
    assert "site.yaml" in opboost("audit", "show", tmp_path).error
