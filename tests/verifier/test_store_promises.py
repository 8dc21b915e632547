"""Each promise about a store, and a change to its files that breaks it."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opboost_ops.cli.airflow import DemoError
from opboost_ops.cli.airflow import verified as verified_words
from opboost_ops.verifier import verify
from tests.federation import Workspace
from tests.verifier.tampering import (
    broken,
    copy_artifact,
    damage,
    faults,
    place,
    replan,
    resign,
    verified,
    write_manifest,
)

Tamper = Callable[[Workspace], None]


def another_signing_key(workspace: Workspace) -> None:
    """Declare another key than the one that signed."""

    def change(federation: Any) -> None:
        parties = federation["parties"]
        parties["bank"]["signing_key"] = parties["shop"]["signing_key"]

    workspace.edit_yaml("federation.yaml", change, agree=False)


def former_key_that_nobody_agreed_to(workspace: Workspace) -> None:
    """The label holder lets another key sign for the bank."""

    def change(plan: Any) -> None:
        parties = plan["federation"]["parties"]
        former = {"use": "signing", "key": parties["shop"]["signing_key"], "until": "2099-12-31"}
        parties["bank"]["former_keys"] = [former]

    replan(workspace.folder, "credit", change)


def another_encryption_key(workspace: Workspace) -> None:
    def change(plan: Any) -> None:
        parties = plan["federation"]["parties"]
        parties["credit"]["encryption_key"] = parties["shop"]["encryption_key"]

    replan(workspace.folder, "credit", change)


def expired_key_without_a_day(workspace: Workspace) -> None:
    def change(plan: Any) -> None:
        plan["federation"]["parties"]["bank"]["signing_key_expires"] = "2020-01-01"

    replan(workspace.folder, "credit", change)


def table_beside_artifacts(workspace: Workspace) -> None:
    (place(workspace, "ranks").parent / "train.parquet").write_bytes(b"rows")


def table_in_no_run(workspace: Workspace) -> None:
    folder = workspace.folder / "exchange" / "credit_scoring" / "notes" / "ranks" / "bank"
    folder.mkdir(parents=True)
    (folder / "train.parquet").write_bytes(b"rows")


def link_beside_artifacts(workspace: Workspace) -> None:
    """To a folder outside of the store, which no walk of the store enters."""
    (place(workspace, "ranks").parent / "notes").symlink_to(workspace.folder / "bank" / "tables")


def link_in_an_artifact(workspace: Workspace) -> None:
    path = place(workspace, "ranks/bank") / "entries.bin.enc"
    moved = path.rename(workspace.folder / "entries.bin.enc")
    path.symlink_to(moved)


def linked_run(workspace: Workspace) -> None:
    """Its artifacts would be verified by nobody."""
    run = place(workspace, "ranks").parent
    run.symlink_to(run.rename(workspace.folder / "run"))


def pipe_beside_artifacts(workspace: Workspace) -> None:
    os.mkfifo(place(workspace, "ranks").parent / "pipe")


def table_named_like_a_pointer(workspace: Workspace) -> None:
    """As the file of a bucket that names an artifact's folder, but beside no such folder."""
    (place(workspace, "ranks").parent / "published.json").write_bytes(b"rows")


def pointer_out_of_the_store(workspace: Workspace) -> None:
    """The artifact's folder is elsewhere, where its publisher can change it."""
    folder = place(workspace, "ranks/bank")
    files = workspace.folder / "elsewhere"
    folder.rename(files)
    folder.mkdir()
    (folder / ".x").mkdir()
    outside = "x/" + "../" * len(folder.relative_to(workspace.folder).parts) + "../elsewhere"
    (folder / "published.json").write_text(json.dumps({"attempt": outside}))


def second_ranks_in_a_round(workspace: Workspace) -> None:
    """Signed by the bank, below its first ones."""
    folder = place(workspace, "ranks/bank") / "0001"
    folder.mkdir()
    for path in [path for path in folder.parent.iterdir() if path.is_file()]:
        (folder / path.name).write_bytes(path.read_bytes())
    manifest = json.loads((folder / "manifest.json").read_bytes())
    write_manifest(workspace.folder, folder, {**manifest, "round": "0001"}, "bank")


def another_protocol(workspace: Workspace) -> None:
    resign(workspace, "split_values/bank", lambda m: m.update(protocol=7))


def without_a_checkpoint(workspace: Workspace) -> None:
    resign(workspace, "split_values/bank", lambda m: m.pop("head"))


def damaged_manifest(workspace: Workspace) -> None:
    damage(workspace, "ranks/bank")


def longer_table(workspace: Workspace) -> None:
    def change(manifest: Any) -> None:
        manifest["rows"] += 1

    resign(workspace, "ranks/bank", change)


def flipped_signature(workspace: Workspace) -> None:
    path = place(workspace, "shares/shop") / "manifest.sig"
    raw = path.read_bytes()
    path.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))


def signed_by_another(workspace: Workspace) -> None:
    folder = place(workspace, "ranks/bank")
    manifest = json.loads((folder / "manifest.json").read_bytes())
    write_manifest(workspace.folder, folder, {**manifest, "party": "shop"}, "shop")


def one_byte_less(workspace: Workspace) -> None:
    path = place(workspace, "ranks/shop") / "entries.bin.enc"
    path.write_bytes(path.read_bytes()[:-1])


def no_files(workspace: Workspace) -> None:
    for path in place(workspace, "psi_answer/shop").iterdir():
        path.unlink()


def one_file_more(workspace: Workspace) -> None:
    (place(workspace, "ranks/shop") / "people.csv").write_text("1\n")


def changed_plan(workspace: Workspace) -> None:
    path = place(workspace, "plan/credit") / "document.json"
    path.write_bytes(path.read_bytes().replace(b'"depth":3', b'"depth":4'))


def second_plan(workspace: Workspace) -> None:
    copy_artifact(workspace, "plan/credit", "plan/bank")


def elsewhere(workspace: Workspace) -> None:
    copy_artifact(workspace, "psi_answer/bank", "values/bank")


def answers_nothing(workspace: Workspace) -> None:
    resign(workspace, "split_values/bank", lambda m: m.update(answers="0" * 64))


def one_column_less(workspace: Workspace) -> None:
    resign(workspace, "ranks/bank", lambda m: m["columns"].pop())


def size_that_tells(workspace: Workspace) -> None:
    def change(manifest: Any) -> None:
        manifest["files"]["document.json"]["size"] += 4096

    resign(workspace, "split_request/bank", change)


def understated_loss(workspace: Workspace) -> None:
    def change(manifest: Any) -> None:
        manifest["losses"]["income"]["loss"][-1] -= 1e-9

    resign(workspace, "ranks/bank", change)


def loss_that_is_no_number(workspace: Workspace) -> None:
    def change(manifest: Any) -> None:
        manifest["losses"]["income"]["loss"][0] = float("nan")

    resign(workspace, "ranks/bank", change)


def epsilon_of_zero(workspace: Workspace) -> None:
    def change(plan: Any) -> None:
        features = plan["federation"]["parties"]["bank"]["features"]
        features["income"]["mechanism"] = {"name": "piecewise", "epsilon": 0}

    replan(workspace.folder, "credit", change)


def deep_manifest(workspace: Workspace) -> None:
    (place(workspace, "ranks/bank") / "manifest.json").write_bytes(b"[" * 100_000)


def deep_plan(workspace: Workspace) -> None:
    (place(workspace, "plan/credit") / "document.json").write_bytes(b"[" * 100_000)


def certified_wrongly(workspace: Workspace) -> None:
    def change(manifest: Any) -> None:
        curve = manifest["losses"]["income"]
        curve["certificate"] = not curve["certificate"]

    resign(workspace, "ranks/bank", change)


def without_a_guarantee(workspace: Workspace) -> None:
    resign(workspace, "ranks/bank", lambda m: m.update(experiment=not m["experiment"]))


def another_checkpoint(workspace: Workspace) -> None:
    resign(workspace, "ranks/bank", lambda m: m["head"].update(head="0" * 64))


TAMPERS: dict[str, list[Tamper]] = {
    "plan": [second_plan, deep_plan],
    "keys": [another_signing_key, former_key_that_nobody_agreed_to, another_encryption_key],
    "strays": [
        *(table_beside_artifacts, table_in_no_run, link_beside_artifacts, link_in_an_artifact),
        *(linked_run, pipe_beside_artifacts, table_named_like_a_pointer),
    ],
    "signatures": [flipped_signature, signed_by_another, expired_key_without_a_day],
    "publishers": [signed_by_another],
    "files": [one_byte_less, one_file_more, no_files, pointer_out_of_the_store],
    "digests": [changed_plan],
    "places": [
        elsewhere,
        second_ranks_in_a_round,
        another_protocol,
        damaged_manifest,
        deep_manifest,
    ],
    "order": [answers_nothing],
    "rows": [longer_table],
    "columns": [one_column_less],
    "sizes": [size_that_tells],
    "losses": [understated_loss, certified_wrongly, loss_that_is_no_number, epsilon_of_zero],
    "experiments": [without_a_guarantee],
    "checkpoints": [another_checkpoint, without_a_checkpoint],
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
    assert name in broken(verify([workspace.folder]))


def test_a_finished_run_breaks_no_promise(trained_once: Workspace) -> None:
    outcomes = verified(trained_once)
    assert broken(outcomes) == set()


def test_each_promise_about_a_store_is_held_and_has_a_tamper(trained_once: Workspace) -> None:
    store = verified(trained_once)[0]
    assert {promise.name for promise in store.promises} == set(TAMPERS)
    assert {promise.status for promise in store.promises} == {"held"}


def test_a_store_alone_is_verified_by_the_keys_of_its_plans(trained_once: Workspace) -> None:
    (store,) = verified(trained_once, "exchange")
    status = {promise.name: promise.status for promise in store.promises}
    assert status.pop("keys") == "not checkable"
    assert set(status.values()) == {"held"}


def test_a_first_encryption_key_breaks_no_plan_of_before(workspace: Workspace) -> None:
    def without(plan: Any) -> None:
        del plan["federation"]["parties"]["credit"]["encryption_key"]

    replan(workspace.folder, "credit", without)
    assert "keys" not in broken(verify([workspace.folder]))


def test_a_party_that_has_left_breaks_no_plan_of_before(workspace: Workspace) -> None:
    workspace.edit_yaml("federation.yaml", lambda d: d["parties"].pop("shop"), agree=False)
    store = verified(workspace)[0]
    (keys,) = (promise for promise in store.promises if promise.name == "keys")
    assert keys.status == "held" and len(keys.missing) == 1


def test_a_damaged_manifest_hides_no_checkpoint_of_another(workspace: Workspace) -> None:
    another_checkpoint(workspace)
    others = faults(verified(workspace, "exchange")[0], "checkpoints")
    damage(workspace, "psi_answer/shop")
    named = faults(verified(workspace, "exchange")[0], "checkpoints")
    assert set(named) > set(others)
    assert any("psi_answer/shop" in fault for fault in named)


@pytest.mark.parametrize("mechanism", [{"name": "laplace"}, {"name": "designed"}])
def test_what_cannot_be_built_again_is_missing_and_not_broken(
    mechanism: Any, workspace: Workspace
) -> None:
    def change(plan: Any) -> None:
        features = plan["federation"]["parties"]["bank"]["features"]
        features["income"]["mechanism"] = {"epsilon": 1.0, **mechanism}

    replan(workspace.folder, "credit", change)
    store = verified(workspace, "exchange")[0]
    about = [p for p in store.promises if p.name in ("columns", "losses", "sizes")]
    assert [bool(promise.missing) for promise in about] == [True, True, True]
    assert [promise.status for promise in about] == ["held", "held", "held"]


def test_a_name_in_the_store_imitates_no_line_of_the_report(workspace: Workspace) -> None:
    run = os.fsencode(place(workspace, "ranks").parent)
    for name in (b"x\n  held          strays: Nothing else.", b"y\x1b[2K", b"z\xff"):
        (Path(os.fsdecode(run)) / os.fsdecode(name)).write_text("rows")
    store = verified(workspace, "exchange")[0]
    assert len(faults(store, "strays")) == 3
    lines = list(store.lines())
    assert len(lines) == len(store.promises) + 1
    assert all(line.isprintable() for line in lines)


def test_the_demo_ends_with_the_number_of_promises_and_fails_by_a_broken_one(
    workspace: Workspace,
) -> None:
    assert "promises held, none broken, 0 not checkable, in " in verified_words(workspace.folder)
    one_byte_less(workspace)
    with pytest.raises(DemoError, match=r"broken +files: .*ranks/shop"):
        verified_words(workspace.folder)


def test_no_promise_is_held_where_there_is_nothing(tmp_path: Path) -> None:
    (tmp_path / ".identity").mkdir()
    (store,) = verify([tmp_path])
    assert {promise.status for promise in store.promises} == {"not checkable"}
