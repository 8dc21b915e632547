"""Each promise that the label holder can check at home, and a change that breaks it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather as feather
import pytest

from opboost_ops.verifier import verify
from opboost_ops.verifier.places import sha256
from tests.federation import FIRST_RUN, SECOND_RUN, Workspace
from tests.integration.pipeline.scoring_data import dataset
from tests.verifier.tampering import (
    broken,
    changed,
    flip,
    place,
    resign,
    statuses,
    verified,
)

Tamper = Callable[[Workspace], None]


def version(workspace: Workspace) -> Path:
    return workspace.models / FIRST_RUN


def home(workspace: Workspace) -> Path:
    return workspace.folder / "credit" / "home" / "credit_scoring" / FIRST_RUN


def register(workspace: Workspace, name: str, content: str) -> None:
    """Replace a file of a version, and what is registered of it."""
    path = version(workspace) / name
    path.write_text(content)
    digests = json.loads((version(workspace) / "sha256.json").read_bytes())
    digests[name] = sha256(path.read_bytes())
    (version(workspace) / "sha256.json").write_text(json.dumps(digests))


def changed_card(workspace: Workspace) -> None:
    changed(version(workspace) / "card.json", lambda card: card.update(training_rows=1))


def unlisted_card(workspace: Workspace) -> None:
    changed_card(workspace)
    changed(version(workspace) / "sha256.json", lambda digests: digests.pop("card.json"))


def nothing_registered(workspace: Workspace) -> None:
    (version(workspace) / "sha256.json").unlink()


def another_agreement(workspace: Workspace) -> None:
    register(workspace, "agreement.json", json.dumps({"digest": "0" * 64, "protocol": 1}))


def another_declaration(workspace: Workspace) -> None:
    """New rows would be mapped in another way."""

    def change(federation: Any) -> None:
        federation["parties"]["bank"]["features"]["income"]["bounds"] = [0, 1]

    path = version(workspace) / "federation.json"
    register(workspace, "federation.json", changed(path, change))


def no_champion(workspace: Workspace) -> None:
    (workspace.models / "champion.json").write_text(json.dumps({"version": SECOND_RUN}))


def better_card(workspace: Workspace) -> None:
    def change(card: Any) -> None:
        card["metrics"]["federated_desensitised"]["auc"] = 0.99

    path = version(workspace) / "card.json"
    register(workspace, "card.json", changed(path, change))


def another_mode(workspace: Workspace) -> None:
    """Metrics of a mode that is not computed again."""

    def change(evaluation: Any) -> None:
        evaluation["mode"] = "routed"
        metrics = evaluation["metrics"]
        metrics["federated_routed"] = metrics.pop("federated_desensitised")

    path = version(workspace) / "evaluation.json"
    evaluation = json.loads(changed(path, change))
    register(workspace, "evaluation.json", json.dumps(evaluation))
    card = version(workspace) / "card.json"
    text = changed(card, lambda card: card.update(metrics=evaluation["metrics"]))
    register(workspace, "card.json", text)


def fewer_held_out_as_stated(workspace: Workspace) -> None:
    """Rows that were held out are left out of everything that states how many there are."""
    fewer_held_out(workspace)
    for name, key in (("evaluation.json", "rows"), ("card.json", "held_out_rows")):
        path = version(workspace) / name
        rows = json.loads(path.read_bytes())[key] - 1
        register(
            workspace, name, changed(path, lambda content, k=key, n=rows: content.update({k: n}))
        )


def changed_leaf(workspace: Workspace) -> None:
    """Another value in the first leaf, registered as if it had been learnt."""
    text = (version(workspace) / "model.txt").read_text()
    leaves = next(line for line in text.split("\n") if line.startswith("leaf_value="))
    first = leaves.removeprefix("leaf_value=").split()[0]
    register(workspace, "model.txt", text.replace(f"leaf_value={first}", "leaf_value=9"))


def changed_label(workspace: Workspace) -> None:
    path = home(workspace) / "frame.arrow"
    frame = feather.read_table(path)
    turned = pc.subtract(1.0, frame.column("label"))
    at = frame.column_names.index("label")
    feather.write_feather(frame.set_column(at, "label", turned), path)


def another_threshold(workspace: Workspace) -> None:
    text = (version(workspace) / "model.txt").read_text()
    lines = [
        "threshold=" + " ".join("3.25" for _ in line.split()) if line[:10] == "threshold=" else line
        for line in text.split("\n")
    ]
    register(workspace, "model.txt", "\n".join(lines))


def better_metrics(workspace: Workspace) -> None:
    def change(evaluation: Any) -> None:
        evaluation["metrics"]["federated_desensitised"]["auc"] += 0.1

    path = version(workspace) / "evaluation.json"
    register(workspace, "evaluation.json", changed(path, change))


def fewer_held_out(workspace: Workspace) -> None:
    path = home(workspace) / "holdout_frame.arrow"
    feather.write_feather(pa.table(feather.read_table(path).slice(1)), path)


def another_decision(workspace: Workspace) -> None:
    changed(home(workspace) / "gate.json", lambda gate: gate.update(promote=not gate["promote"]))


def a_worse_gain(workspace: Workspace) -> None:
    """An interval wholly below zero, of a model that was promoted."""

    def change(gate: Any) -> None:
        gate["gain"]["high"] = gate["gain"]["low"] = gate["gain"]["value"]

    changed(home(workspace) / "gate.json", change)


def not_compared(workspace: Workspace) -> None:
    """Promoted without a comparison, which only private models may be."""
    changed(home(workspace) / "gate.json", lambda gate: gate.update(gain=None, value=None))


def another_gain(workspace: Workspace) -> None:
    """Above the evaluation's, with the label holder's columns alone below theirs."""

    def change(gate: Any) -> None:
        gate["value"] -= 0.1
        gate["gain"] = {"low": 0.0, "value": gate["gain"]["value"] + 0.1, "high": 1.0}

    changed(home(workspace) / "gate.json", change)


def first_once_more(workspace: Workspace) -> None:
    """There was a champion before, with which it was not compared."""
    history = workspace.models / "history.jsonl"
    earlier = {"at": "", "version": SECOND_RUN, "event": "promoted", "why": ""}
    history.write_text(json.dumps(earlier) + "\n" + history.read_text())


def champion_that_is_gone(workspace: Workspace) -> None:
    history = workspace.models / "history.jsonl"
    later = {"at": "", "version": SECOND_RUN, "event": "promoted", "why": ""}
    history.write_text(history.read_text() + json.dumps(later) + "\n")
    no_champion(workspace)


def no_model(workspace: Workspace) -> None:
    """LightGBM refuses it by an error of its own."""
    register(workspace, "model.txt", "tree\nversion=v4\n")


def greater_tolerance(workspace: Workspace) -> None:
    changed(home(workspace) / "gate.json", lambda gate: gate.update(tolerance=0.5))


def changed_ranks(workspace: Workspace) -> None:
    """As anyone can who writes the store."""
    flip(place(workspace, "ranks/bank") / "entries.bin.enc")


def another_answer(workspace: Workspace) -> None:
    """The bank signs other split values once the label holder has used the first ones."""
    resign(workspace, "split_values/bank", lambda manifest: manifest.update(software="9.9.9"))


TAMPERS: dict[str, list[Tamper]] = {
    "audit": [another_answer],
    "received": [changed_ranks],
    "versions": [
        *(changed_card, unlisted_card, nothing_registered, another_agreement, another_declaration)
    ],
    "champion": [no_champion, champion_that_is_gone],
    "card": [better_card, another_mode, fewer_held_out_as_stated],
    "model": [changed_leaf, changed_label],
    "thresholds": [another_threshold],
    "metrics": [better_metrics, fewer_held_out, no_model],
    "gate": [
        *(another_decision, a_worse_gain, better_metrics, greater_tolerance),
        *(not_compared, another_gain, first_once_more),
    ],
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
    assert name in broken(verify([workspace.folder / "credit"]))


def test_a_rejected_repetition_repeats_the_champion(workspace: Workspace) -> None:
    """Whichever version the gate compared it to: that may be another one than the champion."""
    workspace.all()
    gate = home(workspace).parent / SECOND_RUN / "gate.json"
    changed(gate, lambda gate: gate.update(version="0" * 16))
    assert not broken(verify([workspace.folder / "credit"]))
    changed(gate, lambda gate: gate.update(repeats="0" * 16))
    assert broken(verify([workspace.folder / "credit"])) == {"gate"}


def test_a_run_that_was_held_back_was_overtaken_by_another_version(fresh: Workspace) -> None:
    fresh.until("evaluate")
    other = fresh.version("f" * 16)
    fresh.registry.register(other.name, {"model.txt": b"tree", "evaluation.json": b"{}"})
    fresh.registry.promote(other.name, "a person decided it")
    for stage in ("evaluate", "register", "announce_champion"):
        fresh.step("credit", stage)
    folder = fresh.folder / "credit"
    assert not broken(verify([folder]))
    history = other.parent / "history.jsonl"
    history.write_text("".join(history.read_text().splitlines(keepends=True)[1:]))
    assert broken(verify([folder])) == {"gate"}


def test_each_promise_about_a_label_holder_is_held_and_has_a_tamper(
    trained_once: Workspace,
) -> None:
    holder = verified(trained_once, "credit")[-1]
    common = {"database", "agreement", "ledger", "state", "history"}
    assert {promise.name for promise in holder.promises} == {*TAMPERS, *common}
    assert {promise.status for promise in holder.promises} == {"held"}


def test_metrics_of_own_rows_alone_are_not_checkable(tmp_path: Path) -> None:
    """In mode local, held-out rows have the other parties' columns from the own table."""
    workspace = Workspace.write(
        tmp_path / "federation", dataset("binary"), scoring={"mode": "local"}
    )
    workspace.all()
    holder = verified(workspace, "a")[-1]
    assert broken([holder]) == set()
    assert statuses(holder)["metrics"] == "not checkable"


def test_what_is_not_computed_again_is_named(trained_once: Workspace) -> None:
    holder = verified(trained_once, "credit")[-1]
    (metrics,) = [promise for promise in holder.promises if promise.name == "metrics"]
    assert any("alone" in missing for missing in metrics.missing)


def test_a_model_of_another_lightgbm_is_not_checkable(workspace: Workspace) -> None:
    def change(card: Any) -> None:
        card["software"]["LightGBM"] = "3.0.0"

    card = version(workspace) / "card.json"
    register(workspace, "card.json", changed(card, change))
    holder = verified(workspace, "credit")[-1]
    (model,) = [promise for promise in holder.promises if promise.name == "model"]
    assert model.status == "not checkable"
    assert model.missing == ["LightGBM 3.0.0"]
