"""Whole runs with DPBoost: two feature holders under Adj-map, and trees that may be shared."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest

from opboost_ops.errors import BudgetError, ConfigError, ContractError
from opboost_ops.learning.boosters.trainer import model_of, predict
from opboost_ops.learning.private import sensitivity, tree
from opboost_ops.learning.private.sensitivity import Spent
from opboost_ops.pipeline.home import ResumeLog
from opboost_ops.pipeline.inputs.model_columns import LABEL, frame_of
from opboost_ops.pipeline.stage import Home
from opboost_ops.privacy.ledger.budgets import account_of
from opboost_ops.privacy.ledger.entries import LedgerEntry
from tests.commands import printed, printed_json
from tests.federation import Workspace
from tests.party_state import state_of
from tests.verifier.tampering import statuses, verified

OWN = {
    "age": {"bounds": [18, 90]},
    "employment": {"categories": ["retired", "salaried", "self-employed", "student", "unemployed"]},
    "amount": {"bounds": [0, 50_000], "scale": "log1p"},
    "term_months": {"bounds": [0, 84]},
    "earlier_loans": {"bounds": [0, 10], "missing": {"fill": 0}},
    "delinquencies": {"bounds": [0, 10]},
}


def private(data: dict[str, Any]) -> None:
    """The generated federation as DPBoost wants it declared; Adj-map where there is an order."""
    data["training"] = {"trainer": "dpboost", "holdout": 0.2}
    data["training"] |= {"trees": 6, "depth": 3}
    data["training"]["private"] = {"epsilon": 3.0}
    for name, more in OWN.items():
        data["parties"]["credit"]["features"][name].update(more)
    for party in ("shop", "bank"):
        for feature in data["parties"][party]["features"].values():
            if feature["mechanism"]["name"] == "global_map":
                feature["mechanism"] = {"name": "adj_map", "epsilon": 4.0, "theta": 2}


def allow(policy: dict[str, Any]) -> None:
    for rule in policy["features"].values():
        rule["mechanisms"] += ["adj_map", "bucket_response"]


def declare(workspace: Workspace, change: Callable[[dict[str, Any]], None]) -> Workspace:
    """Change the federation file, and let feature holders' policies allow it."""
    workspace.edit_yaml("federation.yaml", change)
    for party in ("shop", "bank"):
        workspace.edit_yaml(f"{party}/policy.yaml", allow)
    return workspace


@pytest.fixture
def federation(fresh: Workspace) -> Workspace:
    return declare(fresh, private)


def ledger(workspace: Workspace, party: str) -> list[LedgerEntry]:
    with state_of(workspace, party) as state:
        assert not state.ledger.uncommitted()
        return state.ledger.entries()


@pytest.mark.slow
def test_a_federation_with_both_protections(federation: Workspace) -> None:
    summaries = federation.all()
    home = Home(federation.home("credit"))
    model = home.read("model.txt").decode()

    # Ranks are codes of the whole domain: thresholds are half-integers, and so domain values.
    frame = frame_of(home.table("frame"), home.json("frame"))
    domain = federation.declared.domain
    size = domain.upper - domain.lower + 1
    partial = model_of(home.read("partial_model.txt").decode()).numeric_splits()
    final = model_of(model).numeric_splits()
    others = [name for name in partial if name in frame.ranked and "=" not in name]
    assert others
    for name in others:
        assert set(partial[name]) <= {code + 0.5 for code in range(1, size)}
        assert final[name] == [t + domain.lower - 1 for t in partial[name]]
    predictions = home.table("predictions").column("desensitised").to_numpy()
    holdout = frame_of(home.table("holdout_frame"), home.json("frame"))
    assert np.array_equal(predictions, predict(model, holdout.matrix))
    assert len(np.unique(predictions)) > 5
    assert "label_holder_alone" not in summaries["credit.evaluate"]["metrics"]

    # Both ledgers: the model at the label holder, loss curves at the feature holders.
    own = [r for r in ledger(federation, "credit") if r.account == "model"]
    assert [(r.epsilon, r.kind) for r in own] == [(3.0, "model")]
    shown = printed_json("ledger", "show", federation.folder / "credit")
    (models,) = shown["models"]
    assert models == {
        "trainings": 1,
        "sum_epsilon": 3.0,
        "sum_delta": 0,
        "epsilon": 3.0,
        "delta": 0.0,
        "epsilon_replaced": 6.0,
        "budget": None,
        "more": None,
    }
    assert not any(line["kind"] == "model" for line in shown["exact"])
    for party in ("shop", "bank"):
        curves = [r.loss for r in ledger(federation, party) if r.account == "local_dp"]
        assert any(curve is not None and curve.mechanism.startswith("Adj") for curve in curves)
    events = [
        Spent.model_validate(event)
        for line in ResumeLog(home).lines()[1:]
        for event in json.loads(line)["spent"]
    ]
    assert sensitivity.total_epsilon(events) == 3

    files = federation.files("credit", "models", "credit_scoring", federation.run)
    card = json.loads(files["card.json"])
    words = " ".join(card["private"])
    assert "epsilon is 3 if the row is added or removed, and 6 if it is replaced" in words
    assert "Not covered: metrics on held-out rows" in words
    assert "the lesser of 6 and its curve" in words
    assert not any("not differentially private" in line for line in card["limits"])
    assert "Privacy of the model" in files["card.html"].decode()
    assert "OpenDP" in card["software"]["DPBoost"]

    scoring = federation.scoring()
    assert scoring.all()["credit.score"]["rows"] > 20


def test_trees_split_between_buckets(fresh: Workspace) -> None:
    buckets = {"name": "bucket_response", "epsilon": 4.0, "buckets": 4}

    def declared(data: dict[str, Any]) -> None:
        private(data)
        for party in ("shop", "bank"):
            for feature in data["parties"][party]["features"].values():
                if feature["mechanism"]["name"] == "adj_map":
                    feature["mechanism"] = buckets

    federation = declare(fresh, declared)
    federation.all()
    home = Home(federation.home("credit"))
    model = home.read("model.txt").decode()
    ends = {3.5, 5.5, 8.5}
    splits = model_of(model).numeric_splits()
    others = [name for name in splits if name.split(".")[0] != "credit" and "=" not in name]
    assert others and all(set(splits[name]) <= ends for name in others), splits
    holdout = frame_of(home.table("holdout_frame"), home.json("frame"))
    prediction = home.table("predictions").column("desensitised").to_numpy()
    assert np.array_equal(prediction, predict(model, holdout.matrix))
    outcomes = verified(federation)
    assert len(outcomes) == 4
    assert not any("broken" in statuses(outcome).values() for outcome in outcomes)
    assert any(statuses(outcome).get("splits") == "held" for outcome in outcomes)


@pytest.mark.slow
def test_a_retry_draws_nothing_again_and_costs_nothing_again(
    federation: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    federation.declare("credit/policy.yaml", model_budget={"epsilon": 10.0})
    federation.until("train", "credit")
    federation.step("credit", "train")
    home = Home(federation.home("credit"))
    before = home.read("partial_model.txt")
    grow = tree.grow
    drawn: list[int] = []
    monkeypatch.setattr(tree, "grow", lambda *a: drawn.append(1) or grow(*a))
    federation.step("credit", "train")
    assert (home.read("partial_model.txt"), drawn) == (before, [])
    # A crash in the middle of a line: that tree was never used, the others stand.
    path = home.folder / "drawn_trees.jsonl"
    whole = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join(whole[:5]) + b"\n" + whole[5][:20])
    federation.step("credit", "train")
    again = path.read_bytes().split(b"\n")
    assert (len(drawn), again[:5], len(again)) == (2, whole[:5], len(whole))
    assert path.stat().st_mode & 0o077 == 0
    lines = ledger(federation, "credit")
    assert account_of(lines).epsilon == 3
    # Lost, it is drawn once more: that is another release, and passes the policy's cap.
    path.unlink()
    with pytest.raises(BudgetError, match=r"model_budget\.epsilon is 10"):
        federation.step("credit", "train")
    assert account_of(ledger(federation, "credit")).epsilon == 3
    assert not any("split_request" in place for place in federation.published())


@pytest.mark.parametrize(("budget", "passed"), [(5.99, True), (6.0, False)])
def test_a_budget_of_models_that_training_would_pass_opens_no_run(
    federation: Workspace, budget: float, passed: bool
) -> None:
    federation.declare("credit/policy.yaml", model_budget={"epsilon": budget})
    if not passed:
        federation.open()
        federation.step("credit", "check_table")
        return
    where, error = federation.first_failure()
    assert (where, type(error)) == ("open_run", BudgetError)
    assert "model_budget.epsilon is 5.99, and" in str(error)
    assert federation.published() == []
    assert ledger(federation, "credit") == []


def test_all_that_must_be_declared_is_named_at_once(federation: Workspace) -> None:
    def spoil(data: dict[str, Any]) -> None:
        features = data["parties"]["credit"]["features"]
        del features["age"]["bounds"], features["employment"]["categories"]
        features["earlier_loans"]["missing"] = "keep"
        del data["training"]["private"]
        data["training"]["depth"] = 11
        data["domain"] = {"lower": 0, "upper": 4096}
        data["parties"]["credit"]["label"] = {"column": "default", "task": "regression"}

    federation.edit_yaml("federation.yaml", spoil)
    with pytest.raises(ConfigError) as caught:
        federation.declared  # noqa: B018
    assert {fault.where for fault in caught.value.faults} == {
        "training.private",
        "training.depth",
        "domain",
        "parties.credit.label.bounds",
        "parties.credit.features.age.bounds",
        "parties.credit.features.employment.categories",
        "parties.credit.features.earlier_loans.missing",
    }
    federation.edit_yaml("federation.yaml", lambda data: data["training"].pop("trainer"))
    federation.declare("federation.yaml", training={"private": {"epsilon": 1.0}})
    with pytest.raises(ConfigError, match=r"training\.private.*is not for lightgbm"):
        federation.declared  # noqa: B018


@pytest.mark.slow
def test_check_warns_of_a_table_that_is_too_small_for_noise_or_delta(federation: Workspace) -> None:
    def shown(epsilon: float, delta: float = 1e-6) -> str:
        def noisy_leaves(data: dict[str, Any]) -> None:
            private = {"epsilon": epsilon, "delta": delta, "splits": "random"}
            data["training"] |= {"trees": 20, "private": private}

        federation.edit_yaml("federation.yaml", noisy_leaves)
        return printed("check", federation.folder)

    ids = [
        set(pl.read_parquet(federation.table_path(party))["id"].to_list())
        for party in federation.declared.parties
    ]
    rows = round(0.8 * len(set.intersection(*ids)))
    assert f"{rows:,} training rows are too few for epsilon 0.05 and delta 1e-06" in shown(0.05)
    assert "are too few for epsilon" not in shown(8.0)
    assert f"not below 1 / {rows:,} training rows" in shown(8.0, 0.009)


@pytest.mark.slow
def test_labels_outside_their_bounds_are_clipped_and_counted_at_home(
    federation: Workspace,
) -> None:
    def narrow(data: dict[str, Any]) -> None:
        data["training"]["private"] = {"epsilon": 2.0, "delta": 1e-6, "splits": "random"}
        data["training"]["trees"] = 20
        data["parties"]["credit"]["label"] = {
            "column": "default", "task": "regression", "bounds": [0, 0.5],
        }  # fmt: skip

    federation.edit_yaml("federation.yaml", narrow)
    federation.until("train", "credit")
    summary = federation.step("credit", "train")
    label = Home(federation.home("credit")).table("frame").column(LABEL).to_numpy()
    assert federation.home_json("credit", "clipped_labels") == {"rows": int((label == 1).sum())}
    assert (label == 1).any()
    assert "clipped" not in json.dumps(summary)


def test_a_delta_that_lets_a_row_through_is_refused_before_anything_is_charged(
    federation: Workspace,
) -> None:
    federation.declare(
        "federation.yaml",
        training={"private": {"epsilon": 2.0, "delta": 0.009, "splits": "random"}, "trees": 20},
    )
    with pytest.raises(ContractError, match=r"delta is 0\.009"):
        federation.all()
    assert not [r for r in ledger(federation, "credit") if r.account == "model"]
