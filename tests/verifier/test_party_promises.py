"""Each promise that a feature holder can check at home, and a change that breaks it."""

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather
import pytest
from typer.testing import CliRunner

from opboost_ops.cli import app
from opboost_ops.verifier import verify
from opboost_ops.verifier.party_promises import OwnRecords
from opboost_ops.verifier.party_state import PartyState
from opboost_ops.verifier.places import Party
from tests.commands import printed_json
from tests.federation import FIRST_RUN, SECOND_RUN, Workspace
from tests.verifier.tampering import broken, damage, executed, faults, flip, place, resign, verified

Tamper = Callable[[Workspace], None]


def execute(workspace: Workspace, change: str) -> None:
    """Change the bank's database by hand."""
    executed(workspace.folder / "bank", change)


def foreign_database(workspace: Workspace) -> None:
    execute(workspace, "UPDATE state SET party = 'shop'")


def rewritten_log(workspace: Workspace) -> None:
    execute(workspace, "UPDATE audit SET entry = replace(entry, 'sent', 'told') WHERE number = 2")


def shortened_log(workspace: Workspace) -> None:
    execute(workspace, "DELETE FROM audit WHERE number > 3")


def rewritten(workspace: Workspace, change: Callable[[list[Any]], list[Any]]) -> None:
    """Write another audit log of the bank, with a whole chain."""
    with sqlite3.connect(workspace.folder / "bank" / "ledger.sqlite") as database:
        rows = database.execute("SELECT entry FROM audit ORDER BY number").fetchall()
        database.execute("DELETE FROM audit")
        before = "0" * 64
        for number, entry in enumerate(change([json.loads(row) for (row,) in rows]), start=1):
            text = json.dumps(entry, sort_keys=True, separators=(",", ":"))
            before = hashlib.sha256(f"{before}\n{number}\n{text}".encode()).hexdigest()
            database.execute("INSERT INTO audit VALUES (?, ?, ?)", [number, text, before])
    database.close()


def agreed_afterwards(workspace: Workspace) -> None:
    rewritten(workspace, lambda log: [*log[1:], log[0]])


def withdrawn_before(workspace: Workspace) -> None:
    execute(workspace, "UPDATE agreements SET withdrawn = '2020-01-01'")
    rewritten(workspace, lambda log: [log[0], {**log[0], "action": "withdrawn"}, *log[1:]])


def withdrawn_without_a_trace(workspace: Workspace) -> None:
    execute(workspace, "UPDATE agreements SET withdrawn = '2020-01-01'")


def received_as_two(workspace: Workspace) -> None:
    """What the bank accepted was replaced, and a later entry names what lies there now."""

    def change(log: list[Any]) -> list[Any]:
        at = next(at for at, entry in enumerate(log) if entry["action"] == "received")
        return [*log[:at], {**log[at], "artifact": "0" * 64}, *log[at:]]

    rewritten(workspace, change)


def sent_as_two(workspace: Workspace) -> None:
    rewritten(workspace, lambda log: [*log, {**log[1], "artifact": "0" * 64}])


def narrower_agreement(workspace: Workspace) -> None:
    """Agree to less than what left: the bank's agreement has one feature less."""
    with sqlite3.connect(workspace.folder / "bank" / "ledger.sqlite") as database:
        ((content,),) = database.execute("SELECT content FROM agreements")
        agreed = json.loads(content)
        del agreed["federation"]["parties"]["bank"]["features"]["income"]
        database.execute("UPDATE agreements SET content = ?", [json.dumps(agreed)])
    database.close()


def no_entry(workspace: Workspace) -> None:
    execute(workspace, "DELETE FROM entries WHERE json_extract(event, '$.kind') = 'psi_answer'")


def uncommitted(workspace: Workspace) -> None:
    manifest = place(workspace, "ranks/bank") / "manifest.json"
    digest = hashlib.sha256(manifest.read_bytes()).hexdigest()
    execute(workspace, f"DELETE FROM commits WHERE artifact = '{digest}'")


def fewer_rows_in_the_ledger(workspace: Workspace) -> None:
    change = "event = replace(event, '\"rows\": ', '\"rows\": 1')"
    execute(workspace, f'UPDATE entries SET {change} WHERE event LIKE \'%"kind": "ranks"%\'')


def entry_of_nothing(workspace: Workspace) -> None:
    execute(workspace, "UPDATE entries SET event = '{}'")


def unchecked_table(workspace: Workspace) -> None:
    execute(workspace, "DELETE FROM entries WHERE json_extract(event, '$.kind') = 'check_table'")


def ranks_of_another_release(workspace: Workspace) -> None:
    change = "event = json_set(event, '$.release', 'none')"
    execute(workspace, f"UPDATE entries SET {change} WHERE json_extract(event, '$.kind') = 'ranks'")


def erased_run(workspace: Workspace) -> None:
    """The store removed a run, and the ledger has forgotten it with all that refers to it."""
    later = workspace.copy(workspace.folder.with_name("later"), SECOND_RUN)
    later.all()
    shutil.rmtree(workspace.folder)
    later.folder.rename(workspace.folder)
    shutil.rmtree(place(workspace, "ranks").parent)
    execute(
        workspace,
        f"DELETE FROM entries WHERE json_extract(event, '$.run') = '{FIRST_RUN}' "
        "AND json_extract(event, '$.kind') != 'release'",
    )
    execute(workspace, f"DELETE FROM checkpoints WHERE run = '{FIRST_RUN}'")
    rewritten(workspace, lambda log: [entry for entry in log if FIRST_RUN not in entry["place"]])


def invented_recovery(workspace: Workspace) -> None:
    """As if a backup had been restored: nothing that was published is in the ledger."""
    recovery = "(9, 'credit_scoring', 'credit', 9, 0, '', 'none', 0, '{}')"
    execute(workspace, f"INSERT INTO checkpoints VALUES {recovery}")


def rolled_back(workspace: Workspace) -> None:
    execute(workspace, "DELETE FROM checkpoints")


def release_of_nobody(workspace: Workspace) -> None:
    def change(manifest: Any) -> None:
        manifest["releases"]["income"] = "0" * 32

    resign(workspace, "ranks/bank", change)


def to_another_receiver(workspace: Workspace) -> None:
    execute(workspace, "UPDATE column_releases SET receiver = 'shop' WHERE feature = 'income'")


def charged_less(workspace: Workspace) -> None:
    execute(
        workspace,
        "DELETE FROM entries WHERE feature = 'income' "
        "AND json_extract(event, '$.kind') = 'release'",
    )


def no_release_left(workspace: Workspace) -> None:
    execute(workspace, "DELETE FROM column_releases WHERE feature = 'income'")


def less_than_nothing(workspace: Workspace) -> None:
    """A release that nobody received pays for the others."""
    over_budget(workspace)
    with sqlite3.connect(workspace.folder / "bank" / "ledger.sqlite") as database:
        query = (
            "SELECT event FROM entries WHERE feature = 'income' "
            "AND json_extract(event, '$.kind') = 'release'"
        )
        entry = json.loads(database.execute(query).fetchone()[0])
        entry["loss"]["loss"][-1] = -100.0
        entry |= {"artifact": "0" * 32, "release": "0" * 32}
        database.execute(
            "INSERT INTO entries VALUES (999, '', ?, 'income', ?)", ["0" * 32, json.dumps(entry)]
        )
        database.execute(
            'INSERT INTO column_releases SELECT 9, ?, kind, feature, "column", receiver, '
            "federation, declaration, opened, run, ?, content, 'recovered', '', '', 0 "
            "FROM column_releases WHERE feature = 'income'",
            ["0" * 32, json.dumps({"income": entry["loss"]})],
        )
    database.close()
    workspace.edit_yaml("bank/policy.yaml", only_income)


def only_income(policy: Any) -> None:
    policy.pop("all_features", None)
    for name, rule in policy["features"].items():
        if name != "income":
            rule.pop("budget", None)


def over_budget(workspace: Workspace) -> None:
    workspace.allow("bank", budget=0.5)


def uncounted_query(workspace: Workspace) -> None:
    execute(workspace, "DELETE FROM asked")


def counted_as_nobody(workspace: Workspace) -> None:
    execute(workspace, "UPDATE asked SET people = 0")


def over_the_cap(workspace: Workspace) -> None:
    execute(workspace, "UPDATE asked SET people = 100000")


def fewer_than_nobody(workspace: Workspace) -> None:
    """A query of another month makes up for those beyond the cap."""
    over_the_cap(workspace)
    other = "('credit_scoring', 'credit', '2020-01', 'none', 'none', -10000000)"
    execute(workspace, f"INSERT INTO asked VALUES {other}")
    workspace.declare("bank/policy.yaml", alignment={"max_new_queries": 10**7})


def another_pin_file(workspace: Workspace) -> None:
    path = next((workspace.folder / "bank" / "pins").glob("*.pins"))
    raw = path.read_bytes()
    path.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))


def open_release_without_pins(workspace: Workspace) -> None:
    change = "UPDATE column_releases SET pins = '', digest = '', rows = 0"
    execute(workspace, f"{change} WHERE feature = 'income'")


def pins_of_nothing(workspace: Workspace) -> None:
    path = next((workspace.folder / "bank" / "pins").glob("*.pins"))
    (path.parent / f"{'0' * 32}.00000000.pins").write_bytes(path.read_bytes())


def someone_else(workspace: Workspace) -> None:
    """Another ID in the run's own copy: that person's row was not what left."""
    path = workspace.folder / "bank" / "home" / "credit_scoring" / FIRST_RUN / "ids.arrow"
    ids = feather.read_table(path).column(0).to_pylist()
    swapped = [*ids[:-1], ids[0]]
    feather.write_feather(pa.table({"id": pa.array(swapped, pa.large_string())}), path)


def changed_rows(workspace: Workspace) -> None:
    flip(place(workspace, "ranks/bank") / "entries.bin.enc")


def changed_split(workspace: Workspace) -> None:
    flip(place(workspace, "split_values/bank") / "document.json.enc")


def changed_request(workspace: Workspace) -> None:
    flip(place(workspace, "split_request/bank") / "document.json.enc")


def another_exponent(workspace: Workspace) -> None:
    (key,) = (workspace.folder / "bank" / "keys" / "psi").glob("*.key")
    key.write_bytes(bytes(32))


TAMPERS: dict[str, list[Tamper]] = {
    "database": [foreign_database, entry_of_nothing],
    "audit": [
        *(rewritten_log, shortened_log, agreed_afterwards, withdrawn_before),
        *(withdrawn_without_a_trace, received_as_two, sent_as_two),
    ],
    "agreement": [narrower_agreement],
    "ledger": [
        *(no_entry, uncommitted, fewer_rows_in_the_ledger),
        *(unchecked_table, ranks_of_another_release),
    ],
    "state": [rolled_back],
    "history": [erased_run],
    "received": [changed_request],
    "releases": [release_of_nobody, to_another_receiver, no_release_left],
    "charges": [charged_less, no_release_left],
    "budgets": [over_budget, charged_less, less_than_nothing],
    "queries": [uncounted_query, counted_as_nobody, over_the_cap, fewer_than_nobody],
    "pins": [another_pin_file, open_release_without_pins, pins_of_nothing],
    "responses": [someone_else, changed_rows],
    "splits": [changed_split],
    "answers": [another_exponent],
}


@pytest.mark.parametrize(
    ("name", "tamper"),
    [
        pytest.param(name, tamper, id=f"{name}-{tamper.__name__}")
        for name, tampers in TAMPERS.items()
        for tamper in tampers
    ],
)
def test_a_tamper_breaks_its_promise(name: str, tamper: Tamper, workspace: Workspace) -> None:
    tamper(workspace)
    assert name in broken(verify([workspace.folder / "bank"]))


def test_a_recovery_that_the_ledger_does_not_know_hides_no_artifact(workspace: Workspace) -> None:
    invented_recovery(workspace)
    assert "recovered" in broken(verified(workspace, "bank"))


def test_a_budget_of_a_column_that_the_policy_does_not_name_is_missing(
    workspace: Workspace,
) -> None:
    workspace.edit_yaml(
        "bank/policy.yaml", lambda policy: policy["features"]["income"].update(column="INCOME")
    )
    (budgets,) = [p for p in verified(workspace, "bank")[-1].promises if p.name == "budgets"]
    assert any("income" in missing for missing in budgets.missing)


def test_a_damaged_answer_hides_no_cap(workspace: Workspace) -> None:
    workspace.declare(
        "bank/policy.yaml", alignment={"max_new_queries": 100, "max_queries_total": 9}
    )
    over_the_cap(workspace)
    over = faults(verified(workspace, "bank")[-1], "queries")
    damage(workspace, "psi_answer/bank")
    assert set(faults(verified(workspace, "bank")[-1], "queries")) > set(over)


def test_each_promise_about_a_holder_is_held_and_has_a_tamper(trained_once: Workspace) -> None:
    holder = verified(trained_once, "bank")[-1]
    assert {promise.name for promise in holder.promises} == set(TAMPERS)
    assert {promise.status for promise in holder.promises} == {"held"}


def test_the_sums_are_those_that_the_ledger_shows(trained_once: Workspace) -> None:
    party = Party(trained_once.folder / "bank")
    own = OwnRecords(party, PartyState(party.folder / "ledger.sqlite"), [])
    shown = printed_json("ledger", "show", party.folder)["columns"]
    assert {line["column"]: line["spent"] for line in shown} == pytest.approx(
        {column: float(loss) for column, loss in own.spent.items()}
    )


def test_without_the_secret_what_needs_it_is_not_checkable(workspace: Workspace) -> None:
    (workspace.folder / "bank" / "keys" / "noise.secret").unlink()
    holder = verified(workspace, "bank")[-1]
    status = {promise.name: promise.status for promise in holder.promises}
    assert {name for name, value in status.items() if value == "not checkable"} == {
        "history", "pins", "responses", "splits", "answers"
    }  # fmt: skip


@pytest.mark.parametrize(("tamper", "status"), [(None, 0), (rolled_back, 1)])
def test_the_exit_status_says_whether_a_promise_is_broken(
    tamper: Tamper | None, status: int, workspace: Workspace
) -> None:
    if tamper is not None:
        tamper(workspace)
    done = CliRunner().invoke(app, ["verify", str(workspace.folder / "bank"), "--json"])
    assert done.exit_code == status
    places = json.loads(done.stdout)
    assert [place["place"] for place in places] == ["store exchange", "party bank"]


def test_a_federation_without_parties_cannot_be_verified_beside_one(
    trained_once: Workspace, tmp_path: Path
) -> None:
    (tmp_path / "federation.yaml").write_bytes(trained_once.file.read_bytes())
    places = [str(trained_once.folder / "bank"), str(tmp_path)]
    assert CliRunner().invoke(app, ["verify", *places]).exit_code == 2


def test_a_folder_of_something_else_cannot_be_verified(tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["verify", str(tmp_path)]).exit_code == 2


def test_entries_that_need_no_agreement_may_change(fresh: Workspace) -> None:
    fresh.edit_yaml("federation.yaml", lambda file: file.update(schedule={"on_tables": "@daily"}))
    fresh.all()
    assert broken(verified(fresh)) == set()
